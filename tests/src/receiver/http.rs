//! As much of HTTP/1.1 as a sender of webhooks speaks: a head, then a body with a length, in
//! chunks, or none.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::received::Head;

const LONGEST_HEAD: usize = 64 * 1024;
const LONGEST_BODY: usize = 64 * 1024 * 1024;
const END: &[u8] = b"\r\n\r\n";

/// Reads the requests of one connection.
pub(super) struct Requests<R> {
    stream: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> Requests<R> {
    pub(super) fn new(stream: R) -> Self {
        Self {
            stream,
            buffer: BytesMut::with_capacity(8 * 1024),
        }
    }

    /// The next head, or `None` where the sender closed the connection between two requests.
    pub(super) async fn head(&mut self) -> io::Result<Option<Head>> {
        let Some(end) = self.find_end().await? else {
            return Ok(None);
        };
        let head = parse_head(&self.buffer[..end])?;
        self.buffer.advance(end + END.len());
        Ok(Some(head))
    }

    /// The body that follows `head`.
    pub(super) async fn body(&mut self, head: &Head) -> io::Result<Bytes> {
        let chunked = head
            .header("transfer-encoding")
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
        if chunked {
            return self.chunks().await;
        }
        let length = match head.header("content-length") {
            Some(length) => length.parse().map_err(|_| invalid("content-length"))?,
            None => 0,
        };
        self.take(length).await
    }

    async fn find_end(&mut self) -> io::Result<Option<usize>> {
        let mut seen = 0;
        loop {
            if let Some(at) = find(&self.buffer[seen..], END) {
                return Ok(Some(seen + at));
            }
            // The end may straddle what is there and what comes next.
            seen = self.buffer.len().saturating_sub(END.len() - 1);
            if self.buffer.len() > LONGEST_HEAD {
                return Err(invalid("the head is too long"));
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
        }
    }

    async fn take(&mut self, length: usize) -> io::Result<Bytes> {
        if length > LONGEST_BODY {
            return Err(invalid("the body is too long"));
        }
        while self.buffer.len() < length {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.split_to(length).freeze())
    }

    async fn chunks(&mut self) -> io::Result<Bytes> {
        let mut body = BytesMut::new();
        loop {
            let line = self.line().await?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| invalid("a chunk's size"))?;
            if size == 0 {
                while !self.line().await?.is_empty() {}
                return Ok(body.freeze());
            }
            if body.len() + size > LONGEST_BODY {
                return Err(invalid("the body is too long"));
            }
            body.extend_from_slice(&self.take(size).await?);
            self.line().await?;
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = find(&self.buffer, b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..at]).into_owned();
                self.buffer.advance(at + 2);
                return Ok(line);
            }
            if self.buffer.len() > LONGEST_HEAD {
                return Err(invalid("a line is too long"));
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn parse_head(bytes: &[u8]) -> io::Result<Head> {
    // A header value may hold any byte above 127; a test then sees the replacement character.
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split("\r\n");
    let mut request = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) = (
        request.next(),
        request.next(),
        request.next(),
        request.next(),
    ) else {
        return Err(invalid("the request line"));
    };
    let mut headers = Vec::with_capacity(16);
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| invalid("a header"))?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok(Head {
        method: method.to_owned(),
        target: target.to_owned(),
        headers,
    })
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> io::Result<Vec<(Head, Bytes)>> {
        let mut requests = Requests::new(bytes);
        let mut all = Vec::new();
        while let Some(head) = requests.head().await? {
            let body = requests.body(&head).await?;
            all.push((head, body));
        }
        Ok(all)
    }

    #[tokio::test]
    async fn requests_follow_one_another_on_a_connection() {
        let text = b"POST /a?b=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc\
                     GET /c HTTP/1.1\r\nX: 1:2\r\n\r\n";
        let all = read(text).await.unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].0.path(), "/a");
        assert_eq!(all[0].0.header("HOST"), Some("h"));
        assert_eq!(all[0].1, "abc");
        assert_eq!(all[1].0.header("x"), Some("1:2"));
        assert!(all[1].1.is_empty());
    }

    #[tokio::test]
    async fn chunks_are_put_together() {
        let text = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n\
                     3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\ntrailer: 1\r\n\r\n\
                     POST /next HTTP/1.1\r\ncontent-length: 0\r\n\r\n";
        let all = read(text).await.unwrap();
        assert_eq!(all[0].1, "abc0123456789");
        assert_eq!(all[1].0.path(), "/next");
    }

    #[tokio::test]
    async fn a_head_that_comes_byte_by_byte_is_read() {
        let (mut sender, receiver) = tokio::io::duplex(1);
        let text = b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\nok";
        let sending =
            tokio::spawn(
                async move { tokio::io::AsyncWriteExt::write_all(&mut sender, text).await },
            );
        let mut requests = Requests::new(receiver);
        let head = requests.head().await.unwrap().unwrap();
        assert_eq!(requests.body(&head).await.unwrap(), "ok");
        sending.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn what_is_no_request_is_refused() {
        for text in [
            "POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nabc",
            "POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
            "POST /a b HTTP/1.1\r\n\r\n",
            "POST / HTTP/2\r\n\r\n",
            "POST / HTTP/1.1\r\nno colon\r\n\r\n",
            "POST / HTTP/1.1\r\n",
        ] {
            assert!(read(text.as_bytes()).await.is_err(), "{text:?}");
        }
    }
}

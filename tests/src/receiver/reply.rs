//! What the receiver does with a request.

use std::time::Duration;

use bytes::Bytes;

/// An answer, or something worse.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    pub(crate) delay: Duration,
    pub(crate) manner: Manner,
    pub(crate) close_after: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Manner {
    /// The whole answer in one piece.
    Plain,
    /// Nothing, for as long as the connection lasts.
    Hang,
    /// The connection is closed without a byte.
    Close,
    /// The connection is reset without a byte.
    Reset,
    /// The head, then one byte of the body after each pause.
    DripBody(Duration),
    /// One byte of the head after each pause.
    DripHead(Duration),
    /// A body without an end.
    Endless,
    /// The head and half the body, then the connection is closed.
    Truncate,
    /// These bytes, whatever they are, then the connection is closed.
    Raw(Bytes),
}

impl Reply {
    /// An answer with a status and an empty body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Bytes::new(),
            delay: Duration::ZERO,
            manner: Manner::Plain,
            close_after: false,
        }
    }

    /// 200.
    #[must_use]
    pub fn ok() -> Self {
        Self::status(200)
    }

    /// Reads the request and never answers.
    #[must_use]
    pub fn hang() -> Self {
        Self::ok().in_manner(Manner::Hang)
    }

    /// Reads the request and closes the connection without an answer.
    #[must_use]
    pub fn close() -> Self {
        Self::ok().in_manner(Manner::Close)
    }

    /// Reads the request and resets the connection without an answer.
    #[must_use]
    pub fn reset() -> Self {
        Self::ok().in_manner(Manner::Reset)
    }

    /// Writes these bytes instead of an answer, then closes the connection.
    #[must_use]
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self::ok().in_manner(Manner::Raw(bytes.into()))
    }

    /// Adds a header. `content-length` is written by the receiver itself.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Waits before the first byte.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sends the head at once and then the body byte by byte, with a pause before each.
    #[must_use]
    pub fn drip_body(self, pause: Duration) -> Self {
        self.in_manner(Manner::DripBody(pause))
    }

    /// Sends even the head byte by byte, with a pause before each.
    #[must_use]
    pub fn drip_head(self, pause: Duration) -> Self {
        self.in_manner(Manner::DripHead(pause))
    }

    /// Sends a body that never ends, as fast as it is read.
    #[must_use]
    pub fn endless(self) -> Self {
        self.in_manner(Manner::Endless)
    }

    /// Closes the connection in the middle of the body.
    #[must_use]
    pub fn truncate(self) -> Self {
        self.in_manner(Manner::Truncate)
    }

    /// Closes the connection after the answer without having announced it, so that a sender
    /// which pools connections finds a stale one.
    #[must_use]
    pub fn close_after(mut self) -> Self {
        self.close_after = true;
        self
    }

    fn in_manner(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }

    /// The head as it is written, with the length of the body it announces.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match self.manner {
            Manner::Endless => head.push_str("transfer-encoding: chunked\r\n"),
            // A 204 and a 304 have no body, and so no length of one.
            _ if matches!(self.status, 204 | 304) => {}
            _ => head.push_str(&format!("content-length: {}\r\n", self.body.len())),
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

/// The phrase is for people who read a capture; senders ignore it.
fn reason(status: u16) -> &'static str {
    match status {
        200..300 => "OK",
        300..400 => "Elsewhere",
        400..500 => "Refused",
        _ => "Failed",
    }
}

//! TCP connections: counted, and read to the end even when they can no longer be written.
//!
//! A receiver that answers before it has read the whole request and then closes makes our next
//! write fail while its answer is already here. HTTP libraries report the failed write, so the
//! same refusal comes out as a status or as a broken connection by chance. Here a failed write
//! is kept quiet: reading goes on, and either finds the answer or fails in its turn.

use crate::descriptors;
use crate::resolver::GuardedResolver;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tower_service::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Dialing = Pin<Box<dyn Future<Output = Result<Socket, BoxError>> + Send>>;

/// Opens connections to addresses that the resolver allowed.
#[derive(Clone)]
pub(crate) struct Dialer {
    http: HttpConnector<GuardedResolver>,
    open: Arc<AtomicUsize>,
    /// With more than this many open, a connection serves one request only.
    crowded: usize,
}

impl Dialer {
    pub fn new(http: HttpConnector<GuardedResolver>) -> Dialer {
        Dialer {
            http,
            open: Arc::default(),
            crowded: descriptors::share(),
        }
    }
}

impl Service<Uri> for Dialer {
    type Response = Socket;
    type Error = BoxError;
    type Future = Dialing;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.http.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Dialing {
        let dialing = self.http.call(to);
        let (open, crowded) = (self.open.clone(), self.crowded);
        Box::pin(async move {
            let io = dialing.await?;
            let others = open.fetch_add(1, Ordering::Relaxed);
            Ok(Socket {
                io,
                kept: others < crowded,
                deaf: false,
                use_mark: Used::default(),
                _open: Open(open),
            })
        })
    }
}

/// Whether a connection has answered before: only then can it have gone stale.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used(Arc<AtomicBool>);

impl Used {
    /// It has answered.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it had answered.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One TCP connection.
pub(crate) struct Socket {
    io: TokioIo<TcpStream>,
    kept: bool,
    /// The peer takes nothing any more.
    deaf: bool,
    use_mark: Used,
    _open: Open,
}

impl Socket {
    fn forgive(&mut self, written: io::Result<usize>, offered: usize) -> io::Result<usize> {
        match written {
            Err(error) if is_closed(&error) => {
                self.deaf = true;
                Ok(offered)
            }
            other => other,
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
    )
}

impl Connection for Socket {
    fn connected(&self) -> Connected {
        let connected = self.io.connected().extra(self.use_mark.clone());
        if !self.kept {
            connected.poison();
        }
        connected
    }
}

impl Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl Write for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.deaf {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = std::task::ready!(Pin::new(&mut self.io).poll_write(cx, bytes));
        Poll::Ready(self.forgive(written, bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = slices.iter().map(|slice| slice.len()).sum();
        if self.deaf {
            return Poll::Ready(Ok(offered));
        }
        let written = std::task::ready!(Pin::new(&mut self.io).poll_write_vectored(cx, slices));
        Poll::Ready(self.forgive(written, offered))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

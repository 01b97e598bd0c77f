//! A TCP proxy that can be told to fail.
//!
//! Between a service and its nats-server it makes what a network does: silence that nobody
//! announces, connections that end in the middle, a broker that cannot be reached. Killing
//! the server tests something else, as the server then loses what it had not written.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Pass,
    /// Connections stay open and are accepted, and no byte passes.
    Pause,
    /// Connections are closed as soon as they are made.
    Refuse,
}

/// Forwards connections to a target until told otherwise.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    control: Arc<Control>,
    _accepting: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Control {
    target: SocketAddr,
    mode: watch::Sender<Mode>,
    /// Cancelled and replaced at each cut; ends the connections made until then.
    generation: Mutex<CancellationToken>,
    open: AtomicUsize,
}

impl FaultProxy {
    /// A proxy to a port on 127.0.0.1, on a free port of its own.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(target_port: u16) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("the proxy needs a port")?;
        let address = listener.local_addr().context("the proxy's address")?;
        let control = Arc::new(Control {
            target: SocketAddr::from(([127, 0, 0, 1], target_port)),
            mode: watch::Sender::new(Mode::Pass),
            generation: Mutex::default(),
            open: AtomicUsize::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&control)));
        Ok(Self {
            address,
            control,
            _accepting: AbortOnDropHandle::new(accepting),
        })
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The URL for a client of NATS.
    #[must_use]
    pub fn nats_url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Lets no byte pass in either direction; connections stay open.
    pub fn pause(&self) {
        self.control.mode.send_replace(Mode::Pause);
    }

    /// Lets everything pass again, also what was held back.
    pub fn resume(&self) {
        self.control.mode.send_replace(Mode::Pass);
    }

    /// Closes every connection once. New ones are served as before.
    pub fn cut(&self) {
        let mut generation = lock(&self.control.generation);
        generation.cancel();
        *generation = CancellationToken::new();
    }

    /// Closes every connection, and each new one at once, until [`FaultProxy::resume`].
    pub fn refuse(&self) {
        self.control.mode.send_replace(Mode::Refuse);
        self.cut();
    }

    /// How many connections are open now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.control.open.load(Ordering::SeqCst)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        lock(&self.control.generation).cancel();
    }
}

fn lock(generation: &Mutex<CancellationToken>) -> std::sync::MutexGuard<'_, CancellationToken> {
    generation.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, control: Arc<Control>) {
    loop {
        let Ok((near, _)) = listener.accept().await else {
            continue;
        };
        let generation = lock(&control.generation).clone();
        // Read after the token was taken: a refusal that comes in between cancels it.
        if *control.mode.borrow() == Mode::Refuse {
            continue;
        }
        let control = Arc::clone(&control);
        tokio::spawn(async move {
            control.open.fetch_add(1, Ordering::SeqCst);
            // Whatever ends a connection, the other side sees it end.
            let _ = generation
                .run_until_cancelled(forward(near, &control))
                .await;
            control.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn forward(near: TcpStream, control: &Control) -> io::Result<()> {
    let far = TcpStream::connect(control.target).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    // Where one direction ends, the connection does: NATS does not use half of one.
    tokio::select! {
        result = pump(near_read, far_write, control.mode.subscribe()) => result,
        result = pump(far_read, near_write, control.mode.subscribe()) => result,
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut mode: watch::Receiver<Mode>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        // What was read during a pause waits here, and the sender's buffers fill behind it.
        mode.wait_for(|mode| *mode != Mode::Pause)
            .await
            .map_err(io::Error::other)?;
        to.write_all(&buffer[..count]).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{DEADLINE, eventually};

    /// A server that sends back what it gets.
    async fn echo() -> (u16, AbortOnDropHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.into_split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        (port, AbortOnDropHandle::new(serving))
    }

    async fn connect(proxy: &FaultProxy) -> TcpStream {
        TcpStream::connect(("127.0.0.1", proxy.port()))
            .await
            .unwrap()
    }

    async fn round_trip(stream: &mut TcpStream, text: &[u8]) -> io::Result<Vec<u8>> {
        stream.write_all(text).await?;
        let mut answer = vec![0; text.len()];
        tokio::time::timeout(DEADLINE, stream.read_exact(&mut answer)).await??;
        Ok(answer)
    }

    #[tokio::test]
    async fn bytes_pass() {
        let (port, _echo) = echo().await;
        let proxy = FaultProxy::start(port).await.unwrap();
        let mut stream = connect(&proxy).await;
        assert_eq!(round_trip(&mut stream, b"hello").await.unwrap(), b"hello");
        assert_eq!(proxy.open(), 1);
        drop(stream);
        eventually(DEADLINE, "the end", || async { proxy.open() == 0 })
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn a_pause_holds_bytes_back_and_loses_none() {
        let (port, _echo) = echo().await;
        let proxy = FaultProxy::start(port).await.unwrap();
        let mut stream = connect(&proxy).await;
        round_trip(&mut stream, b"before").await.unwrap();
        proxy.pause();
        stream.write_all(b"during").await.unwrap();
        let mut answer = [0; 6];
        let silent =
            tokio::time::timeout(Duration::from_millis(100), stream.read_exact(&mut answer));
        assert!(silent.await.is_err());
        proxy.resume();
        tokio::time::timeout(DEADLINE, stream.read_exact(&mut answer))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(&answer, b"during");
    }

    #[tokio::test]
    async fn a_cut_ends_connections_and_new_ones_work() {
        let (port, _echo) = echo().await;
        let proxy = FaultProxy::start(port).await.unwrap();
        let mut stream = connect(&proxy).await;
        round_trip(&mut stream, b"before").await.unwrap();
        proxy.cut();
        let mut rest = Vec::new();
        // An end and a reset are both one.
        let _ = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut rest))
            .await
            .unwrap();
        assert!(rest.is_empty());
        let mut next = connect(&proxy).await;
        assert_eq!(round_trip(&mut next, b"after").await.unwrap(), b"after");
    }

    #[tokio::test]
    async fn a_refusal_lasts_until_it_is_lifted() {
        let (port, _echo) = echo().await;
        let proxy = FaultProxy::start(port).await.unwrap();
        let mut old = connect(&proxy).await;
        round_trip(&mut old, b"before").await.unwrap();
        proxy.refuse();
        assert!(round_trip(&mut old, b"x").await.is_err());
        let mut refused = connect(&proxy).await;
        assert!(round_trip(&mut refused, b"x").await.is_err());
        proxy.resume();
        let mut next = connect(&proxy).await;
        assert_eq!(round_trip(&mut next, b"after").await.unwrap(), b"after");
    }
}

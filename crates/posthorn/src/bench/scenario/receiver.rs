//! A receiver whose paths answer as they are told, on a thread of its own.
//!
//! It counts connections beside requests: a client that has given a request up still costs a
//! hanging server the connection, unless it closes that too.

use super::gauge::{Entered, Gauge};
use super::spot::{Behaviour, Spot};
use crate::bench::stamp::Clock;
use crate::failure::Failure;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// The receiver.
pub(crate) struct Receiver {
    address: SocketAddr,
    clock: Clock,
    spots: Arc<Spots>,
    connections: Arc<Gauge>,
}

#[derive(Default)]
struct Spots(RwLock<HashMap<String, Arc<Spot>>>);

impl Receiver {
    /// Starts one on a free port of the loopback.
    ///
    /// # Errors
    /// When there is no port or no thread.
    pub fn start(clock: Clock) -> Result<Receiver, Failure> {
        let fail = |error: io::Error| Failure::internal("no receiver", &error);
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let (spots, connections) = (Arc::new(Spots::default()), Arc::new(Gauge::default()));
        let app = Router::new().fallback(take).with_state(spots.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(fail)?;
        let gauge = connections.clone();
        std::thread::Builder::new()
            .name("receiver".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    let listener = TcpListener::from_std(listener)?;
                    axum::serve(Counted { listener, gauge }, app).await
                })
            })
            .map_err(fail)?;
        Ok(Receiver {
            address,
            clock,
            spots,
            connections,
        })
    }

    /// Adds a path that behaves so.
    pub fn spot(&self, name: &str, behaviour: Behaviour) -> Arc<Spot> {
        let spot = Arc::new(Spot::new(self.clock, behaviour));
        let mut spots = self.spots.0.write().unwrap_or_else(PoisonError::into_inner);
        spots.insert(name.to_owned(), spot.clone());
        spot
    }

    /// The URL of a path.
    pub fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    /// The most connections that were open at once.
    pub fn most_connections(&self) -> u64 {
        self.connections.most()
    }
}

async fn take(
    State(spots): State<Arc<Spots>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let name = uri.path().trim_start_matches('/');
    let spot = {
        let spots = spots.0.read().unwrap_or_else(PoisonError::into_inner);
        spots.get(name).cloned()
    };
    match spot {
        Some(spot) => spot.take(&headers, &body).await,
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A listener whose connections are counted.
struct Counted {
    listener: TcpListener,
    gauge: Arc<Gauge>,
}

struct Connection {
    stream: TcpStream,
    _entered: Entered,
}

impl Listener for Counted {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // The blanket implementation waits and tries again where descriptors have run out.
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let _entered = self.gauge.enter();
        (Connection { stream, _entered }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Listener::local_addr(&self.listener)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

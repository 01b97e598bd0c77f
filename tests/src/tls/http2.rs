//! A receiver that speaks HTTP/2 and can do to its streams and connections what a load balancer
//! does.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, server};
use http::{Request, Response};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use crate::wait::eventually_some;

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Http2Reply {
    /// An answer with this status and no body.
    Status(u16),
    /// The stream is refused: nothing was done with the request.
    Refuse,
    /// The stream stays open without an answer.
    Hold,
    /// The connection is shut down without blame while its streams are open.
    GoAway,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Http2Request {
    /// On which connection, counted from 1.
    pub connection: usize,
    /// Its head.
    pub head: Arc<http::request::Parts>,
    /// Its body. Empty where the stream was refused.
    pub body: Bytes,
}

impl Http2Request {
    /// A header's text, or nothing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let value = self.head.headers.get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

type Choose = Arc<dyn Fn(usize) -> Http2Reply + Send + Sync>;

/// An HTTP/2 receiver on 127.0.0.1, behind TLS.
#[derive(Debug)]
pub struct Http2Receiver {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Http2Request>>>,
    _serving: AbortOnDropHandle<()>,
}

impl Http2Receiver {
    /// Starts a receiver. `choose` gets the number of the request, counted from 1 over all
    /// connections.
    ///
    /// # Errors
    /// When no port is to be had.
    pub async fn start(
        config: Arc<ServerConfig>,
        choose: impl Fn(usize) -> Http2Reply + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("the HTTP/2 receiver needs a port")?;
        let address = listener.local_addr().context("the receiver's address")?;
        let requests = Arc::new(Mutex::new(Vec::new()));
        let room = Room {
            requests: Arc::clone(&requests),
            choose: Arc::new(choose),
        };
        let serving = tokio::spawn(accept(listener, TlsAcceptor::from(config), room));
        Ok(Self {
            address,
            requests,
            _serving: AbortOnDropHandle::new(serving),
        })
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Every request so far, in the order in which they began.
    #[must_use]
    pub fn requests(&self) -> Vec<Http2Request> {
        lock(&self.requests).clone()
    }

    /// Waits until there were `count` requests, and returns all there are.
    ///
    /// # Errors
    /// When there are fewer after `limit`.
    pub async fn wait_for(&self, count: usize, limit: Duration) -> Result<Vec<Http2Request>> {
        let what = format!("{count} requests over HTTP/2");
        eventually_some(limit, &what, || {
            let requests = self.requests();
            std::future::ready((requests.len() >= count).then_some(requests))
        })
        .await
    }
}

#[derive(Clone)]
struct Room {
    requests: Arc<Mutex<Vec<Http2Request>>>,
    choose: Choose,
}

fn lock(requests: &Mutex<Vec<Http2Request>>) -> MutexGuard<'_, Vec<Http2Request>> {
    requests.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, room: Room) {
    let mut connections = JoinSet::new();
    let mut number = 0;
    while let Ok((stream, _)) = listener.accept().await {
        number += 1;
        connections.spawn(serve(acceptor.clone(), stream, number, room.clone()));
    }
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream, number: usize, room: Room) -> Result<()> {
    let stream = acceptor.accept(stream).await?;
    let mut connection = server::handshake(stream).await?;
    let mut streams = JoinSet::new();
    while let Some(request) = connection.accept().await {
        let (request, respond) = request?;
        let (reply, at) = room.note(number, &request);
        if reply == Http2Reply::GoAway {
            connection.abrupt_shutdown(Reason::NO_ERROR);
            // What is still open ends with the connection.
            std::future::poll_fn(|context| connection.poll_closed(context)).await?;
            return Ok(());
        }
        streams.spawn(answer(
            request.into_body(),
            respond,
            reply,
            at,
            room.clone(),
        ));
    }
    Ok(())
}

impl Room {
    /// Notes a request, and says what becomes of it and where it was noted.
    fn note(&self, connection: usize, request: &Request<RecvStream>) -> (Http2Reply, usize) {
        let mut head = Request::new(()).into_parts().0;
        head.method = request.method().clone();
        head.uri = request.uri().clone();
        head.headers = request.headers().clone();
        let mut requests = lock(&self.requests);
        requests.push(Http2Request {
            connection,
            head: Arc::new(head),
            body: Bytes::new(),
        });
        ((self.choose)(requests.len()), requests.len() - 1)
    }
}

async fn answer(
    mut body: RecvStream,
    mut respond: SendResponse<Bytes>,
    reply: Http2Reply,
    at: usize,
    room: Room,
) -> Result<()> {
    if reply == Http2Reply::Refuse {
        respond.send_reset(Reason::REFUSED_STREAM);
        return Ok(());
    }
    let mut whole = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        whole.extend_from_slice(&chunk);
    }
    lock(&room.requests)[at].body = whole.into();
    match reply {
        Http2Reply::Status(status) => {
            let response = Response::builder().status(status).body(())?;
            respond.send_response(response, true)?;
        }
        _ => std::future::pending::<()>().await,
    }
    Ok(())
}

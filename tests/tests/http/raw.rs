//! A server that leaves everything after the head of a request to the test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

pub struct Raw {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    _serving: AbortOnDropHandle<()>,
}

impl Raw {
    /// Reads the first head of every connection and hands the connection to `act`.
    pub async fn start<F, Fut>(act: F) -> Raw
    where
        F: Fn(TcpStream) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = ()> + Send,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = connections.clone();
        let open = Arc::new(AtomicUsize::new(0));
        let still = open.clone();
        let serving = tokio::spawn(async move {
            let mut acts = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                let (act, still) = (act.clone(), still.clone());
                still.fetch_add(1, Ordering::SeqCst);
                acts.spawn(async move {
                    read_head(&mut stream).await;
                    act(stream).await;
                    still.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Raw {
            address,
            connections,
            open,
            _serving: AbortOnDropHandle::new(serving),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Connections whose act has not ended. An act that writes without an end does so when the
    /// other side closes.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

/// Byte by byte, so that nothing of the body is taken.
pub async fn read_head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
}

/// Closes a connection by a reset.
pub fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}

//! TLS in front of a receiver that speaks plain HTTP/1.1.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// Takes TLS connections and passes on what is inside.
#[derive(Debug)]
pub struct TlsFront {
    address: SocketAddr,
    _serving: AbortOnDropHandle<()>,
}

impl TlsFront {
    /// Starts a front of the receiver at `behind`.
    ///
    /// # Errors
    /// When no port is to be had.
    pub async fn start(config: Arc<ServerConfig>, behind: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("the TLS front needs a port")?;
        let address = listener.local_addr().context("the TLS front's address")?;
        let acceptor = TlsAcceptor::from(config);
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(pass(acceptor.clone(), stream, behind));
            }
        });
        Ok(Self {
            address,
            _serving: AbortOnDropHandle::new(serving),
        })
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

/// A handshake that fails is what some tests want, and is seen by the sender.
async fn pass(acceptor: TlsAcceptor, stream: TcpStream, behind: SocketAddr) -> Result<()> {
    let mut outside = acceptor.accept(stream).await?;
    let mut inside = TcpStream::connect(behind).await?;
    tokio::io::copy_bidirectional(&mut outside, &mut inside).await?;
    Ok(())
}

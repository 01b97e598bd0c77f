//! What a server says of itself when one connects.
//!
//! Before a client has said anything, a server sends one line, `INFO {…}`. As it only listens
//! once its streams are recovered, this line is also the sign that JetStream is ready.

use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::TcpStream;

/// The line of a real server is under 1 KiB; in a large cluster it lists the other servers.
const LONGEST: u64 = 64 * 1024;
const LIMIT: Duration = Duration::from_secs(2);

/// The fields that matter here.
#[derive(Debug, Deserialize)]
pub(crate) struct Info {
    pub server_name: String,
    #[serde(default)]
    pub jetstream: bool,
}

/// Asks the server on a loopback port; `None` when nothing there speaks NATS.
pub(crate) async fn ask(port: u16) -> Option<Info> {
    tokio::time::timeout(LIMIT, read(port)).await.ok()?
}

async fn read(port: u16) -> Option<Info> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let mut line = Vec::new();
    BufReader::new(stream.take(LONGEST))
        .read_until(b'\n', &mut line)
        .await
        .ok()?;
    serde_json::from_slice(line.strip_prefix(b"INFO ")?).ok()
}

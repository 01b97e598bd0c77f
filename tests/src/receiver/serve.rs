//! The connections of a receiver.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::io::{AsyncWriteExt as _, BufWriter};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::http::Requests;
use super::reply::Manner;
use super::script::Script;
use super::{Received, Reply};

/// What the connections and the test share. Every lock is held for a few instructions.
#[derive(Debug, Default)]
pub(super) struct Shared {
    requests: Mutex<Vec<Arc<Received>>>,
    /// The length of `requests`, for those who wait.
    count: watch::Sender<usize>,
    scripts: Mutex<HashMap<String, Script>>,
    connections: AtomicUsize,
}

impl Shared {
    pub(super) fn requests(&self) -> Vec<Arc<Received>> {
        lock(&self.requests).clone()
    }

    pub(super) fn count(&self) -> usize {
        lock(&self.requests).len()
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(super) async fn wait_for(&self, count: usize) {
        let mut seen = self.count.subscribe();
        // The sender lives in `self`, so this cannot fail.
        let _ = seen.wait_for(|seen| *seen >= count).await;
    }

    pub(super) fn script<T>(&self, path: &str, act: impl FnOnce(&mut Script) -> T) -> T {
        let mut scripts = lock(&self.scripts);
        match scripts.get_mut(path) {
            Some(script) => act(script),
            None => act(scripts.entry(path.to_owned()).or_default()),
        }
    }

    pub(super) fn clear(&self) {
        lock(&self.requests).clear();
        self.count.send_replace(0);
        lock(&self.scripts).values_mut().for_each(Script::clear);
    }

    fn record(&self, received: Arc<Received>) {
        let mut requests = lock(&self.requests);
        requests.push(received);
        // Under the lock, so that the counts are announced in order.
        self.count.send_replace(requests.len());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves until the handle is dropped, which closes everything.
pub(super) fn spawn(listener: TcpListener, shared: Arc<Shared>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let Ok((stream, _)) = accepted else { continue };
                    let number = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
                    let shared = Arc::clone(&shared);
                    connections.spawn(async move {
                        // A sender that goes away in the middle is its own affair.
                        let _ = serve(stream, number, &shared).await;
                    });
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }))
}

/// What becomes of a connection after an answer.
enum After {
    Keep,
    Close,
    Reset,
}

async fn serve(stream: TcpStream, number: usize, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.into_split();
    let mut requests = Requests::new(reader);
    let mut writer = BufWriter::new(writer);
    while let Some(head) = requests.head().await? {
        let close = head
            .header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let early = shared.script(head.path(), |script| script.early());
        let body = match early {
            Some(_) => Bytes::new(),
            None => requests.body(&head).await?,
        };
        let is_early = early.is_some();
        let received = Arc::new(Received::now(number, head, body));
        let after = answer(&mut writer, &received, early, shared).await?;
        match after {
            After::Keep if !close && !is_early => {}
            After::Keep | After::Close => break,
            After::Reset => return reset(writer),
        }
    }
    Ok(())
}

/// Counts a request out of its path's hand, also when the connection ends in the middle.
struct InHand<'a> {
    shared: &'a Shared,
    path: &'a str,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.shared.script(self.path, Script::end);
    }
}

async fn answer(
    writer: &mut BufWriter<OwnedWriteHalf>,
    received: &Arc<Received>,
    early: Option<Reply>,
    shared: &Shared,
) -> io::Result<After> {
    let path = received.path();
    let choice = shared.script(path, |script| script.begin(early));
    let in_hand = InHand { shared, path };
    shared.record(Arc::clone(received));
    let reply = choice.reply(received);
    if !reply.delay.is_zero() {
        tokio::time::sleep(reply.delay).await;
    }
    // Before the last byte is out, or what the sender does next could come before the note.
    let finish = || {
        received.set_answered(reply.status);
        drop(in_hand);
    };
    write(writer, &reply, finish).await
}

async fn write(
    writer: &mut BufWriter<OwnedWriteHalf>,
    reply: &Reply,
    finish: impl FnOnce(),
) -> io::Result<After> {
    let head = reply.head();
    match &reply.manner {
        Manner::Hang => std::future::pending::<()>().await,
        Manner::Close => return Ok(After::Close),
        Manner::Reset => return Ok(After::Reset),
        Manner::Raw(bytes) => {
            writer.write_all(bytes).await?;
            writer.flush().await?;
            return Ok(After::Close);
        }
        Manner::Truncate => {
            writer.write_all(&head).await?;
            writer
                .write_all(&reply.body[..reply.body.len() / 2])
                .await?;
            writer.flush().await?;
            return Ok(After::Close);
        }
        Manner::Endless => {
            writer.write_all(&head).await?;
            let chunk = [b"1000\r\n".as_slice(), &[b'x'; 0x1000], b"\r\n"].concat();
            loop {
                writer.write_all(&chunk).await?;
            }
        }
        Manner::Plain => {
            writer.write_all(&head).await?;
            writer.write_all(&reply.body).await?;
        }
        Manner::DripBody(pause) => {
            writer.write_all(&head).await?;
            writer.flush().await?;
            drip(writer, &reply.body, *pause).await?;
        }
        Manner::DripHead(pause) => {
            drip(writer, &head, *pause).await?;
            writer.write_all(&reply.body).await?;
        }
    }
    finish();
    writer.flush().await?;
    Ok(if reply.close_after {
        After::Close
    } else {
        After::Keep
    })
}

async fn drip(
    writer: &mut BufWriter<OwnedWriteHalf>,
    bytes: &[u8],
    pause: std::time::Duration,
) -> io::Result<()> {
    for byte in bytes {
        tokio::time::sleep(pause).await;
        writer.write_u8(*byte).await?;
        writer.flush().await?;
    }
    Ok(())
}

/// A socket that is closed with a linger of zero sends a reset instead of an orderly end. The
/// writing half must not announce that end either; the reading half then closes the socket.
fn reset(writer: BufWriter<OwnedWriteHalf>) -> io::Result<()> {
    let writer = writer.into_inner();
    writer.as_ref().set_zero_linger()?;
    writer.forget();
    Ok(())
}

//! A receiver of webhooks: verify, take each id once, answer, and only then work.
//!
//! ```sh
//! WEBHOOK_SECRET=whsec_… PORT=9000 cargo run
//! ```

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use standardwebhooks::Webhook;
use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;

const MAX_BODY: usize = 1 << 20;

struct Receiver {
    webhook: Webhook,
    inbox: PathBuf,
    arrived: Notify,
}

// begin: verify
/// Whether a request is the sender's, unchanged, and at most five minutes old.
fn is_genuine(webhook: &Webhook, headers: &HeaderMap, body: &[u8]) -> bool {
    // The bytes as they came: parsed and written anew they would not be what was signed.
    webhook.verify(body, headers).is_ok()
}
// end: verify

// begin: once
/// Keeps the event for the worker; false where it was here before. With a database this is a row
/// whose id is unique; with files it is a link, which is there whole or not at all.
fn store(inbox: &Path, id: &str, body: &[u8]) -> io::Result<bool> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let temporary = inbox.join(format!(".{}-{number}", std::process::id()));
    let mut file = File::create(&temporary)?;
    file.write_all(body)?;
    file.sync_all()?;
    let linked = fs::hard_link(&temporary, inbox.join(id));
    fs::remove_file(&temporary)?;
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}
// end: once

async fn receive(
    State(receiver): State<Arc<Receiver>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    if !is_genuine(&receiver.webhook, &headers, &body) {
        return StatusCode::UNAUTHORIZED;
    }
    let Some(id) = name(&headers) else {
        return StatusCode::BAD_REQUEST;
    };
    // What is stored can be answered; the worker has its own time.
    let (inbox, name) = (receiver.inbox.clone(), id.clone());
    let stored = spawn_blocking(move || store(&inbox, &name, &body)).await;
    let Ok(Ok(is_new)) = stored else {
        // Not stored, so it has to come again.
        return StatusCode::SERVICE_UNAVAILABLE;
    };
    println!("{} {id}", if is_new { "new" } else { "again" });
    receiver.arrived.notify_one();
    StatusCode::NO_CONTENT
}

/// The id, where it can be the name of a file.
fn name(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("webhook-id")?.to_str().ok()?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let good = !id.is_empty() && id.len() <= 200 && id.chars().all(fits);
    good.then(|| id.to_owned())
}

/// What the event is for. It may be begun again after a crash, so what must not happen twice
/// belongs into one transaction with the mark that it is done.
fn work(id: &str, _body: &[u8]) {
    println!("done {id}");
}

/// Works on everything that is not marked as done.
fn drain(inbox: &Path) -> io::Result<()> {
    for entry in fs::read_dir(inbox)? {
        let id = entry?.file_name().to_string_lossy().into_owned();
        let done = inbox.join(format!("{id}.done"));
        if id.contains('.') || done.exists() {
            continue;
        }
        work(&id, &fs::read(inbox.join(&id))?);
        File::create(done)?;
    }
    Ok(())
}

async fn worker(receiver: Arc<Receiver>) {
    loop {
        let inbox = receiver.inbox.clone();
        if let Ok(Err(error)) = spawn_blocking(move || drain(&inbox)).await {
            eprintln!("the inbox cannot be read: {error}");
        }
        receiver.arrived.notified().await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = env::var("PORT").unwrap_or_else(|_| "9000".to_owned());
    let inbox = PathBuf::from(env::var("INBOX").unwrap_or_else(|_| "inbox".to_owned()));
    fs::create_dir_all(&inbox)?;
    let receiver = Arc::new(Receiver {
        webhook: Webhook::new(&env::var("WEBHOOK_SECRET")?)?,
        inbox,
        arrived: Notify::new(),
    });
    tokio::spawn(worker(receiver.clone()));
    let router = Router::new()
        .route("/", post(receive))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(receiver);
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}

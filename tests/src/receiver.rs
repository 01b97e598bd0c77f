//! The endpoint that deliveries go to: records every request, answers by script.
//!
//! It speaks HTTP/1.1 by itself instead of through a server library, because half of what it
//! must do is what a library prevents: say nothing, stop in the middle, close a connection
//! that it called persistent, answer before the request is read. A request is recorded, with
//! the time it was complete, before its answer is chosen.

mod http;
mod received;
mod reply;
mod script;
mod serve;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

pub use received::Received;
pub use reply::Reply;

use crate::wait::eventually_some;
use script::Script;
use serve::Shared;

/// How long a restart waits for its port, which the kernel may have lent to a connection.
const REBIND: Duration = Duration::from_secs(10);

/// An HTTP receiver on 127.0.0.1.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Absent while stopped. Dropping it closes the listener and every connection.
    serving: Option<AbortOnDropHandle<()>>,
}

impl Receiver {
    /// Starts a receiver on a free port. It answers 200 until told otherwise.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", crate::process::free_port()?))
            .await
            .context("the receiver needs a port")?;
        let address = listener.local_addr().context("the receiver's address")?;
        let shared = Arc::new(Shared::default());
        Ok(Self {
            address,
            serving: Some(serve::spawn(listener, Arc::clone(&shared))),
            shared,
        })
    }

    /// The URL of a path that begins with a slash.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The answers to the next requests to `path`, one each in the order they are complete.
    /// Then [`Receiver::answer`] and [`Receiver::answer_by`] count again. Adds to an earlier
    /// script that is not used up.
    pub fn script(&self, path: &str, replies: impl IntoIterator<Item = Reply>) {
        self.shared.script(path, |script| script.extend(replies));
    }

    /// The answer to every request to `path` that no script answers.
    pub fn answer(&self, path: &str, reply: Reply) {
        self.answer_by(path, move |_| reply.clone());
    }

    /// Chooses the answer to every request to `path` that no script answers.
    pub fn answer_by(
        &self,
        path: &str,
        choose: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) {
        self.shared
            .script(path, |script: &mut Script| script.set_default(choose));
    }

    /// Answers every request to `path` as soon as its head is there, and closes the connection
    /// with the body unread. Goes before scripts and other answers.
    pub fn answer_early(&self, path: &str, reply: Reply) {
        self.shared.script(path, |script| script.set_early(reply));
    }

    /// Every request so far, in the order they were complete.
    #[must_use]
    pub fn requests(&self) -> Vec<Arc<Received>> {
        self.shared.requests()
    }

    /// Every request to `path` so far.
    #[must_use]
    pub fn requests_to(&self, path: &str) -> Vec<Arc<Received>> {
        let mut requests = self.requests();
        requests.retain(|request| request.path() == path);
        requests
    }

    /// How many requests there were so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.count()
    }

    /// The most requests to `path` that were read and not answered at one time.
    #[must_use]
    pub fn most_at_once(&self, path: &str) -> usize {
        self.shared.script(path, |script| script.most_at_once())
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections()
    }

    /// Waits until there were at least `count` requests, and returns all there are.
    ///
    /// # Errors
    /// When there are fewer after `limit`.
    pub async fn wait_for(&self, count: usize, limit: Duration) -> Result<Vec<Arc<Received>>> {
        let enough = self.shared.wait_for(count);
        tokio::time::timeout(limit, enough).await.with_context(|| {
            let seen = self.count();
            format!("the receiver got {seen} of {count} requests in {limit:?}")
        })?;
        Ok(self.requests())
    }

    /// Waits until there were at least `count` requests to `path`, and returns all of those.
    ///
    /// # Errors
    /// When there are fewer after `limit`.
    pub async fn wait_for_path(
        &self,
        path: &str,
        count: usize,
        limit: Duration,
    ) -> Result<Vec<Arc<Received>>> {
        let what = format!("{count} requests to {path}");
        eventually_some(limit, &what, || {
            let requests = self.requests_to(path);
            std::future::ready((requests.len() >= count).then_some(requests))
        })
        .await
    }

    /// Forgets every request and script, not the connections.
    pub fn clear(&self) {
        self.shared.clear();
    }

    /// Closes the listener and every connection, as a machine does that goes away: connecting
    /// is refused from here on.
    pub async fn stop(&mut self) {
        let Some(serving) = self.serving.take() else {
            return;
        };
        serving.abort();
        // An error is the cancellation that was asked for.
        let _ = serving.await;
    }

    /// Listens again on the same port. What was recorded and scripted stays.
    ///
    /// # Errors
    /// When the port is not to be had for some seconds.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await;
        let address = self.address;
        let listener = eventually_some(REBIND, "the receiver's old port", || async move {
            TcpListener::bind(address).await.ok()
        })
        .await?;
        self.serving = Some(serve::spawn(listener, Arc::clone(&self.shared)));
        Ok(())
    }
}

#[cfg(test)]
mod tests;

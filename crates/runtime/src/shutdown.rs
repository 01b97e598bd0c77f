//! Stopping: one signal that everybody hears, and one count of who is not yet done.
//!
//! A rolling restart must neither cut work off nor wait for ever. A [`Shutdown`] is triggered
//! once, by SIGTERM, SIGINT or the program; loops watch it and stop taking work; what they
//! [`spawn`](Shutdown::spawn)ed is waited for by [`drain`](Shutdown::drain), within a budget
//! that starts at the trigger and not at the call, so that two waits in a row do not take two
//! budgets of the grace period.

use std::future::Future;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A handle on the stopping of a process; clones are the same handle.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    token: CancellationToken,
    drained: CancellationToken,
    forced: CancellationToken,
    tracker: TaskTracker,
    triggered_at: Arc<OnceLock<Instant>>,
}

impl Shutdown {
    /// A shutdown that nothing but [`trigger`](Self::trigger) starts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A shutdown that the first SIGTERM or SIGINT triggers and that the second one
    /// [forces](Self::drain). Call it inside a tokio runtime.
    ///
    /// # Errors
    /// When the operating system refuses the signal handlers.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::new();
        let mut signals = Signals::listen()?;
        let heard = shutdown.clone();
        tokio::spawn(async move {
            let signal = signals.next().await;
            tracing::info!(signal, "draining");
            heard.trigger();
            let signal = signals.next().await;
            tracing::warn!(signal, "second signal, not waiting for what is in flight");
            heard.forced.cancel();
        });
        Ok(shutdown)
    }

    /// Starts the shutdown. Only the first call has an effect.
    pub fn trigger(&self) {
        // Before the token, so that whoever sees the token also sees when the budget began.
        let _ = self.triggered_at.set(Instant::now());
        self.token.cancel();
    }

    /// Whether the shutdown has begun.
    #[must_use]
    pub fn is_triggered(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until the shutdown begins. Cancel safe.
    pub async fn triggered(&self) {
        self.token.cancelled().await;
    }

    /// The token behind it, for `select!` and for child tokens.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Runs `future` as a task that [`drain`](Self::drain) waits for. Call it inside a tokio
    /// runtime.
    ///
    /// What runs for the whole life of the process must itself end when the shutdown is
    /// triggered, or the drain takes its full time.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tracker.spawn(future)
    }

    /// How many spawned tasks have not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.tracker.len()
    }

    /// Waits until every spawned task has ended, at most until `timeout` after the trigger (after
    /// this call, where nothing was triggered) or until a second signal. True when all ended.
    pub async fn drain(&self, timeout: Duration) -> bool {
        let since = self.triggered_at.get().copied();
        let deadline = since.unwrap_or_else(Instant::now) + timeout;
        self.tracker.close();
        let done = tokio::select! {
            biased;
            () = self.tracker.wait() => true,
            () = self.forced.cancelled() => false,
            () = tokio::time::sleep_until(deadline) => false,
        };
        self.drained.cancel();
        done
    }

    /// Waits for a second signal, which says not to wait for what is in flight. Cancel safe.
    pub async fn forced(&self) {
        self.forced.cancelled().await;
    }

    /// Waits until a [`drain`](Self::drain) is over. What has to outlive the drain, like the
    /// health probes, ends with this and not with [`triggered`](Self::triggered).
    pub async fn drained(&self) {
        self.drained.cancelled().await;
    }
}

struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
#[path = "shutdown_tests.rs"]
mod tests;

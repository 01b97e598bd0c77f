//! Readiness: each part of a process says whether it works, and a part that has stopped saying
//! anything counts as broken.
//!
//! A loop that hangs never gets to report that it hangs, so "not told otherwise" must not mean
//! ready. A component with a heartbeat is ready only while its loop keeps coming round.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

/// All components of a process; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    components: Arc<Mutex<Vec<Component>>>,
}

/// One part of a process; clones report for the same part.
#[derive(Debug, Clone)]
pub struct Component {
    name: &'static str,
    max_silence: Option<Duration>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    last_beat: Instant,
}

#[derive(Debug)]
enum Phase {
    Starting,
    Ready,
    NotReady(String),
}

/// What one component last said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComponentStatus {
    /// The component's name.
    pub name: &'static str,
    /// Whether it works.
    pub ready: bool,
    /// Why not, where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Readiness {
    /// Without components; it is not ready until one is registered and ready.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a part that reports each change itself, such as a connection. It starts as not
    /// ready.
    pub fn component(&self, name: &'static str) -> Component {
        self.register(name, None)
    }

    /// Registers a loop that must call [`Component::beat`] at least every `max_silence`. It starts
    /// as not ready; its first beat makes it ready.
    pub fn component_with_heartbeat(&self, name: &'static str, max_silence: Duration) -> Component {
        self.register(name, Some(max_silence))
    }

    fn register(&self, name: &'static str, max_silence: Option<Duration>) -> Component {
        let component = Component {
            name,
            max_silence,
            state: Arc::new(Mutex::new(State {
                phase: Phase::Starting,
                last_beat: Instant::now(),
            })),
        };
        lock(&self.components).push(component.clone());
        component
    }

    /// Every component's state, in order of registration.
    #[must_use]
    pub fn status(&self) -> Vec<ComponentStatus> {
        lock(&self.components)
            .iter()
            .map(Component::status)
            .collect()
    }

    /// Whether there are components and all of them are ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let status = self.status();
        !status.is_empty() && status.iter().all(|component| component.ready)
    }
}

impl Component {
    /// It works. For a heartbeat component this is a beat too.
    pub fn ready(&self) {
        self.set(Phase::Ready);
    }

    /// It does not work, until [`ready`](Self::ready) is called. The reason is shown to whoever
    /// can reach the port: no secret, no URL.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(Phase::NotReady(reason.into()));
    }

    /// The loop came round. It makes a starting component ready and leaves one that said
    /// [`not_ready`](Self::not_ready) as it is.
    pub fn beat(&self) {
        let mut state = lock(&self.state);
        state.last_beat = Instant::now();
        if matches!(state.phase, Phase::Starting) {
            state.phase = Phase::Ready;
        }
    }

    /// What it last said, or that it has been silent for too long.
    #[must_use]
    pub fn status(&self) -> ComponentStatus {
        let reason = self.trouble();
        ComponentStatus {
            name: self.name,
            ready: reason.is_none(),
            reason,
        }
    }

    fn trouble(&self) -> Option<String> {
        let state = lock(&self.state);
        match &state.phase {
            Phase::Starting => Some("starting".to_owned()),
            Phase::NotReady(reason) => Some(reason.clone()),
            Phase::Ready => {
                let silence = state.last_beat.elapsed();
                let stalled = silence > self.max_silence?;
                stalled.then(|| format!("stalled: no progress for {}s", silence.as_secs()))
            }
        }
    }

    fn set(&self, phase: Phase) {
        let mut state = lock(&self.state);
        state.phase = phase;
        state.last_beat = Instant::now();
    }
}

/// A panic elsewhere while a state was held leaves it whole: each write is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_components_is_not_ready() {
        assert!(!Readiness::new().is_ready());
    }

    #[test]
    fn every_component_counts() {
        let readiness = Readiness::new();
        let (nats, watcher) = (readiness.component("nats"), readiness.component("watcher"));
        assert!(!readiness.is_ready());
        nats.ready();
        assert!(!readiness.is_ready());
        watcher.ready();
        assert!(readiness.is_ready());
        nats.not_ready("disconnected");
        assert_eq!(nats.status().reason.as_deref(), Some("disconnected"));
        assert!(!readiness.is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn ops_04_a_stalled_loop_is_not_ready_until_it_moves_again() {
        let readiness = Readiness::new();
        let pull = readiness.component_with_heartbeat("pull", Duration::from_secs(10));
        assert_eq!(pull.status().reason.as_deref(), Some("starting"));
        pull.beat();
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(readiness.is_ready());
        tokio::time::advance(Duration::from_secs(1)).await;
        let status = pull.status();
        assert!(!status.ready);
        assert_eq!(status.name, "pull");
        assert_eq!(
            status.reason.as_deref(),
            Some("stalled: no progress for 11s")
        );
        pull.beat();
        assert!(readiness.is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_beat_does_not_hide_what_the_component_said() {
        let readiness = Readiness::new();
        let pull = readiness.component_with_heartbeat("pull", Duration::from_secs(10));
        pull.ready();
        pull.not_ready("stream is gone");
        pull.clone().beat();
        assert!(!readiness.is_ready());
        pull.ready();
        assert!(readiness.is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_component_without_a_heartbeat_may_be_silent() {
        let readiness = Readiness::new();
        readiness.component("nats").ready();
        tokio::time::advance(Duration::from_secs(86_400)).await;
        assert!(readiness.is_ready());
    }
}

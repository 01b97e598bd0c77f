//! One readiness for four services.
//!
//! Each service reports to its own, in its own words; probes ask one. A loop here carries the
//! state over, and is itself a component that must keep coming round.

use posthorn_runtime::readiness::{Component, Readiness};
use posthorn_runtime::shutdown::Shutdown;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(50);
const MAX_SILENCE: Duration = Duration::from_secs(5);

/// The services' states, and the one that probes see.
pub(crate) struct Health {
    all: Readiness,
    services: Vec<(Component, Readiness)>,
}

impl Health {
    /// Without services, and so not ready.
    pub fn new() -> Health {
        Health {
            all: Readiness::new(),
            services: Vec::new(),
        }
    }

    /// What probes see.
    pub fn all(&self) -> Readiness {
        self.all.clone()
    }

    /// The readiness of one more service.
    pub fn service(&mut self, name: &'static str) -> Readiness {
        let component = self.all.component_with_heartbeat(name, MAX_SILENCE);
        let readiness = Readiness::new();
        self.services.push((component, readiness.clone()));
        readiness
    }

    /// Carries the states over until shutdown.
    pub async fn watch(self, shutdown: Shutdown) {
        let mut every = tokio::time::interval(EVERY);
        loop {
            tokio::select! {
                () = shutdown.triggered() => return,
                _ = every.tick() => self.carry_over(),
            }
        }
    }

    fn carry_over(&self) {
        for (component, readiness) in &self.services {
            match trouble(readiness) {
                Some(reason) => component.not_ready(reason),
                None => component.ready(),
            }
        }
    }
}

/// What the first part of a service that does not work says.
fn trouble(readiness: &Readiness) -> Option<String> {
    let parts = readiness.status();
    if parts.is_empty() {
        return Some("starting".to_owned());
    }
    let part = parts.into_iter().find(|part| !part.ready)?;
    let reason = part.reason.unwrap_or_else(|| "not ready".to_owned());
    Some(format!("{}: {reason}", part.name))
}

/// Waits until everything is ready; false when shutdown came first.
pub(crate) async fn ready(readiness: &Readiness, shutdown: &Shutdown) -> bool {
    let mut every = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            () = shutdown.triggered() => return false,
            _ = every.tick() => {}
        }
        if readiness.is_ready() {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_ready_when_each_part_of_each_service_is() {
        let mut health = Health::new();
        let (one, two) = (health.service("one"), health.service("two"));
        let (nats, pull) = (one.component("nats"), two.component("pull"));
        let all = health.all();
        let ready = || {
            health.carry_over();
            all.is_ready()
        };
        assert!(!ready());
        nats.ready();
        assert!(!ready());
        pull.ready();
        assert!(ready());
        nats.not_ready("not connected");
        assert!(!ready());
        let status = health.all().status();
        assert_eq!(status[0].reason.as_deref(), Some("nats: not connected"));
    }

    #[test]
    fn a_service_that_has_said_nothing_is_not_ready() {
        let mut health = Health::new();
        health.service("one");
        health.carry_over();
        assert!(!health.all().is_ready());
    }
}

//! The four services in this process, on one handle to NATS.

use super::health::Health;
use posthorn_broker::Broker;
use posthorn_runtime::readiness::Readiness;
use posthorn_runtime::{ExitError, Shutdown};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The settings of each service.
pub(crate) struct Settings {
    pub ingest: posthorn_ingest::Settings,
    pub scheduler: posthorn_scheduler::Settings,
    pub dispatcher: posthorn_dispatcher::Settings,
    pub dlq_admin: posthorn_dlq_admin::Settings,
    pub drain_timeout: Duration,
}

/// Where the two HTTP services answer.
pub(crate) struct Listeners {
    pub ingest: TcpListener,
    pub admin: TcpListener,
}

/// The running services.
pub(crate) struct System {
    readiness: Readiness,
    services: JoinHandle<Result<(), ExitError>>,
}

impl System {
    /// Starts all four; they report to `health`.
    pub fn start(
        settings: Settings,
        broker: &Broker,
        listeners: Listeners,
        mut health: Health,
        shutdown: &Shutdown,
    ) -> System {
        let readiness = health.all();
        let ingest = posthorn_ingest::Deps {
            broker: broker.clone(),
            readiness: health.service("ingest"),
            listener: listeners.ingest,
        };
        let scheduler = posthorn_scheduler::Deps {
            broker: broker.clone(),
            readiness: health.service("scheduler"),
        };
        let dispatcher = posthorn_dispatcher::Deps {
            broker: broker.clone(),
            readiness: health.service("dispatcher"),
            drain_timeout: settings.drain_timeout,
        };
        let dlq_admin = posthorn_dlq_admin::Deps {
            broker: broker.clone(),
            readiness: health.service("dlq-admin"),
            listener: listeners.admin,
        };
        shutdown.spawn(health.watch(shutdown.clone()));
        let stop = || shutdown.clone();
        let services = [
            tokio::spawn(posthorn_ingest::serve(settings.ingest, ingest, stop())),
            tokio::spawn(posthorn_scheduler::serve(
                settings.scheduler,
                scheduler,
                stop(),
            )),
            tokio::spawn(posthorn_dispatcher::serve(
                settings.dispatcher,
                dispatcher,
                stop(),
            )),
            tokio::spawn(posthorn_dlq_admin::serve(
                settings.dlq_admin,
                dlq_admin,
                stop(),
            )),
        ];
        let services = tokio::spawn(all_of(services, shutdown.clone()));
        System {
            readiness,
            services,
        }
    }

    /// The readiness of all four.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// Waits until all four have ended.
    ///
    /// # Errors
    /// The first error of any.
    pub async fn ended(self) -> Result<(), ExitError> {
        joined(self.services.await)
    }
}

/// Waits for all; the first that ends in error ends the others, as half a system is none.
async fn all_of(
    services: [JoinHandle<Result<(), ExitError>>; 4],
    shutdown: Shutdown,
) -> Result<(), ExitError> {
    let ends = services.map(|service| {
        let shutdown = shutdown.clone();
        async move {
            let result = joined(service.await);
            if result.is_err() {
                shutdown.trigger();
            }
            result
        }
    });
    let [a, b, c, d] = ends;
    let results = tokio::join!(a, b, c, d);
    results.0.and(results.1).and(results.2).and(results.3)
}

fn joined(result: Result<Result<(), ExitError>, tokio::task::JoinError>) -> Result<(), ExitError> {
    result.unwrap_or_else(|error| Err(ExitError::internal(error)))
}

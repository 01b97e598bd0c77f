//! From a process's configuration to its broker.
//!
//! `runtime` knows the settings and no broker, `broker` knows NATS and no settings: every
//! service joins them here, in the same way and with the same exit codes.

use posthorn_broker::{Broker, BrokerError, ConnectSettings, Names, Retention, Topology};
use posthorn_delivery::UnixMillis;
use posthorn_runtime::ExitError;
use posthorn_runtime::config::{NatsArgs, RetentionArgs};
use posthorn_runtime::readiness::Component;
use posthorn_runtime::shutdown::Shutdown;
use std::time::Duration;

/// The current time: the clock of `runtime` in the terms of `delivery`.
#[must_use]
pub fn now() -> UnixMillis {
    UnixMillis(posthorn_runtime::clock::now_unix_millis())
}

/// Connects `service` to its installation, and creates what is missing there.
///
/// # Errors
/// With the exit code that fits: unreachable is 69, a server that is too old or settings that
/// cannot be used are 64.
pub async fn connect(
    service: &str,
    nats: &NatsArgs,
    retention: &RetentionArgs,
) -> Result<Broker, ExitError> {
    let connected = Broker::connect(&settings(service, nats), topology(nats, retention)).await;
    connected.map_err(exit_error)
}

/// The exit that a broker error at start leads to.
#[must_use]
pub fn exit_error(error: BrokerError) -> ExitError {
    match error {
        BrokerError::Unreachable(_) | BrokerError::TimedOut => ExitError::unavailable(error),
        BrokerError::TooOld { .. } | BrokerError::Settings(_) | BrokerError::Missing(_) => {
            ExitError::config(error)
        }
        _ => ExitError::unavailable(error),
    }
}

fn settings(service: &str, nats: &NatsArgs) -> ConnectSettings {
    ConnectSettings {
        urls: nats.nats_url.clone(),
        creds: nats.nats_creds.clone(),
        nkey: nats.nats_nkey.clone(),
        tls_ca: nats.nats_tls_ca.clone(),
        tls_cert: nats.nats_tls_cert.clone(),
        tls_key: nats.nats_tls_key.clone(),
        timeout: nats.connect_timeout,
        // By the prefix, so that installations that share an account do not share inboxes.
        client_name: format!("{}-{service}", nats.prefix),
    }
}

/// The streams that a configuration asks for.
#[must_use]
pub fn topology(nats: &NatsArgs, retention: &RetentionArgs) -> Topology {
    Topology {
        names: Names::new(&nats.prefix),
        replicas: nats.replicas,
        manage: nats.manage_streams,
        retention: Retention {
            dedupe_window: retention.dedupe_window,
            events: (retention.event_retention, retention.event_max_bytes),
            attempts: (retention.attempt_retention, retention.attempt_max_bytes),
            dlq: (retention.dlq_retention, retention.dlq_max_bytes),
            dlq_of_tenant: retention.dlq_tenant_max_bytes,
            audit: (retention.audit_retention, retention.audit_max_bytes),
        },
    }
}

/// How often the streams and buckets are looked for, in seconds.
const LOOK: u32 = 10;

/// Keeps a readiness component in step with the connection until shutdown, and creates again
/// what goes missing on the other side of it.
pub async fn watch_connection(broker: Broker, component: Component, shutdown: Shutdown) {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    let mut since_look = 0;
    loop {
        tokio::select! {
            () = shutdown.triggered() => return,
            _ = tick.tick() => {}
        }
        component.beat();
        since_look += 1;
        if !broker.is_connected() {
            component.not_ready("NATS is not connected");
            // What comes back may have come back empty: look at once.
            since_look = LOOK;
            continue;
        }
        if since_look < LOOK {
            component.ready();
            continue;
        }
        match broker.restore().await {
            Ok(()) => {
                since_look = 0;
                component.ready();
            }
            Err(error) => component.not_ready(error.to_string()),
        }
    }
}

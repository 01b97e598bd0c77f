//! What a backlog costs while it waits.
//!
//! The same is done with a small and with a large one, and memory is looked at once before and
//! once after everything was started anew: what a process still has from taking the backlog in
//! is no part of holding it.

use super::receiver::Receiver;
use super::rig::Rig;
use super::spot::Behaviour;
use super::usage::Usage;
use super::{Plan, Verdict, until, watch};
use crate::bench::failed;
use crate::bench::report::to_f64;
use crate::failure::Failure;
use axum::http::StatusCode;
use posthorn_broker::StreamName;
use posthorn_nats_server::SignalError;
use serde_json::json;
use std::time::Duration;

const TENANT: &str = "held";
/// The backlog that the large one is compared with.
const FEW: u32 = 1_000;
const CORES: f64 = 0.02;
const BYTES_A_MESSAGE: f64 = 300.0;
/// How much more memory the services may have with the large backlog and be called independent
/// of it, in bytes: what two starts of the same differ by.
const SAME: f64 = 8.0 * 1_048_576.0;
/// After a start, and after the backlog is in, before the idle time begins.
const SETTLE: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(120);

/// What holding one backlog cost.
struct Held {
    deliveries: u64,
    /// Cores over the idle time: services, nats-server.
    cores: (f64, f64),
    /// Memory after the idle time, and of new processes on the same backlog.
    services: (u64, u64),
    nats_server: (u64, u64),
    requests: usize,
}

/// Runs it.
///
/// # Errors
/// When a part does not start, or the backlog is not held.
pub(crate) async fn run(plan: &Plan<'_>) -> Result<Verdict, Failure> {
    let (many, span) = (plan.queued(100_000), plan.duration(60));
    let settings = vec![
        ("held", many.to_string()),
        ("compared with", FEW.to_string()),
        ("payload", format!("{} bytes", plan.payload)),
        ("idle for", format!("{} s", span.as_secs())),
    ];
    let mut verdict = Verdict::begin(&plan.name, settings);
    let few = hold(
        plan,
        FEW.min(many / 2).max(1),
        span.min(Duration::from_secs(60)),
    )
    .await?;
    let many = hold(plan, many, span).await?;
    judge(&mut verdict, &few, &many);
    Ok(verdict)
}

async fn hold(plan: &Plan<'_>, count: u32, span: Duration) -> Result<Held, Failure> {
    let mut rig = plan.rig(plan.dispatchers(1)).await?;
    let receiver = Receiver::start(rig.clock)?;
    let down = Behaviour::Answer(StatusCode::SERVICE_UNAVAILABLE, Duration::ZERO);
    let spot = receiver.spot("hook", down);
    rig.api
        .endpoint(TENANT, json!({ "url": receiver.url("hook") }))
        .await?;
    rig.load(TENANT)?.burst(count).await?;
    rig.taken_in().await?;
    // Retries of the first requests come due meanwhile, and are appended to the lane as well.
    let wanted = u64::from(count);
    until(LIMIT, "everything lies in the lane", async || {
        Ok(rig.messages(StreamName::Lanes).await? >= wanted)
    })
    .await?;
    watch(SETTLE).await;
    let before = (rig.services(), rig.nats_server());
    watch(span).await;
    let after = (rig.services(), rig.nats_server());
    let cores = |then: Usage, now: Usage| (now.cpu - then.cpu) / span.as_secs_f64();
    let deliveries = rig.messages(StreamName::Lanes).await?;
    let fresh = start_anew(&mut rig).await?;
    let requests = spot.count();
    rig.stop().await?;
    Ok(Held {
        deliveries,
        cores: (cores(before.0, after.0), cores(before.1, after.1)),
        services: (after.0.memory, fresh.0.memory),
        nats_server: (after.1.memory, fresh.1.memory),
        requests,
    })
}

/// New processes on the same backlog.
async fn start_anew(rig: &mut Rig) -> Result<(Usage, Usage), Failure> {
    rig.stop_services().await?;
    let fail = |error: SignalError| Failure::internal("starting nats-server anew", &error);
    rig.server.stop().await.map_err(fail)?;
    rig.server.restart_same_port().await.map_err(fail)?;
    until(LIMIT, "the connection is back", async || {
        Ok(rig.broker.is_connected())
    })
    .await?;
    rig.broker
        .ensure()
        .await
        .map_err(failed("after the restart"))?;
    rig.start_services().await?;
    watch(SETTLE).await;
    Ok((rig.services(), rig.nats_server()))
}

fn judge(verdict: &mut Verdict, few: &Held, many: &Held) {
    let together = many.cores.0 + many.cores.1;
    verdict.check(
        "nats-server and the services together",
        format!("{CORES} core"),
        format!("{together:.4} core"),
        together < CORES,
    );
    let mib = |bytes: u64| format!("{:.1}", to_f64(bytes) / 1_048_576.0);
    let more = |figure: fn(&Held) -> u64| to_f64(figure(many)) - to_f64(figure(few));
    let services = more(|held| held.services.1);
    verdict.check(
        "services' memory, few -> many, MiB",
        format!("at most {:.0} MiB more", SAME / 1_048_576.0),
        format!("{} -> {}", mib(few.services.1), mib(many.services.1)),
        services <= SAME,
    );
    let messages = to_f64(many.deliveries.saturating_sub(few.deliveries)).max(1.0);
    for (when, figure) in [
        (
            "after the idle time",
            (|held| held.nats_server.0) as fn(&Held) -> u64,
        ),
        ("after a restart", |held| held.nats_server.1),
    ] {
        let bytes = more(figure) / messages;
        verdict.check(
            format!("nats-server's memory {when}, bytes a message held"),
            format!("{BYTES_A_MESSAGE}"),
            format!(
                "{bytes:.0} ({} -> {} MiB)",
                mib(figure(few)),
                mib(figure(many))
            ),
            bytes < BYTES_A_MESSAGE,
        );
    }
    for (name, held) in [("few", few), ("many", many)] {
        let (services, nats_server) = held.cores;
        verdict.figure(
            format!("{name}: services, nats-server"),
            format!("{services:.4}, {nats_server:.4} core"),
        );
        verdict.figure(
            format!("{name}: services' memory after the idle time"),
            format!("{} MiB", mib(held.services.0)),
        );
        verdict.figure(
            format!("{name}: held, requests made"),
            format!("{}, {}", held.deliveries, held.requests),
        );
    }
}

//! The calendar: what is due later than in minutes lies under the subject of its hour, with
//! no consumer on it and so at next to no cost. When its hour comes near, a consumer moves it
//! to the durable that waits.

use crate::context::Context;
use crate::release::discard;
use posthorn_broker::{Broker, BrokerError, Pumped, Waiting, Wire};
use posthorn_delivery::UnixMillis;
use posthorn_runtime::Shutdown;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

const LOOK: Duration = Duration::from_secs(5);
const HOUR_MS: i64 = 3_600_000;
const MOVES: usize = 256;

/// Looks which hours have come near, and keeps a mover on each until it is empty.
pub(crate) async fn watch(context: Arc<Context>, shutdown: Shutdown) {
    let mut movers: HashMap<i64, CancellationToken> = HashMap::new();
    let mut tick = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            () = shutdown.triggered() => break,
            _ = tick.tick() => {}
        }
        match context.broker.far_hours().await {
            Ok(hours) => adjust(&context, &shutdown, &mut movers, &hours),
            Err(error) => tracing::debug!(%error, "the calendar could not be read"),
        }
    }
    movers.values().for_each(CancellationToken::cancel);
}

fn adjust(
    context: &Arc<Context>,
    shutdown: &Shutdown,
    movers: &mut HashMap<i64, CancellationToken>,
    hours: &[(i64, u64)],
) {
    let now = posthorn_wiring::now();
    movers.retain(|hour, stop| {
        let empty = !hours.iter().any(|(held, _)| held == hour);
        let past = UnixMillis((hour + 1) * HOUR_MS) < now;
        if empty && past {
            stop.cancel();
        }
        !(empty && past)
    });
    for (hour, _) in hours {
        let opens = UnixMillis(hour * HOUR_MS);
        if now.until(opens) <= Broker::near() && !movers.contains_key(hour) {
            movers.insert(*hour, start(context.clone(), shutdown, *hour));
        }
    }
}

fn start(context: Arc<Context>, shutdown: &Shutdown, hour: i64) -> CancellationToken {
    let stop = shutdown.token().child_token();
    let permits = Arc::new(Semaphore::new(MOVES));
    let pump = context.broker.pump_far(hour, permits, MOVES, stop.clone());
    let tasks = shutdown.clone();
    tracing::debug!(hour, "moving an hour of the calendar");
    shutdown.spawn(pump.run(move |pumped| {
        tasks.spawn(handle(context.clone(), pumped));
    }));
    stop
}

async fn handle(context: Arc<Context>, pumped: Pumped) {
    let waiting = match Waiting::from_wire(pumped.message.payload()) {
        Ok(waiting) => waiting,
        Err(error) => return discard(&context, pumped, &error.to_string()).await,
    };
    let near = context.near();
    let left = posthorn_wiring::now().until(waiting.not_before());
    if left > near {
        let back = posthorn_wiring::now() + left.saturating_sub(near);
        return context.naks.put(pumped, back).await;
    }
    pumped
        .work(|message| async move {
            let moved: Result<(), BrokerError> = async {
                context.broker.move_near(&waiting).await?;
                message.ack().await
            }
            .await;
            if let Err(error) = moved {
                tracing::warn!(%error, "something could not be moved from the calendar yet");
                message.nak(Some(Duration::from_secs(1))).await;
            }
        })
        .await;
}

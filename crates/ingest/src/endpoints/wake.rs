//! Waking the lanes of an endpoint whose settings have changed.
//!
//! The owner of a lane that has nothing to do sleeps until it has, and looks at the settings
//! when it wakes. A new token is handed out at once, so that a pause that ends or a limit that
//! is raised is in force then and not at the next look.

use crate::app::App;
use posthorn_broker::BrokerError;
use posthorn_delivery::lane::{LaneId, keeps_lane};
use posthorn_delivery::{Endpoint, EndpointId};

/// What is known of the endpoint whose lanes are woken.
#[derive(Clone, Debug)]
pub(crate) struct Changed {
    id: EndpointId,
    keeps_lane: bool,
}

impl Changed {
    /// It was changed from one into the other.
    pub(crate) fn between(before: &Endpoint, after: &Endpoint) -> Changed {
        Changed {
            id: after.id.clone(),
            keeps_lane: keeps_lane(before) || keeps_lane(after),
        }
    }

    /// It was deleted.
    pub(crate) fn deleted(before: &Endpoint) -> Changed {
        Changed::between(before, before)
    }
}

/// Wakes the lanes of an endpoint, where they are active. A lane that cannot be woken is
/// logged: its owner looks again by itself, within a minute.
///
/// A caller that goes away cannot interrupt it: between the two steps a lane has no token.
pub(crate) async fn wake(app: &App, changed: Changed) {
    let app = app.clone();
    let waking = tokio::spawn(async move {
        let (live, replay) = (LaneId::live(&changed.id), LaneId::replay(&changed.id));
        tokio::join!(
            wake_lane(&app, &live, changed.keeps_lane),
            wake_lane(&app, &replay, false),
        );
    });
    if let Err(error) = waking.await {
        let error = &error as &dyn std::error::Error;
        tracing::error!(error, "waking the lanes of an endpoint ended early");
    }
}

async fn wake_lane(app: &App, lane: &LaneId, always: bool) {
    if !always && !is_active(app, lane).await {
        return;
    }
    match app.lanes.renew_token(lane).await {
        Ok(()) => tracing::debug!(%lane, "lane woken"),
        Err(error) => warn(
            lane,
            &error,
            "a lane was not woken; it looks again by itself",
        ),
    }
}

/// Whether a lane is active. One of which that cannot be said is woken: a token too many costs
/// one look, one too few a minute.
async fn is_active(app: &App, lane: &LaneId) -> bool {
    match app.lane_states.get(&lane.key()).await {
        Ok(state) => state.is_some(),
        Err(error) => {
            warn(lane, &error, "whether a lane is active is not known");
            true
        }
    }
}

fn warn(lane: &LaneId, error: &BrokerError, what: &str) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(%lane, error, "{what}");
}

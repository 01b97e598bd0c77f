//! The line: settings, and the product's values that its decisions are asked with.

use crate::breaker::{Breaker, NOW, TICK, after, message_id};
use crate::key::{Key, hold_until};
use crate::parcel::Parcel;
use crate::settings::{Flaw, Settings};
use crate::state::State;
use crate::templates::{self, Templates};
use posthorn_delivery::admission::{Admission, gate};
use posthorn_delivery::breaker::{Attempted, observe};
use posthorn_delivery::lane::{Stand, stand};
use posthorn_delivery::{BreakerSignal, Endpoint, LaneReason, LaneState, Tenant, UnixMillis};

/// The line with one endpoint.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its bounds.
    pub settings: Settings,
    tenant: Tenant,
    endpoint: Endpoint,
    /// For what only the product's values can be asked.
    pub templates: Templates,
}

impl Line {
    /// The line within `settings`.
    #[must_use]
    pub fn new(settings: Settings) -> Line {
        Line {
            settings,
            tenant: templates::tenant(),
            endpoint: templates::endpoint(&settings),
            templates: Templates::new(),
        }
    }

    /// Whether the protocol is broken in this way.
    #[must_use]
    pub fn has(&self, flaw: Flaw) -> bool {
        self.settings.flaw == Some(flaw)
    }

    /// How the endpoint stands to whoever sees `breaker`.
    #[must_use]
    pub fn stand(&self, breaker: Breaker) -> Stand {
        stand(Some(&self.endpoint), &breaker.state(), NOW)
    }

    /// Whether `parcel` may be sent, to whoever sees `breaker`.
    #[must_use]
    pub fn gate(&self, breaker: Breaker, parcel: Parcel) -> Admission {
        let id = message_id(parcel.event, parcel.hop);
        gate(
            &breaker.state(),
            self.endpoint.breaker.as_ref(),
            &id,
            TICK,
            NOW,
        )
    }

    /// The breaker after it was told, if that moves it.
    #[must_use]
    pub fn observe(
        &self,
        breaker: Breaker,
        generation: u8,
        probe: bool,
        good: bool,
    ) -> Option<Breaker> {
        let told = Attempted {
            generation: u64::from(generation),
            probe,
            signal: match good {
                true => BreakerSignal::Success,
                false => BreakerSignal::Failure,
            },
            count: 1,
            hold_until: None,
        };
        let moved = observe(&breaker.state(), self.endpoint.breaker.as_ref(), told, NOW)?;
        Some(Breaker::of(&moved))
    }

    /// Creates the key, unless there is one.
    pub fn create_key(&self, state: &mut State, reason: LaneReason, wait: u8) {
        if state.key.key.is_none() {
            let opened = self.opened(state, reason, wait);
            state.write_key(Some(Key::of(&opened)));
        }
    }

    /// The key of a lane that is opened now.
    #[must_use]
    pub fn opened(&self, state: &State, reason: LaneReason, wait: u8) -> LaneState {
        let clock = UnixMillis(i64::from(state.next_epoch()));
        LaneState::open(&self.tenant, reason, hold_until(wait), clock)
    }

    /// The key after its token was taken.
    #[must_use]
    pub fn taken(&self, key: Key) -> Key {
        Key::of(&key.state(&self.tenant).taken())
    }

    /// The key under another reason, if that is to be told.
    #[must_use]
    pub fn moved(&self, key: Key, reason: LaneReason, wait: u8) -> Option<Key> {
        let until = match wait {
            0 => UnixMillis(0),
            ticks => after(ticks),
        };
        let moved = key.state(&self.tenant).moved(reason, until)?;
        Some(Key::of(&moved))
    }
}

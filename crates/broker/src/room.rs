//! What waits in RETRIES, and where in it.

use crate::names::{Names, hour_of};
use posthorn_delivery::{Delivery, Event, MessageId, UnixMillis};
use std::time::Duration;

/// Something that waits for a time.
#[derive(Clone, Debug, PartialEq)]
pub enum Waiting {
    /// A delivery to be released.
    Delivery(Box<Delivery>),
    /// An event to be fanned out: `Deliver-At`. The sequence is its place in EVENTS.
    Event(Box<Event>, u64),
}

/// What is due within this time waits on the durable itself; the rest in the calendar, where
/// a million cost next to nothing.
pub const NEAR: Duration = Duration::from_secs(300);
/// While the durable is full, only what is due within this time.
pub const NEAR_WHEN_FULL: Duration = Duration::from_secs(30);

impl Waiting {
    /// Not before when.
    #[must_use]
    pub fn not_before(&self) -> UnixMillis {
        match self {
            Waiting::Delivery(delivery) => delivery.not_before,
            Waiting::Event(event, _) => event.deliver_at.unwrap_or(event.accepted_at),
        }
    }

    /// The deduplication id of its message; `moved` for one that came from the calendar to
    /// the durable, which is a second message about the same thing.
    #[must_use]
    pub fn message_id(&self, moved: bool) -> MessageId {
        let domain = if moved { "waiting-moved" } else { "waiting" };
        match self {
            Waiting::Delivery(delivery) if !moved => delivery.message_id(),
            Waiting::Delivery(delivery) => {
                MessageId::of(domain, &[delivery.message_id().as_str().as_bytes()])
            }
            Waiting::Event(event, sequence) => MessageId::of(
                domain,
                &[event.id.as_str().as_bytes(), &sequence.to_be_bytes()],
            ),
        }
    }

    /// Where it waits: on the durable when it is due within `near`, else in the calendar.
    pub(crate) fn subject(&self, names: &Names, near: Duration, now: UnixMillis) -> String {
        let not_before = self.not_before();
        if now.until(not_before) <= near {
            return names.retry_near();
        }
        names.retry_far(hour_of(not_before))
    }
}

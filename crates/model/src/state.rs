//! One moment of the line: streams, buckets, and what every process has in its memory.

use crate::breaker::Breaker;
use crate::key::{Key, Lane};
use crate::parcel::{Parcel, Parcels};
use crate::settings::Mishaps;
use crate::story::Story;

/// The most events that a state has room for.
pub const EVENTS: usize = 3;
/// The most copies of a service that a state has room for.
pub const COPIES: usize = 2;

/// One moment of the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// The events.
    pub stories: [Story; EVENTS],
    /// DELIVERIES, in no particular order.
    pub deliveries: Parcels,
    /// RETRIES, in no particular order.
    pub retries: Parcels,
    /// LANES, from the head.
    pub lane: Parcels,
    /// The lane's key.
    pub key: Lane,
    /// The lane's token.
    pub token: Token,
    /// The breaker.
    pub breaker: Breaker,
    /// The breaker before its last change.
    pub old_breaker: Breaker,
    /// Schedulers.
    pub schedulers: [Scheduler; COPIES],
    /// Dispatchers.
    pub dispatchers: [Work; COPIES],
    /// What may still go wrong.
    pub left: Mishaps,
    /// A request was made while an earlier event was undecided.
    pub overtaken: bool,
}

/// The token of the lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Token {
    /// There is none.
    #[default]
    None,
    /// It waits to be handed out.
    Waiting {
        /// In so many ticks.
        rest: u8,
        /// It was never handed out before.
        fresh: bool,
    },
    /// The last one to whom it was handed out.
    Held(u8),
}

/// A scheduler: fan-out and release in one thread, the owner of the lane in another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scheduler {
    /// What it makes of an event or a retry.
    pub work: Work,
    /// What it makes of the token.
    pub own: Own,
}

/// What a thread is about to do with one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Nothing.
    #[default]
    Idle,
    /// Put it into the lane.
    Park {
        /// As it will lie there.
        parcel: Parcel,
        /// To be acked.
        input: Input,
        /// What comes next.
        step: Step,
    },
    /// Store this although its input is acked already: only where the protocol is broken.
    Late(Parcel),
    /// Ack, the successor is stored.
    Ack(Input),
    /// The request is out.
    InFlight {
        /// Which.
        parcel: Parcel,
        /// The generation it started under.
        generation: u8,
        /// It is the probe.
        probe: bool,
    },
    /// The record is written; the breaker is told.
    Tell {
        /// Which.
        parcel: Parcel,
        /// What was decided.
        fate: Fate,
        /// The generation it started under.
        generation: u8,
        /// It is the probe.
        probe: bool,
    },
    /// What was decided is carried out.
    CarryOut {
        /// Which.
        parcel: Parcel,
        /// What was decided.
        fate: Fate,
    },
}

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Input {
    /// An event of EVENTS.
    Event(u8),
    /// A delivery of RETRIES.
    Retry(Parcel),
    /// A delivery of DELIVERIES.
    Delivery(Parcel),
}

/// The steps of parking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Append the delivery.
    Append,
    /// Put the token.
    Token,
}

/// What was decided about a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// Delivered.
    Complete,
    /// Attempted again.
    Retry,
    /// Given up.
    Dead,
}

/// What a scheduler makes of the token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Own {
    /// It has none.
    #[default]
    Idle,
    /// The lane needs a new token: remove the one that it has.
    Renew,
    /// Put a token.
    Put,
    /// It owns the lane, or believes so.
    Lead(Lead),
}

/// The owner of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lead {
    /// Its number, and since when the lane that it owns is active.
    pub me: (u8, u8),
    /// The token in the stream is the message that it was handed.
    pub live: bool,
    /// Somebody wrote the key since it read or wrote it: a compare-and-swap will fail.
    pub lost: bool,
    /// It let a probe go, and the breaker has not moved since.
    pub probed: bool,
    /// What it is about to do.
    pub next: Next,
}

/// What an owner is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Next {
    /// Look at everything and decide.
    Look,
    /// Publish this.
    Publish(Parcel),
    /// Take everything up to this out of the lane.
    Purge(Parcel),
    /// Delete the key: the lane was empty.
    Delete,
    /// Look again: this key is deleted.
    LookAgain(Key),
    /// Ack the token: the lane was empty.
    AckToken,
    /// Look a last time: the token is acked.
    LookLast,
}

impl State {
    /// Calls `with` for every copy of a delivery, on streams and in memory.
    pub fn each_parcel(&mut self, with: &mut impl FnMut(&mut Parcel)) {
        self.deliveries
            .as_mut_slice()
            .iter_mut()
            .for_each(&mut *with);
        self.retries.as_mut_slice().iter_mut().for_each(&mut *with);
        self.lane.as_mut_slice().iter_mut().for_each(&mut *with);
        for scheduler in &mut self.schedulers {
            scheduler.work.each_parcel(with);
            if let Own::Lead(lead) = &mut scheduler.own
                && let Next::Publish(parcel) | Next::Purge(parcel) = &mut lead.next
            {
                with(parcel);
            }
        }
        for work in &mut self.dispatchers {
            work.each_parcel(with);
        }
    }
}

impl Work {
    fn each_parcel(&mut self, with: &mut impl FnMut(&mut Parcel)) {
        match self {
            Work::Idle => {}
            Work::Park { parcel, input, .. } => {
                with(parcel);
                input.each_parcel(with);
            }
            Work::Ack(input) => input.each_parcel(with),
            Work::Late(parcel)
            | Work::InFlight { parcel, .. }
            | Work::Tell { parcel, .. }
            | Work::CarryOut { parcel, .. } => with(parcel),
        }
    }

    /// The message that it holds.
    #[must_use]
    pub fn input(&self) -> Option<Input> {
        match self {
            Work::Idle | Work::Late(_) => None,
            Work::Park { input, .. } | Work::Ack(input) => Some(*input),
            Work::InFlight { parcel, .. }
            | Work::Tell { parcel, .. }
            | Work::CarryOut { parcel, .. } => Some(Input::Delivery(*parcel)),
        }
    }
}

impl Input {
    fn each_parcel(&mut self, with: &mut impl FnMut(&mut Parcel)) {
        if let Input::Retry(parcel) | Input::Delivery(parcel) = self {
            with(parcel);
        }
    }
}

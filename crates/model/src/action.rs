//! What can happen.

use crate::dispatch::Behind;
use crate::owner::Sees;

/// One step: what is done, and how it ends for whoever does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// What is done.
    pub deed: Deed,
    /// How it ends.
    pub end: End,
}

/// How a step ends. An ack comes with the write before it: nobody can tell whether it comes at
/// once or a little later, only whether it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Well.
    Well,
    /// The ack that belongs to it is lost, and the message comes again.
    AckLost,
    /// The process is killed before the ack that belongs to it.
    Killed,
    /// A dispatcher is killed so many writes after the record.
    KilledAfter(u8),
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A scheduler takes an event and makes its first write.
    FanOut {
        /// Which scheduler.
        who: usize,
        /// Which event.
        event: u8,
        /// It does not see yet what the lane has become.
        behind: bool,
    },
    /// A scheduler takes a retry and makes its first write.
    Release {
        /// Which scheduler.
        who: usize,
        /// Which message of RETRIES.
        at: usize,
        /// It does not see yet what the lane has become.
        behind: bool,
    },
    /// A scheduler makes its next write of what it took.
    GoOn(usize),
    /// A scheduler is handed the token.
    TakeToken(usize),
    /// A scheduler does the next thing about the token.
    Own(usize, Sees),
    /// A scheduler gives a token to the lane that has none.
    Sweep,
    /// A dispatcher takes a delivery and decides.
    Take {
        /// Which dispatcher.
        who: usize,
        /// Which message of DELIVERIES.
        at: usize,
        /// In what it is behind.
        behind: Behind,
    },
    /// The endpoint answers a dispatcher, which records it.
    Answer {
        /// Which dispatcher.
        who: usize,
        /// It answers well.
        good: bool,
    },
    /// A dispatcher makes its next write.
    Settle(usize),
    /// What was waited for is due.
    Tick,
    /// A scheduler is killed.
    KillScheduler(usize),
    /// A dispatcher is killed.
    KillDispatcher(usize),
    /// The token is handed out again while its holder lives.
    Expire,
    /// The broker forgets ids.
    Forget,
}

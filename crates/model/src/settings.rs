//! What is explored: how many of everything, and how much may go wrong in one run.

/// Bounds of one exploration.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What it is called in the log.
    pub name: &'static str,
    /// Copies of the scheduler.
    pub schedulers: usize,
    /// Copies of the dispatcher.
    pub dispatchers: usize,
    /// Events, each owed to the one endpoint; at most [`crate::state::EVENTS`].
    pub events: usize,
    /// The endpoint gets its deliveries in order.
    pub ordered: bool,
    /// Deliveries that an owner may have on their way.
    pub cap: usize,
    /// Attempts before a delivery dies.
    pub attempts: u8,
    /// The endpoint's breaker opens after one failure; without it there is no breaker.
    pub breaker: bool,
    /// Each write is a step of its own. Without it, writes that nobody else can tell apart
    /// from later ones are one step, which may end after each of them by a crash.
    pub each_write: bool,
    /// When schedulers give a token to a lane that has none.
    pub sweep: Sweep,
    /// Whether it is also asked from every state that is reached if everything comes to rest
    /// when nothing more goes wrong.
    pub settles: bool,
    /// What may go wrong.
    pub mishaps: Mishaps,
    /// What is wrong with the protocol.
    pub flaw: Option<Flaw>,
}

/// When a sweep finds a lane without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Never: whoever takes a token away has to see to it himself.
    Never,
    /// When nothing else is left to happen.
    AtRest,
    /// At any time.
    Always,
}

/// How often each kind of mishap may happen in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mishaps {
    /// Processes killed.
    pub crashes: u8,
    /// Requests that the endpoint answers with a failure.
    pub failures: u8,
    /// Decisions taken on an old view of a bucket, or by a clock that is behind.
    pub lags: u8,
    /// Tokens handed out again while their holder lives.
    pub expiries: u8,
    /// Times that the broker forgets which message ids it has seen in its work queues.
    pub forgets: u8,
}

/// A protocol that is broken on purpose, to see that the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The input is acked before its successor is stored.
    AckBeforePublish,
    /// The token is put before the delivery is appended.
    TokenBeforeAppend,
    /// A lane is closed without a look after its token was acked.
    NoLookAfterAck,
    /// A token that finds neither key nor delivery is acked without a look after that.
    NoLookAfterIdleToken,
    /// The probe is claimed by a plain write.
    ClaimByPlainWrite,
    /// An owner knows itself by its number alone, which begins anew with every lane.
    OwnerByNumber,
    /// After a probe was let go, only a change of the breaker lets another go.
    ProbeUntilBreakerMoves,
    /// What is in order and may not be sent is parked a second time.
    ParkInOrder,
    /// An ordered lane lets go the next without waiting for the record.
    NextBeforeRecord,
    /// An ordered lane takes its lowest event although an earlier one may still be on its way.
    IgnoreAckFloor,
}

//! What the gate explores.

use crate::settings::{Mishaps, Settings, Sweep};

/// An endpoint whose deliveries need no order, with a breaker that opens at once.
#[must_use]
pub fn unordered() -> Settings {
    Settings {
        name: "unordered",
        schedulers: 2,
        dispatchers: 2,
        events: 3,
        ordered: false,
        cap: 1,
        attempts: 3,
        breaker: true,
        each_write: false,
        sweep: Sweep::AtRest,
        settles: false,
        mishaps: Mishaps {
            crashes: 2,
            failures: 1,
            lags: 0,
            expiries: 0,
            forgets: 0,
        },
        flaw: None,
    }
}

/// An endpoint that gets its deliveries in order.
#[must_use]
pub fn ordered() -> Settings {
    Settings {
        name: "ordered",
        ordered: true,
        mishaps: Mishaps {
            lags: 1,
            ..unordered().mishaps
        },
        ..unordered()
    }
}

/// Sweeps come at any time.
#[must_use]
pub fn sweeping() -> Settings {
    Settings {
        name: "sweeping",
        events: 2,
        each_write: true,
        sweep: Sweep::Always,
        mishaps: Mishaps {
            crashes: 1,
            ..unordered().mishaps
        },
        ..unordered()
    }
}

/// Lanes are closed while others append, and nobody sweeps after them. Nobody is killed: that
/// may strand a lane.
#[must_use]
pub fn closing() -> Settings {
    Settings {
        name: "closing",
        each_write: true,
        sweep: Sweep::Never,
        mishaps: Mishaps {
            failures: 1,
            lags: 1,
            ..Mishaps::default()
        },
        ..unordered()
    }
}

/// Tokens are handed out again while their holders live.
#[must_use]
pub fn takeover() -> Settings {
    Settings {
        name: "takeover",
        events: 2,
        each_write: true,
        mishaps: Mishaps {
            failures: 1,
            lags: 1,
            expiries: 2,
            ..Mishaps::default()
        },
        ..unordered()
    }
}

/// The same with an order to keep, while the broker forgets ids.
#[must_use]
pub fn ordered_takeover() -> Settings {
    Settings {
        name: "ordered takeover",
        ordered: true,
        mishaps: Mishaps {
            failures: 1,
            lags: 1,
            expiries: 2,
            forgets: 1,
            ..Mishaps::default()
        },
        ..takeover()
    }
}

/// From everywhere everything comes to rest.
#[must_use]
pub fn settling() -> Settings {
    Settings {
        name: "settling",
        events: 2,
        settles: true,
        mishaps: Mishaps {
            crashes: 1,
            ..unordered().mishaps
        },
        ..unordered()
    }
}

/// The same with an order to keep.
#[must_use]
pub fn ordered_settling() -> Settings {
    Settings {
        name: "ordered settling",
        ordered: true,
        settles: true,
        ..unordered()
    }
}

/// All that the gate explores.
#[must_use]
pub fn gate() -> Vec<Settings> {
    vec![
        closing(),
        settling(),
        ordered_settling(),
        sweeping(),
        takeover(),
        ordered_takeover(),
        ordered(),
        unordered(),
    ]
}

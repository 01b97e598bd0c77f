//! What the broker remembers of one event.

/// One event: where it stands, and which ids of its successors the broker has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Story {
    /// It is in EVENTS.
    pub waiting: bool,
    /// A record says that it was delivered.
    pub complete: bool,
    /// A record says that it was given up.
    pub dead: bool,
    /// Its dead letter is stored.
    pub letter: bool,
    /// Ids that DELIVERIES has seen, a bit for each hop.
    pub sent: u16,
    /// Ids that LANES has seen.
    pub laned: u16,
    /// Ids that RETRIES has seen.
    pub retried: u16,
    /// Records in ATTEMPTS that say retry.
    pub again: u16,
    /// Records in ATTEMPTS that say complete or dead.
    pub ended: u16,
    /// Ticks until the retry of the latest record.
    pub due: u8,
    /// The latest record.
    pub last: Record,
}

/// What a record tells the breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// Of which hop, and one more; 0 when there is none.
    pub hop_and_one: u8,
    /// The breaker's generation that the attempt started under.
    pub generation: u8,
    /// It was the probe.
    pub probe: bool,
}

/// A delivery that walks so far while its oldest copy is about walks for ever.
pub const FARTHEST: u8 = 14;

/// The bit of one hop.
#[must_use]
pub fn bit(hop: u8) -> u16 {
    1 << hop.min(15)
}

impl Story {
    /// Whether a record says how it ended.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.complete || self.dead
    }

    /// Whether it ended, and nothing more is owed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.complete || self.letter
    }

    /// What is left of it once no copy is about.
    #[must_use]
    pub fn closed(&self) -> Story {
        Story {
            complete: self.complete,
            dead: self.dead,
            letter: self.letter,
            ..Story::default()
        }
    }

    /// The same with all hops counted from `base`. Nobody will publish what is not above it,
    /// so what was seen of that does not matter.
    #[must_use]
    pub fn rebased(&self, base: u8) -> Story {
        let seen = |bits: u16| (bits >> base) & !1;
        Story {
            sent: seen(self.sent),
            laned: seen(self.laned),
            retried: seen(self.retried),
            again: self.again >> base,
            ended: self.ended >> base,
            last: self.last.rebased(base),
            ..*self
        }
    }
}

impl Record {
    fn rebased(self, base: u8) -> Record {
        if self.hop_and_one <= base {
            return Record::default();
        }
        Record {
            hop_and_one: self.hop_and_one - base,
            ..self
        }
    }
}

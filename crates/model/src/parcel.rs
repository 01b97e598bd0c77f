//! What walks: one message on a stream, and short lists of them without an allocation.

use std::fmt;
use std::hash::{Hash, Hasher};

/// A delivery as a message. Two with the same event and hop have the same message id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parcel {
    /// Whose event, by number; its sequence in EVENTS is one more.
    pub event: u8,
    /// One more in every successor. Counted from the oldest copy that is still about.
    pub hop: u8,
    /// Number of the next attempt, from 1.
    pub attempt: u8,
    /// The lane epoch that it was let go under; 0 when it was not.
    pub epoch: u8,
    /// It stays in its lane, and its owner times its retries.
    pub in_order: bool,
    /// Ticks until it may be sent.
    pub due: u8,
}

impl Parcel {
    /// Whether both have the same message id.
    #[must_use]
    pub fn is(self, other: Parcel) -> bool {
        self.event == other.event && self.hop == other.hop
    }

    /// The successor for the next stream.
    #[must_use]
    pub fn next_hop(self) -> Parcel {
        Parcel {
            hop: self.hop + 1,
            ..self
        }
    }

    /// As it lies in a lane: whoever let it go before no longer counts.
    #[must_use]
    pub fn parked(self) -> Parcel {
        Parcel {
            epoch: 0,
            in_order: false,
            due: 0,
            ..self.next_hop()
        }
    }

    /// All of it in one number.
    #[must_use]
    pub fn packed(self) -> u64 {
        let bytes = [
            self.event,
            self.hop,
            self.attempt,
            self.epoch,
            u8::from(self.in_order),
            self.due,
            0,
            1,
        ];
        u64::from_le_bytes(bytes)
    }
}

impl Hash for Parcel {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.packed());
    }
}

/// At most eight parcels, in order.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parcels {
    items: [Parcel; MOST],
    len: u8,
}

const MOST: usize = 8;

impl Parcels {
    /// Appends one.
    ///
    /// # Panics
    /// When there are eight already: then the model is set up wider than it was built for.
    pub fn push(&mut self, parcel: Parcel) {
        let at = usize::from(self.len);
        assert!(at < MOST, "more copies than the model has room for");
        self.items[at] = parcel;
        self.len += 1;
    }

    /// Takes out what lies at `at`.
    pub fn remove(&mut self, at: usize) {
        let len = usize::from(self.len);
        self.items.copy_within(at + 1..len, at);
        self.items[len - 1] = Parcel::default();
        self.len -= 1;
    }

    /// Where the parcel with the id of `parcel` is.
    #[must_use]
    pub fn find(&self, parcel: Parcel) -> Option<usize> {
        self.as_slice().iter().position(|other| other.is(parcel))
    }

    /// In order.
    #[must_use]
    pub fn as_slice(&self) -> &[Parcel] {
        &self.items[..usize::from(self.len)]
    }

    /// In order, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [Parcel] {
        &mut self.items[..usize::from(self.len)]
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Hash for Parcels {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u8(self.len);
        for parcel in self.as_slice() {
            parcel.hash(hasher);
        }
    }
}

impl fmt::Debug for Parcels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

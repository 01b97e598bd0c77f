//! The register of dead letters: one small entry for each death, by which letters are found.
//!
//! A letter lies under its own id and holds the payload, so a search among a million of them
//! would read gigabytes. An entry holds what can be asked for and nothing else, and entries lie
//! in the order of the deaths under tenant, endpoint and reason. An entry is a hint: the letter
//! names the one entry that is its own, so an entry that a crash, a purge or a limit left behind
//! is told from a good one by looking at the letter.

use crate::attempt::AttemptResult;
use crate::ids::{EndpointId, LetterId};
use crate::letter::{DeadLetter, LetterState, Reason};
use crate::time::UnixMillis;

/// The most bytes of an answer, and of a detail, that are kept to be searched.
pub const MAX_EXCERPT: usize = 256;

/// One death of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetterEntry {
    /// Whose death.
    pub letter: LetterId,
    /// Whose event; as in [`DeadLetter`] any text.
    pub tenant: String,
    /// The event's type.
    pub event_type: String,
    /// To which endpoint; `None` when it never came to one.
    pub endpoint_id: Option<EndpointId>,
    /// Why.
    pub reason: Reason,
    /// Why, in words; at most [`MAX_EXCERPT`] bytes.
    pub detail: String,
    /// When.
    pub died_at: UnixMillis,
    /// What its last attempt came to.
    pub last: Option<AttemptResult>,
    /// The beginning of the last answer, at most [`MAX_EXCERPT`] bytes.
    pub answer: String,
    /// How many bytes its payload has.
    pub payload_bytes: u64,
}

impl LetterEntry {
    /// The entry of a letter that lies dead.
    #[must_use]
    pub fn of(letter: &DeadLetter) -> LetterEntry {
        LetterEntry {
            letter: letter.id.clone(),
            tenant: letter.tenant.clone(),
            event_type: letter.event_type.clone(),
            endpoint_id: letter.endpoint_id.clone(),
            reason: letter.reason,
            detail: excerpt(letter.detail.as_bytes()),
            died_at: letter.died_at,
            last: letter.history.last().map(|attempt| attempt.result),
            answer: letter.answer.clone(),
            payload_bytes: u64::try_from(letter.payload.len()).unwrap_or(u64::MAX),
        }
    }

    /// Whether this entry, which lies at `sequence`, is the one of `letter` as it is now. One of
    /// an earlier death, or of a letter whose replay was delivered, is not.
    #[must_use]
    pub fn is_of(&self, sequence: u64, letter: &DeadLetter) -> bool {
        letter.id == self.letter
            && letter.entry == sequence
            && letter.state != LetterState::Delivered
    }
}

/// The beginning of bytes as text: at most [`MAX_EXCERPT`] bytes, and what is no text replaced.
#[must_use]
pub fn excerpt(bytes: &[u8]) -> String {
    let begin = bytes.get(..MAX_EXCERPT).unwrap_or(bytes);
    let mut text = String::from_utf8_lossy(begin).into_owned();
    // Replacements are longer than what they stand for.
    let mut end = text.len().min(MAX_EXCERPT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::delivery;
    use proptest::prelude::*;

    fn letter() -> DeadLetter {
        DeadLetter {
            entry: 9,
            ..DeadLetter::of(&delivery(), Reason::Exhausted, UnixMillis(7))
        }
    }

    #[test]
    fn a_letter_has_one_entry_at_a_time() {
        let entry = LetterEntry::of(&letter());
        assert!(entry.is_of(9, &letter()));
        assert!(!entry.is_of(8, &letter()), "an earlier death");
        for (state, listed) in [
            (LetterState::Replaying, true),
            (LetterState::Delivered, false),
        ] {
            let now = DeadLetter { state, ..letter() };
            assert_eq!(entry.is_of(9, &now), listed);
        }
        let other = LetterEntry {
            letter: LetterId::of_unreadable("events", 1, 1),
            ..entry
        };
        assert!(!other.is_of(9, &letter()), "the stream was made anew");
    }

    #[test]
    fn an_excerpt_is_cut_where_a_character_ends() {
        assert_eq!(excerpt(b"no"), "no");
        assert_eq!(excerpt("ä".repeat(200).as_bytes()).len(), MAX_EXCERPT);
        let odd = format!("a{}", "ä".repeat(200));
        assert_eq!(excerpt(odd.as_bytes()).len(), MAX_EXCERPT - 1);
    }

    proptest! {
        #[test]
        fn an_excerpt_of_anything_is_short_text(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(excerpt(&bytes).len() <= MAX_EXCERPT);
        }
    }
}

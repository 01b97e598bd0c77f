//! What the letter of an event says about recovering it.

use posthorn_broker::Logged;
use posthorn_delivery::{DeadLetter, LetterState};

/// How an event that log and lanes leave open is dealt with.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It died: its letter is replayed, under the id of that death like any other replay, so
    /// that it leaves the list when it is delivered.
    Letter(Box<Logged<DeadLetter>>),
    /// It is sent from the archive. There may be a letter of an earlier life.
    Event(Option<Box<DeadLetter>>),
    /// This job has sent it already.
    Sent,
    /// Somebody else's replay of it has been delivered.
    Delivered,
    /// Somebody else's replay of it is on its way.
    UnderWay,
}

/// Decides for the job `job`.
#[must_use]
pub fn outcome(letter: Option<Logged<DeadLetter>>, job: &str, include_delivered: bool) -> Outcome {
    let Some(letter) = letter else {
        return Outcome::Event(None);
    };
    if letter.value.replay_id == job {
        return Outcome::Sent;
    }
    match letter.value.state {
        LetterState::Dead => Outcome::Letter(Box::new(letter)),
        LetterState::Replaying => Outcome::UnderWay,
        LetterState::Delivered if include_delivered => Outcome::Event(Some(Box::new(letter.value))),
        LetterState::Delivered => Outcome::Delivered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::letter;
    use posthorn_delivery::UnixMillis;

    fn logged(state: LetterState, replay_id: &str) -> Option<Logged<DeadLetter>> {
        Some(Logged {
            sequence: 3,
            subject: String::new(),
            stored_at: UnixMillis(0),
            value: DeadLetter {
                state,
                replay_id: replay_id.to_owned(),
                ..letter("acme", 1, 5)
            },
        })
    }

    #[test]
    fn dlq_02_a_letter_of_the_job_itself_was_sent_by_it_whatever_became_of_it() {
        for state in [
            LetterState::Dead,
            LetterState::Replaying,
            LetterState::Delivered,
        ] {
            for again in [false, true] {
                let found = outcome(logged(state, "rpl_1"), "rpl_1", again);
                assert_eq!(found, Outcome::Sent, "{state:?}");
            }
        }
    }

    #[test]
    fn what_is_dead_goes_by_its_letter_and_what_has_none_by_the_archive() {
        let dead = outcome(logged(LetterState::Dead, "rpl_0"), "rpl_1", false);
        assert!(matches!(dead, Outcome::Letter(found) if found.sequence == 3));
        assert_eq!(outcome(None, "rpl_1", false), Outcome::Event(None));
    }

    #[test]
    fn what_another_replay_has_sent_is_left_to_it() {
        for again in [false, true] {
            let replaying = logged(LetterState::Replaying, "rpl_0");
            assert_eq!(outcome(replaying, "rpl_1", again), Outcome::UnderWay);
        }
        let delivered = || logged(LetterState::Delivered, "rpl_0");
        assert_eq!(outcome(delivered(), "rpl_1", false), Outcome::Delivered);
        let again = outcome(delivered(), "rpl_1", true);
        assert!(matches!(again, Outcome::Event(Some(_))));
    }
}

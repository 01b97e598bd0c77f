//! Sending one dead letter again: nothing lost, nothing twice.
//!
//! The delivery is published first and the letter marked second. Between the two a crash
//! leaves a letter that still says dead while its delivery is on the way; the other order
//! would leave one that says it is on its way while nothing is. What makes the repeat
//! harmless is the generation: it is made of the letter's own position, so two operators, a
//! job, and a request repeated after a crash all derive the same message id for the same
//! death, and the broker keeps one. A letter that dies again has a new position, hence a new
//! generation: the third and the fourth replay are sent like the first.

use posthorn_broker::{BrokerError, Logged};
use posthorn_delivery::ids::hash128;
use posthorn_delivery::letter::ReplayWindow;
use posthorn_delivery::replay::replay_generation;
use posthorn_delivery::{DeadLetter, Delivery, LetterId, LetterState, MessageId, UnixMillis};
use std::future::Future;
use std::time::Duration;

/// What happened to a published delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The broker had it already, and certainly not from this call.
    pub by_another: bool,
}

/// Where letters are kept and deliveries are handed in. The real one is the broker; a test
/// has one that fails at any chosen step.
pub trait Desk: Sync {
    /// How long a replayed delivery of this letter may live; `None` when its endpoint is gone.
    fn max_age(&self, letter: &DeadLetter) -> Option<Duration>;

    /// Hands in a delivery under its own message id. A lane that it opens goes at this rate;
    /// 0 is as fast as the endpoint permits.
    fn publish(
        &self,
        delivery: Delivery,
        rate_per_second: u32,
    ) -> impl Future<Output = Result<Published, BrokerError>> + Send;

    /// Writes a letter over the one at `expected`; [`BrokerError::Conflict`] when there is
    /// another by now.
    fn mark(
        &self,
        letter: &DeadLetter,
        id: &MessageId,
        expected: u64,
    ) -> impl Future<Output = Result<(), BrokerError>> + Send;

    /// The letter as it is now.
    fn letter(
        &self,
        of: &DeadLetter,
    ) -> impl Future<Output = Result<Option<Logged<DeadLetter>>, BrokerError>> + Send;
}

/// A request to send a letter again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The request's or the job's id.
    pub id: String,
    /// When it is carried out.
    pub now: UnixMillis,
    /// The earliest time of the first attempt.
    pub not_before: UnixMillis,
    /// Letters a second that the endpoint gets of the job; 0 where there is no job.
    pub rate_per_second: u32,
}

impl Request {
    /// A request for the letter at this position, to be sent at once. Its id belongs to the
    /// position: of two operators who ask at the same moment both mean this one replay.
    #[must_use]
    pub fn single(letter: &LetterId, sequence: u64, now: UnixMillis) -> Request {
        let parts: [&[u8]; 2] = [letter.as_str().as_bytes(), &sequence.to_be_bytes()];
        Request {
            id: format!("rpl_{:032x}", hash128("replay-request", &parts)),
            now,
            not_before: now,
            rate_per_second: 0,
        }
    }
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its delivery is on its way, and the letter says so.
    Sent,
    /// Its delivery had been handed in before, and the letter, which did not say so, now
    /// carries this request's id: the end of a request that was cut off half-way.
    Mended,
    /// Somebody else has replayed it at the same moment.
    Elsewhere,
    /// It does not wait for an operator: a replay is on its way, or has been delivered.
    NotDead,
    /// Its endpoint is gone.
    EndpointDeleted,
    /// It never was a delivery.
    NeverADelivery,
    /// Its payload did not fit into the letter: an empty body would be sent in its place.
    PayloadLost,
}

/// A replay that the broker did not let come to its end.
#[derive(Debug, thiserror::Error)]
#[error("the replay could not be completed")]
pub struct ReplayError {
    /// Whether the delivery is on its way nevertheless.
    pub sent: bool,
    /// What failed.
    #[source]
    pub source: BrokerError,
}

/// Sends `letter` again. May be repeated after any failure.
///
/// # Errors
/// [`ReplayError`] says whether the delivery has been handed in.
pub async fn replay_one<D: Desk>(
    desk: &D,
    letter: &Logged<DeadLetter>,
    request: &Request,
) -> Result<Verdict, ReplayError> {
    if letter.value.state != LetterState::Dead {
        return Ok(Verdict::NotDead);
    }
    if letter.value.endpoint_id.is_none() {
        return Ok(Verdict::NeverADelivery);
    }
    if has_lost_payload(&letter.value) {
        return Ok(Verdict::PayloadLost);
    }
    let Some(max_age) = desk.max_age(&letter.value) else {
        return Ok(Verdict::EndpointDeleted);
    };
    let generation = generation(letter);
    let window = ReplayWindow {
        not_before: request.not_before,
        expires_at: request.not_before.max(request.now) + max_age,
    };
    let Some(delivery) = letter.value.replay(generation, &request.id, window) else {
        return Ok(Verdict::NeverADelivery);
    };
    let published = desk.publish(delivery, request.rate_per_second).await;
    let published = published.map_err(|source| failed(false, source))?;
    mark(desk, letter, generation, request, published).await
}

/// A letter without its payload says so in its detail; an event that had none says nothing.
fn has_lost_payload(letter: &DeadLetter) -> bool {
    letter.payload.is_empty() && !letter.detail.is_empty()
}

/// The generation of the replay of the letter at this position.
fn generation(letter: &Logged<DeadLetter>) -> u64 {
    replay_generation(&letter.value.id, &format!("seq:{}", letter.sequence))
}

async fn mark<D: Desk>(
    desk: &D,
    letter: &Logged<DeadLetter>,
    generation: u64,
    request: &Request,
    published: Published,
) -> Result<Verdict, ReplayError> {
    let sent = !published.by_another;
    let marked = DeadLetter {
        state: LetterState::Replaying,
        state_since: request.now,
        replay_generation: generation,
        replay_id: request.id.clone(),
        replays: letter.value.replays.saturating_add(1),
        ..letter.value.clone()
    };
    let id = MessageId::of(
        "letter-replaying",
        &[marked.id.as_str().as_bytes(), &generation.to_be_bytes()],
    );
    match desk.mark(&marked, &id, letter.sequence).await {
        Ok(()) if sent => Ok(Verdict::Sent),
        Ok(()) => Ok(Verdict::Mended),
        Err(BrokerError::Conflict) => {
            let now = desk.letter(&letter.value).await;
            let now = now.map_err(|source| failed(sent, source))?;
            Ok(overtaken(now.as_ref(), generation, request, sent))
        }
        Err(source) => Err(failed(sent, source)),
    }
}

/// The letter has changed since it was read. Under our generation that is our own delivery,
/// which came to its end before the mark; a letter that is gone was purged meanwhile.
fn overtaken(
    now: Option<&Logged<DeadLetter>>,
    generation: u64,
    request: &Request,
    sent: bool,
) -> Verdict {
    let ours = now.is_none_or(|now| now.value.replay_generation == generation);
    match now {
        _ if ours && sent => Verdict::Sent,
        Some(now) if ours && now.value.replay_id == request.id => Verdict::Mended,
        _ => Verdict::Elsewhere,
    }
}

fn failed(sent: bool, source: BrokerError) -> ReplayError {
    ReplayError { sent, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Model, letter};
    use posthorn_delivery::Reason;

    const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

    fn single(letter: &Logged<DeadLetter>) -> Request {
        Request::single(&letter.value.id, letter.sequence, NOW)
    }

    #[tokio::test]
    async fn dlq_01_each_accepted_replay_is_a_delivery_of_its_own() {
        let model = Model::with([letter("acme", 1, 5)]);
        let mut ids = Vec::new();
        for round in 1..=4 {
            let at = model.only();
            let request = single(&at);
            assert_eq!(
                replay_one(&model, &at, &request).await.unwrap(),
                Verdict::Sent
            );
            let marked = model.only();
            assert_eq!(marked.value.state, LetterState::Replaying);
            assert_eq!(marked.value.replays, round);
            ids.push(request.id);
            model.dies_again(&marked.value.id);
        }
        assert_eq!(model.deliveries().len(), 4);
        ids.dedup();
        assert_eq!(ids.len(), 4);
    }

    #[tokio::test]
    async fn dlq_02_two_operators_at_once_give_one_delivery() {
        let model = Model::with([letter("acme", 1, 5)]);
        let at = model.only();
        let request = single(&at);
        assert_eq!(
            replay_one(&model, &at, &request).await.unwrap(),
            Verdict::Sent
        );
        // The second read the letter before the first had marked it.
        let second = replay_one(&model, &at, &request).await.unwrap();
        assert_ne!(second, Verdict::Sent);
        assert_eq!(model.deliveries().len(), 1);
        let marked = model.only();
        let third = replay_one(&model, &marked, &single(&marked)).await.unwrap();
        assert_eq!(third, Verdict::NotDead);
        assert_eq!(model.deliveries().len(), 1);
    }

    #[tokio::test]
    async fn dlq_02_an_operator_and_a_job_at_once_give_one_delivery() {
        let model = Model::with([letter("acme", 1, 5)]);
        let at = model.only();
        let job = Request {
            id: "rpl_job".to_owned(),
            now: NOW,
            not_before: NOW,
            rate_per_second: 50,
        };
        assert_eq!(
            replay_one(&model, &at, &single(&at)).await.unwrap(),
            Verdict::Sent
        );
        let second = replay_one(&model, &at, &job).await.unwrap();
        assert_ne!(second, Verdict::Sent);
        assert_eq!(model.deliveries().len(), 1);
    }

    #[tokio::test]
    async fn dlq_02_a_delivery_that_ends_before_the_mark_was_sent_all_the_same() {
        let model = Model::with([letter("acme", 1, 5)]);
        let at = model.only();
        model.deliver_at_once();
        let verdict = replay_one(&model, &at, &single(&at)).await.unwrap();
        assert_eq!(verdict, Verdict::Sent);
        assert_eq!(model.only().value.state, LetterState::Delivered);
    }

    #[tokio::test]
    async fn dlq_02_a_crash_between_publish_and_mark_is_mended_by_the_repeat() {
        let model = Model::with([letter("acme", 1, 5)]);
        let at = model.only();
        model.fail_after(1, false);
        let error = replay_one(&model, &at, &single(&at)).await.unwrap_err();
        assert!(error.sent);
        assert_eq!(model.only().value.state, LetterState::Dead);
        model.recover();
        let repeat = replay_one(&model, &at, &single(&at)).await.unwrap();
        assert_eq!(repeat, Verdict::Mended);
        assert_eq!(model.only().value.state, LetterState::Replaying);
        assert_eq!(model.deliveries().len(), 1);
    }

    #[tokio::test]
    async fn what_cannot_be_sent_is_left_alone() {
        let mut unreadable = letter("acme", 1, 5);
        unreadable.endpoint_id = None;
        unreadable.reason = Reason::InvalidEvent;
        let model = Model::with([unreadable]);
        let at = model.only();
        let verdict = replay_one(&model, &at, &single(&at)).await.unwrap();
        assert_eq!(verdict, Verdict::NeverADelivery);

        let mut hollow = letter("acme", 3, 5);
        hollow.payload = bytes::Bytes::new();
        let model = Model::with([hollow]);
        let at = model.only();
        let verdict = replay_one(&model, &at, &single(&at)).await.unwrap();
        assert_eq!(verdict, Verdict::PayloadLost);

        let model = Model::with([letter("acme", 2, 5)]);
        model.delete_endpoints();
        let at = model.only();
        let verdict = replay_one(&model, &at, &single(&at)).await.unwrap();
        assert_eq!(verdict, Verdict::EndpointDeleted);
        assert_eq!(model.only(), at);
        assert!(model.deliveries().is_empty());
    }
}

use super::*;
use crate::testing::{Model, job, letter};
use posthorn_delivery::{EndpointId, LetterState, ReplayState};
use proptest::prelude::*;
use std::collections::HashMap;

const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

/// Letters of two tenants, mixed; the job is about `acme`.
fn mixed(acme: u128, others: u128) -> Vec<DeadLetter> {
    let mut letters: Vec<_> = (0..acme).map(|n| letter("acme", n, 5)).collect();
    for n in 0..others {
        let at = usize::try_from(n * 2 % (acme + n + 1)).unwrap();
        letters.insert(at, letter("globex", 1_000 + n, 5));
    }
    letters
}

fn filter() -> LetterFilter {
    LetterFilter::from_json(r#"{"tenant":"acme"}"#).unwrap()
}

/// Works on the job as one process does, until it ends or something fails.
async fn work(model: &Model, me: &str, now: UnixMillis) -> Result<(), StepError> {
    let found = model.job();
    let Some(mut mine) = law::claim(&found.value, me, now) else {
        return Ok(());
    };
    if !found.value.owner.is_empty() {
        mine = law::recounted(&mine, model.count_marked(&mine).await?);
    }
    let revision = model.save(&mine, found.revision).await?;
    let mut current = Versioned {
        value: mine,
        revision,
    };
    while current.value.state == ReplayState::Running {
        let batch = law::batch(current.value.rate_per_second, IN_TIME, now);
        let step = step(model, &current.value, &filter(), batch).await?;
        match report(model, &current, step.progress, now).await? {
            Reported::Kept(next) => current = *next,
            Reported::Lost => return Ok(()),
        }
    }
    Ok(())
}

/// How often a delivery of each event was stored.
fn sent(model: &Model) -> HashMap<String, usize> {
    let mut sent = HashMap::new();
    for delivery in model.deliveries() {
        *sent.entry(delivery.event_id.to_string()).or_default() += 1;
    }
    sent
}

/// Neither ahead nor behind.
const IN_TIME: (Duration, Duration) = (Duration::ZERO, Duration::ZERO);

/// A batch of a job that is in time.
fn in_time(model: &Model) -> Batch {
    law::batch(model.job().value.rate_per_second, IN_TIME, NOW)
}

fn start(model: &Model, matched: u64, rate: u32) {
    model.keep_job(ReplayJob {
        matched,
        rate_per_second: rate,
        ..job(model.last())
    });
}

#[tokio::test]
async fn dlq_02_a_job_sends_what_matched_when_it_was_asked_for() {
    let model = Model::with(mixed(700, 90));
    start(&model, 700, 300);
    let late = letter("acme", 9_999, 5);
    let before = model.last();
    let model_with_late = {
        let mut letters: Vec<_> = model.letters().into_iter().map(|l| l.value).collect();
        letters.push(late.clone());
        Model::with(letters)
    };
    model_with_late.keep_job(ReplayJob {
        upper: before,
        ..model.job().value
    });
    work(&model_with_late, "a", NOW).await.unwrap();
    let done = model_with_late.job().value;
    assert_eq!(done.state, ReplayState::Completed);
    assert_eq!((done.replayed, done.skipped), (700, 0));
    let sent = sent(&model_with_late);
    assert_eq!(sent.len(), 700);
    assert!(sent.values().all(|count| *count == 1));
    assert!(!sent.contains_key(&late.event_id));
}

#[tokio::test]
async fn dlq_05_a_job_of_one_tenant_touches_no_other() {
    let model = Model::with(mixed(20, 20));
    start(&model, 20, 50);
    work(&model, "a", NOW).await.unwrap();
    assert!(
        model
            .deliveries()
            .iter()
            .all(|d| d.tenant.as_str() == "acme")
    );
    let others = model.letters().into_iter();
    let others = others.filter(|letter| letter.value.tenant == "globex");
    assert!(
        others
            .into_iter()
            .all(|letter| letter.value.state == LetterState::Dead)
    );
}

#[tokio::test]
async fn what_is_purged_meanwhile_counts_as_skipped() {
    let model = Model::with(mixed(10, 0));
    start(&model, 10, 50);
    model.remove(3);
    model.remove(10);
    work(&model, "a", NOW).await.unwrap();
    let done = model.job().value;
    assert_eq!((done.replayed, done.skipped), (8, 2));
}

#[tokio::test]
async fn letters_of_deleted_endpoints_are_skipped_and_stay() {
    let model = Model::with(mixed(5, 0));
    model.delete_endpoints();
    start(&model, 5, 50);
    work(&model, "a", NOW).await.unwrap();
    assert_eq!(
        (model.job().value.replayed, model.job().value.skipped),
        (0, 5)
    );
    assert_eq!(model.letters().len(), 5);
}

#[tokio::test]
async fn a_batch_is_spread_over_its_time() {
    let model = Model::with(mixed(100, 0));
    start(&model, 100, 500);
    let step = step(&model, &model.job().value, &filter(), in_time(&model))
        .await
        .unwrap();
    assert_eq!(step.progress.replayed, 25);
    assert_eq!(step.takes, Duration::from_millis(50));
    let mut times: Vec<i64> = model
        .deliveries()
        .iter()
        .map(|d| d.not_before.0 - NOW.0)
        .collect();
    times.sort_unstable();
    assert_eq!(times, (0..25).map(|n| n * 2).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_batch_ends_before_the_first_letter_whose_lane_is_full() {
    let mut letters: Vec<_> = (0..60).map(|n| letter("acme", n, 5)).collect();
    letters[20].endpoint_id = Some(EndpointId::from_bits(9));
    let model = Model::with(letters);
    model.bound_lanes(30);
    start(&model, 60, 1_000);
    let full = Some(LaneId::replay(&EndpointId::from_bits(7)));
    let first = step(&model, &model.job().value, &filter(), in_time(&model))
        .await
        .unwrap();
    // Thirty of the lane, and the one of another lane among them.
    assert_eq!((first.progress.replayed, first.progress.cursor), (31, 31));
    assert_eq!((first.takes, &first.full), (law::at_rate(31, 1_000), &full));
    assert_eq!(model.deliveries().len(), 31);

    let mut job = law::advance(&model.job().value, first.progress, NOW);
    let second = step(&model, &job, &filter(), in_time(&model))
        .await
        .unwrap();
    assert_eq!((second.progress.replayed, second.progress.cursor), (0, 31));
    assert_eq!(second.full, full);

    model.bound_lanes(1_000);
    while job.state == ReplayState::Running {
        let next = step(&model, &job, &filter(), in_time(&model))
            .await
            .unwrap();
        job = law::advance(&job, next.progress, NOW);
    }
    assert_eq!((job.replayed, job.skipped), (60, 0));
}

#[tokio::test]
async fn a_pause_in_the_middle_of_a_batch_keeps_its_counts() {
    let model = Model::with(mixed(100, 0));
    start(&model, 100, 500);
    let mine = law::claim(&model.job().value, "a", NOW).unwrap();
    let revision = model.save(&mine, model.job().revision).await.unwrap();
    let current = Versioned {
        value: mine,
        revision,
    };
    let step = step(&model, &current.value, &filter(), in_time(&model))
        .await
        .unwrap();
    let progress = step.progress;
    let paused = law::act(&model.job().value, law::Action::Pause, NOW).unwrap();
    model.save(&paused, model.job().revision).await.unwrap();
    let Reported::Kept(kept) = report(&model, &current, progress, NOW).await.unwrap() else {
        panic!("the job is still ours");
    };
    assert_eq!(
        (kept.value.state, kept.value.replayed),
        (ReplayState::Paused, 25)
    );
}

#[tokio::test]
async fn a_lost_job_is_not_written_to() {
    let model = Model::with(mixed(10, 0));
    start(&model, 10, 5);
    let mine = law::claim(&model.job().value, "a", NOW).unwrap();
    let revision = model.save(&mine, model.job().revision).await.unwrap();
    let current = Versioned {
        value: mine,
        revision,
    };
    let step = step(&model, &current.value, &filter(), in_time(&model))
        .await
        .unwrap();
    let progress = step.progress;
    let over = law::claim(&model.job().value, "b", NOW + law::LEASE).unwrap();
    model.save(&over, model.job().revision).await.unwrap();
    let reported = report(&model, &current, progress, NOW).await.unwrap();
    assert!(matches!(reported, Reported::Lost));
    assert_eq!(model.job().value, over);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Killed at any operations, whether or not the last one took effect, and taken over by
    /// another process each time.
    #[test]
    fn dlq_02_whatever_crashes_each_matching_letter_is_sent_once(
        acme in 1_u128..40,
        others in 0_u128..10,
        rate in 1_u32..60,
        crashes in prop::collection::vec((0_u32..60, any::<bool>()), 0..6),
    ) {
        let model = Model::with(mixed(acme, others));
        let matched = u64::try_from(acme).unwrap();
        start(&model, matched, rate);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut now = NOW;
        for (life, (operations, takes_effect)) in crashes.into_iter().enumerate() {
            model.fail_after(operations, takes_effect);
            let _ = runtime.block_on(work(&model, &format!("process-{life}"), now));
            now = now + law::LEASE;
        }
        model.recover();
        runtime.block_on(work(&model, "the-last", now)).unwrap();

        let done = model.job().value;
        prop_assert_eq!(done.state, ReplayState::Completed);
        let sent = sent(&model);
        prop_assert_eq!(sent.len(), usize::try_from(acme).unwrap());
        prop_assert!(sent.values().all(|count| *count == 1));
        prop_assert_eq!((done.replayed, done.skipped), (matched, 0));
        for letter in model.letters() {
            let ours = letter.value.tenant == "acme";
            let state = if ours { LetterState::Replaying } else { LetterState::Dead };
            prop_assert_eq!(letter.value.state, state);
        }
    }
}

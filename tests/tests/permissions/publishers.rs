//! Publishers over NATS: what reaches EVENTS, and that their headers move nothing there but their
//! own event. Whom they may speak for and whom they may hear is in `services.rs`.

use crate::raw::Raw;
use crate::sample::Sample;
use crate::site::SOON;
use posthorn_tests::wait::eventually;
use serde_json::{Value, json};

const MINE: &str = "posthorn.events.acme.a";

/// An installation without services, so that events stay where they were put.
struct Intake {
    sample: Sample,
    acme: Raw,
    globex: Raw,
    scheduler: Raw,
}

impl Intake {
    async fn start() -> Intake {
        let sample = Sample::start().await;
        sample.install().await;
        let connect = |user| Raw::connect(sample.port(), sample.key(user));
        let (acme, globex) = (connect("ACME").await, connect("GLOBEX").await);
        let scheduler = connect("SCHEDULER").await;
        Intake {
            sample,
            acme,
            globex,
            scheduler,
        }
    }

    /// The answer to an event with these header lines.
    async fn publish(&mut self, lines: &str) -> Value {
        let head = format!("NATS/1.0\r\n{lines}\r\n\r\n");
        self.acme
            .request(MINE, "_INBOX.mine", head.as_bytes())
            .await
    }

    async fn messages(&mut self, stream: &str) -> u64 {
        let subject = format!("$JS.API.STREAM.INFO.POSTHORN_{stream}");
        let info = ask(&mut self.scheduler, &subject).await;
        info["state"]["messages"].as_u64().unwrap()
    }

    /// How many messages lie under which subject.
    async fn subjects(&self, stream: &str) -> Value {
        let subject = format!("$JS.API.STREAM.INFO.POSTHORN_{stream}");
        let user = ("SCHEDULER", "_INBOX_posthorn-scheduler");
        let client = self.sample.client(user.0, user.1).await;
        let asked = client.request(subject, r#"{"subjects_filter":">"}"#.into());
        let info: Value = serde_json::from_slice(&asked.await.unwrap().payload).unwrap();
        info["state"]["subjects"].clone()
    }
}

async fn ask(raw: &mut Raw, subject: &str) -> Value {
    raw.request(subject, "_INBOX_posthorn-scheduler.1", b"NATS/1.0\r\n\r\n")
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_would_act_on_the_stream_are_refused() {
    let mut intake = Intake::start().await;
    let theirs = intake
        .globex
        .request(
            "posthorn.events.globex.a",
            "_INBOX.theirs",
            b"NATS/1.0\r\n\r\n",
        )
        .await;
    assert_eq!(theirs["seq"], 1, "{theirs}");
    for (lines, code) in [
        // Replace everything, or everything on the subject.
        ("Nats-Rollup: all", 10_111),
        ("Nats-Rollup: sub", 10_111),
        // Expire before it is delivered, or never.
        ("Nats-TTL: 1s", 10_166),
        ("Nats-TTL: never", 10_166),
        // Be part of a batch that may never be ended, a counter, a schedule for another subject.
        ("Nats-Batch-Id: b\r\nNats-Batch-Sequence: 1", 10_174),
        ("Nats-Incr: +1", 10_168),
        (
            "Nats-Schedule: @at 2030-01-01T00:00:00Z\r\nNats-Schedule-Target: posthorn.deliveries.x",
            10_188,
        ),
        // What does not hold is refused, which concerns nobody but who says it.
        ("Nats-Expected-Stream: POSTHORN_DLQ", 10_060),
        ("Nats-Expected-Last-Sequence: 77", 10_071),
        ("Nats-Expected-Last-Msg-Id: none", 10_070),
    ] {
        let answer = intake.publish(lines).await;
        assert_eq!(answer["error"]["err_code"], code, "{lines}: {answer}");
    }
    assert_eq!(intake.messages("EVENTS").await, 1, "the other tenant's");
    assert_eq!(intake.messages("ARCHIVE").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_say_what_the_server_says_move_an_event_nowhere() {
    let mut intake = Intake::start().await;
    let spoofs = [
        "Nats-Subject: posthorn.events.globex.a\r\nNats-Stream: POSTHORN_DLQ\r\nNats-Sequence: 999",
        "Nats-Time-Stamp: 2001-01-01T00:00:00Z\r\nNats-Last-Sequence: 3\r\nNats-Num-Pending: 7",
        "KV-Operation: PURGE\r\nNats-Marker-Reason: MaxAge",
        "Nats-Required-Api-Level: 99",
    ];
    for (sent, lines) in (1_u64..).zip(spoofs) {
        let answer = intake.publish(lines).await;
        assert_eq!(answer, json!({"stream": "POSTHORN_EVENTS", "seq": sent}));
    }
    let count = u64::try_from(spoofs.len()).unwrap();
    assert_eq!(intake.messages("EVENTS").await, count);
    for stream in [
        "DELIVERIES",
        "RETRIES",
        "ATTEMPTS",
        "DLQ",
        "LANES",
        "TOKENS",
    ] {
        assert_eq!(intake.messages(stream).await, 0, "{stream}");
    }
    // All of them on the tenant's own subject, which is what fan-out goes by.
    assert_eq!(intake.subjects("EVENTS").await, json!({MINE: count}));
}

/// Every header that does something in some stream of some server, with values that would do it
/// here: to the other tenant's subject, to all of them, to a stream that is not ours. Whatever the
/// server thinks of each, what lies there stays, and what is taken is one event.
#[tokio::test(flavor = "multi_thread")]
async fn no_header_of_a_publisher_touches_what_another_has_published() {
    const THEIRS: &str = "posthorn.events.globex.a";
    let mut intake = Intake::start().await;
    for n in 1..=3 {
        let theirs = intake
            .globex
            .request(THEIRS, "_INBOX.theirs", b"NATS/1.0\r\n\r\n");
        assert_eq!(theirs.await["seq"], n);
    }
    let mut taken = 0;
    for lines in [
        "Nats-Scheduler: posthorn.events.globex.a\r\nNats-Schedule-Next: purge",
        "Nats-Scheduler: posthorn.events.globex.a\r\nNats-Schedule-Next: 2030-01-01T00:00:00Z",
        "Nats-Schedule: @every 1s\r\nNats-Schedule-Target: posthorn.events.globex.a",
        "Nats-Schedule: @at 2001-01-01T00:00:00Z\r\nNats-Schedule-Target: posthorn.events.acme.b\r\nNats-Schedule-TTL: 1s",
        "Nats-Schedule-Source: posthorn.events.globex.a",
        "Nats-Schedule-Target: posthorn.events.globex.a",
        "Nats-Schedule-Rollup: all",
        "Nats-Rollup: ALL",
        "nats-rollup: all",
        "Nats-Rollup: sub\r\nNats-Rollup: all",
        "Nats-TTL: 0",
        "Nats-TTL: -1",
        "Nats-Batch-Id: x\r\nNats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1",
        "Nats-Batch-Commit: eob",
        "Nats-Batch-Sequence: 1",
        "Nats-Fast-Batch-Id: x",
        "Nats-Incr: +5",
        "Nats-Counter-Sources: {}",
        "Nats-Stream-Source: POSTHORN_DLQ 1 > >",
        "Nats-Msg-Id: \r\nNats-Rollup: all",
        "Nats-Expected-Last-Subject-Sequence: 0\r\nNats-Rollup: sub",
        "Nats-Marker-Reason: Purge\r\nNats-TTL: 1s",
        "KV-Operation: DEL",
        "Nats-Response-Type: x\r\nStatus: 503\r\nDescription: none",
        "Nats-Pending-Messages: 0\r\nNats-Consumer-Stalled: x",
    ] {
        let answer = intake.publish(lines).await;
        let refused = answer["error"]["err_code"].is_u64();
        assert!(refused || answer["seq"].is_u64(), "{lines}: {answer}");
        taken += u64::from(!refused);
    }
    for (stream, subjects) in [("EVENTS", "events"), ("ARCHIVE", "archive")] {
        let what = format!("{stream} has what was taken");
        let of = |tenant: &str| format!("posthorn.{subjects}.{tenant}.a");
        let expected = json!({of("acme"): taken, of("globex"): 3});
        let all = || async { intake.subjects(stream).await == expected };
        eventually(SOON, &what, all).await.unwrap();
    }
}

/// Batches that are published fast say what they are in the subject for the answer, where no
/// permission looks. EVENTS takes none: what is not refused is one event.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_said_in_the_answers_subject_is_refused() {
    let mut intake = Intake::start().await;
    let mut taken = 0;
    for reply in [
        "_INBOX.x.uuid1.10.fail.1.0.$FI",
        "_INBOX.x.uuid1.10.ok.2.1.$FI",
        "_INBOX.x.uuid1.10.ok.3.2.$FI",
        "_INBOX.x.uuid1.10.ok.9999999999999999999999.2.$FI",
        "_INBOX.$FI",
        "_INBOX.$FI.x",
    ] {
        let head = b"NATS/1.0\r\n\r\n";
        let answer = intake.acme.request(MINE, reply, head).await;
        let refused = answer["error"]["err_code"].is_u64();
        taken += u64::from(!refused);
        assert!(refused || answer["seq"] == taken, "{reply}: {answer}");
    }
    assert!(taken <= 3, "{taken}");
    assert_eq!(intake.messages("EVENTS").await, taken);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_of_a_message_goes_to_nobody_that_its_publisher_may_not_write_to() {
    let mut intake = Intake::start().await;
    for target in [
        "posthorn.deliveries.ep_1",
        "_INBOX_posthorn-scheduler.1",
        "$JS.API.INFO",
    ] {
        let head = format!("NATS/1.0\r\nNats-Trace-Dest: {target}\r\n\r\n");
        let size = head.len();
        let sent = format!("HPUB {MINE} {size} {size}\r\n{head}\r\n");
        intake.acme.write(sent.as_bytes()).await;
        let errors = intake.acme.settle().await.errors;
        assert!(
            errors.iter().any(|error| error.contains(target)),
            "{target}: {errors:?}"
        );
    }
    assert_eq!(intake.messages("DELIVERIES").await, 0);
    assert_eq!(intake.messages("EVENTS").await, 0);
}

/// What docs/security.md tells publishers that do not trust each other.
#[tokio::test(flavor = "multi_thread")]
async fn js_10_message_ids_are_compared_over_all_tenants_so_they_begin_with_the_tenant() {
    let mut intake = Intake::start().await;
    let id = |id: &str| format!("NATS/1.0\r\nNats-Msg-Id: {id}\r\n\r\n");
    for (their_id, my_id, duplicate) in [("1", "1", true), ("globex:2", "acme:2", false)] {
        let theirs = intake
            .globex
            .request(
                "posthorn.events.globex.a",
                "_INBOX.theirs",
                id(their_id).as_bytes(),
            )
            .await;
        assert!(theirs["duplicate"].is_null(), "{theirs}");
        let mine = intake.publish(&format!("Nats-Msg-Id: {my_id}")).await;
        assert_eq!(
            mine["duplicate"].as_bool().unwrap_or(false),
            duplicate,
            "{mine}"
        );
    }
}

/// What docs/security.md says an expectation tells: that there is something, and nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_expectation_of_another_tenants_subject_tells_a_sequence_and_no_more() {
    let mut intake = Intake::start().await;
    let subject = "posthorn.events.globex.a";
    let theirs = intake
        .globex
        .request(subject, "_INBOX.theirs", b"NATS/1.0\r\n\r\n");
    assert_eq!(theirs.await["seq"], 1);
    let lines = "Nats-Expected-Last-Subject-Sequence: 77\r\n\
                 Nats-Expected-Last-Subject-Sequence-Subject: posthorn.events.globex.>";
    let answer = intake.publish(lines).await;
    let told = json!({"code": 400, "err_code": 10_071, "description": "wrong last sequence: 1"});
    assert_eq!(answer["error"], told);
}

/// What docs/security.md says of the archive: it checks the expectations that EVENTS has checked.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_with_an_expectation_that_holds_is_taken_and_its_copy_is_not_archived() {
    let mut intake = Intake::start().await;
    let answer = intake
        .publish("Nats-Expected-Stream: POSTHORN_EVENTS")
        .await;
    assert_eq!(answer, json!({"stream": "POSTHORN_EVENTS", "seq": 1}));
    // One after it, that is archived, so that it is certain that the first will not be.
    intake.publish("X-None: 1").await;
    assert_eq!(intake.messages("EVENTS").await, 2);
    assert_eq!(intake.messages("ARCHIVE").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_reads_nothing_not_even_its_own() {
    let mut intake = Intake::start().await;
    intake.publish("X-None: 1").await;
    for subject in [
        "$JS.API.DIRECT.GET.POSTHORN_EVENTS",
        "$JS.API.STREAM.MSG.GET.POSTHORN_EVENTS",
        "$JS.API.CONSUMER.CREATE.POSTHORN_EVENTS.x.posthorn.events.acme.>",
        "$JS.API.CONSUMER.MSG.NEXT.POSTHORN_EVENTS.fanout",
        "$JS.API.STREAM.INFO.POSTHORN_EVENTS",
        "$JS.API.INFO",
    ] {
        intake.acme.publish(subject).await;
        let errors = intake.acme.settle().await.errors;
        assert_eq!(errors.len(), 1, "{subject}: {errors:?}");
    }
    // It hears its own inboxes, and no event that anybody publishes.
    intake.acme.subscribe("_INBOX.>").await;
    intake.acme.subscribe("posthorn.events.acme.>").await;
    let errors = intake.acme.settle().await.errors;
    assert_eq!(errors.len(), 1, "the second is refused: {errors:?}");
    let sample = &intake.sample;
    let mut ingest = Raw::connect(sample.port(), sample.key("INGEST")).await;
    let inbox = "_INBOX_posthorn-ingest.1";
    let stored = ingest.request(MINE, inbox, b"NATS/1.0\r\n\r\n").await;
    assert_eq!(stored["seq"], 2, "{stored}");
    assert!(intake.acme.settle().await.messages.is_empty());
}

//! Who may what: every operation there is, tried by every user of the sample.
//!
//! Permission is decided by the subject alone, so that all of it is tried on a server without
//! streams, where what is permitted has no effect.

use crate::raw::Raw;
use crate::sample::Sample;
use crate::site::{SOON, recipe, set_up};

/// Who may everything, and is no process.
const OPERATOR: &str = "OPERATOR";
const SETUP: &str = "SETUP";
const INGEST: &str = "INGEST";
const SCHEDULER: &str = "SCHEDULER";
const DISPATCHER: &str = "DISPATCHER";
const DLQ_ADMIN: &str = "DLQ_ADMIN";
const APPLICATION: &str = "APPLICATION";
const ACME: &str = "ACME";
const GLOBEX: &str = "GLOBEX";

/// Names of users.
type Users = &'static [&'static str];

const SERVICES: [&str; 4] = [INGEST, SCHEDULER, DISPATCHER, DLQ_ADMIN];

/// Subjects to publish to, and who may.
fn operations() -> Vec<(String, Vec<&'static str>)> {
    let mut all = Vec::new();
    let mut may = |subject: &str, users: &[&'static str]| {
        all.push((subject.to_owned(), users.to_vec()));
    };
    // What is published.
    may("posthorn.events.acme.a", &[INGEST, APPLICATION, ACME]);
    may("posthorn.events.globex.a.b", &[INGEST, APPLICATION, GLOBEX]);
    may("posthorn.events.initech.a", &[INGEST, APPLICATION]);
    may("posthorn.events._posthorn.a", &SERVICES);
    may("posthorn.events.acme", &[INGEST, APPLICATION]);
    may("posthorn.events.acme.posthorn.test", &[INGEST]);
    may("posthorn.events.initech.posthorn.test", &[INGEST]);
    may("posthorn.events.*.a", &[INGEST, APPLICATION]);
    may("posthorn.archive.acme.a", &[]);
    may("posthorn.deliveries.ep_1", &[SCHEDULER]);
    may("posthorn.retries.near", &[SCHEDULER, DISPATCHER]);
    may("posthorn.retries.far.1", &[SCHEDULER, DISPATCHER]);
    may("posthorn.attempts.acme.ep_1.3", &[SCHEDULER, DISPATCHER]);
    may(
        "posthorn.dlq.acme.ep_1.dl_1",
        &[SCHEDULER, DISPATCHER, DLQ_ADMIN],
    );
    may(
        "posthorn.register.acme.ep_1.gone",
        &[SCHEDULER, DISPATCHER, DLQ_ADMIN],
    );
    may("posthorn.lanes.ep_1", &[SCHEDULER, DISPATCHER, DLQ_ADMIN]);
    may(
        "posthorn.lanes.ep_1.replay",
        &[SCHEDULER, DISPATCHER, DLQ_ADMIN],
    );
    may("posthorn.tokens.ep_1", &SERVICES);
    may("posthorn.tokens.ep_1.replay", &SERVICES);
    may("posthorn.audit.acme.1", &[INGEST, DLQ_ADMIN]);
    may("another.events.acme.a", &[]);
    for inbox in SERVICES {
        let inbox = inbox.to_lowercase().replace('_', "-");
        may(&format!("_INBOX_posthorn-{inbox}.1.2"), &[]);
    }
    may("_INBOX.1.2", &[]);
    buckets(&mut may);
    streams(&mut may);
    consumers(&mut may);
    may("$JS.API.INFO", &[SETUP]);
    for subject in [
        "$JS.API.STREAM.LIST",
        "$JS.API.STREAM.SNAPSHOT.POSTHORN_DLQ",
        "$JS.API.STREAM.RESTORE.POSTHORN_DLQ",
        "$JS.API.ACCOUNT.PURGE.POSTHORN",
        "$JS.API.SERVER.REMOVE",
        "$JS.API.META.LEADER.STEPDOWN",
        "$JS.API.STREAM.LEADER.STEPDOWN.POSTHORN_EVENTS",
        "$SYS.REQ.SERVER.PING",
    ] {
        may(subject, &[]);
    }
    all
}

fn buckets(may: &mut impl FnMut(&str, &[&'static str])) {
    // Name, who writes, who reads a key, who watches.
    let table: [(&str, Users, Users, Users); 7] = [
        ("ENDPOINTS", &[INGEST, DISPATCHER], &SERVICES, &SERVICES),
        (
            "BREAKERS",
            &[INGEST, DISPATCHER, DLQ_ADMIN],
            &SERVICES,
            &[SCHEDULER, DISPATCHER, DLQ_ADMIN],
        ),
        (
            "LANES",
            &[SCHEDULER, DISPATCHER, DLQ_ADMIN],
            &SERVICES,
            &[SCHEDULER, DISPATCHER, DLQ_ADMIN],
        ),
        ("IDEMPOTENCY", &[INGEST], &[INGEST], &[]),
        (
            "REPLAYS",
            &[INGEST, DLQ_ADMIN],
            &[INGEST, DLQ_ADMIN],
            &[DLQ_ADMIN],
        ),
        (
            "KEYS",
            &[DLQ_ADMIN],
            &[INGEST, DLQ_ADMIN],
            &[INGEST, DLQ_ADMIN],
        ),
        ("DISPATCHERS", &[DISPATCHER], &[], &[]),
    ];
    for (name, write, read, watch) in table {
        let bucket = format!("POSTHORN_{name}");
        may(&format!("$KV.{bucket}.a.b"), write);
        may(
            &format!("$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.a.b"),
            read,
        );
        may(&format!("$JS.API.CONSUMER.CREATE.KV_{bucket}"), watch);
        may(
            &format!("$JS.API.CONSUMER.CREATE.KV_{bucket}.x.$KV.{bucket}.>"),
            watch,
        );
        may(&format!("$JS.FC.KV_{bucket}.x.1"), watch);
        // By sequence, in the old form, and a copy of all of it: nobody.
        may(&format!("$JS.API.DIRECT.GET.KV_{bucket}"), &[]);
        may(&format!("$JS.API.STREAM.MSG.GET.KV_{bucket}"), &[]);
        may(&format!("$JS.API.STREAM.MSG.DELETE.KV_{bucket}"), &[]);
        may(&format!("$JS.API.STREAM.PURGE.KV_{bucket}"), &[]);
        may(&format!("$JS.API.STREAM.DELETE.KV_{bucket}"), &[]);
    }
}

fn streams(may: &mut impl FnMut(&str, &[&'static str])) {
    // Name, who reads it, who deletes a message, who purges a subject.
    let table: [(&str, Users, Users, Users); 10] = [
        ("EVENTS", &[], &[SCHEDULER], &[]),
        ("ARCHIVE", &[DLQ_ADMIN], &[], &[]),
        ("DELIVERIES", &[DLQ_ADMIN], &[], &[]),
        ("RETRIES", &[SCHEDULER, DLQ_ADMIN], &[], &[]),
        ("ATTEMPTS", &SERVICES, &[], &[]),
        ("DLQ", &[DLQ_ADMIN], &[DLQ_ADMIN], &[DLQ_ADMIN]),
        ("REGISTER", &[DLQ_ADMIN], &[DISPATCHER, DLQ_ADMIN], &[]),
        ("LANES", &[SCHEDULER, DLQ_ADMIN], &[SCHEDULER], &[SCHEDULER]),
        ("TOKENS", &[], &[INGEST, SCHEDULER, DLQ_ADMIN], &[]),
        ("AUDIT", &[DLQ_ADMIN], &[], &[]),
    ];
    let all = [SETUP, INGEST, SCHEDULER, DISPATCHER, DLQ_ADMIN];
    for (name, read, delete, purge) in table {
        let stream = format!("POSTHORN_{name}");
        may(&format!("$JS.API.DIRECT.GET.{stream}"), read);
        may(&format!("$JS.API.STREAM.MSG.DELETE.{stream}"), delete);
        may(&format!("$JS.API.STREAM.PURGE.{stream}"), purge);
        may(&format!("$JS.API.STREAM.INFO.{stream}"), &all);
        may(&format!("$JS.API.STREAM.CREATE.{stream}"), &[SETUP]);
        may(&format!("$JS.API.STREAM.UPDATE.{stream}"), &[SETUP]);
        may(&format!("$JS.API.STREAM.DELETE.{stream}"), &[]);
        may(&format!("$JS.API.CONSUMER.CREATE.{stream}.x"), &[]);
        may(&format!("$JS.API.CONSUMER.DURABLE.CREATE.{stream}.x"), &[]);
        let raw: &[&str] = match name {
            "EVENTS" => &[SCHEDULER],
            "ARCHIVE" => &[DLQ_ADMIN],
            "TOKENS" => delete,
            _ => &[],
        };
        may(&format!("$JS.API.STREAM.MSG.GET.{stream}"), raw);
    }
    may("$JS.API.STREAM.NAMES", &all);
}

fn consumers(may: &mut impl FnMut(&str, &[&'static str])) {
    let table: [(&str, &str, Users); 5] = [
        ("EVENTS", "fanout", &[SCHEDULER]),
        ("DELIVERIES", "dispatch", &[DISPATCHER]),
        ("RETRIES", "retry-near", &[SCHEDULER]),
        ("RETRIES", "retry-far-1", &[SCHEDULER]),
        ("TOKENS", "tokens", &[SCHEDULER]),
    ];
    let all = [SETUP, INGEST, SCHEDULER, DISPATCHER, DLQ_ADMIN];
    for (stream, durable, take) in table {
        let consumer = format!("POSTHORN_{stream}.{durable}");
        may(&format!("$JS.API.CONSUMER.MSG.NEXT.{consumer}"), take);
        may(&format!("$JS.ACK.{consumer}.1.1.1.1.0"), take);
        may(&format!("$JS.API.CONSUMER.INFO.{consumer}"), &all);
        may(&format!("$JS.API.CONSUMER.DELETE.{consumer}"), &[]);
        may(&format!("$JS.API.CONSUMER.PAUSE.{consumer}"), &[]);
    }
    let of = |consumer: &str, filter: &str| format!("$JS.API.CONSUMER.CREATE.{consumer}.{filter}");
    may(
        &of("POSTHORN_RETRIES.retry-far-1", "posthorn.retries.far.1"),
        &[SCHEDULER],
    );
    may(&of("POSTHORN_RETRIES.x", "posthorn.retries.>"), &[]);
    may(&of("POSTHORN_EVENTS.fanout", "posthorn.events.>"), &[SETUP]);
    may(&of("POSTHORN_EVENTS.x", "posthorn.events.>"), &[]);
    may(
        &of("POSTHORN_DELIVERIES.dispatch", "posthorn.deliveries.>"),
        &[SETUP],
    );
    may(&of("POSTHORN_TOKENS.tokens", "posthorn.tokens.>"), &[SETUP]);
    may(&of("POSTHORN_ARCHIVE.x", "posthorn.archive.>"), &[]);
    may(&of("POSTHORN_DLQ.x", "posthorn.dlq.>"), &[DLQ_ADMIN]);
    may("$JS.API.CONSUMER.MSG.NEXT.POSTHORN_DLQ.x", &[DLQ_ADMIN]);
}

/// Subjects to listen on, and who may.
fn subscriptions() -> Vec<(String, Vec<&'static str>)> {
    let publishers = [APPLICATION, ACME, GLOBEX];
    let mut all = vec![
        (">".to_owned(), Vec::new()),
        ("*.>".to_owned(), Vec::new()),
        ("$JS.>".to_owned(), Vec::new()),
        ("$KV.>".to_owned(), Vec::new()),
        ("$SYS.>".to_owned(), Vec::new()),
        ("posthorn.>".to_owned(), Vec::new()),
        ("posthorn.attempts.acme.ep_1.*".to_owned(), vec![SCHEDULER]),
        // The sample's publishers have an account each, where nobody else has inboxes.
        ("_INBOX.>".to_owned(), publishers.to_vec()),
        ("_INBOX_*.>".to_owned(), Vec::new()),
        ("_R_.>".to_owned(), Vec::new()),
    ];
    for stream in [
        "events.acme",
        "archive",
        "deliveries",
        "retries",
        "dlq",
        "register",
        "lanes",
        "tokens",
        "audit",
    ] {
        all.push((format!("posthorn.{stream}.>"), Vec::new()));
    }
    for user in [SETUP, INGEST, SCHEDULER, DISPATCHER, DLQ_ADMIN] {
        let service = user.to_lowercase().replace('_', "-");
        all.push((format!("_INBOX_posthorn-{service}.>"), vec![user]));
    }
    all
}

/// Whether the server refused the last thing that was sent.
async fn is_refused(raw: &mut Raw, subject: &str) -> bool {
    let errors = raw.settle().await.errors;
    match errors.as_slice() {
        [] => false,
        [one] => {
            assert!(one.contains("Permissions Violation"), "{subject}: {one}");
            true
        }
        more => panic!("{subject}: {more:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hdr_05_dlq_05_every_user_may_publish_what_it_needs_and_nothing_else() {
    let sample = Sample::start().await;
    let mut wrong = Vec::new();
    let mut refused = 0;
    for user in sample.users() {
        let mut raw = Raw::connect(sample.port(), sample.key(user)).await;
        for (subject, users) in operations() {
            raw.publish(&subject).await;
            let is_refused = is_refused(&mut raw, &subject).await;
            refused += usize::from(is_refused);
            if is_refused == (user == OPERATOR || users.contains(&user)) {
                wrong.push(format!("{user} {subject}: refused is {is_refused}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(refused > 900, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_hears_what_is_for_another() {
    let sample = Sample::start().await;
    let mut wrong = Vec::new();
    for user in sample.users() {
        let mut raw = Raw::connect(sample.port(), sample.key(user)).await;
        for (subject, users) in subscriptions() {
            raw.subscribe(&subject).await;
            let is_refused = is_refused(&mut raw, &subject).await;
            if is_refused == (user == OPERATOR || users.contains(&user)) {
                wrong.push(format!("{user} {subject}: refused is {is_refused}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_makes_no_stream_and_says_which_one_is_missing() {
    let sample = Sample::start().await;
    let recipe = recipe(&sample, "posthorn-scheduler", "SCHEDULER");
    let recipe = recipe.env("POSTHORN_MANAGE_STREAMS", "false");
    let mut scheduler = recipe.spawn().await.unwrap();
    let status = scheduler.wait_exit(SOON).await.unwrap();
    assert_eq!(status.code(), Some(64), "{}", scheduler.output());
    let output = scheduler.output();
    assert!(
        output.contains("missing in JetStream: POSTHORN_EVENTS"),
        "{output}"
    );
    assert_eq!(sample.violations(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn setting_up_twice_changes_nothing() {
    let sample = Sample::start().await;
    set_up(&sample).await;
    set_up(&sample).await;
    assert_eq!(sample.violations(), Vec::<String>::new());
}

/// What docs/security.md says permissions cannot keep apart: the server sends an answer where its
/// asker says, and asks nobody whether he might publish there.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_stored_where_its_asker_may_not_publish() {
    let sample = Sample::start().await;
    sample.install().await;
    let mut scheduler = Raw::connect(sample.port(), sample.key(SCHEDULER)).await;
    let stored = scheduler
        .request(
            "posthorn.attempts.acme.ep_1.1",
            "_INBOX_posthorn-scheduler.1",
            b"NATS/1.0\r\n\r\n",
        )
        .await;
    assert_eq!(stored["seq"], 1, "{stored}");
    let asked =
        "PUB $JS.API.DIRECT.GET.POSTHORN_ATTEMPTS $KV.POSTHORN_KEYS.forged 9\r\n{\"seq\":1}\r\n";
    scheduler.write(asked.as_bytes()).await;
    assert!(scheduler.settle().await.errors.is_empty());
    let client = sample.client("OPERATOR", "_INBOX").await;
    let keys = async_nats::jetstream::new(client)
        .get_key_value("POSTHORN_KEYS")
        .await
        .unwrap();
    let forged = || async { keys.get("forged").await.unwrap().is_some() };
    posthorn_tests::wait::eventually(SOON, "the answer is a key", forged)
        .await
        .unwrap();
}

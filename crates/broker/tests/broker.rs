//! The broker crate on a real nats-server.
#![allow(clippy::unwrap_used, missing_docs)]

use posthorn_broker::codec::IdempotencyMark;
use posthorn_broker::{
    Broker, BrokerError, BucketName, ConnectSettings, LaneStore, Patience, Start, StreamName,
    Topology, Waiting, Watched,
};
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::delivery::{ReleaseMark, ReplayMark};
use posthorn_delivery::*;
use posthorn_nats_server::NatsServer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

struct Rig {
    server: NatsServer,
    broker: Broker,
    _folder: TempDir,
}

/// A port below those that the kernel gives to outgoing connections, so that none of them takes
/// it while a server is restarted.
fn lasting_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 15_000).unwrap();
    loop {
        let port = 10_000 + start + NEXT.fetch_add(1, Ordering::Relaxed) % 5_000;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

async fn rig() -> Rig {
    let folder = TempDir::new().unwrap();
    let server = NatsServer::builder()
        .data_dir(folder.path())
        .port(lasting_port())
        .start()
        .await
        .unwrap();
    let broker = connect(&server, Topology::new("posthorn")).await.unwrap();
    Rig {
        server,
        broker,
        _folder: folder,
    }
}

async fn connect(server: &NatsServer, topology: Topology) -> Result<Broker, BrokerError> {
    Broker::connect(
        &ConnectSettings::plain(server.client_url(), "test"),
        topology,
    )
    .await
}

fn delivery(event: u128) -> Delivery {
    Delivery {
        tenant: Tenant::parse("acme").unwrap(),
        event_id: EventId::from_bits(event),
        event_type: EventType::parse("a.b").unwrap(),
        endpoint_id: EndpointId::from_bits(2),
        payload: bytes::Bytes::from_static(b"{}"),
        content_type: "application/json".to_owned(),
        headers: vec![],
        traceparent: None,
        accepted_at: UnixMillis(1),
        event_seq: 1,
        config_revision: 0,
        attempt: 1,
        hop: 0,
        stale_retries: 0,
        release: ReleaseMark::default(),
        not_before: UnixMillis(1),
        expires_at: UnixMillis(i64::MAX),
        held: Duration::ZERO,
        pauses_known: None,
        replay: None,
        test: false,
        history: vec![],
    }
}

fn attempt(of: &Delivery) -> Attempt {
    Attempt {
        tenant: of.tenant.clone(),
        event_id: of.event_id.clone(),
        event_type: of.event_type.clone(),
        endpoint_id: of.endpoint_id.clone(),
        number: of.attempt,
        hop: of.hop,
        replay_generation: 0,
        at: UnixMillis(5),
        latency_ms: 1,
        result: AttemptResult::Status(200),
        response_body: bytes::Bytes::new(),
        disposition: Disposition::Complete,
        breaker_generation: 0,
        probe: false,
        breaker_signal: BreakerSignal::Success,
        hold_until: None,
        disable_endpoint: false,
        in_order: false,
        detail: String::new(),
        exchange: None,
    }
}

/// Everything that a pump hands over, in a channel.
fn pumped(broker: &Broker, stop: &CancellationToken) -> mpsc::Receiver<posthorn_broker::Pumped> {
    let (queue, taken) = mpsc::channel(1_000);
    let pump = broker.pump_deliveries(Arc::new(Semaphore::new(100)), 50, stop.clone());
    tokio::spawn(pump.run(move |next| drop(queue.try_send(next))));
    taken
}

async fn next(taken: &mut mpsc::Receiver<posthorn_broker::Pumped>) -> posthorn_broker::Pumped {
    tokio::time::timeout(Duration::from_secs(20), taken.recv())
        .await
        .unwrap()
        .unwrap()
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn ensure_is_idempotent_and_reports_and_repairs_drift() {
    let rig = rig().await;
    assert_eq!(rig.broker.ensure().await.unwrap(), []);
    let mut topology = Topology::new("posthorn");
    topology.retention.dlq.0 = Duration::from_secs(3_600);
    topology.manage = false;
    let watching = connect(&rig.server, topology.clone()).await.unwrap();
    let drifts = watching.ensure().await.unwrap();
    // Letters and their register are kept for the same time.
    let found: Vec<_> = drifts.iter().map(|d| (d.setting, d.repaired)).collect();
    assert_eq!(found, [("max_age", false); 2]);
    topology.manage = true;
    let repairing = connect(&rig.server, topology).await.unwrap();
    assert_eq!(
        repairing.ensure().await.unwrap(),
        [],
        "connecting has set it right"
    );
    let elsewhere = Topology {
        manage: false,
        ..Topology::new("other")
    };
    assert!(matches!(
        connect(&rig.server, elsewhere).await,
        Err(BrokerError::Missing(_))
    ));
}

/// One header of one publisher could remove what all others have published, or have an event
/// expire that was acknowledged.
#[tokio::test]
async fn what_the_headers_of_a_publisher_may_do_to_events_is_taken_back() {
    let rig = rig().await;
    let client = async_nats::connect(rig.server.client_url()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let mut config = context.get_stream("POSTHORN_EVENTS").await.unwrap();
    let mut config = config.info().await.unwrap().config.clone();
    config.allow_rollup = true;
    config.allow_atomic_publish = true;
    config.allow_message_ttl = true;
    context.update_stream(config).await.unwrap();
    let drifts = rig.broker.ensure().await.unwrap();
    let found: Vec<_> = drifts.iter().map(|d| (d.setting, d.repaired)).collect();
    assert_eq!(
        found,
        [
            ("allow_rollup_hdrs", true),
            ("allow_atomic", true),
            // The server takes this back from no stream: it stays said at every start.
            ("allow_msg_ttl", false),
        ]
    );
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Rollup", "all");
    let sent = context.publish_with_headers("posthorn.events.acme.a", headers, "{}".into());
    assert!(sent.await.unwrap().await.is_err());
    let again = rig.broker.ensure().await.unwrap();
    assert_eq!(again.len(), 1);
}

#[tokio::test]
async fn an_unreachable_server_is_said_so_within_the_timeout() {
    let mut settings = ConnectSettings::plain("nats://127.0.0.1:1", "test");
    settings.timeout = Duration::from_millis(300);
    let result = Broker::connect(&settings, Topology::new("posthorn")).await;
    assert!(matches!(result, Err(BrokerError::Unreachable(_))));
}

#[tokio::test]
async fn an_address_that_is_none_is_bad_configuration_at_once() {
    for url in ["zz://x", "nats://", "nats://a:99999", "http://a", "", "a b"] {
        let settings = ConnectSettings::plain(url, "test");
        let result = Broker::connect(&settings, Topology::new("posthorn")).await;
        assert!(matches!(result, Err(BrokerError::Settings(_))), "{url}");
    }
}

#[tokio::test]
async fn a_repeated_attempt_finds_the_first_record() {
    let rig = rig().await;
    let record = attempt(&delivery(1));
    let first = rig.broker.publish_attempt(&record).await.unwrap();
    let other = Attempt {
        disposition: Disposition::Dead(Reason::Exhausted),
        ..record.clone()
    };
    let second = rig.broker.publish_attempt(&other).await.unwrap();
    assert!(!first.duplicate && second.duplicate);
    assert_eq!(first.sequence, second.sequence);
    let log = rig
        .broker
        .log::<Attempt>(StreamName::Attempts)
        .await
        .unwrap();
    assert_eq!(
        log.at(second.sequence).await.unwrap().unwrap().value,
        record
    );
}

#[tokio::test]
async fn the_hop_keeps_the_second_trip_of_a_delivery_from_being_a_duplicate() {
    let rig = rig().await;
    let mut trip = delivery(1);
    for hop in 0..5 {
        assert!(
            !rig.broker.publish_delivery(&trip).await.unwrap().duplicate,
            "hop {hop}"
        );
        assert!(
            rig.broker.publish_delivery(&trip).await.unwrap().duplicate,
            "hop {hop} again"
        );
        trip = trip.next_hop();
    }
}

#[tokio::test]
async fn a_pump_hands_over_and_a_confirmed_ack_survives_a_sigkill() {
    let mut rig = rig().await;
    for event in 0..20 {
        rig.broker.publish_delivery(&delivery(event)).await.unwrap();
    }
    let stop = CancellationToken::new();
    let mut taken = pumped(&rig.broker, &stop);
    for _ in 0..20 {
        next(&mut taken).await.message.ack().await.unwrap();
    }
    rig.server.kill().await.unwrap();
    rig.server.restart_same_port().await.unwrap();
    let broker = rig.broker.clone();
    eventually("the broker answers again", async || {
        broker.ensure().await.is_ok()
    })
    .await;
    assert_eq!(
        broker
            .stream_messages(StreamName::Deliveries)
            .await
            .unwrap(),
        0
    );
    broker.publish_delivery(&delivery(99)).await.unwrap();
    let fresh = next(&mut taken).await;
    assert_eq!(
        fresh.message.delivered(),
        1,
        "the pump goes on over the outage, with the fresh one"
    );
}

#[tokio::test]
async fn ops_03_a_broker_that_lost_its_state_is_furnished_again() {
    let rig = rig().await;
    let stop = CancellationToken::new();
    let mut taken = pumped(&rig.broker, &stop);
    let client = async_nats::connect(rig.server.client_url()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    context.delete_stream("POSTHORN_DELIVERIES").await.unwrap();
    let broker = rig.broker.clone();
    let patient = delivery(1);
    eventually("the stream is back", async || {
        broker.publish_delivery(&patient).await.is_ok()
    })
    .await;
    assert_eq!(next(&mut taken).await.message.delivered(), 1);
}

#[tokio::test]
async fn ops_03_a_bucket_that_was_deleted_is_made_again_and_watched_again() {
    let rig = rig().await;
    let bucket = rig
        .broker
        .bucket::<IdempotencyMark>(BucketName::Endpoints)
        .await
        .unwrap();
    let mark = IdempotencyMark {
        event_id: EventId::from_bits(1),
        fingerprint: 1,
    };
    let watched = Watched::start(bucket.clone(), CancellationToken::new());
    bucket.put("a.1", &mark).await.unwrap();
    eventually("it is seen", async || watched.get("a.1").is_some()).await;
    let client = async_nats::connect(rig.server.client_url()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    context
        .delete_key_value("POSTHORN_ENDPOINTS")
        .await
        .unwrap();
    context.delete_stream("POSTHORN_DLQ").await.unwrap();
    rig.broker.restore().await.unwrap();
    assert_eq!(
        rig.broker.ensure().await.unwrap(),
        [],
        "all is as it should be"
    );
    bucket.put("b.1", &mark).await.unwrap();
    eventually("the new one is watched", async || {
        watched.get("b.1").is_some()
    })
    .await;
    assert!(watched.get("a.1").is_none());
}

#[tokio::test]
async fn a_stopped_pump_gives_back_at_once_what_it_has_not_handed_over() {
    let rig = rig().await;
    let stop = CancellationToken::new();
    let (queue, mut taken) = mpsc::channel(1);
    let permits = Arc::new(Semaphore::new(1));
    let pump = rig.broker.pump_deliveries(permits, 50, stop.clone());
    let running = tokio::spawn(pump.run(move |next| drop(queue.try_send(next))));
    rig.broker.publish_delivery(&delivery(1)).await.unwrap();
    rig.broker.publish_delivery(&delivery(2)).await.unwrap();
    let held = next(&mut taken).await;
    assert_eq!(
        rig.broker.dispatch_backlog().await.unwrap(),
        (1, 1),
        "one permit, one message"
    );
    stop.cancel();
    running.await.unwrap();
    held.message.nak(None).await;
    let again = CancellationToken::new();
    let mut rest = pumped(&rig.broker, &again);
    next(&mut rest).await;
    next(&mut rest).await;
}

#[tokio::test]
async fn compare_and_swap_has_one_winner_and_a_deleted_key_can_be_made_again() {
    let rig = rig().await;
    let bucket = rig
        .broker
        .bucket::<IdempotencyMark>(BucketName::Idempotency)
        .await
        .unwrap();
    let mark = |bits| IdempotencyMark {
        event_id: EventId::from_bits(bits),
        fingerprint: 1,
    };
    let first = bucket.swap("k", &mark(1), 0).await.unwrap();
    let races = (0..32).map(|n| {
        let (bucket, mark) = (bucket.clone(), mark(n));
        tokio::spawn(async move { bucket.swap("k", &mark, first).await })
    });
    let mut winners = 0;
    for race in races.collect::<Vec<_>>() {
        match race.await.unwrap() {
            Ok(_) => winners += 1,
            Err(error) => assert!(matches!(error, BrokerError::Conflict), "{error:?}"),
        }
    }
    assert_eq!(winners, 1);
    bucket.remove("k").await.unwrap();
    assert_eq!(bucket.get("k").await.unwrap(), None);
    bucket.swap("k", &mark(9), 0).await.unwrap();
    assert_eq!(bucket.get("k").await.unwrap().unwrap().value, mark(9));
}

#[tokio::test]
async fn js_19_a_watch_converges_over_deletions_empty_values_and_an_outage() {
    let mut rig = rig().await;
    let bucket = rig
        .broker
        .bucket::<IdempotencyMark>(BucketName::Endpoints)
        .await
        .unwrap();
    let mark = IdempotencyMark {
        event_id: EventId::from_bits(1),
        fingerprint: 1,
    };
    let watched = Watched::start(bucket.clone(), CancellationToken::new());
    watched.loaded().await;
    assert!(watched.is_empty());
    for key in ["a.1", "a.2", "b.1"] {
        bucket.put(key, &mark).await.unwrap();
    }
    watched.catch_up().await.unwrap();
    assert_eq!((watched.len(), watched.with_prefix("a.").len()), (3, 2));
    bucket.remove("a.1").await.unwrap();
    let client = async_nats::connect(rig.server.client_url()).await.unwrap();
    let raw = async_nats::jetstream::new(client)
        .get_key_value("POSTHORN_ENDPOINTS")
        .await
        .unwrap();
    raw.put("a.2", bytes::Bytes::new()).await.unwrap();
    watched.catch_up().await.unwrap();
    assert!(
        watched.with_prefix("a.").is_empty(),
        "deleted and empty are both gone"
    );
    raw.put("b.1", bytes::Bytes::from_static(b"\xff"))
        .await
        .unwrap();
    watched.catch_up().await.unwrap();
    assert!(
        watched.get("b.1").is_some(),
        "what cannot be read is not taken for a deletion"
    );
    rig.server.kill().await.unwrap();
    rig.server.restart_same_port().await.unwrap();
    eventually("the bucket takes a write", async || {
        bucket.put("c.1", &mark).await.is_ok()
    })
    .await;
    eventually("the watch has it", async || watched.get("c.1").is_some()).await;
}

/// A revoked key must not stay good because a consumer was lost and nobody noticed.
#[tokio::test]
async fn a_lost_watch_is_found_as_soon_as_it_was_told_to_be() {
    use futures_util::TryStreamExt;
    let rig = rig().await;
    let bucket = rig.broker.bucket(BucketName::Keys).await.unwrap();
    let mark = IdempotencyMark {
        event_id: EventId::from_bits(1),
        fingerprint: 1,
    };
    bucket.put("k", &mark).await.unwrap();
    let refresh = Duration::from_millis(300);
    let watched = Watched::checked(bucket.clone(), refresh, CancellationToken::new());
    assert!(!watched.is_loaded());
    watched.loaded().await;
    assert!(watched.is_loaded() && watched.get("k").is_some());
    let client = async_nats::connect(rig.server.client_url()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let stream = context.get_stream("KV_POSTHORN_KEYS").await.unwrap();
    let watches: Vec<String> = stream.consumer_names().try_collect().await.unwrap();
    assert_eq!(watches.len(), 1);
    stream.delete_consumer(&watches[0]).await.unwrap();
    bucket.remove("k").await.unwrap();
    let since = std::time::Instant::now();
    eventually("the deletion is seen", async || watched.get("k").is_none()).await;
    let took = since.elapsed();
    // Without being told, it would be 15 s.
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn a_log_is_read_by_subject_in_batches() {
    let rig = rig().await;
    for event in 0..300 {
        rig.broker
            .publish_attempt(&attempt(&delivery(event)))
            .await
            .unwrap();
    }
    let log = rig
        .broker
        .log::<Attempt>(StreamName::Attempts)
        .await
        .unwrap();
    let (names, endpoint) = (rig.broker.names().clone(), EndpointId::from_bits(2));
    let all = names.attempts_of_endpoint("acme", endpoint.as_str());
    let page = log.read(&all, 1, 200).await.unwrap();
    assert_eq!((page.items.len(), page.items[0].sequence), (200, 1));
    assert!(page.pending > 0);
    let rest = log.read(&all, 201, 200).await.unwrap();
    assert_eq!((rest.items.len(), rest.pending), (100, 0));
    let one = names.attempts_of_event("*", &EventId::from_bits(7));
    let found = log.read(&one, 1, 100).await.unwrap();
    assert!(
        found
            .items
            .iter()
            .any(|logged| logged.value.event_id == EventId::from_bits(7))
    );
    let none = names.attempts_of_endpoint("nobody", endpoint.as_str());
    assert_eq!(log.read(&none, 1, 10).await.unwrap().items, []);
    assert_eq!(log.count(&all).await.unwrap(), 300);
}

#[tokio::test]
async fn waiting_goes_to_the_durable_or_to_the_calendar_by_its_time() {
    let rig = rig().await;
    let now = UnixMillis(1_800_000_000_000);
    let near = Broker::near();
    for (event, wait) in [(1, 10), (2, 400), (3, 8_000)] {
        let later = delivery(event).deferred(now + Duration::from_secs(wait));
        let waiting = Waiting::Delivery(Box::new(later));
        rig.broker
            .publish_waiting(&waiting, near, now, Patience::WORKER)
            .await
            .unwrap();
    }
    assert_eq!(rig.broker.near_backlog().await.unwrap(), (1, 0));
    assert_eq!(
        rig.broker.far_hours().await.unwrap(),
        [(500_000, 1), (500_002, 1)]
    );
}

#[tokio::test]
async fn a_full_stream_refuses_at_once_for_a_caller_who_waits() {
    let folder = TempDir::new().unwrap();
    let server = NatsServer::builder()
        .data_dir(folder.path())
        .start()
        .await
        .unwrap();
    let mut topology = Topology::new("posthorn");
    topology.retention.events.1 = Some(2_000);
    let broker = connect(&server, topology).await.unwrap();
    let event = |bits| Event {
        id: EventId::from_bits(bits),
        tenant: Tenant::parse("acme").unwrap(),
        event_type: EventType::parse("a").unwrap(),
        payload: vec![b'x'; 600].into(),
        content_type: "text/plain".to_owned(),
        headers: vec![],
        traceparent: None,
        accepted_at: UnixMillis(1),
        deliver_at: None,
        only_endpoint: None,
    };
    let patience = Patience::caller(Duration::from_secs(60));
    let mut refused = None;
    for bits in 0..10 {
        if let Err(error) = broker
            .publish_event(&event(bits), &bits.to_string(), patience)
            .await
        {
            refused = Some(error);
        }
    }
    assert!(matches!(refused, Some(BrokerError::Full)), "{refused:?}");
}

/// Publishes as a client of one's own making would: any bytes.
async fn publish_raw(server: &NatsServer, subject: &[u8], headers: &[u8], payload: &[u8]) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let address = server.client_url().trim_start_matches("nats://");
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let lengths = format!(" {} {}\r\n", headers.len(), headers.len() + payload.len());
    let connect = b"CONNECT {\"headers\":true,\"verbose\":false}\r\nHPUB ";
    let parts: [&[u8]; 6] = [
        connect,
        subject,
        lengths.as_bytes(),
        headers,
        payload,
        b"\r\nPING\r\n",
    ];
    stream.write_all(&parts.concat()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.windows(4).any(|part| part == b"PONG") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "closed");
    }
}

#[tokio::test]
async fn js_17_an_event_that_the_client_cannot_read_is_found_and_taken_out() {
    let rig = rig().await;
    let stop = CancellationToken::new();
    let permits = Arc::new(Semaphore::new(8));
    let pump = rig.broker.pump_events(permits, 8, stop.clone());
    let running = tokio::spawn(pump.run(drop));
    let bad: [(&[u8], &[u8]); 3] = [
        (b"posthorn.events.acme.a", b"NATS/1.0\r\nX: \xff\r\n\r\n"),
        (b"posthorn.events.acme.b\xff", b"NATS/1.0\r\n\r\n"),
        // The client's task ends over this one.
        (b"posthorn.events.acme.e", b"NATS/1.0\r\nX: a\rb\r\n\r\n"),
    ];
    for (subject, headers) in bad {
        publish_raw(&rig.server, subject, headers, b"hello").await;
    }
    let fine = b"NATS/1.0\r\nX: \xc3\xa4\r\n\r\n";
    publish_raw(&rig.server, b"posthorn.events.acme.d", fine, b"hello").await;

    // None is acknowledged here, and only the readable one is left alone.
    let mut found = Vec::new();
    eventually("all are found", async || {
        let later = UnixMillis(i64::MAX / 2);
        let looked = rig.broker.unreadable_events(later, Duration::from_secs(1));
        found = looked.await.unwrap_or_default();
        found.len() == bad.len()
    })
    .await;
    assert_eq!(found[0].subject, "posthorn.events.acme.a");
    assert_eq!(&found[0].payload[..], b"hello");
    assert!(found[0].stored_at > UnixMillis(0));
    for message in &found {
        rig.broker.remove_event(message.sequence).await.unwrap();
        rig.broker.remove_event(message.sequence).await.unwrap();
    }
    eventually("only the readable one is left", async || {
        rig.broker.stream_messages(StreamName::Events).await.ok() == Some(1)
    })
    .await;
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn js_17_behind_one_unreadable_event_the_next_are_found_before_they_are_handed_out() {
    let rig = rig().await;
    let bad = b"NATS/1.0\r\nX: a\rb\r\n\r\n";
    for _ in 0..300 {
        publish_raw(&rig.server, b"posthorn.events.acme.a", bad, b"").await;
    }
    let later = UnixMillis(i64::MAX / 2);
    let age = Duration::from_secs(1);
    // Nothing has been handed out: nothing is stuck, and nothing is looked for.
    let found = rig.broker.unreadable_events(later, age).await.unwrap();
    assert_eq!(found.len(), 0);
    let stop = CancellationToken::new();
    let permits = Arc::new(Semaphore::new(1));
    let pump = rig.broker.pump_events(permits, 1, stop.clone());
    let running = tokio::spawn(pump.run(drop));
    eventually("all are found behind the first", async || {
        let found = rig.broker.unreadable_events(later, age).await;
        found.unwrap_or_default().len() == 300
    })
    .await;
    stop.cancel();
    running.await.unwrap();
}

/// Reads the whole archive of `acme` in pages of `max`.
async fn archived(rig: &Rig, max: usize) -> Vec<posthorn_broker::Archived> {
    let (archive, mut found, mut from) =
        (rig.broker.archive(), Vec::new(), Start::Time(UnixMillis(1)));
    let acme = Tenant::parse("acme").unwrap();
    let filter = rig.broker.names().archived(&acme, ">");
    loop {
        let page = archive.read(&filter, from, max).await.unwrap();
        found.extend(page.items);
        if page.is_last {
            return found;
        }
        assert_ne!(page.up_to, 0, "it goes on");
        from = Start::Sequence(page.up_to + 1);
    }
}

#[tokio::test]
async fn js_17_the_archive_is_read_past_what_no_client_can_read() {
    let rig = rig().await;
    let plain =
        b"NATS/1.0\r\nNats-Msg-Id: acme:1\r\nNats-Sequence: 77\r\nNats-Num-Pending: 0\r\n\r\n";
    let all: [(&[u8], &[u8]); 8] = [
        (b"posthorn.events.acme.a", plain),
        (b"posthorn.events.acme.b", b"NATS/1.0\r\nX: \xff\r\n\r\n"),
        (b"posthorn.events.globex.a", b"NATS/1.0\r\n\r\n"),
        (b"posthorn.events.acme.b\xff", b"NATS/1.0\r\n\r\n"),
        (b"posthorn.events.acme.c", b"NATS/1.0 204\r\nX: a\r\n\r\n"),
        (b"posthorn.events.acme.b", b"NATS/1.0\r\nX: a\rb\r\n\r\n"),
        (
            b"posthorn.events.acme.d",
            b"NATS/1.0\r\nContent-Type: text/plain\r\n\r\n",
        ),
        (b"posthorn.events.acme.b", b"NATS/1.0\r\nX: \xff\r\n\r\n"),
    ];
    for (subject, headers) in all {
        publish_raw(&rig.server, subject, headers, b"hello").await;
    }
    eventually("all are archived", async || {
        rig.broker.stream_messages(StreamName::Archive).await.ok() == Some(8)
    })
    .await;
    for max in [3, 100] {
        let found = archived(&rig, max).await;
        let types: Vec<&str> = found.iter().map(|f| f.event.event_type.as_str()).collect();
        assert_eq!(types, ["a", "c", "d"], "{max} at a time");
        let places: Vec<_> = found.iter().map(|f| (f.sequence, f.event_seq)).collect();
        assert_eq!(places, [(1, 1), (5, 5), (7, 7)]);
        assert_eq!(&found[2].event.payload[..], b"hello");
        assert_eq!(found[2].event.content_type, "text/plain");
        assert!(!found[0].is_of_former_stream && found[0].stored_at > UnixMillis(0));
        let acme = Tenant::parse("acme").unwrap();
        assert_eq!(found[0].event.id, EventId::from_key(&acme, "acme:1"));
    }
    let (archive, filter) = (rig.broker.archive(), "posthorn.archive.acme.>");
    assert_eq!(archive.at(filter, 7).await.unwrap().unwrap().event_seq, 7);
    for none in [3, 8, 9] {
        assert_eq!(archive.at(filter, none).await.unwrap(), None, "{none}");
    }
}

async fn lane_store(rig: &Rig) -> (LaneStore, LaneId) {
    let store = LaneStore::open(&rig.broker).await.unwrap();
    (store, LaneId::live(&EndpointId::from_bits(2)))
}

#[tokio::test]
async fn a_lane_has_one_token_that_can_be_replaced_and_the_old_one_then_touches_nothing() {
    let rig = rig().await;
    let (store, lane) = lane_store(&rig).await;
    for _ in 0..3 {
        store.put_token(&lane).await.unwrap();
    }
    assert_eq!(store.tokens().await.unwrap(), std::slice::from_ref(&lane));
    let stop = CancellationToken::new();
    let (sender, mut taken) = mpsc::channel(16);
    let permits = Arc::new(Semaphore::new(16));
    let pump = rig.broker.pump_tokens(permits, 16, stop.clone());
    let pump = tokio::spawn(pump.run(move |pumped| drop(sender.try_send(pumped))));
    let old = next(&mut taken).await;
    assert_eq!(
        rig.broker.names().parse_lane(old.message.subject()),
        Some(lane.clone())
    );
    store.put_token(&lane).await.unwrap();
    assert!(
        taken.try_recv().is_err(),
        "a second is refused while the first is in hand"
    );
    store.renew_token(&lane).await.unwrap();
    let new = next(&mut taken).await;
    assert_ne!(new.message.sequence(), old.message.sequence());
    // Answered like good ones, both; the new token stays as it is.
    old.message.nak(None).await;
    let _ = old.message.ack().await;
    assert_eq!(store.tokens().await.unwrap(), std::slice::from_ref(&lane));
    new.message.ack().await.unwrap();
    assert_eq!(store.tokens().await.unwrap(), []);
    store.put_token(&lane).await.unwrap();
    assert_eq!(next(&mut taken).await.message.delivered(), 1);
    stop.cancel();
    pump.await.unwrap();
}

#[tokio::test]
async fn a_lane_is_read_and_removed_in_order_and_its_neighbours_are_left_alone() {
    let rig = rig().await;
    let (store, lane) = lane_store(&rig).await;
    let replay = LaneId::replay(&lane.endpoint);
    for n in 0..10 {
        let to = if n % 2 == 0 { &lane } else { &replay };
        store
            .append(to, &delivery(n), Patience::CALLER)
            .await
            .unwrap();
        let again = store
            .append(to, &delivery(n), Patience::CALLER)
            .await
            .unwrap();
        assert!(again.duplicate);
    }
    store.remove_up_to(&lane, 0).await.unwrap();
    assert_eq!(store.depth(&lane).await.unwrap(), 5);
    let page = store.read(&lane, 1, 3).await.unwrap();
    let positions: Vec<u64> = page.items.iter().map(|item| item.sequence).collect();
    assert_eq!((positions, page.pending), (vec![1, 3, 5], 2));
    store.remove_up_to(&lane, 5).await.unwrap();
    assert_eq!(store.read(&lane, 1, 9).await.unwrap().items[0].sequence, 7);
    store.remove(7).await.unwrap();
    store.remove(7).await.unwrap();
    let mut lanes = store.lanes().await.unwrap();
    lanes.sort();
    assert_eq!(lanes, [(lane, 1), (replay, 5)]);
}

#[tokio::test]
async fn a_read_of_large_deliveries_is_bounded_and_one_that_is_larger_comes_alone() {
    let rig = rig().await;
    let (store, lane) = lane_store(&rig).await;
    for n in 0..6 {
        let mut large = delivery(n);
        large.payload = vec![b'x'; 900 * 1024].into();
        store.append(&lane, &large, Patience::CALLER).await.unwrap();
    }
    let (mut from, mut reads, mut got) = (1, 0, 0);
    while got < 6 {
        let page = store.read(&lane, from, 256).await.unwrap();
        assert!((1..=3).contains(&page.items.len()), "{}", page.items.len());
        from = page.items.last().unwrap().sequence + 1;
        (reads, got) = (reads + 1, got + page.items.len());
    }
    assert!(reads >= 2);
}

#[tokio::test]
async fn what_was_fanned_out_what_is_on_its_way_and_what_was_answered_are_known() {
    let rig = rig().await;
    let (store, lane) = lane_store(&rig).await;
    assert_eq!(store.fanned_out().await.unwrap(), 0);
    let of = delivery(7);
    let mut answers = store.answers(&of.tenant, &lane.endpoint).await.unwrap();
    rig.broker.publish_delivery(&of).await.unwrap();
    assert_eq!(store.on_their_way(&lane.endpoint).await.unwrap(), 1);
    assert_eq!(store.records(&of).await.unwrap(), []);
    let stored = rig.broker.publish_attempt(&attempt(&of)).await.unwrap();
    assert_eq!(answers.next().await, Some(attempt(&of)));
    let records = store.records(&of).await.unwrap();
    assert_eq!(records, [(stored.sequence, attempt(&of))]);
    // Put into its lane again, it is due again; only a replay has nothing from before that.
    let mut again = Delivery {
        not_before: UnixMillis(4_000_000_000_000),
        ..of
    };
    assert_eq!(store.records(&again).await.unwrap().len(), 1);
    again.replay = Some(ReplayMark {
        generation: 5,
        replay_id: String::new(),
        count: 1,
        death: None,
    });
    assert_eq!(store.records(&again).await.unwrap(), []);
}

//! Dead letters, weighed without being read and dropped below a sequence, on a real nats-server.
#![allow(clippy::unwrap_used, missing_docs)]

use bytes::Bytes;
use futures_util::StreamExt;
use posthorn_broker::{Broker, ConnectSettings, Retention, StreamName, Topology, Weighed};
use posthorn_delivery::{
    DeadLetter, EndpointId, EventId, LetterId, LetterState, Reason, Tenant, UnixMillis,
};
use posthorn_nats_server::NatsServer;
use std::time::Duration;
use tempfile::TempDir;

struct Rig {
    broker: Broker,
    _server: NatsServer,
    _folder: TempDir,
}

async fn rig() -> Rig {
    let folder = TempDir::new().unwrap();
    let server = NatsServer::builder().data_dir(folder.path()).start();
    let server = server.await.unwrap();
    let topology = Topology {
        retention: Retention {
            dlq: (Duration::from_secs(3_600), Some(64 << 20)),
            dlq_of_tenant: Some(9_000),
            ..Retention::default()
        },
        ..Topology::new("posthorn")
    };
    let settings = ConnectSettings::plain(server.client_url(), "test");
    Rig {
        broker: Broker::connect(&settings, topology).await.unwrap(),
        _server: server,
        _folder: folder,
    }
}

fn letter(tenant: &str, n: u128, size: usize) -> DeadLetter {
    let endpoint = EndpointId::from_bits(1);
    let event = EventId::from_bits(n);
    DeadLetter {
        id: LetterId::of(&Tenant::parse(tenant).unwrap(), &event, &endpoint),
        tenant: tenant.to_owned(),
        event_id: event.to_string(),
        event_type: "a.b".to_owned(),
        endpoint_id: Some(endpoint),
        reason: Reason::Exhausted,
        detail: String::new(),
        died_at: UnixMillis(1),
        accepted_at: UnixMillis(1),
        payload: Bytes::from(vec![b'x'; size]),
        content_type: "text/plain".to_owned(),
        headers: Vec::new(),
        traceparent: None,
        history: Vec::new(),
        state: LetterState::Dead,
        state_since: UnixMillis(1),
        replay_generation: 0,
        replays: 0,
        event_seq: 1,
        replay_id: String::new(),
        entry: 0,
        answer: String::new(),
    }
}

async fn write(broker: &Broker, letters: impl IntoIterator<Item = DeadLetter>) {
    futures_util::stream::iter(letters)
        .map(|letter| async move {
            let id = format!("{}-{}", letter.id, letter.replays);
            broker.publish_letter(&letter, &id, None).await.unwrap();
        })
        .buffered(1)
        .collect::<()>()
        .await;
}

async fn weigh(broker: &Broker, tenant: &str, from: u64) -> Vec<Weighed> {
    let mut all = Vec::new();
    let walk = broker.weigh_letters(tenant, from, |letter| all.push(letter));
    walk.await.unwrap();
    all
}

#[tokio::test]
async fn letters_are_weighed_in_their_order_and_by_tenant() {
    let rig = rig().await;
    let broker = &rig.broker;
    assert!(weigh(broker, "*", 1).await.is_empty());
    write(broker, (0..50).map(|n| letter("acme", n, 5_000))).await;
    write(broker, (0..30).map(|n| letter("globex", n, 10))).await;
    let all = weigh(broker, "*", 1).await;
    assert_eq!(all.len(), 80);
    assert!(all.is_sorted_by_key(|letter| letter.sequence));
    let names = broker.names();
    let of = |letter: &Weighed| {
        names
            .parse_letter_tenant(&letter.subject)
            .unwrap()
            .to_owned()
    };
    assert!(all[..50].iter().all(|letter| of(letter) == "acme"));
    assert!(all.iter().all(|letter| letter.entry > 0 && !letter.again));
    let globex = weigh(broker, "globex", 1).await;
    assert_eq!(globex, all[50..]);
    let kept = broker.kept(StreamName::Dlq).await.unwrap();
    assert_eq!((kept.messages, kept.last_sequence), (80, 80));
    assert_eq!(kept.max_age, Some(Duration::from_secs(3_600)));
    assert_eq!(kept.max_bytes, Some(64 << 20));
    // What is added up is about what the broker says.
    let sum: u64 = all.iter().map(|letter| letter.bytes).sum();
    assert!(sum.abs_diff(kept.bytes) < kept.bytes / 20, "{sum} {kept:?}");
    assert_eq!(broker.tenant_budget(), Some(9_000));
    // A letter that dies again takes its own place and is no new one.
    let again = DeadLetter {
        replays: 1,
        ..letter("acme", 7, 5_000)
    };
    write(broker, [again]).await;
    let newest = weigh(broker, "*", 81).await;
    assert_eq!(newest.len(), 1);
    assert!(newest[0].again);
    assert_eq!(weigh(broker, "acme", 1).await.len(), 50);
}

#[tokio::test]
async fn dropping_spares_other_tenants_and_what_is_newer() {
    let rig = rig().await;
    let broker = &rig.broker;
    // Their letters lie among each other.
    for n in 0..20 {
        write(broker, [letter("acme", n, 100), letter("globex", n, 100)]).await;
    }
    assert_eq!(broker.drop_letters("acme", 0).await.unwrap(), 0);
    assert_eq!(broker.drop_letters("acme", 1).await.unwrap(), 0);
    assert_eq!(weigh(broker, "*", 1).await.len(), 40);
    assert_eq!(broker.drop_letters("acme", 21).await.unwrap(), 10);
    let left = weigh(broker, "acme", 1).await;
    assert_eq!(left.len(), 10);
    assert_eq!(left[0].sequence, 21);
    assert_eq!(weigh(broker, "globex", 1).await.len(), 20);
    assert_eq!(broker.drop_letters("acme", 21).await.unwrap(), 0);
}

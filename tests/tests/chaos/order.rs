//! `fifo` keeps its order through everything that fails at the same time.

use crate::load::publish;
use crate::site::{Site, TENANT, at_random, kill_any, number};
use crate::turn;
use posthorn_broker::StreamName;
use posthorn_delivery::{Disposition, Ordering};
use posthorn_tests::api::Api;
use posthorn_tests::receiver::{Received, Receiver, Reply};
use posthorn_tests::rig::{self, Rig};
use posthorn_tests::wait::eventually;
use posthorn_tests::{Cluster, DEADLINE, Role};
use rand::RngExt;
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

const LANES: usize = 10;
const EVENTS: usize = 120;
const KILLS: usize = 10;

/// Every third event fails once, every seventh twice, and each takes a while.
fn answer(request: &Received) -> Reply {
    let attempt: u32 = request.header("webhook-attempt").unwrap().parse().unwrap();
    let status = match number(request) {
        n if n % 3 == 1 && attempt == 1 => 500,
        n if n % 7 == 2 && attempt <= 2 => 503,
        _ => 200,
    };
    let took = Duration::from_millis(rand::rng().random_range(10..=80));
    Reply::status(status).delay(took)
}

/// The events in the order of their first good answer.
fn arrived(requests: &[Arc<Received>]) -> Vec<usize> {
    let mut seen = HashSet::new();
    requests
        .iter()
        .filter(|request| request.answered() == Some(200))
        .map(|request| number(request))
        .filter(|n| seen.insert(*n))
        .collect()
}

/// How often an event came again after a later one had come.
fn steps_back(requests: &[Arc<Received>]) -> usize {
    let mut highest = 0;
    let is_back = |request: &&Arc<Received>| {
        let n = number(request);
        highest = highest.max(n);
        n < highest
    };
    requests.iter().filter(is_back).count()
}

/// One after the other, so that their order is known. Returns their ids.
async fn publish_in_order(api: Arc<Api>) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..EVENTS {
        ids.push(publish(&api, u64::try_from(n).unwrap()).await.unwrap());
        at_random(50..150).await;
    }
    ids
}

/// Schedulers and dispatchers are killed, and half-way the broker is away.
async fn faults(cluster: &mut Cluster) {
    for kill in 0..KILLS {
        at_random(500..2_500).await;
        let role = match rand::rng().random_bool(0.5) {
            true => Role::Scheduler,
            false => Role::Dispatcher,
        };
        kill_any(cluster, role).await;
        if kill == KILLS / 2 {
            cluster.nats.kill().await.unwrap();
            at_random(500..2_000).await;
            cluster.nats.restart().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_07_an_ordered_endpoint_sees_strict_order_through_kills_and_an_outage() {
    let _turn = turn::light().await;
    let builder = Cluster::builder()
        .copies(Role::Scheduler, 2)
        .copies(Role::Dispatcher, 2);
    let mut site = Site::start(builder).await;
    for n in 0..LANES {
        let path = format!("/fifo/{n}");
        site.receiver.answer_by(&path, answer);
        let breaker = match n % 2 {
            0 => json!(null),
            _ => json!({"failure_threshold": 2, "cooldown": "1s", "max_cooldown": "1s"}),
        };
        let more = json!({
            "ordering": "fifo",
            "breaker": breaker,
            "retry": {"base": "30ms", "max_delay": "30ms", "max_attempts": 60},
        });
        site.endpoint(&path, &more).await;
    }
    let publishing = publish_in_order(site.api.clone());
    let (ids, ()) = tokio::join!(publishing, faults(&mut site.cluster));
    ids.iter().for_each(|id| site.accepted(id));
    let verdict = site.verdict(Duration::from_secs(90)).await;
    let all: Vec<usize> = (0..EVENTS).collect();
    let (mut back, mut most) = (0, 0);
    for lane in site.lanes() {
        let requests = site.receiver.requests_to(&lane.path);
        assert_eq!(arrived(&requests), all, "{}", lane.path);
        back += steps_back(&requests);
        most = most.max(site.receiver.most_at_once(&lane.path));
    }
    println!(
        "{KILLS} kills and an outage: {} delivered in order, {} more than once, {back} requests behind a later event, at most {most} in flight",
        verdict.delivered,
        verdict.duplicates.len()
    );
    verdict.nothing_lost().unwrap();
    assert_eq!((verdict.dead, back), (0, 0));
}

/// Ten seconds later its message is another dispatcher's, and the order has moved on.
#[tokio::test(flavor = "multi_thread")]
async fn fan_07_what_was_recorded_before_a_dispatcher_died_is_not_requested_behind_later_events() {
    let _turn = turn::light().await;
    let mut rig = Rig::start().await.unwrap();
    rig.dispatcher(posthorn_dispatcher::Settings::default())
        .await
        .unwrap();
    let receiver = Receiver::start().await.unwrap();
    let mut fifo = rig::endpoint(TENANT, &receiver.url("/fifo"));
    fifo.ordering = Ordering::Fifo;
    rig.put(&fifo).await.unwrap();
    let broker = rig.broker();
    let send = async |n: u64, recorded: bool| {
        let mut delivery = rig::delivery(&fifo, n);
        delivery.release.lane_epoch = 1;
        delivery.release.in_order = true;
        if recorded {
            let record = rig::record(&delivery, Disposition::Complete);
            broker.publish_attempt(&record).await.unwrap();
        }
        broker.publish_delivery(&delivery).await.unwrap();
        let taken = || async {
            broker
                .stream_messages(StreamName::Deliveries)
                .await
                .unwrap()
                == 0
        };
        eventually(DEADLINE, "it is settled", taken).await.unwrap();
    };
    send(1, true).await;
    assert_eq!(receiver.count(), 0, "it had been answered");
    send(2, false).await;
    let requests = receiver.requests();
    let numbers: Vec<usize> = requests.iter().map(|request| number(request)).collect();
    assert_eq!(numbers, [2]);
}

/// A server that is killed forgets the last acknowledgements of its consumers, though not what
/// they removed. No later event tells how far fan-out had come.
#[tokio::test(flavor = "multi_thread")]
async fn fan_07_the_last_events_before_an_outage_do_not_wait_for_the_next_one() {
    let _turn = turn::light().await;
    let mut site = Site::start(Cluster::builder()).await;
    for n in 0..2 {
        let more = json!({"ordering": "fifo", "enabled": false});
        site.endpoint(&format!("/fifo/{n}"), &more).await;
    }
    site.publish(0..20).await;
    site.fills_to(40).await;
    site.cluster.nats.kill().await.unwrap();
    site.cluster.nats.restart().await.unwrap();
    site.call_each("resume").await;
    let verdict = site.verdict(Duration::from_secs(40)).await;
    verdict.exactly_once().unwrap();
}

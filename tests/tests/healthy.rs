//! What a healthy delivery costs. Alone in its binary, because it reads this process's counters.
#![allow(clippy::unwrap_used, missing_docs)]

use posthorn_broker::StreamName;
use posthorn_tests::receiver::Receiver;
use posthorn_tests::rig::{Rig, breaker, endpoint};
use posthorn_tests::wait::eventually;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// Operations on the buckets that deliveries could touch. Heartbeats are not among them.
fn kv_operations() -> f64 {
    let text = posthorn_runtime::metrics::render();
    text.lines()
        .filter_map(|line| {
            line.strip_prefix("posthorn_kv_operations_total")?
                .rsplit_once(' ')
        })
        .filter(|(labels, _)| !labels.contains("\"dispatchers\""))
        .filter_map(|(_, value)| value.parse::<f64>().ok())
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_delivery_makes_no_key_value_operation_and_one_history_write() {
    let mut rig = Rig::start().await.unwrap();
    rig.line().await.unwrap();
    let receiver = Receiver::start().await.unwrap();
    let mut healthy = endpoint("healthy", &receiver.url("/hook"));
    healthy.breaker = breaker(5, Duration::from_secs(30));
    rig.put(&healthy).await.unwrap();
    rig.publish("healthy", "a", 1).await.unwrap();
    receiver.wait_for(1, SOON).await.unwrap();
    let before = kv_operations();
    // Within what may be in flight: more at once would wait in a lane, whose opening and
    // closing are a few operations.
    for round in 1..=10 {
        rig.publish("healthy", "a", 50).await.unwrap();
        receiver.wait_for(1 + 50 * round, SOON).await.unwrap();
    }
    let broker = rig.broker();
    let settled = || async {
        broker
            .stream_messages(StreamName::Deliveries)
            .await
            .unwrap()
            == 0
    };
    eventually(SOON, "all are settled", settled).await.unwrap();
    assert_eq!(kv_operations(), before);
    assert_eq!(
        broker.stream_messages(StreamName::Attempts).await.unwrap(),
        501
    );
}

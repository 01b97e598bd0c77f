//! A token that lies in the queue is handed out, whatever the server has forgotten.

use crate::support::{SOON, all_closed, depth};
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::{Message, consumer::pull};
use futures_util::StreamExt;
use posthorn_broker::{LaneStore, Patience};
use posthorn_delivery::{EndpointId, LaneId};
use posthorn_tests::receiver::Receiver;
use posthorn_tests::rig::{self, Rig, endpoint};
use posthorn_tests::wait::eventually;
use std::collections::BTreeSet;
use std::time::Duration;

const TOKENS: (&str, &str) = ("POSTHORN_TOKENS", "tokens");

async fn consumer(rig: &Rig) -> PullConsumer {
    let context = async_nats::jetstream::new(rig.nats.client().await.unwrap());
    let consumer = context.get_consumer_from_stream(TOKENS.1, TOKENS.0).await;
    consumer.unwrap()
}

/// Takes `count` tokens, as an owner that then neither works nor gives them back.
async fn take(rig: &Rig, count: usize) -> Vec<Message> {
    let tokens = consumer(rig).await;
    let fetched = tokens.fetch().max_messages(count);
    let fetched = fetched.expires(SOON).messages().await.unwrap();
    let taken: Vec<Message> = fetched.map(Result::unwrap).collect().await;
    assert_eq!(taken.len(), count);
    taken
}

async fn acked(message: &Message) {
    message.double_ack().await.unwrap();
}

/// A server that is started again knows from a file what it had handed out. A purge of some
/// subjects leaves that file wrong (nats-server 2.15.1), and what was in hand is forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn js_05_tokens_in_hand_when_others_were_renewed_outlive_a_restart_of_the_broker() {
    let mut rig = Rig::start().await.unwrap();
    let store = LaneStore::open(&rig.broker()).await.unwrap();
    let lanes: Vec<LaneId> = (0..4)
        .map(|n| LaneId::live(&EndpointId::from_bits(n)))
        .collect();
    for lane in &lanes {
        store.put_token(lane).await.unwrap();
    }
    let taken = take(&rig, lanes.len()).await;
    store.renew_token(&lanes[3]).await.unwrap();
    acked(&take(&rig, 1).await[0]).await;
    acked(&taken[2]).await;
    rig.nats.stop().await.unwrap();
    rig.nats.restart().await.unwrap();
    let mut again: Vec<LaneId> = Vec::new();
    for token in take(&rig, 2).await {
        again.extend(rig.broker().names().parse_lane(&token.subject));
        acked(&token).await;
    }
    let again: BTreeSet<LaneId> = again.into_iter().collect();
    assert_eq!(again, lanes[..2].iter().cloned().collect());
}

/// Somebody gave the consumer a bound and took it away again; the server hands out nothing
/// that had reached the bound.
#[tokio::test(flavor = "multi_thread")]
async fn js_05_a_token_that_is_not_handed_out_any_more_is_replaced() {
    let mut rig = Rig::start().await.unwrap();
    let receiver = Receiver::start().await.unwrap();
    let target = endpoint("acme", &receiver.url("/hook"));
    rig.put(&target).await.unwrap();
    let (store, lane) = (
        LaneStore::open(&rig.broker()).await.unwrap(),
        LaneId::live(&target.id),
    );
    let delivery = rig::delivery(&target, 1);
    let appended = store.append(&lane, &delivery, Patience::WORKER).await;
    appended.unwrap();
    store.put_token(&lane).await.unwrap();
    bounded(&rig, 1, Duration::from_millis(200)).await;
    drop(take(&rig, 1).await);
    eventually(SOON, "it is given up", || async {
        // Only asking makes the server look at what has run out.
        let tokens = consumer(&rig).await;
        let again = tokens.fetch().max_messages(1).messages().await.unwrap();
        assert_eq!(again.count().await, 0);
        consumer(&rig).await.cached_info().num_ack_pending == 0
    })
    .await
    .unwrap();
    bounded(&rig, -1, Duration::from_secs(10)).await;
    assert_eq!(store.settled_tokens().await.unwrap().len(), 1);
    assert_eq!(depth(&rig, &target).await, 1);
    rig.line().await.unwrap();
    receiver.wait_for(1, SOON).await.unwrap();
    all_closed(&rig).await;
}

async fn bounded(rig: &Rig, max_deliver: i64, ack_wait: Duration) {
    let context = async_nats::jetstream::new(rig.nats.client().await.unwrap());
    let stream = context.get_stream(TOKENS.0).await.unwrap();
    let known = consumer(rig).await.cached_info().config.clone();
    let config = pull::Config {
        durable_name: known.durable_name,
        filter_subject: known.filter_subject,
        max_ack_pending: known.max_ack_pending,
        max_waiting: known.max_waiting,
        max_deliver,
        ack_wait,
        ..pull::Config::default()
    };
    stream.update_consumer(config).await.unwrap();
}

//! What the tests of lanes share.

use posthorn_broker::{BucketName, LaneStore, StreamName};
use posthorn_delivery::{Endpoint, LaneId, LaneState};
use posthorn_tests::receiver::Received;
use posthorn_tests::rig::Rig;
use posthorn_tests::wait::eventually;
use std::sync::Arc;
use std::time::Duration;

pub const SOON: Duration = Duration::from_secs(30);

/// Schedulers and dispatchers with their defaults.
pub async fn line(schedulers: usize, dispatchers: usize) -> Rig {
    let mut rig = Rig::start().await.unwrap();
    for _ in 0..schedulers {
        rig.scheduler(posthorn_scheduler::Settings::default())
            .await
            .unwrap();
    }
    for _ in 0..dispatchers {
        rig.dispatcher(posthorn_dispatcher::Settings::default())
            .await
            .unwrap();
    }
    rig
}

/// How many deliveries lie in the endpoint's lane.
pub async fn depth(rig: &Rig, endpoint: &Endpoint) -> u64 {
    let store = LaneStore::open(&rig.broker()).await.unwrap();
    store.depth(&LaneId::live(&endpoint.id)).await.unwrap()
}

/// What everybody knows of the endpoint's lane.
pub async fn lane(rig: &Rig, endpoint: &Endpoint) -> Option<LaneState> {
    let bucket = rig.broker().bucket(BucketName::Lanes).await.unwrap();
    let found = bucket.get(endpoint.id.as_str()).await.unwrap();
    found.map(|found| found.value)
}

/// What an operator's call does after it has changed something.
pub async fn wake(rig: &Rig, endpoint: &Endpoint) {
    let store = LaneStore::open(&rig.broker()).await.unwrap();
    store
        .renew_token(&LaneId::live(&endpoint.id))
        .await
        .unwrap();
}

/// Waits until nothing is left of any lane: no delivery, no token, no key.
pub async fn all_closed(rig: &Rig) {
    let broker = rig.broker();
    let lanes = broker.bucket::<LaneState>(BucketName::Lanes).await.unwrap();
    eventually(SOON, "every lane is closed", || async {
        broker.stream_messages(StreamName::Lanes).await.unwrap() == 0
            && broker.stream_messages(StreamName::Tokens).await.unwrap() == 0
            && broker
                .stream_messages(StreamName::Deliveries)
                .await
                .unwrap()
                == 0
            && lanes.keys().await.unwrap().is_empty()
    })
    .await
    .unwrap();
}

/// The numbers in the payloads `{"n":…}`, in the order of arrival.
pub fn numbers(requests: &[Arc<Received>]) -> Vec<usize> {
    let number = |request: &Arc<Received>| {
        let body: serde_json::Value = serde_json::from_slice(request.body()).unwrap();
        usize::try_from(body["n"].as_u64().unwrap()).unwrap()
    };
    requests.iter().map(number).collect()
}

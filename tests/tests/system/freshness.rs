//! What was configured before an event was accepted is in force for it, whichever scheduler
//! has the event.

use crate::support::{Town, shared, text};
use posthorn_tests::{Cluster, Role};
use serde_json::json;
use std::collections::HashSet;

const ROUNDS: usize = 200;

async fn town() -> Town {
    let builder = Cluster::builder()
        .copies(Role::Scheduler, 2)
        .copies(Role::Ingest, 2);
    Town::of(builder).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_created_just_before_gets_the_event() {
    let _machine = shared().await;
    let town = town().await;
    let mut owed = HashSet::new();
    for round in 0..ROUNDS {
        let (tenant, path) = (format!("t{round}"), format!("/{round}"));
        town.endpoint(&tenant, &path, json!({})).await;
        owed.insert((town.publish(&tenant, "{}").await, path));
    }
    town.receiver
        .wait_for(ROUNDS, crate::support::SOON)
        .await
        .unwrap();
    town.settled().await;
    let got = town.receiver.requests();
    let got: HashSet<_> = got
        .iter()
        .map(|request| (request.webhook_id().to_owned(), request.path().to_owned()))
        .collect();
    assert_eq!(got, owed);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_deleted_or_changed_just_before_does_not() {
    let _machine = shared().await;
    let town = town().await;
    let mut owed = HashSet::new();
    for round in 0..ROUNDS {
        let tenant = format!("t{round}");
        let gone = town.endpoint(&tenant, "/deleted", json!({})).await;
        let moved = town.endpoint(&tenant, "/before", json!({})).await;
        let deaf = town.endpoint(&tenant, "/unwanted", json!({})).await;
        let of = |id: &str| format!("/v1/tenants/{tenant}/endpoints/{id}");
        let url = json!({"url": town.receiver.url("/after")});
        let types = json!({"event_types": ["other"]});
        assert_eq!(town.api.delete(&of(&gone)).await.unwrap().status, 204);
        assert_eq!(town.api.patch(&of(&moved), &url).await.unwrap().status, 200);
        assert_eq!(
            town.api.patch(&of(&deaf), &types).await.unwrap().status,
            200
        );
        owed.insert((town.publish(&tenant, "{}").await, "/after".to_owned()));
    }
    town.receiver
        .wait_for(ROUNDS, crate::support::SOON)
        .await
        .unwrap();
    town.settled().await;
    let got: Vec<_> = town.receiver.requests();
    let got: HashSet<_> = got
        .iter()
        .map(|request| (request.webhook_id().to_owned(), request.path().to_owned()))
        .collect();
    assert_eq!(got, owed);
    let letters = town
        .api
        .admin_list("/v1/dead-letters?limit=500")
        .await
        .unwrap();
    let reasons: HashSet<_> = letters.iter().map(|l| text(&l["reason"])).collect();
    assert!(
        reasons.is_empty(),
        "no delivery was made at all: {reasons:?}"
    );
}

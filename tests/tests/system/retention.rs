//! What limits drop: the right letters, and counted.

use crate::support::{SOON, Town, metric, shared, text};
use posthorn_tests::{Cluster, Reply, Role, eventually, eventually_some};
use serde_json::{Value, json};

/// Letters of `tenant` whose payloads take about 2 KiB each.
async fn letters(town: &Town, tenant: &str, count: usize) {
    let path = format!("/refuses/{tenant}");
    town.receiver.answer(&path, Reply::status(400));
    town.endpoint(tenant, &path, json!({})).await;
    let filler = "x".repeat(2_000);
    let batch: Vec<Value> = (0..count)
        .map(|n| json!({"type": "a.b", "payload": {"n": n, "filler": filler}}))
        .collect();
    for part in batch.chunks(50) {
        let events = format!("/v1/tenants/{tenant}/events");
        let answer = town.api.post(&events, &json!(part)).await.unwrap();
        assert_eq!(answer.status, 202);
    }
    town.got(&path, count).await;
}

async fn dlq(town: &Town) -> Value {
    let shown = town.api.admin_get("/v1/retention").await.unwrap();
    let shown = shown.success().unwrap();
    let streams = shown["streams"].as_array().unwrap().clone();
    let mut found = streams
        .into_iter()
        .find(|stream| stream["name"] == "dlq")
        .unwrap();
    found["budget"] = shown["dead_letter_budget"].clone();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_over_its_budget_loses_its_oldest_letters_and_no_other_tenant_any() {
    let _machine = shared().await;
    let builder = Cluster::builder().env("POSTHORN_DLQ_TENANT_MAX_BYTES", "100KiB");
    let mut town = Town::of(builder).await;
    letters(&town, "quiet", 10).await;
    letters(&town, "loud", 200).await;
    let what = "the loud tenant is within its budget";
    let dropped = eventually_some(SOON, what, || async {
        let dropped = dlq(&town).await["dropped_by_tenant_budget"].as_u64()?;
        let left = town
            .api
            .admin_list("/v1/dead-letters?limit=500&tenant=loud")
            .await
            .ok()?;
        // All of its letters were there when it was cut last.
        (dropped > 0 && left.len() as u64 + dropped == 200 && left.len() <= 50).then_some(dropped)
    });
    let dropped = match dropped.await {
        Ok(dropped) => dropped,
        Err(error) => panic!("{error}: {}\n{}", dlq(&town).await, town.last_words()),
    };
    assert!(
        dropped >= 150,
        "{dropped} of 200 letters of over 2,000 bytes"
    );
    town.letters("&tenant=quiet", 10).await;
    let left = town
        .api
        .admin_list("/v1/dead-letters?limit=500&tenant=loud")
        .await
        .unwrap();
    assert!(
        left.len() >= 30,
        "no more is dropped than has to be: {}",
        left.len()
    );
    // Its register has lost what its queue has.
    let client = town.cluster.nats.client().await.unwrap();
    let context = async_nats::jetstream::new(client);
    eventually(SOON, "no entry is left without its letter", || async {
        let register = context.get_stream("POSTHORN_REGISTER").await.unwrap();
        register.get_info().await.unwrap().state.messages == left.len() as u64 + 10
    })
    .await
    .unwrap();
    let newest = text(&left[0]["died_at"]);
    assert!(left.iter().all(|letter| text(&letter["died_at"]) <= newest));
    let shown = dlq(&town).await;
    assert_eq!(shown["budget"], 100 * 1024);
    assert_eq!(shown["dropped_by_bytes"], 0, "{shown}");
    let metrics = town.metrics(Role::DlqAdmin, 0).await;
    let label = r#"limit="tenant_budget""#;
    let counted = metric(&metrics, "posthorn_dropped_by_limit_total", label);
    assert_eq!(counted, Some(dropped as f64));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_limit_of_bytes_drops_is_counted() {
    let _machine = shared().await;
    let builder = Cluster::builder().env("POSTHORN_DLQ_MAX_BYTES", "200KiB");
    let town = Town::of(builder).await;
    letters(&town, "acme", 200).await;
    let counted = eventually_some(SOON, "what was dropped is counted", || async {
        let shown = dlq(&town).await;
        let (left, dropped) = (
            shown["messages"].as_u64()?,
            shown["dropped_by_bytes"].as_u64()?,
        );
        (left + dropped == 200).then_some(dropped)
    });
    let counted = match counted.await {
        Ok(counted) => counted,
        Err(error) => panic!("{error}: {}", dlq(&town).await),
    };
    assert!(counted > 50, "{counted}");
    assert_eq!(dlq(&town).await["dropped_by_age"], 0);
    let one = town.api.with_key("nobody").admin_get("/v1/retention").await;
    assert_eq!(one.unwrap().status, 401);
}

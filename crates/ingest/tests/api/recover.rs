//! Asking for what an endpoint has missed: the job that is left for the operator's service.

use super::harness::{Api, ENDPOINTS};
use posthorn_broker::{Bucket, BucketName};
use posthorn_delivery::{Counted, Recovery, ReplayJob, ReplayState, UnixMillis};
use posthorn_http_api::time::parse_rfc3339;
use serde_json::{Value, json};

async fn jobs(api: &Api) -> Bucket<ReplayJob> {
    api.broker.bucket(BucketName::Replays).await.unwrap()
}

fn path(endpoint: &Value) -> String {
    format!("{ENDPOINTS}/{}/recover", endpoint["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_recovery_is_left_as_a_job_that_says_what_was_asked_for() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    for _ in 0..3 {
        api.publish(&[], "{}").await.id();
    }
    let said = json!({"since": "2026-01-01T00:00:00+01:00", "until": "2030-01-01T00:00:00Z",
                      "include_delivered": true, "rate_per_second": 7});
    let answer = api.post(&path(&endpoint), said).await;
    assert_eq!(answer.status, 202, "{}", answer.json);
    let shown = answer.json;
    assert_eq!(
        (&shown["kind"], &shown["state"]),
        (&json!("recover"), &json!("running"))
    );
    assert_eq!(shown["recovery"]["since"], "2025-12-31T23:00:00.000Z");
    assert_eq!(shown["recovery"]["counted"], false);
    let oldest = parse_rfc3339(shown["oldest_retained"].as_str().unwrap()).unwrap();
    let age = posthorn_wiring::now().since(oldest);
    assert!(age.as_secs() < 60, "{shown}");

    let stored = jobs(&api).await.get(shown["id"].as_str().unwrap()).await;
    let stored = stored.unwrap().unwrap().value;
    let id = endpoint["id"].as_str().unwrap();
    assert_eq!(
        (stored.upper, stored.cursor, stored.rate_per_second),
        (3, 0, 7)
    );
    assert_eq!(
        (stored.tenant.as_str(), stored.owner.as_str()),
        ("acme", "")
    );
    let filter: Value = serde_json::from_str(&stored.filter).unwrap();
    assert_eq!(filter, json!({"tenant": "acme", "endpoint": id}));
    let recovery = stored.recovery.unwrap();
    assert_eq!(recovery.endpoint.as_str(), id);
    assert_eq!(recovery.since, UnixMillis(1_767_222_000_000));
    assert!(recovery.include_delivered && !recovery.dry_run);
}

#[tokio::test]
async fn nothing_is_left_of_what_is_refused() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let at = path(&endpoint);
    let since = "2026-01-01T00:00:00Z";
    for (said, field) in [
        (json!({}), "since"),
        (json!({"since": "yesterday"}), "since"),
        (json!({"since": "2099-01-01T00:00:00Z"}), "since"),
        (json!({"since": since, "until": since}), "until"),
        (
            json!({"since": since, "rate_per_second": 0}),
            "rate_per_second",
        ),
        (
            json!({"since": since, "rate_per_second": 10_001}),
            "rate_per_second",
        ),
        (json!({"since": since, "dryrun": true}), "dryrun"),
    ] {
        api.post(&at, said).await.refuses(422, field);
    }
    let good = json!({"since": since});
    let foreign = at.replace("/acme/", "/globex/");
    assert_eq!(api.post(&foreign, good.clone()).await.status, 404);
    let unknown = format!("{ENDPOINTS}/ep_{:032x}/recover", 7);
    assert_eq!(api.post(&unknown, good.clone()).await.status, 404);
    assert_eq!(jobs(&api).await.keys().await.unwrap(), Vec::<String>::new());
    // Nothing was ever published.
    let answer = api.post(&at, good).await;
    assert_eq!(
        (answer.status, &answer.json["oldest_retained"]),
        (202, &Value::Null)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_is_answered_with_the_count_and_leaves_no_job() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let bucket = jobs(&api).await;
    let counting = bucket.clone();
    // Whoever works on it counts, as the operator's service does.
    let worker = tokio::spawn(async move {
        loop {
            for id in counting.keys().await.unwrap() {
                let Some(found) = counting.get(&id).await.unwrap() else {
                    continue;
                };
                let recovery = found.value.recovery.clone().unwrap();
                assert!(recovery.dry_run);
                let counted = ReplayJob {
                    matched: 12,
                    state: ReplayState::Completed,
                    recovery: Some(Recovery {
                        counted: Some(Counted {
                            delivered: 3,
                            under_way: 1,
                        }),
                        ..recovery
                    }),
                    ..found.value
                };
                counting.swap(&id, &counted, found.revision).await.unwrap();
                return;
            }
            tokio::task::yield_now().await;
        }
    });
    let said = json!({"since": "2026-01-01T00:00:00Z", "dry_run": true});
    let answer = api.post(&path(&endpoint), said).await;
    worker.await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.json);
    assert_eq!(
        answer.json,
        json!({"matched": 12, "delivered": 3, "under_way": 1, "dry_run": true,
               "oldest_retained": null})
    );
    assert_eq!(bucket.keys().await.unwrap(), Vec::<String>::new());
}

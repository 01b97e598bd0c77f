//! A dead letter from its death to its delivery, as an operator walks it.

use crate::support::{Town, counts, shared, text};
use futures_util::future::join_all;
use posthorn_tests::{Reply, Role};
use serde_json::json;

const PAYLOAD: &str = "{\"a\" : 1.0}";

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_shown_replayed_and_delivered() {
    let _machine = shared().await;
    let town = Town::start().await;
    let endpoint = town.endpoint("acme", "/hook", json!({})).await;
    town.receiver.script(
        "/hook",
        [
            Reply::status(500).body("the first is down"),
            Reply::status(502).body("the second too"),
            Reply::status(503).body("the third as well"),
        ],
    );
    let event = town.publish("acme", PAYLOAD).await;
    let listed = town.letters("&tenant=acme", 1).await;
    assert_eq!(listed[0]["event_id"], event.as_str());
    let id = text(&listed[0]["id"]);
    let letter = town.letter(&id).await;
    assert_eq!(letter["payload"], PAYLOAD);
    assert_eq!(letter["reason"], "exhausted");
    assert_eq!(letter["endpoint"], endpoint.as_str());
    let attempts = letter["attempts"].as_array().unwrap();
    let told: Vec<_> = attempts
        .iter()
        .map(|attempt| (attempt["number"].clone(), text(&attempt["response_body"])))
        .collect();
    assert_eq!(told[0], (json!(1), "the first is down".to_owned()));
    assert_eq!(told[1], (json!(2), "the second too".to_owned()));
    assert_eq!(told[2], (json!(3), "the third as well".to_owned()));

    // Fresh budget: two more failures do not use it up.
    town.receiver
        .script("/hook", [Reply::status(500), Reply::status(500)]);
    assert_eq!(town.replay(&id).await.status, 202);
    let got = town.got("/hook", 6).await;
    let numbers: Vec<_> = got
        .iter()
        .map(|request| request.header("webhook-attempt").unwrap().to_owned())
        .collect();
    assert_eq!(numbers, ["1", "2", "3", "1", "2", "3"]);
    assert!(got.iter().all(|request| request.webhook_id() == event));
    assert!(got.iter().all(|request| request.body() == PAYLOAD));
    let delivered = town.letter_is(&id, "delivered").await;
    assert!(delivered["attempts"].as_array().unwrap().len() >= 5);
    assert_eq!(delivered["attempts"][0]["status"], 500);
    assert_eq!(delivered["replays"], 1);
    town.letters("&tenant=acme", 0).await;
    assert_eq!(town.receiver.count(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_01_each_accepted_replay_is_one_post() {
    let _machine = shared().await;
    let mut town = Town::start().await;
    let retry = json!({"retry": {"max_attempts": 1}});
    town.endpoint("acme", "/hook", retry).await;
    town.receiver
        .script("/hook", [Reply::status(500), Reply::status(500)]);
    town.publish("acme", PAYLOAD).await;
    let id = text(&town.letters("", 1).await[0]["id"]);
    let first = town.replay(&id).await;
    assert_eq!(first.status, 202);
    let letter = town.letter_is(&id, "dead").await;
    assert_eq!((town.receiver.count(), &letter["replays"]), (2, &json!(1)));
    let second = town.replay(&id).await;
    assert_eq!(second.status, 202);
    assert_ne!(first.json()["replay_id"], second.json()["replay_id"]);
    town.letter_is(&id, "delivered").await;
    assert_eq!(town.receiver.count(), 3);
    // What was delivered is not sent again, and the request says so.
    let third = town.replay(&id).await;
    assert_eq!(third.status, 409);
    assert_eq!(third.json()["type"], "urn:posthorn:problem:not-dead");
    town.cluster.restart(Role::Dispatcher, 0).await.unwrap();
    town.cluster.restart(Role::Scheduler, 0).await.unwrap();
    town.settled().await;
    assert_eq!(town.receiver.count(), 3, "an accepted request is one POST");
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_01_a_redelivered_replay_is_not_repeated_after_its_answer() {
    let _machine = shared().await;
    let mut town = Town::start().await;
    let retry = json!({"retry": {"max_attempts": 1}});
    town.endpoint("acme", "/hook", retry).await;
    town.receiver.script("/hook", [Reply::status(500)]);
    town.publish("acme", PAYLOAD).await;
    let id = text(&town.letters("", 1).await[0]["id"]);
    // The one that has the replay dies before the answer: the broker gives it out again.
    town.receiver.script("/hook", [Reply::hang()]);
    assert_eq!(town.replay(&id).await.status, 202);
    town.got("/hook", 2).await;
    town.cluster.restart(Role::Dispatcher, 0).await.unwrap();
    let letter = town.letter_is(&id, "delivered").await;
    assert_eq!(letter["replays"], 1);
    town.settled().await;
    assert_eq!(
        town.receiver.count(),
        3,
        "one POST was cut off, one answered"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_02_operators_at_once_give_one_post() {
    let _machine = shared().await;
    let town = Town::start().await;
    let retry = json!({"retry": {"max_attempts": 1}});
    town.endpoint("acme", "/hook", retry).await;
    town.receiver
        .script("/hook", (0..20).map(|_| Reply::status(500)));
    for _ in 0..20 {
        town.publish("acme", PAYLOAD).await;
    }
    let letters = town.letters("", 20).await;
    for letter in &letters {
        let id = text(&letter["id"]);
        let answers = join_all([town.replay(&id), town.replay(&id), town.replay(&id)]).await;
        let accepted = answers.iter().filter(|answer| answer.status == 202);
        assert_eq!(accepted.count(), 1, "one operator is told yes");
        assert!(answers.iter().all(|a| matches!(a.status, 202 | 409)));
    }
    town.letters("", 0).await;
    town.settled().await;
    let times = counts(&town.receiver.requests());
    assert_eq!(times.len(), 20);
    assert!(times.values().all(|count| *count == 2), "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_02_a_killed_dlq_admin_loses_no_letter_and_repeats_none() {
    let _machine = shared().await;
    let mut town = Town::start().await;
    let retry = json!({"retry": {"max_attempts": 1}});
    town.endpoint("acme", "/hook", retry).await;
    town.receiver
        .script("/hook", (0..40).map(|_| Reply::status(500)));
    for _ in 0..40 {
        town.publish("acme", PAYLOAD).await;
    }
    let letters = town.letters("", 40).await;
    // Ten requests are under way each time it is killed: some between publish and mark.
    for chunk in letters.chunks(10) {
        let api = town.api.clone();
        let requests = chunk.iter().map(|letter| {
            let path = format!("/v1/dead-letters/{}/replay", text(&letter["id"]));
            let api = api.clone();
            tokio::spawn(async move { api.admin_post(&path, &json!({})).await.map(|a| a.status) })
        });
        let requests: Vec<_> = requests.collect();
        let before = town.receiver.count();
        town.receiver
            .wait_for(before + 1, crate::support::SOON)
            .await
            .unwrap();
        town.cluster.restart(Role::DlqAdmin, 0).await.unwrap();
        for request in requests {
            // Whatever was answered, or nothing: the letter decides.
            let _ = request.await.unwrap();
        }
    }
    // What a kill left behind is dead still, and its replay is asked for again.
    let left = town
        .api
        .admin_list("/v1/dead-letters?limit=500")
        .await
        .unwrap();
    for letter in left {
        let answer = town.replay(&text(&letter["id"])).await;
        assert!(matches!(answer.status, 202 | 409), "{}", answer.status);
    }
    town.letters("", 0).await;
    town.settled().await;
    let times = counts(&town.receiver.requests());
    assert_eq!(times.len(), 40);
    assert!(times.values().all(|count| *count == 2), "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_02_a_replay_of_all_takes_what_was_there_when_it_was_asked_for() {
    let _machine = shared().await;
    let town = Town::start().await;
    let retry = json!({"retry": {"max_attempts": 1}});
    town.endpoint("acme", "/hook", retry).await;
    // First attempts of even numbers fail, and every replay succeeds.
    town.receiver
        .script("/hook", (0..30).map(|_| Reply::status(500)));
    for _ in 0..30 {
        town.publish("acme", PAYLOAD).await;
    }
    let old = town.letters("", 30).await;
    let one = text(&old[7]["id"]);
    assert_eq!(town.replay(&one).await.status, 202);
    town.letter_is(&one, "delivered").await;
    let late = town.endpoint("acme", "/late", json!({"retry": {"max_attempts": 1}}));
    let late = late.await;
    town.receiver.answer("/late", Reply::status(500));
    let filter = json!({"filter": {"tenant": "acme"}, "rate_per_second": 10});
    let job = town.api.admin_post("/v1/replays", &filter).await.unwrap();
    let job = job.success().unwrap();
    assert_eq!(job["matched"], 29, "the delivered one is none of them");
    for _ in 0..10 {
        town.publish("acme", PAYLOAD).await;
    }
    let path = format!("/v1/replays/{}", text(&job["id"]));
    let done = posthorn_tests::eventually_some(crate::support::SOON, "the job is done", || async {
        let job = town.api.admin_get(&path).await.ok()?.success().ok()?;
        (job["state"] == "completed").then_some(job)
    });
    let done = done.await.unwrap();
    assert_eq!(
        (&done["replayed"], &done["skipped"]),
        (&json!(29), &json!(0))
    );
    let left = town.letters("", 10).await;
    assert!(
        left.iter()
            .all(|letter| letter["endpoint"] == late.as_str())
    );
    town.settled().await;
    let old_ids: std::collections::HashSet<_> =
        old.iter().map(|letter| text(&letter["event_id"])).collect();
    let times = counts(&town.receiver.requests_to("/hook"));
    for (event, count) in times {
        let wanted = if old_ids.contains(&event) { 2 } else { 1 };
        assert_eq!(count, wanted, "{event}");
    }
    assert_eq!(town.receiver.requests_to("/late").len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_05_a_filter_of_one_tenant_touches_nothing_of_another() {
    let _machine = shared().await;
    let town = Town::start().await;
    let retry = json!({"retry": {"max_attempts": 1}});
    let a = town.endpoint("a", "/a", retry.clone()).await;
    let b = town.endpoint("b", "/b", retry).await;
    town.receiver.answer("/a", Reply::status(500));
    town.receiver.answer("/b", Reply::status(500));
    for _ in 0..3 {
        town.publish("a", "{}").await;
        town.publish("b", "{}").await;
    }
    let of_a = town.letters("&tenant=a", 3).await;
    town.letters("&tenant=b", 3).await;
    assert!(of_a.iter().all(|letter| letter["tenant"] == "a"));
    town.letters(&format!("&tenant=b&endpoint={a}"), 0).await;
    for filter in [
        json!({"tenant": "b", "endpoint": a}),
        json!({"tenant": "c"}),
        json!({"tenant": "b", "reason": "expired"}),
    ] {
        let dry = json!({"filter": filter, "dry_run": true});
        let count = town.api.admin_post("/v1/replays", &dry).await.unwrap();
        assert_eq!(count.success().unwrap()["matched"], 0, "{dry}");
        let purge = json!({"filter": filter, "dry_run": false});
        let purged = town.api.admin_post("/v1/dead-letters/purge", &purge).await;
        assert_eq!(purged.unwrap().success().unwrap()["purged"], 0, "{purge}");
    }
    let path = format!("/v1/tenants/b/endpoints/{a}");
    assert_eq!(town.api.get(&path).await.unwrap().status, 404);
    assert_eq!(town.api.delete(&path).await.unwrap().status, 404);
    let attempts = format!("/v1/tenants/b/endpoints/{a}/attempts");
    assert_eq!(town.api.get(&attempts).await.unwrap().status, 404);
    town.receiver.answer("/a", Reply::ok());
    town.receiver.answer("/b", Reply::ok());
    let job = json!({"filter": {"tenant": "b", "endpoint": b}});
    let job = town.api.admin_post("/v1/replays", &job).await.unwrap();
    assert_eq!(job.success().unwrap()["matched"], 3);
    town.letters("&tenant=b", 0).await;
    town.letters("&tenant=a", 3).await;
    assert_eq!(town.receiver.requests_to("/a").len(), 3);
    assert_eq!(town.receiver.requests_to("/b").len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_removes_what_its_dry_run_counted() {
    let _machine = shared().await;
    let town = Town::start().await;
    town.endpoint("a", "/a", json!({})).await;
    town.endpoint("b", "/b", json!({})).await;
    town.receiver.answer("/a", Reply::status(404));
    town.receiver.answer("/b", Reply::status(404));
    for _ in 0..25 {
        town.publish("a", "{}").await;
    }
    town.publish("b", "{}").await;
    town.letters("", 26).await;
    let purge = |dry_run| {
        let body =
            json!({"filter": {"tenant": "a", "reason": "permanent_status"}, "dry_run": dry_run});
        let api = town.api.clone();
        async move {
            let answer = api.admin_post("/v1/dead-letters/purge", &body).await;
            answer.unwrap().success().unwrap()
        }
    };
    let counted = purge(true).await;
    assert_eq!(
        (&counted["matched"], &counted["purged"]),
        (&json!(25), &json!(0))
    );
    town.letters("", 26).await;
    let purged = purge(false).await;
    assert_eq!(
        (&purged["matched"], &purged["purged"]),
        (&json!(25), &json!(25))
    );
    let left = town.letters("", 1).await;
    assert_eq!(left[0]["tenant"], "b");
    let empty = json!({"filter": {}, "dry_run": false});
    let refused = town.api.admin_post("/v1/dead-letters/purge", &empty).await;
    assert_eq!(refused.unwrap().status, 422);
    let attempts = town.api.admin_list("/v1/attempts?limit=500").await.unwrap();
    assert_eq!(attempts.len(), 26, "attempts are no letters");
}

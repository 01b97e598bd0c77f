//! A replay of ten thousand letters, while who works on it and who lets it go are killed.

use crate::site::{Site, TENANT, at_random};
use crate::turn;
use posthorn_tests::receiver::{Received, Reply};
use posthorn_tests::wait::{eventually, eventually_some};
use posthorn_tests::{Cluster, Role};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LETTERS: usize = 10_000;
const RATE: usize = 200;
/// A killed process is replaced after a lease or an ack wait of 10 s, and needs to start.
const TAKEN_OVER: Duration = Duration::from_secs(60);
/// Ten thousand letters are written, and sent at the rate with four takeovers.
const LONG: Duration = Duration::from_secs(180);

/// A system with so many dead letters of one endpoint, whose receiver is well again.
async fn with_letters() -> Site {
    let mut site = Site::start(Cluster::builder()).await;
    // What is to be seen is the rate, and not how few a slow machine has under way at once.
    let once = json!({"retry": {"max_attempts": 1}, "max_in_flight": 256});
    site.endpoint("/hook", &once).await;
    site.receiver.answer("/hook", Reply::status(500));
    site.publish(0..LETTERS).await;
    let dry = json!({"filter": {"tenant": TENANT}, "dry_run": true});
    let waited = eventually(LONG, "every delivery has died", || async {
        let counted = site.api.admin_post("/v1/replays", &dry).await;
        counted.is_ok_and(|counted| counted.json()["matched"] == LETTERS)
    })
    .await;
    if let Err(error) = waited {
        panic!(
            "{error}: {}\n{}",
            site.whereabouts().await,
            site.last_words()
        );
    }
    site.receiver.clear();
    site.receiver.answer("/hook", Reply::ok());
    site
}

async fn job(site: &Site, id: &str) -> Option<Value> {
    let found = site.api.admin_get(&format!("/v1/replays/{id}")).await;
    found.ok()?.success().ok()
}

/// Waits until letters come again for two seconds, of which one may be what was left in the lane,
/// and returns when that was.
async fn flows(site: &Site) -> Instant {
    let from = site.receiver.count() + 2 * RATE;
    let waited = eventually(TAKEN_OVER, "letters come again", || {
        std::future::ready(site.receiver.count() >= from)
    })
    .await;
    if let Err(error) = waited {
        panic!(
            "{error}: {}\n{}",
            site.whereabouts().await,
            site.last_words()
        );
    }
    Instant::now()
}

fn rate_between(requests: &[Arc<Received>], from: Instant, to: Instant) -> f64 {
    let within = |request: &&Arc<Received>| (from..to).contains(&request.at());
    requests.iter().filter(within).count() as f64 / (to - from).as_secs_f64()
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_02_ten_thousand_letters_are_replayed_once_at_the_rate_through_kills() {
    let _turn = turn::alone().await;
    let mut site = with_letters().await;
    let ask = json!({"filter": {"tenant": TENANT}, "rate_per_second": RATE});
    let started = site.api.admin_post("/v1/replays", &ask).await.unwrap();
    let id = started.success().unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let begun = Instant::now();
    let mut undisturbed = Vec::new();
    for victim in [
        Role::DlqAdmin,
        Role::Scheduler,
        Role::DlqAdmin,
        Role::Scheduler,
    ] {
        let from = flows(&site).await;
        at_random(5_000..8_000).await;
        undisturbed.push((from, Instant::now()));
        let told = job(&site, &id).await.unwrap();
        let (replayed, came) = (&told["replayed"], site.receiver.count());
        println!("{victim:?} killed: {replayed} replayed, {came} received");
        site.cluster.restart(victim, 0).await.unwrap();
    }
    let from = flows(&site).await;
    let last = Duration::from_secs(5);
    eventually(LONG, "five more seconds", || {
        std::future::ready(from.elapsed() >= last)
    })
    .await
    .unwrap();
    undisturbed.push((from, Instant::now()));
    let done = eventually_some(LONG, "the job is done", || async {
        job(&site, &id)
            .await
            .filter(|job| job["state"] == "completed")
    });
    let done = done.await.unwrap();
    let received = site.receiver.wait_for(LETTERS, TAKEN_OVER).await.unwrap();
    println!("{LETTERS} letters in {:.1?}", begun.elapsed());
    let mut rates: Vec<f64> = undisturbed
        .into_iter()
        .map(|(from, to)| rate_between(&received, from, to))
        .collect();
    println!("{rates:.1?} a second between the kills");

    assert_eq!(
        (&done["matched"], &done["replayed"], &done["skipped"]),
        (&json!(LETTERS), &json!(LETTERS), &json!(0))
    );
    site.all_closed(TAKEN_OVER).await;
    let mut times: HashMap<String, usize> = HashMap::new();
    for request in site.receiver.requests() {
        *times.entry(request.webhook_id().to_owned()).or_default() += 1;
        assert_eq!(request.header("webhook-attempt"), Some("1"));
    }
    assert_eq!(times.len(), LETTERS, "0 missed");
    let twice = times.values().filter(|count| **count > 1).count();
    assert_eq!(twice, 0, "0 twice");
    let left = site.api.admin_list("/v1/dead-letters?limit=500").await;
    assert_eq!(left.unwrap(), Vec::<Value>::new());
    // Never faster than asked. A machine that does other things may be slower in one of the
    // stretches; the middle one is within five in a hundred on one that does not.
    rates.sort_by(f64::total_cmp);
    let (asked, middle) = (RATE as f64, rates[rates.len() / 2]);
    assert!(
        rates.iter().all(|rate| *rate <= asked * 1.05) && middle >= asked * 0.85,
        "{rates:.1?} a second"
    );
}

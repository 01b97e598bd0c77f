//! Endpoints of every kind at the same time, while every process and the broker are killed:
//! what each kind has to do with the others is in the streams and consumers that they share.

use crate::site::{Lane, Site, TENANT, at_random, number};
use crate::storm::{Storm, insist};
use crate::turn;
use posthorn_broker::StreamName;
use posthorn_tests::api::{Api, send};
use posthorn_tests::receiver::{Received, Receiver, Reply};
use posthorn_tests::wait::eventually;
use posthorn_tests::{Cluster, Role};
use rand::RngExt;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// What everybody gets, one after the other.
const STEADY: &str = "weather.steady";
/// What comes in bursts, and not to those who are owed an order.
const BURST: &str = "weather.burst";
const IN_A_BURST: usize = 40;
/// A lane that nobody owns is found within 34 s, and what a killed process had in hand comes
/// again after 10 s.
const CALM: Duration = Duration::from_secs(75);
/// The token of a lane may still be with a scheduler that was killed as the last thing.
const SOON: Duration = Duration::from_secs(20);
const AT_ONCE: Duration = Duration::from_secs(5);

fn attempt(request: &Received) -> usize {
    request.header("webhook-attempt").unwrap().parse().unwrap()
}

/// A status for the attempt of an event, after some time.
fn after(status: u16, millis: u64) -> Reply {
    Reply::status(status).delay(Duration::from_millis(millis))
}

/// Every kind of endpoint: the name of its path, and what is particular about it.
fn kinds() -> Vec<(&'static str, Value)> {
    let quick = json!({"failure_threshold": 2, "cooldown": "1s", "max_cooldown": "1s"});
    let fifo = json!({
        "ordering": "fifo",
        "event_types": [STEADY],
        "retry": {"base": "30ms", "max_delay": "30ms", "max_attempts": 60},
    });
    let mut guarded = fifo.clone();
    guarded["breaker"] = quick.clone();
    let late = json!({"schedule": ["2s", "4s", "1s"], "max_attempts": 20});
    let kinds = [
        ("/plain", json!({})),
        ("/slow", json!({"max_in_flight": 6})),
        ("/paced", json!({"rate_limit": {"per_second": 40}})),
        ("/fifo", fifo),
        ("/guarded", guarded),
        ("/down", json!({"breaker": quick})),
        ("/busy", json!({"breaker": quick})),
        ("/paused", json!({})),
        ("/changed", json!({"max_in_flight": 4})),
        ("/late", json!({"retry": late})),
        ("/refusing", json!({})),
    ];
    kinds.into()
}

/// How each of them answers in bad weather.
fn answers(receiver: &Receiver) {
    let fails = |request: &Received| match (number(request), attempt(request)) {
        (n, 1) if n % 5 == 1 => after(500, 5),
        (n, 1..=2) if n % 30 == 2 => after(503, 5),
        _ => after(200, rand::rng().random_range(5..30)),
    };
    receiver.answer_by("/fifo", fails);
    receiver.answer_by("/guarded", fails);
    receiver.answer("/slow", after(200, 100));
    receiver.answer("/changed", after(200, 40));
    receiver.answer("/down", after(503, 20));
    receiver.answer_by("/busy", |request| {
        match (number(request), attempt(request)) {
            (n, 1) if n % 40 == 7 => after(429, 5).header("retry-after", "1"),
            (n, 1) if n % 40 == 27 => after(503, 5).header("retry-after", "2"),
            _ => after(200, 5),
        }
    });
    receiver.answer_by("/late", |request| {
        match (number(request) % 4, attempt(request)) {
            (1 | 3, 1) | (3, 2) => after(500, 5),
            _ => after(200, 5),
        }
    });
    receiver.answer("/refusing", after(400, 5));
}

/// Who is owed an event of this type.
fn owed<'a>(lanes: &'a [Lane], event_type: &str) -> Vec<&'a str> {
    let ordered = |path: &str| matches!(path, "/fifo" | "/guarded");
    let paths = lanes.iter().map(|lane| lane.path.as_str());
    paths
        .filter(|path| event_type == STEADY || !ordered(path))
        .collect()
}

/// The events that were accepted, with their types.
#[derive(Default)]
struct Accepted {
    all: Mutex<Vec<(String, &'static str)>>,
    steady: Mutex<usize>,
}

/// Publishes one under its key until it is accepted. Some of a burst are for later.
async fn publish(api: &Api, accepted: &Accepted, event_type: &'static str, n: usize) {
    let is_later = event_type == BURST && n.is_multiple_of(8);
    insist("an event is accepted", || async {
        let mut request = api
            .publishing(TENANT, event_type, json!({"n": n}).to_string())
            .header("idempotency-key", format!("{event_type}-{n}"));
        if is_later {
            let at = time::OffsetDateTime::now_utc() + Duration::from_secs(3);
            let at = at.format(&time::format_description::well_known::Rfc3339);
            request = request.header("deliver-at", at.unwrap());
        }
        let Ok(Ok(answer)) = send(request).await.map(|answer| answer.success()) else {
            return false;
        };
        let id = answer["id"].as_str().unwrap().to_owned();
        accepted.all.lock().unwrap().push((id, event_type));
        true
    })
    .await;
}

async fn publish_steadily(api: &Api, accepted: &Accepted, stop: &CancellationToken) {
    let mut n = 0;
    while !stop.is_cancelled() {
        publish(api, accepted, STEADY, n).await;
        n += 1;
        *accepted.steady.lock().unwrap() = n;
        at_random(50..150).await;
    }
}

async fn publish_bursts(api: &Api, accepted: &Accepted, stop: &CancellationToken) {
    let mut n = 0;
    while !stop.is_cancelled() {
        let burst = (n..n + IN_A_BURST).map(|n| publish(api, accepted, BURST, n));
        futures_util::future::join_all(burst).await;
        n += IN_A_BURST;
        at_random(2_000..5_000).await;
    }
}

/// What operators and customers do meanwhile.
struct Operator<'a> {
    api: &'a Api,
    receiver: &'a Receiver,
    lanes: &'a [Lane],
}

impl Operator<'_> {
    fn lane(&self, path: &str) -> &Lane {
        self.lanes.iter().find(|lane| lane.path == path).unwrap()
    }

    fn document(&self, path: &str) -> String {
        format!("/v1/tenants/{TENANT}/endpoints/{}", self.lane(path).id)
    }

    async fn call(&self, path: &str, call: &str) {
        let call = format!("{}/{call}", self.document(path));
        insist("an endpoint is paused or resumed", || async {
            let answer = self.api.post(&call, &json!({})).await;
            answer.is_ok_and(|answer| answer.success().is_ok())
        })
        .await;
    }

    async fn change(&self, path: &str, more: &Value) {
        let document = self.document(path);
        insist("an endpoint is changed", || async {
            let answer = self.api.patch(&document, more).await;
            answer.is_ok_and(|answer| answer.success().is_ok())
        })
        .await;
    }

    async fn change_things(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let (n, rate) = (rand::rng().random_range(1..=32), json!({"per_second": 25}));
            match rand::rng().random_range(0..9) {
                0 => self.call("/paused", "pause").await,
                1 => self.call("/paused", "resume").await,
                2 => self.change("/changed", &json!({"max_in_flight": n})).await,
                3 => self.change("/changed", &json!({"rate_limit": rate})).await,
                4 => self.change("/changed", &json!({"rate_limit": null})).await,
                5 => self.change("/slow", &json!({"max_in_flight": n})).await,
                6 => self.receiver.answer("/down", after(503, 20)),
                7 => self.receiver.answer("/down", Reply::ok()),
                _ => {
                    self.change("/paced", &json!({"description": n.to_string()}))
                        .await;
                }
            }
            at_random(100..900).await;
        }
    }

    /// The endpoint that refuses is mended, and its letters are sent again.
    async fn replay(&self) -> String {
        at_random(8_000..20_000).await;
        self.receiver.answer("/refusing", Reply::ok());
        let ask = json!({
            "filter": {"endpoint": self.lane("/refusing").id.as_str()},
            "rate_per_second": 40,
        });
        let job = Mutex::new(String::new());
        insist("a replay is begun", || async {
            let answer = self.api.admin_post("/v1/replays", &ask).await;
            let Ok(Ok(made)) = answer.map(|answer| answer.success()) else {
                return false;
            };
            *job.lock().unwrap() = made["id"].as_str().unwrap().to_owned();
            true
        })
        .await;
        job.into_inner().unwrap()
    }

    /// Everything is well again.
    async fn calm(&self, job: &str) {
        for path in ["/down", "/busy", "/late"] {
            self.receiver.answer(path, Reply::ok());
        }
        self.call("/paused", "resume").await;
        let path = format!("/v1/replays/{job}");
        let done = || async {
            let job = self.api.admin_get(&path).await;
            job.is_ok_and(|job| job.json()["state"] == "completed")
        };
        eventually(CALM, "the replay is done", done).await.unwrap();
    }
}

/// The events of an ordered endpoint in the order of their first good answer.
fn arrived(receiver: &Receiver, path: &str) -> Vec<usize> {
    let mut seen = HashSet::new();
    let requests = receiver.requests_to(path);
    let good = requests.iter().filter(|r| r.answered() == Some(200));
    good.map(|request| number(request))
        .filter(|n| seen.insert(*n))
        .collect()
}

/// When each endpoint had its last one.
fn last_ones(site: &Site, since: Instant) -> String {
    let mut last = String::new();
    for lane in site.lanes() {
        let requests = site.receiver.requests_to(&lane.path);
        let at = requests.iter().map(|r| r.at()).max().unwrap_or(since);
        last += &format!(
            "{} {:.1?}, ",
            lane.path,
            at.saturating_duration_since(since)
        );
    }
    last
}

/// A fresh event comes to everybody.
async fn passes(site: &Site, n: usize, limit: Duration) {
    let fresh = Accepted::default();
    publish(&site.api, &fresh, STEADY, n).await;
    let lanes = site.lanes();
    for (id, _) in fresh.all.into_inner().unwrap() {
        site.oracle.accept(&id, owed(&lanes, STEADY));
    }
    let begun = Instant::now();
    for lane in lanes {
        let came = || async {
            let requests = site.receiver.requests_to(&lane.path);
            requests.iter().any(|request| number(request) == n)
        };
        let waited = eventually(limit.saturating_sub(begun.elapsed()), "", came).await;
        if waited.is_err() {
            let (path, places) = (lane.path, site.whereabouts().await);
            panic!(
                "{path} has no fresh event after {limit:?}\n{places}\n{}",
                site.last_words()
            );
        }
    }
}

/// Nothing is left in any queue, and no lane is active.
async fn nothing_is_left(site: &Site) {
    for path in ["/fifo", "/guarded"] {
        site.change(path, &json!({"ordering": "none"})).await;
    }
    for path in ["/paced", "/changed"] {
        site.change(path, &json!({"rate_limit": null})).await;
    }
    site.all_closed(Duration::from_secs(45)).await;
    for stream in [
        StreamName::Events,
        StreamName::Deliveries,
        StreamName::Retries,
    ] {
        let empty = || async { site.stored(stream).await == 0 };
        if eventually(SOON, "a queue is empty", empty).await.is_err() {
            let (places, said) = (site.whereabouts().await, site.last_words());
            panic!("something stays in {stream:?}\n{places}\n{said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_at_once_in_bad_weather_loses_and_strands_nothing() {
    let _turn = turn::heavy().await;
    let builder = Cluster::builder()
        .copies(Role::Ingest, 2)
        .copies(Role::Scheduler, 2)
        .copies(Role::Dispatcher, 2);
    let mut site = Site::start(builder).await;
    answers(&site.receiver);
    for (path, more) in kinds() {
        site.endpoint(path, &more).await;
    }
    let (api, lanes) = (site.api.clone(), site.lanes());
    let (accepted, stop) = (Accepted::default(), CancellationToken::new());
    let mut storm = Storm::new();
    let operator = Operator {
        api: &api,
        receiver: &site.receiver,
        lanes: &lanes,
    };
    let faults = async {
        storm.rage(&mut site.cluster).await;
        storm.calm(&mut site.cluster).await;
        stop.cancel();
    };
    let (job, ..) = tokio::join!(
        operator.replay(),
        publish_steadily(&api, &accepted, &stop),
        publish_bursts(&api, &accepted, &stop),
        operator.change_things(&stop),
        faults,
    );
    println!("{}", storm.told());
    let begun = Instant::now();
    for (id, event_type) in accepted.all.lock().unwrap().iter() {
        site.oracle.accept(id, owed(&lanes, event_type));
    }
    operator.calm(&job).await;
    let verdict = site.verdict(CALM).await;
    println!(
        "{} delivered, {} dead, {} both, {} more than once; the last came {} after the storm",
        verdict.delivered,
        verdict.dead,
        verdict.both.len(),
        verdict.duplicates.len(),
        last_ones(&site, begun),
    );
    let steady = *accepted.steady.lock().unwrap();
    for path in ["/fifo", "/guarded"] {
        let all: Vec<usize> = (0..steady).collect();
        assert_eq!(arrived(&site.receiver, path), all, "{path}");
    }
    passes(&site, 1_000_000, SOON).await;
    passes(&site, 1_000_001, AT_ONCE).await;
    nothing_is_left(&site).await;
    println!("all closed {:.1?} after the storm", begun.elapsed());
}

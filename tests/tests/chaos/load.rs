//! A load whose every event has a known end, and what became of it.

use anyhow::{Result, ensure};
use posthorn_tests::Cluster;
use posthorn_tests::api::Api;
use posthorn_tests::oracle::{Oracle, Owed, Verdict};
use posthorn_tests::receiver::{Received, Receiver, Reply};
use posthorn_tests::wait::eventually;
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a publisher repeats a publish that was not answered.
const PERSISTENCE: Duration = Duration::from_secs(60);

/// A receiver, its endpoint, and everything that was accepted for it.
pub struct Load {
    pub receiver: Receiver,
    pub oracle: Arc<Oracle>,
    accepted_at: Arc<Mutex<HashMap<String, Instant>>>,
    api: Arc<Api>,
    endpoint: String,
}

impl Load {
    /// One endpoint whose receiver refuses every 20th event for good, fails every 10th once,
    /// and takes the rest.
    pub async fn start(cluster: &Cluster) -> Load {
        let receiver = Receiver::start().await.unwrap();
        receiver.answer_by("/hook", answer);
        let api = Arc::new(cluster.api().unwrap());
        let endpoint = json!({
            "url": receiver.url("/hook"),
            "retry": {"base": "100ms", "max_delay": "1s", "max_attempts": 20},
            "max_in_flight": 256,
            "timeout": "5s",
        });
        let made = api.create_endpoint("acme", &endpoint).await.unwrap();
        let endpoint = made["id"].as_str().unwrap().to_owned();
        Load {
            receiver,
            oracle: Arc::default(),
            accepted_at: Arc::default(),
            api,
            endpoint,
        }
    }

    /// Publishes `per_second` events a second until stopped; each is repeated under its key
    /// until it is accepted.
    pub async fn run(&self, per_second: u32, stop: CancellationToken) {
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        let mut publishing = JoinSet::new();
        let mut number = 0_u64;
        while !stop.is_cancelled() {
            tick.tick().await;
            for _ in 0..per_second / 50 {
                number += 1;
                publishing.spawn(self.publish(number));
            }
        }
        for done in publishing.join_all().await {
            done.unwrap();
        }
    }

    /// Waits until everything accepted has ended, and judges.
    pub async fn verdict(&self, cluster: &Cluster, limit: Duration) -> Verdict {
        let settled = || async {
            self.judge()
                .await
                .is_ok_and(|verdict| verdict.lost.is_empty())
        };
        let waited = eventually(limit, "everything accepted has ended", settled).await;
        let verdict = self.judge().await.unwrap();
        if waited.is_err() {
            let output = cluster.output();
            let tail: Vec<&str> = output.lines().rev().take(80).collect();
            panic!("{:?}\n{}", verdict.nothing_lost(), tail.join("\n"));
        }
        verdict
    }

    async fn judge(&self) -> Result<Verdict> {
        let letters = self
            .api
            .admin_list(&format!(
                "/v1/dead-letters?endpoint={}&limit=500",
                self.endpoint
            ))
            .await?;
        let dead = letters
            .iter()
            .filter_map(|letter| letter["event_id"].as_str());
        let received = self.receiver.requests();
        let received: Vec<&Received> = received.iter().map(AsRef::as_ref).collect();
        Ok(self
            .oracle
            .judge(received, dead.map(|event| Owed::new(event, "/hook"))))
    }

    /// The longest time in which the receiver got nothing, while load was offered.
    pub fn longest_silence(&self) -> Duration {
        let mut at: Vec<_> = self
            .receiver
            .requests()
            .iter()
            .map(|request| request.at())
            .collect();
        at.sort();
        at.windows(2)
            .map(|pair| pair[1] - pair[0])
            .max()
            .unwrap_or_default()
    }

    /// The longest time from acceptance to the answer that ended it with 2xx.
    pub fn slowest(&self) -> Duration {
        let accepted = self.accepted_at.lock().unwrap();
        let mut first: HashMap<String, Instant> = HashMap::new();
        for request in self.receiver.requests() {
            if request.answered() == Some(200) {
                let at = first
                    .entry(request.webhook_id().to_owned())
                    .or_insert(request.at());
                *at = (*at).min(request.at());
            }
        }
        let waits = first
            .iter()
            .filter_map(|(id, at)| Some(at.saturating_duration_since(*accepted.get(id)?)));
        waits.max().unwrap_or_default()
    }

    /// Publishes until it is accepted, and notes it.
    fn publish(&self, number: u64) -> impl Future<Output = Result<()>> + Send + use<> {
        let (api, oracle, times) = (
            self.api.clone(),
            self.oracle.clone(),
            self.accepted_at.clone(),
        );
        async move {
            let id = publish(&api, number).await?;
            oracle.accept(&id, ["/hook"]);
            times.lock().unwrap().insert(id, Instant::now());
            Ok(())
        }
    }

    /// After everything: a fresh event still passes.
    pub async fn fresh_event_passes(&self) {
        let before = self.receiver.count();
        self.publish(1_000_001).await.unwrap();
        self.receiver
            .wait_for(before + 1, Duration::from_secs(30))
            .await
            .unwrap();
    }
}

fn answer(request: &Received) -> Reply {
    let body = std::str::from_utf8(request.body()).unwrap_or_default();
    let number: u64 = body
        .trim_start_matches("{\"n\":")
        .trim_end_matches('}')
        .parse()
        .unwrap_or(1);
    let first = request.header("webhook-attempt") == Some("1");
    match number {
        n if n % 20 == 0 => Reply::status(400),
        n if n % 10 == 3 && first => Reply::status(503),
        _ => Reply::ok(),
    }
}

/// Publishes one under its key until it is accepted; returns its id.
pub async fn publish(api: &Api, number: u64) -> Result<String> {
    let key = format!("load-{number}");
    let body = format!("{{\"n\":{number}}}");
    let deadline = tokio::time::Instant::now() + PERSISTENCE;
    loop {
        let answer = api
            .publish_with_key("acme", "load.event", &key, body.clone())
            .await;
        if let Ok(accepted) = answer {
            return Ok(accepted.id);
        }
        ensure!(
            tokio::time::Instant::now() < deadline,
            "an event could not be published in a minute: {:?}",
            answer.err()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

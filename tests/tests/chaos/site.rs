//! Endpoints with lanes, events whose every end is known, and what is left behind.

use futures_util::StreamExt;
use posthorn_broker::{Broker, BucketName, ConnectSettings, StreamName, Topology};
use posthorn_delivery::{EndpointId, LaneState};
use posthorn_tests::api::Api;
use posthorn_tests::cluster::Builder;
use posthorn_tests::oracle::{Oracle, Owed, Verdict};
use posthorn_tests::receiver::{Received, Receiver};
use posthorn_tests::wait::eventually;
use posthorn_tests::{Cluster, DEADLINE, Role};
use rand::RngExt;
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most that one call publishes.
const BATCH: usize = 1_000;
pub const TENANT: &str = "acme";

/// A running system, its receiver, and what the test itself sees of the broker.
pub struct Site {
    pub cluster: Cluster,
    pub receiver: Receiver,
    pub api: Arc<Api>,
    pub oracle: Oracle,
    endpoints: Vec<Lane>,
    broker: Broker,
}

/// An endpoint: the path that its deliveries come to, and its lane.
#[derive(Clone)]
pub struct Lane {
    pub path: String,
    pub id: EndpointId,
}

impl Site {
    pub async fn start(builder: Builder) -> Site {
        let cluster = builder
            .env("POSTHORN_SECRET_KEYS", "none")
            .start()
            .await
            .unwrap();
        let settings = ConnectSettings::plain(cluster.nats.url(), "test");
        Site {
            receiver: Receiver::start().await.unwrap(),
            api: Arc::new(cluster.api().unwrap()),
            oracle: Oracle::new(),
            endpoints: Vec::new(),
            broker: Broker::connect(&settings, Topology::new("posthorn"))
                .await
                .unwrap(),
            cluster,
        }
    }

    /// Creates an endpoint at `path` that retries quickly; `more` is laid over it.
    pub async fn endpoint(&mut self, path: &str, more: &Value) {
        let mut document = json!({
            "url": self.receiver.url(path),
            "retry": {"base": "100ms", "max_delay": "500ms", "max_attempts": 60},
            "timeout": "5s",
            "breaker": null,
        });
        for (name, value) in more.as_object().unwrap() {
            document[name] = value.clone();
        }
        let made = self.api.create_endpoint(TENANT, &document).await.unwrap();
        self.endpoints.push(Lane {
            path: path.to_owned(),
            id: EndpointId::parse(made["id"].as_str().unwrap()).unwrap(),
        });
    }

    /// The endpoints, in the order of their creation.
    pub fn lanes(&self) -> Vec<Lane> {
        self.endpoints.clone()
    }

    /// `pause` or `resume` of every endpoint.
    pub async fn call_each(&self, call: &str) {
        for lane in &self.endpoints {
            let path = format!("/v1/tenants/{TENANT}/endpoints/{}/{call}", lane.id);
            let answer = self.api.post(&path, &json!({})).await.unwrap();
            answer.success().unwrap();
        }
    }

    /// Changes the endpoint at `path`.
    pub async fn change(&self, path: &str, more: &Value) {
        let lane = self.endpoints.iter().find(|lane| lane.path == path);
        let path = format!("/v1/tenants/{TENANT}/endpoints/{}", lane.unwrap().id);
        let answer = self.api.patch(&path, more).await.unwrap();
        answer.success().unwrap();
    }

    /// Publishes events with the payloads `{"n":…}`; every endpoint is owed each of them.
    pub async fn publish(&self, numbers: Range<usize>) {
        let all: Vec<usize> = numbers.collect();
        for numbers in all.chunks(BATCH) {
            let item = |n: &usize| json!({"type": "a.b", "payload": {"n": n}});
            let items: Vec<Value> = numbers.iter().map(item).collect();
            let path = format!("/v1/tenants/{TENANT}/events");
            let answer = self.api.post(&path, &json!(items)).await.unwrap();
            assert_eq!(answer.status, 202, "{}", answer.json());
            for result in answer.json()["results"].as_array().unwrap() {
                self.accepted(result["id"].as_str().unwrap());
            }
        }
    }

    /// Every endpoint is owed this event.
    pub fn accepted(&self, event: &str) {
        let paths = self.endpoints.iter().map(|lane| lane.path.as_str());
        self.oracle.accept(event, paths);
    }

    /// How many deliveries lie in all lanes.
    pub async fn waiting(&self) -> u64 {
        self.stored(StreamName::Lanes).await
    }

    /// How many messages a stream holds.
    pub async fn stored(&self, stream: StreamName) -> u64 {
        self.broker.stream_messages(stream).await.unwrap()
    }

    /// Waits until so many lie in lanes.
    pub async fn fills_to(&self, count: u64) {
        let filled = || async { self.waiting().await == count };
        let waited = eventually(Duration::from_secs(60), "the lanes are filled", filled).await;
        if waited.is_err() {
            let (there, said) = (self.waiting().await, self.last_words());
            panic!("{there} of {count} wait in lanes\n{said}");
        }
    }

    /// How often somebody has become the owner of a lane so far; 0 when it is not active.
    pub async fn takings(&self, lane: &Lane) -> u64 {
        let bucket = self.broker.bucket::<LaneState>(BucketName::Lanes).await;
        let found = bucket.unwrap().get(lane.id.as_str()).await.unwrap();
        found.map_or(0, |found| found.value.owner)
    }

    /// Waits until everything accepted has ended, and judges.
    pub async fn verdict(&self, limit: Duration) -> Verdict {
        let owed = self.oracle.accepted();
        let ended = || async {
            // Judging costs more than counting, and whoever judges takes the time of those
            // who are judged.
            self.receiver.count() >= owed && self.judge().await.lost.is_empty()
        };
        let waited = eventually(limit, "everything accepted has ended", ended).await;
        let verdict = self.judge().await;
        if waited.is_err() {
            let (lost, said) = (verdict.nothing_lost(), self.last_words());
            panic!("{lost:?}\n{}\n{said}", self.whereabouts().await);
        }
        verdict
    }

    async fn judge(&self) -> Verdict {
        let path = "/v1/dead-letters?limit=500";
        let letters = self.api.admin_list(path).await.unwrap_or_default();
        let dead = letters.iter().filter_map(|letter| {
            let event = letter["event_id"].as_str()?;
            let endpoint = letter["endpoint"].as_str()?;
            let known = |lane: &&Lane| lane.id.as_str() == endpoint;
            let lane = self.endpoints.iter().find(known)?;
            Some(Owed::new(event, &lane.path))
        });
        let received = self.receiver.requests();
        let received = received.iter().map(AsRef::as_ref);
        self.oracle.judge(received, dead)
    }

    /// Waits until nothing is left of any lane: no delivery, no token, no key.
    pub async fn all_closed(&self, limit: Duration) {
        let lanes = self.broker.bucket::<LaneState>(BucketName::Lanes).await;
        let lanes = lanes.unwrap();
        let closed = || async {
            self.waiting().await == 0
                && self.stored(StreamName::Tokens).await == 0
                && lanes.keys().await.unwrap().is_empty()
        };
        let waited = eventually(limit, "every lane is closed", closed).await;
        if let Err(error) = waited {
            panic!(
                "{error}: {}\n{}",
                self.whereabouts().await,
                self.last_words()
            );
        }
    }

    /// Where things are, for a test that has failed.
    pub async fn whereabouts(&self) -> String {
        let mut places = String::new();
        for stream in StreamName::ALL {
            places += &format!("{stream:?} {}, ", self.stored(stream).await);
        }
        for lane in self.api.admin_list("/v1/lanes").await.unwrap_or_default() {
            places += &format!("\n{lane}");
        }
        places + &self.queues().await
    }

    /// Where each stream begins and ends, and how far its durables are: what lies at or below a
    /// floor, and is not in hand, is handed out to nobody any more.
    async fn queues(&self) -> String {
        let context = async_nats::jetstream::new(self.cluster.nats.client().await.unwrap());
        let mut queues = String::new();
        for stream in StreamName::ALL {
            let name = self.broker.names().stream(stream);
            let mut stream = context.get_stream(name).await.unwrap();
            let state = stream.info().await.unwrap().state.clone();
            queues += &format!(
                "\n{stream}: {} messages, {} to {}",
                state.messages,
                state.first_sequence,
                state.last_sequence,
                stream = stream.cached_info().config.name,
            );
            let mut durables = stream.consumers();
            while let Some(Ok(info)) = durables.next().await {
                queues += &format!(
                    "; {}: floor {}, delivered {}, {} in hand, {} redelivered, {} to come",
                    info.name,
                    info.ack_floor.stream_sequence,
                    info.delivered.stream_sequence,
                    info.num_ack_pending,
                    info.num_redelivered,
                    info.num_pending,
                );
            }
        }
        queues
    }

    /// The end of what each process wrote.
    pub fn last_words(&self) -> String {
        let mut words = String::new();
        for entry in std::fs::read_dir(self.cluster.folder()).unwrap() {
            let file = entry.unwrap();
            let bytes = std::fs::read(file.path()).unwrap_or_default();
            let output = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = output.lines().collect();
            let tail = lines[lines.len().saturating_sub(25)..].join("\n");
            words += &format!("\n{}\n{tail}\n", file.file_name().display());
        }
        words
    }

    /// After everything: a fresh event still passes.
    pub async fn fresh_event_passes(&self) {
        let before = self.receiver.count();
        self.publish(1_000_000..1_000_001).await;
        let all = before + self.endpoints.len();
        self.receiver.wait_for(all, DEADLINE).await.unwrap();
    }
}

/// SIGKILL for a copy of a role at random, which is started again at once.
pub async fn kill_any(cluster: &mut Cluster, role: Role) {
    let copy = rand::rng().random_range(0..cluster.count(role));
    cluster
        .service(role, copy)
        .unwrap()
        .restart()
        .await
        .unwrap();
}

/// A moment at random between two faults: the only thing that these tests leave to the clock.
pub async fn at_random(millis: Range<u64>) {
    let pause = rand::rng().random_range(millis);
    tokio::time::sleep(Duration::from_millis(pause)).await;
}

/// The number in the payload.
pub fn number(request: &Received) -> usize {
    let body: Value = serde_json::from_slice(request.body()).unwrap();
    usize::try_from(body["n"].as_u64().unwrap()).unwrap()
}

/// The most requests to `path` that came within any stretch of this length.
pub fn most_within(receiver: &Receiver, path: &str, stretch: Duration) -> usize {
    let mut at: Vec<Instant> = receiver.requests_to(path).iter().map(|r| r.at()).collect();
    at.sort_unstable();
    let mut most = 0;
    let mut begin = 0;
    for end in 0..at.len() {
        while at[end] - at[begin] >= stretch {
            begin += 1;
        }
        most = most.max(end - begin + 1);
    }
    most
}

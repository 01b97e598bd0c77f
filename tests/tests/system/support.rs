//! What the tests of this suite have in common.

use posthorn_tests::api::{Answer, Api};
use posthorn_tests::receiver::Received;
use posthorn_tests::wait::{eventually, eventually_some};
use posthorn_tests::{Cluster, Receiver, Role};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Long enough for anything that is to happen at once, on any machine.
pub const SOON: Duration = Duration::from_secs(60);

/// A test that measures a rate or a latency has the machine for itself; the others share it.
static MACHINE: RwLock<()> = RwLock::const_new(());

pub async fn shared() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().await
}

pub async fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().await
}

/// A running system and a receiver.
pub struct Town {
    pub cluster: Cluster,
    pub receiver: Receiver,
    pub api: Arc<Api>,
}

impl Town {
    pub async fn start() -> Town {
        Town::of(Cluster::builder()).await
    }

    pub async fn of(builder: posthorn_tests::cluster::Builder) -> Town {
        let cluster = builder.start().await.unwrap();
        Town {
            api: Arc::new(cluster.api().unwrap()),
            receiver: Receiver::start().await.unwrap(),
            cluster,
        }
    }

    /// Creates an endpoint of `tenant` at `path` that retries quickly; `more` is laid over it.
    /// Returns its id.
    pub async fn endpoint(&self, tenant: &str, path: &str, more: Value) -> String {
        let mut document = json!({
            "url": self.receiver.url(path),
            "retry": {"base": "50ms", "max_delay": "200ms", "max_attempts": 3},
            "breaker": null,
        });
        for (name, value) in more.as_object().unwrap() {
            document[name] = value.clone();
        }
        let made = self.api.create_endpoint(tenant, &document).await.unwrap();
        text(&made["id"])
    }

    pub async fn publish(&self, tenant: &str, body: &'static str) -> String {
        self.api.publish(tenant, "a.b", body).await.unwrap().id
    }

    pub async fn got(&self, path: &str, count: usize) -> Vec<Arc<Received>> {
        let got = self.receiver.wait_for_path(path, count, SOON).await;
        got.unwrap_or_else(|error| panic!("{error}\n{}", self.last_words()))
    }

    /// Waits for `count` dead letters of a list with this query.
    pub async fn letters(&self, query: &str, count: usize) -> Vec<Value> {
        let path = format!("/v1/dead-letters?limit=500{query}");
        let found = eventually_some(SOON, "the dead letters are there", || async {
            let list = self.api.admin_list(&path).await.ok()?;
            (list.len() == count).then_some(list)
        });
        let found = found.await;
        match found {
            Ok(list) => list,
            Err(error) => {
                let list = self.api.admin_list(&path).await.map(|list| list.len());
                panic!("{count} wanted, {list:?}: {error}\n{}", self.last_words())
            }
        }
    }

    /// A dead letter as it is shown by its id.
    pub async fn letter(&self, id: &str) -> Value {
        let answer = self.api.admin_get(&format!("/v1/dead-letters/{id}")).await;
        answer.unwrap().success().unwrap()
    }

    pub async fn letter_is(&self, id: &str, state: &str) -> Value {
        let what = format!("letter {state}");
        let found = eventually_some(SOON, &what, || async {
            let letter = self.letter(id).await;
            (letter["state"] == state).then_some(letter)
        });
        found.await.unwrap()
    }

    pub async fn replay(&self, id: &str) -> Answer {
        let path = format!("/v1/dead-letters/{id}/replay");
        self.api.admin_post(&path, &json!({})).await.unwrap()
    }

    /// Waits until the streams that hold work are empty: nothing is under way or waiting.
    pub async fn settled(&self) {
        self.streams_empty(&[
            "POSTHORN_EVENTS",
            "POSTHORN_DELIVERIES",
            "POSTHORN_RETRIES",
            "POSTHORN_LANES",
            "POSTHORN_TOKENS",
        ])
        .await;
    }

    pub async fn streams_empty(&self, names: &[&str]) {
        let client = self.cluster.nats.client().await.unwrap();
        let context = async_nats::jetstream::new(client);
        eventually(SOON, "no stream holds work", || async {
            for name in names {
                let Ok(mut stream) = context.get_stream(*name).await else {
                    return false;
                };
                match stream.info().await {
                    Ok(info) if info.state.messages == 0 => {}
                    _ => return false,
                }
            }
            true
        })
        .await
        .unwrap();
    }

    /// The metrics of a copy of a role.
    pub async fn metrics(&mut self, role: Role, copy: usize) -> String {
        self.ops(role, copy, "/metrics").await.1
    }

    /// Asks a probe; 0 when it does not answer.
    pub async fn ops(&mut self, role: Role, copy: usize, path: &str) -> (u16, String) {
        let port = self.cluster.service(role, copy).unwrap().ops_port();
        ops(port.unwrap(), path).await
    }

    pub fn last_words(&self) -> String {
        let output = self.cluster.output();
        let tail: Vec<&str> = output.lines().rev().take(60).collect();
        tail.join("\n")
    }
}

/// Asks a probe; 0 when it does not answer.
pub async fn ops(port: u16, path: &str) -> (u16, String) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://127.0.0.1:{port}{path}");
    let asked = client.get(url).timeout(Duration::from_secs(3)).send().await;
    match asked {
        Ok(answer) => (
            answer.status().as_u16(),
            answer.text().await.unwrap_or_default(),
        ),
        Err(_) => (0, String::new()),
    }
}

/// The sum of every series of a metric whose labels contain `label`; `None` where there is none.
pub fn metric(text: &str, name: &str, label: &str) -> Option<f64> {
    let values: Vec<f64> = text
        .lines()
        .filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(label)
        })
        .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
        .collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// How often each event was received.
pub fn counts(requests: &[Arc<Received>]) -> std::collections::HashMap<String, usize> {
    let mut counts = std::collections::HashMap::new();
    for request in requests {
        *counts.entry(request.webhook_id().to_owned()).or_default() += 1;
    }
    counts
}

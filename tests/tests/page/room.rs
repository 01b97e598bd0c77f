//! A running system with a browser in front of it, and something to look at.

use crate::browser::{Browser, SOON, button, field};
use posthorn_tests::api::Api;
use posthorn_tests::cluster::ADMIN_KEY;
use posthorn_tests::wait::eventually_some;
use posthorn_tests::{Cluster, Receiver, Reply, Role};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Two systems with a browser each are enough for one machine: one acts while the other waits.
static MACHINE: Semaphore = Semaphore::const_new(2);

pub struct Room {
    pub browser: Browser,
    pub api: Api,
    pub receiver: Receiver,
    pub admin: String,
    _cluster: Cluster,
    _machine: SemaphorePermit<'static>,
}

impl Room {
    /// Everything, and nobody signed in.
    pub async fn start() -> Room {
        let machine = MACHINE.acquire().await.unwrap();
        let builder = Cluster::builder().copies(Role::DlqAdmin, 0);
        let mut cluster = builder.start().await.unwrap();
        let ingest = cluster.urls(Role::Ingest).remove(0);
        let env = [("POSTHORN_INGEST_URL", ingest.as_str())];
        cluster.add(Role::DlqAdmin, &env).await.unwrap();
        let admin = cluster.urls(Role::DlqAdmin).remove(0);
        Room {
            browser: Browser::start(&admin).await,
            api: cluster.api().unwrap(),
            receiver: Receiver::start().await.unwrap(),
            admin,
            _cluster: cluster,
            _machine: machine,
        }
    }

    /// Signed in with the admin key, at a view.
    pub async fn at(path: &str) -> Room {
        let room = Room::start().await;
        room.browser.open(path).await;
        room.sign_in(ADMIN_KEY).await;
        room
    }

    pub async fn sign_in(&self, key: &str) {
        self.browser.has(&field("API key")).await;
        self.browser.fill("API key", key).await;
        self.browser.click(&button("Sign in")).await;
        self.browser.has(&button("Sign out")).await;
    }

    /// Creates an endpoint that gives up quickly; returns its id.
    pub async fn endpoint(
        &self,
        tenant: &str,
        path: &str,
        description: &str,
        more: Value,
    ) -> String {
        let mut document = json!({
            "url": self.receiver.url(path),
            "description": description,
            "retry": {"base": "50ms", "max_delay": "200ms", "max_attempts": 3},
            "breaker": null,
        });
        for (name, value) in more.as_object().unwrap() {
            document[name] = value.clone();
        }
        let made = self.api.create_endpoint(tenant, &document).await.unwrap();
        made["id"].as_str().unwrap().to_owned()
    }

    /// Publishes `count` events of a type.
    pub async fn publish(&self, tenant: &str, event_type: &str, count: usize) -> Vec<String> {
        let mut ids = Vec::new();
        for number in 0..count {
            let body = json!({
                "id": format!("{}_{number}", event_type.replace('.', "_")),
                "customer": {"name": "Zoë Example", "since": "2021-04-01"},
                "amount": 12_345_678_901_234_567_890_u64,
                "lines": [{"sku": "PH-1", "quantity": 2}, {"sku": "PH-7", "quantity": 1}],
            });
            let published = self.api.publish(tenant, event_type, body.to_string()).await;
            ids.push(published.unwrap().id);
        }
        ids
    }

    /// Waits for `count` letters of a list with this query.
    pub async fn letters(&self, query: &str, count: usize) -> Vec<Value> {
        let path = format!("/v1/dead-letters?limit=500&{query}");
        let what = format!("{count} dead letters of {query:?}");
        let found = eventually_some(Duration::from_secs(60), &what, || async {
            let list = self.api.admin_list(&path).await.ok()?;
            (list.len() == count).then_some(list)
        });
        found.await.unwrap()
    }

    /// An endpoint of acme that answers 503 until it is told otherwise, and `count` letters.
    pub async fn broken(&self, count: usize) -> String {
        self.receiver.answer("/fraud", unavailable());
        let id = self.endpoint(
            "acme",
            "/fraud",
            "Fraud checks",
            json!({"event_types": ["payment.*"]}),
        );
        let id = id.await;
        self.publish("acme", "payment.settled", count).await;
        self.letters(&format!("endpoint={id}"), count).await;
        id
    }

    /// A key with some scopes; returns its id and text.
    pub async fn key(&self, tenant: Value, scopes: &[&str]) -> (String, String) {
        let document = json!({"name": "night shift", "tenant": tenant, "scopes": scopes});
        let made = self
            .api
            .admin_post("/v1/api-keys", &document)
            .await
            .unwrap();
        let made = made.success().unwrap();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        (text("id"), text("key"))
    }

    /// What the service says of a path, once it says what is wanted.
    pub async fn becomes(&self, path: &str, pointer: &str, wanted: Value) -> Value {
        let what = format!("{path} has {pointer} {wanted}");
        let found = eventually_some(SOON, &what, || async {
            let answer = self.api.admin_get(path).await.ok()?.json();
            (answer.pointer(pointer) == Some(&wanted)).then_some(answer)
        });
        found.await.unwrap()
    }
}

pub fn unavailable() -> Reply {
    Reply::status(503)
        .header("content-type", "application/json")
        .body(r#"{"error":"upstream connect error","retry":true,"trace":"7f3a91"}"#)
}

//! A room of one's own: a server, an installation, a router, and hands to write letters with.

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use axum::{Router, http::header};
use bytes::Bytes;
use posthorn_broker::{
    Broker, BucketName, ConnectSettings, LogReader, Logged, StreamName, Topology, Waiting,
};
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::breaker::BreakerPolicy;
use posthorn_delivery::endpoint::Hidden;
use posthorn_delivery::{
    Attempt, AttemptSummary, BreakerSignal, DeadLetter, Delivery, Disposition, Endpoint,
    EndpointId, EventId, EventType, LetterId, LetterState, MessageId, Pattern, Reason, RetryPolicy,
    Tenant, UnixMillis,
};
use posthorn_dlq_admin::api;
use posthorn_dlq_admin::app::App;
use posthorn_dlq_admin::jobs::worker;
use posthorn_dlq_admin::store::Store;
use posthorn_http_api::{Authenticator, Limits, dress};
use posthorn_nats_server::NatsServer;
use posthorn_runtime::{Readiness, Shutdown};
use serde_json::Value;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tower::ServiceExt;

pub const KEY: &str = "operator-key-for-tests";
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Room {
    pub broker: Broker,
    pub shutdown: Shutdown,
    router: Router,
    server: Arc<(NatsServer, TempDir)>,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shutdown.trigger();
    }
}

impl Room {
    pub async fn open() -> Room {
        let folder = TempDir::new().unwrap();
        let server = NatsServer::builder()
            .data_dir(folder.path())
            .start()
            .await
            .unwrap();
        Room::of(Arc::new((server, folder))).await
    }

    /// A second copy of the service on the same installation.
    pub async fn copy(&self) -> Room {
        Room::of(self.server.clone()).await
    }

    async fn of(server: Arc<(NatsServer, TempDir)>) -> Room {
        let settings = ConnectSettings::plain(server.0.client_url(), "test");
        let broker = Broker::connect(&settings, Topology::new("posthorn"))
            .await
            .unwrap();
        let shutdown = Shutdown::new();
        let store = Store::open(broker.clone(), &shutdown.token())
            .await
            .unwrap();
        let app = App {
            store,
            auth: Authenticator::new(KEY.parse().unwrap()),
            shutdown: shutdown.clone(),
        };
        Room {
            router: dress(api::router(app), Limits::default()),
            broker,
            shutdown,
            server,
        }
    }

    pub fn nats_url(&self) -> String {
        self.server.0.client_url().to_owned()
    }

    /// Lets this copy work on replay jobs.
    pub async fn work(&self, me: &str) {
        let store = Store::open(self.broker.clone(), &self.shutdown.token()).await;
        let beat = Readiness::new().component_with_heartbeat("jobs", PATIENCE);
        let shutdown = self.shutdown.clone();
        let work = worker::run(store.unwrap(), me.to_owned(), shutdown, beat);
        self.shutdown.spawn(work);
    }

    pub async fn send(&self, request: Request<Body>) -> (StatusCode, Bytes) {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        (
            status,
            to_bytes(response.into_body(), 1 << 24).await.unwrap(),
        )
    }

    pub async fn call(&self, method: Method, path: &str, body: &str) -> (StatusCode, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::AUTHORIZATION, format!("Bearer {KEY}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_owned()))
            .unwrap();
        let (status, bytes) = self.send(request).await;
        (
            status,
            serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        )
    }

    pub async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call(Method::GET, path, "").await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body
    }

    pub async fn post(&self, path: &str, body: &str) -> (StatusCode, Value) {
        self.call(Method::POST, path, body).await
    }

    /// Writes a letter as a dispatcher does.
    pub async fn write(&self, letter: &DeadLetter) -> u64 {
        let parts: [&[u8]; 3] = [
            letter.id.as_str().as_bytes(),
            &letter.replays.to_be_bytes(),
            letter.state.as_str().as_bytes(),
        ];
        let id = MessageId::of("test-letter", &parts);
        let stored = self.broker.publish_letter(letter, id.as_str(), None).await;
        stored.unwrap().sequence
    }

    pub async fn write_all(&self, letters: impl IntoIterator<Item = DeadLetter>) {
        for letter in letters {
            self.write(&letter).await;
        }
    }

    pub async fn record(&self, attempt: &Attempt) -> u64 {
        self.broker.publish_attempt(attempt).await.unwrap().sequence
    }

    pub async fn endpoint(&self, endpoint: &Endpoint) {
        let bucket = self.broker.bucket(BucketName::Endpoints).await.unwrap();
        let key = format!("{}.{}", endpoint.tenant, endpoint.id);
        bucket.put(&key, endpoint).await.unwrap();
    }

    pub async fn letters(&self) -> LogReader<DeadLetter> {
        self.broker.log(StreamName::Dlq).await.unwrap()
    }

    pub async fn letter(&self, id: &LetterId) -> Option<Logged<DeadLetter>> {
        let subject = self.broker.names().letter_by_id("*", id);
        self.letters().await.last(&subject).await.unwrap()
    }

    /// Every delivery that was handed in and not yet taken.
    pub async fn handed_in(&self) -> Vec<Delivery> {
        let log = self
            .broker
            .log::<Waiting>(StreamName::Retries)
            .await
            .unwrap();
        let (mut found, mut from) = (Vec::new(), 1);
        loop {
            let page = log.read("posthorn.retries.>", from, 1_000).await.unwrap();
            from = page.items.last().map_or(from, |last| last.sequence + 1);
            let pending = page.pending;
            found.extend(page.items.into_iter().map(|item| match item.value {
                Waiting::Delivery(delivery) => *delivery,
                Waiting::Event(..) => panic!("no event was handed in"),
            }));
            if pending == 0 {
                return found;
            }
        }
    }
}

/// Asks again and again until there is an answer; after [`PATIENCE`] the test has failed.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, ask: impl Fn() -> F) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let answer = tokio::time::timeout(PATIENCE, asking).await;
    answer.unwrap_or_else(|_| panic!("{what} did not come about"))
}

pub fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).unwrap()
}

/// An endpoint whose URL and header hold what must never be shown.
pub fn endpoint(owner: &str, bits: u128) -> Endpoint {
    Endpoint {
        id: EndpointId::from_bits(bits),
        tenant: tenant(owner),
        url: Hidden::new("https://user:pw@h.example/services/T/tok?key=abc".to_owned()),
        event_types: vec![Pattern::all()],
        description: String::new(),
        headers: vec![("x-auth".to_owned(), Hidden::new("header-token".to_owned()))],
        signatures: vec!["v1".to_owned()],
        secrets: Vec::new(),
        key_pairs: Vec::new(),
        disabled: None,
        retry: RetryPolicy::default(),
        timeout: Duration::from_secs(15),
        max_in_flight: 32,
        breaker: Some(BreakerPolicy::default()),
        target_epoch: 0,
        created_at: UnixMillis(1),
        updated_at: UnixMillis(1),
    }
}

pub fn letter(owner: &str, event: u128, endpoint: u128) -> DeadLetter {
    let (event_id, endpoint) = (EventId::from_bits(event), EndpointId::from_bits(endpoint));
    let died_at = posthorn_wiring::now();
    DeadLetter {
        id: LetterId::of(&tenant(owner), &event_id, &endpoint),
        tenant: owner.to_owned(),
        event_id: event_id.to_string(),
        event_type: "invoice.paid".to_owned(),
        endpoint_id: Some(endpoint),
        reason: Reason::Exhausted,
        detail: String::new(),
        died_at,
        accepted_at: died_at,
        payload: Bytes::from_static(b"{\"a\":1}"),
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        traceparent: None,
        history: vec![AttemptSummary {
            at: died_at,
            number: 1,
            result: AttemptResult::Status(500),
            latency_ms: 3,
            sequence: 0,
        }],
        state: LetterState::Dead,
        state_since: died_at,
        replay_generation: 0,
        replays: 0,
        event_seq: 1,
        replay_id: String::new(),
    }
}

pub fn attempt(owner: &str, event: u128, endpoint: u128, number: u32) -> Attempt {
    Attempt {
        tenant: tenant(owner),
        event_id: EventId::from_bits(event),
        event_type: EventType::parse("invoice.paid").unwrap(),
        endpoint_id: EndpointId::from_bits(endpoint),
        number,
        hop: number,
        replay_generation: 0,
        at: posthorn_wiring::now(),
        latency_ms: 7,
        result: AttemptResult::Status(500),
        response_body: Bytes::from_static(b"no"),
        disposition: Disposition::Retry {
            not_before: UnixMillis(1_900_000_000_000),
            same_attempt: false,
        },
        breaker_generation: 0,
        probe: false,
        breaker_signal: BreakerSignal::Failure,
        hold_until: None,
        disable_endpoint: false,
    }
}

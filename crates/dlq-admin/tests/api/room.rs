//! A room of one's own: a server, an installation, a router, and hands to write letters with.

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use axum::{Router, http::header};
use bytes::Bytes;
use posthorn_broker::{
    Broker, BucketName, ConnectSettings, DecodeError, LaneStore, LogReader, Logged, Patience,
    StreamName, Topology, Wire,
};
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::breaker::BreakerPolicy;
use posthorn_delivery::endpoint::Hidden;
use posthorn_delivery::{
    Attempt, AttemptSummary, BreakerSignal, DeadLetter, Delivery, Disposition, Endpoint,
    EndpointId, EventId, EventType, LaneId, LaneState, LetterId, LetterState, MessageId, Pattern,
    Reason, RetryPolicy, Tenant, UnixMillis,
};
use posthorn_dlq_admin::api;
use posthorn_dlq_admin::app::App;
use posthorn_dlq_admin::jobs::worker;
use posthorn_dlq_admin::store::Store;
use posthorn_http_api::{Limits, dress};
use posthorn_nats_server::NatsServer;
use posthorn_runtime::{Readiness, Shutdown};
use serde_json::Value;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::sync::Mutex;
use tower::ServiceExt;

pub const KEY: &str = "operator-key-for-tests";
/// What a key without a rate of its own may do in a second.
pub const RATE: u32 = 1_000;
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Room {
    pub broker: Broker,
    pub shutdown: Shutdown,
    router: Router,
    server: Arc<(NatsServer, TempDir)>,
    let_go: Arc<Mutex<Vec<Delivery>>>,
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
        let mut copy = Room::of(self.server.clone()).await;
        copy.let_go = self.let_go.clone();
        copy
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
        let rate = std::num::NonZeroU32::new(RATE);
        let app = App::new(store, KEY.parse().unwrap(), rate, shutdown.clone());
        Room {
            router: dress(api::router(app), Limits::default()),
            broker,
            shutdown,
            server,
            let_go: Arc::default(),
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

    /// The whole answer, with its headers.
    pub async fn response(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub async fn send(&self, request: Request<Body>) -> (StatusCode, Bytes) {
        let response = self.response(request).await;
        let status = response.status();
        (
            status,
            to_bytes(response.into_body(), 1 << 24).await.unwrap(),
        )
    }

    pub async fn call(&self, method: Method, path: &str, body: &str) -> (StatusCode, Value) {
        self.call_as(KEY, method, path, body).await
    }

    /// A call with another key.
    pub async fn call_as(
        &self,
        key: &str,
        method: Method,
        path: &str,
        body: &str,
    ) -> (StatusCode, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::AUTHORIZATION, format!("Bearer {key}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_owned()))
            .unwrap();
        let (status, bytes) = self.send(request).await;
        (
            status,
            serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        )
    }

    /// Makes a key as the document says, and returns the answer.
    pub async fn key(&self, document: Value) -> Value {
        let (status, body) = self.post("/v1/api-keys", &document.to_string()).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        body
    }

    /// Deletes a stream behind the back of the service, in NATS' own words.
    pub async fn delete_stream(&self, name: &str) {
        let address = self.nats_url().replace("nats://", "");
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (reader, mut writer) = stream.into_split();
        let ask = format!(
            "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\n\
             PUB $JS.API.STREAM.DELETE.{name} answer 0\r\n\r\n"
        );
        writer.write_all(ask.as_bytes()).await.unwrap();
        let mut lines = tokio::io::BufReader::new(reader).lines();
        let answered = tokio::time::timeout(PATIENCE, async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains("\"success\":true") {
                    return;
                }
            }
            panic!("the stream was not deleted");
        });
        answered.await.unwrap();
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

    pub async fn lanes(&self) -> LaneStore {
        LaneStore::open(&self.broker).await.unwrap()
    }

    /// Empties every lane as fast as it is filled, as their owners do.
    pub fn let_go(&self) {
        let (broker, let_go) = (self.broker.clone(), self.let_go.clone());
        self.shutdown.spawn(async move {
            let lanes = LaneStore::open(&broker).await.unwrap();
            loop {
                let mut let_go = let_go.lock().await;
                for delivery in lying(&broker).await {
                    lanes.remove(delivery.sequence).await.unwrap();
                    let_go.push(delivery.value);
                }
                drop(let_go);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    }

    /// Every delivery that was handed in, also when it was let go since.
    pub async fn handed_in(&self) -> Vec<Delivery> {
        let mut found = self.let_go.lock().await.clone();
        found.extend(lying(&self.broker).await.into_iter().map(|item| item.value));
        found
    }

    /// Puts a delivery into a lane, under whatever key and token the lane has.
    pub async fn park(&self, lane: &LaneId, delivery: &Delivery) {
        let stored = self.lanes().await;
        let stored = stored.append(lane, delivery, Patience::CALLER).await;
        assert!(!stored.unwrap().duplicate);
    }

    pub async fn lane(&self, lane: &LaneId) -> Option<LaneState> {
        let bucket = self.broker.bucket(BucketName::Lanes).await.unwrap();
        let found = bucket.get(&lane.key()).await.unwrap();
        found.map(|found| found.value)
    }

    pub async fn open_lane(&self, lane: &LaneId, state: &LaneState) {
        let bucket = self.broker.bucket(BucketName::Lanes).await.unwrap();
        bucket.put(&lane.key(), state).await.unwrap();
    }

    /// Where the token of a lane is stored: another place is another token.
    pub async fn token(&self, lane: &LaneId) -> Option<u64> {
        let log = self.broker.log::<Nothing>(StreamName::Tokens).await;
        let found = log.unwrap().last(&format!("posthorn.tokens.{lane}")).await;
        found.unwrap().map(|token| token.sequence)
    }
}

/// What a token says.
pub struct Nothing;

impl Wire for Nothing {
    fn to_wire(&self) -> Bytes {
        Bytes::new()
    }

    fn from_wire(bytes: Bytes) -> Result<Nothing, DecodeError> {
        assert!(bytes.is_empty());
        Ok(Nothing)
    }
}

async fn lying(broker: &Broker) -> Vec<Logged<Delivery>> {
    let log = broker.log(StreamName::Lanes).await.unwrap();
    let (mut found, mut from) = (Vec::new(), 1);
    loop {
        let page = log.read("posthorn.lanes.>", from, 1_000).await.unwrap();
        from = page
            .items
            .last()
            .map_or(from, |last: &Logged<_>| last.sequence + 1);
        found.extend(page.items);
        if page.pending == 0 {
            return found;
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
        disabled_before: std::time::Duration::ZERO,
        ordering: posthorn_delivery::Ordering::None,
        rate_limit: None,
        max_backlog: posthorn_delivery::endpoint::limits::MAX_BACKLOG,
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
        entry: 0,
        answer: String::new(),
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
        in_order: false,
        detail: String::new(),
        exchange: None,
    }
}

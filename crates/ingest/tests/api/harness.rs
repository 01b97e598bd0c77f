//! The API as a router, over an installation of the test's own.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use http_body_util::BodyExt;
use posthorn_broker::{Broker, ConnectSettings, Logged, StreamName, Topology, Wire};
use posthorn_delivery::{Endpoint, Event};
use posthorn_http_api::{Limits, dress};
use posthorn_ingest::{App, Settings, router};
use posthorn_nats_server::NatsServer;
use posthorn_runtime::Shutdown;
use posthorn_runtime::config::SecretsArgs;
use posthorn_vault::Vault;
use serde_json::{Value, json};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tower::ServiceExt;

pub const KEY: &str = "test-key";
pub const SECRET_KEYS: &str = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
pub const ENDPOINTS: &str = "/v1/tenants/acme/endpoints";

pub struct Api {
    pub nats: NatsServer,
    pub broker: Broker,
    pub router: Router,
    pub shutdown: Shutdown,
    _folder: TempDir,
}

pub fn settings() -> Settings {
    Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        admin_key: Some(KEY.parse().unwrap()),
        egress_allow: String::new(),
        egress_deny: String::new(),
        egress_allow_http: Some(false),
        egress_ports: "80,443,1024-65535".to_owned(),
        max_payload: 256 * 1024,
        key_rate_limit: 1_000,
        secrets: SecretsArgs::of(SECRET_KEYS.parse().unwrap()),
    }
}

pub async fn connect(nats: &NatsServer, topology: Topology) -> Broker {
    let settings = ConnectSettings {
        urls: vec![nats.client_url().to_owned()],
        creds: None,
        nkey: None,
        tls_ca: None,
        tls_cert: None,
        tls_key: None,
        timeout: Duration::from_secs(30),
        client_name: "test".to_owned(),
    };
    Broker::connect(&settings, topology).await.unwrap()
}

impl Api {
    pub async fn start() -> Api {
        Api::with(settings(), Topology::new("posthorn")).await
    }

    pub async fn with(settings: Settings, topology: Topology) -> Api {
        let folder = TempDir::new().unwrap();
        let nats = NatsServer::builder().data_dir(folder.path().join("nats"));
        let nats = nats.start().await.unwrap();
        let broker = connect(&nats, topology).await;
        let shutdown = Shutdown::new();
        let app = App::open(&settings, broker.clone(), shutdown.token()).await;
        Api {
            router: dress(router(app.unwrap()), Limits::default()),
            nats,
            broker,
            shutdown,
            _folder: folder,
        }
    }

    /// The same installation through a service that has other secret keys.
    pub async fn with_keys(&self, secret_keys: &str) -> Router {
        let settings = Settings {
            secrets: SecretsArgs::of(secret_keys.parse().unwrap()),
            ..settings()
        };
        let app = App::open(&settings, self.broker.clone(), self.shutdown.token()).await;
        dress(router(app.unwrap()), Limits::default())
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        answer_of(&self.router, request).await
    }

    pub async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let body = body.map_or_else(Body::empty, |value| Body::from(value.to_string()));
        self.send(request(method, path, &[]).body(body).unwrap())
            .await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path, Some(body)).await
    }

    /// Publishes `body` as `invoice.paid` of acme.
    pub async fn publish(&self, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        let path = "/v1/tenants/acme/events/invoice.paid";
        let request = request("POST", path, headers).body(body.into()).unwrap();
        self.send(request).await
    }

    /// Creates an endpoint of acme and returns it as it was answered.
    pub async fn endpoint(&self, more: Value) -> Value {
        let mut document = json!({"url": "https://example.com/hook"});
        for (name, value) in more.as_object().unwrap() {
            document[name] = value.clone();
        }
        let answer = self.post(ENDPOINTS, document).await;
        assert_eq!(answer.status, 201, "{}", answer.json);
        answer.json
    }

    async fn stored<T: Wire>(&self, stream: StreamName) -> Vec<Logged<T>> {
        let log = self.broker.log::<T>(stream).await.unwrap();
        let all = self.broker.names().all_of(stream);
        log.read(&all, 1, 1_000).await.unwrap().items
    }

    /// Every event in the intake, in order.
    pub async fn events(&self) -> Vec<Event> {
        let stored = self.stored::<Event>(StreamName::Events).await;
        stored.into_iter().map(|logged| logged.value).collect()
    }

    /// An endpoint as it is stored.
    pub async fn stored_endpoint(&self, shown: &Value) -> Option<Endpoint> {
        let name = posthorn_broker::BucketName::Endpoints;
        let bucket = self.broker.bucket::<Endpoint>(name).await.unwrap();
        let key = format!("acme.{}", shown["id"].as_str().unwrap());
        bucket.get(&key).await.unwrap().map(|found| found.value)
    }

    /// An endpoint as it is stored, in plain.
    pub async fn opened_endpoint(&self, shown: &Value) -> Endpoint {
        let vault = Vault::from_setting(Some(SECRET_KEYS)).unwrap();
        let stored = self.stored_endpoint(shown).await.unwrap();
        assert!(vault.holds(&stored), "everything is sealed");
        vault.opened(&stored).unwrap()
    }

    /// Stores an endpoint as somebody else left it.
    pub async fn store_endpoint(&self, endpoint: &Endpoint) {
        let name = posthorn_broker::BucketName::Endpoints;
        let bucket = self.broker.bucket::<Endpoint>(name).await.unwrap();
        let key = format!("{}.{}", endpoint.tenant, endpoint.id);
        bucket.put(&key, endpoint).await.unwrap();
    }

    /// Deletes a stream behind the back of the service, in NATS' own words.
    pub async fn delete_stream(&self, name: &str) {
        let address = self.nats.client_url().replace("nats://", "");
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (reader, mut writer) = stream.into_split();
        let ask = format!(
            "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\n\
             PUB $JS.API.STREAM.DELETE.{name} answer 0\r\n\r\n"
        );
        writer.write_all(ask.as_bytes()).await.unwrap();
        let mut lines = tokio::io::BufReader::new(reader).lines();
        let answered = tokio::time::timeout(Duration::from_secs(30), async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains("\"success\":true") {
                    return;
                }
            }
            panic!("the stream was not deleted");
        });
        answered.await.unwrap();
    }

    /// How many changes the endpoints have seen.
    pub async fn endpoint_revision(&self) -> u64 {
        let name = posthorn_broker::BucketName::Endpoints;
        let bucket = self.broker.bucket::<Endpoint>(name).await.unwrap();
        bucket.last_revision().await.unwrap()
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.shutdown.trigger();
    }
}

/// What a router answers.
pub async fn answer_of(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        json: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    }
}

/// An authenticated request.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> axum::http::request::Builder {
    let start = Request::builder().method(method).uri(path);
    let start = start.header("authorization", format!("Bearer {KEY}"));
    headers.iter().fold(start, |builder, (name, value)| {
        builder.header(*name, *value)
    })
}

pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub json: Value,
}

impl Answer {
    /// Asserts that this is a problem of this status about this field.
    pub fn refuses(&self, status: u16, field: &str) {
        assert_eq!(self.status, status, "{field}: {}", self.json);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.json["status"], status);
        assert_eq!(self.json["field"], field, "{}", self.json);
    }

    pub fn id(&self) -> String {
        assert_eq!(self.status, 202, "{}", self.json);
        self.json["id"].as_str().unwrap().to_owned()
    }

    pub fn duplicate(&self) -> bool {
        assert_eq!(self.status, 202, "{}", self.json);
        self.json["duplicate"].as_bool().unwrap()
    }
}

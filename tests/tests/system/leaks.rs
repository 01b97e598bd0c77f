//! Everything that the system writes while deliveries go well and badly, searched for what it was
//! told in confidence: logs at their most verbose, metrics, traces, every stream and bucket, and
//! every answer of the APIs. The payload may be where payloads are, and nothing else anywhere.

use crate::support::{SOON, Town, alone, text};
use posthorn_tests::dns::{DnsAnswer, DnsServer};
use posthorn_tests::process::free_port;
use posthorn_tests::wait::eventually;
use posthorn_tests::{Cluster, Receiver, Reply, Role};
use serde_json::{Value, json};
use std::time::Duration;

const PAYLOAD: &str = "{\"a\":\"payload-canary\"}";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What nobody but the receiver may see, in every form in which it is sent.
const CANARIES: [&str; 16] = [
    "user-canary",
    "password-canary",
    "path-canary",
    "query-canary",
    "header-canary",
    "payload-canary",
    "idempotency-canary",
    "wrong-key-canary",
    "document-canary",
    // What receivers say beside their bodies.
    "location-canary",
    "answer-canary",
    "garbage-canary",
    // The basic authentication made of the first two, the secret, the keys.
    "dXNlci1jYW5hcnk6cGFzc3dvcmQtY2FuYXJ5",
    "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    posthorn_tests::cluster::ADMIN_KEY,
    posthorn_tests::cluster::SECRET_KEYS,
];

fn assert_clean(what: &str, said: &str) {
    assert!(!said.is_empty(), "{what}: nothing was looked at");
    for canary in CANARIES {
        let leak = said.lines().find(|line| line.contains(canary));
        assert_eq!(leak, None, "{what} holds {canary}");
    }
}

fn url(scheme: &str, address: &str, path: &str) -> String {
    format!("{scheme}://user-canary:password-canary@{address}{path}/path-canary?k=query-canary")
}

/// A system that says all it can, to whoever listens.
struct Talkative {
    town: Town,
    collector: Receiver,
    _dns: DnsServer,
}

impl Talkative {
    async fn start() -> Talkative {
        let dns = DnsServer::start().await.unwrap();
        dns.script("none.example.com", [DnsAnswer::NoName]);
        dns.script("inside.example.com", [DnsAnswer::of(&["10.0.0.5"])]);
        let collector = Receiver::start().await.unwrap();
        let builder = Cluster::builder()
            .env("POSTHORN_LOG", "trace")
            .env("POSTHORN_DNS_SERVERS", &dns.address().to_string())
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url(""))
            .env("OTEL_BSP_SCHEDULE_DELAY", "200");
        Talkative {
            town: Town::of(builder).await,
            collector,
            _dns: dns,
        }
    }

    async fn endpoint(&self, url: &str, more: &Value) -> String {
        let mut document = json!({
            "url": url,
            "headers": {"X-Token": "header-canary", "Authorization": "Bearer header-canary"},
            "secret": SECRET,
            "signatures": ["v1", "hub", "svix"],
            "timeout": "1s",
            "retry": {"base": "10ms", "max_delay": "10ms", "max_attempts": 2},
            "breaker": null,
        });
        for (name, value) in more.as_object().unwrap() {
            document[name] = value.clone();
        }
        let made = self.town.api.create_endpoint("acme", &document).await;
        text(&made.unwrap()["id"])
    }

    async fn publish(&self) {
        let request = self.town.api.publishing("acme", "a.b", PAYLOAD);
        let request = request.header(
            "idempotency-key",
            format!("idempotency-canary-{}", rand::random::<u64>()),
        );
        assert_eq!(
            posthorn_tests::api::send(request).await.unwrap().status,
            202
        );
    }

    /// Answers of every kind, by path.
    fn receiver_answers(&self) {
        let odd = |reply: Reply| {
            reply
                .header("x-answer", "answer-canary")
                .header("set-cookie", "s=answer-canary")
        };
        let receiver = &self.town.receiver;
        let at = |path: &str| format!("{path}/path-canary");
        receiver.answer(&at("/ok"), odd(Reply::ok()));
        receiver.answer(&at("/paused"), Reply::ok());
        receiver.answer(&at("/failing"), odd(Reply::status(500).body("no")));
        let moved = Reply::status(302).header("location", "https://example.com/?t=location-canary");
        receiver.answer(&at("/moved"), odd(moved));
        receiver.answer(&at("/gone"), odd(Reply::status(410)));
        receiver.answer(&at("/refusing"), odd(Reply::status(422)));
        receiver.answer(&at("/hanging"), Reply::hang());
        receiver.answer(&at("/reset"), Reply::reset());
        receiver.answer(
            &at("/garbage"),
            Reply::raw("garbage-canary\r\nx: garbage-canary\r\n\r\n"),
        );
        let broken = "HTTP/1.1 200 OK\r\ngarbage-canary : x\r\n\r\n";
        receiver.answer(&at("/broken"), Reply::raw(broken));
    }
}

/// How many of the endpoints of [`bad`] fail to be called.
async fn bad(system: &Talkative) -> Vec<String> {
    let address = system.town.receiver.address().to_string();
    let plain = Receiver::start().await.unwrap();
    let mut urls: Vec<String> = [
        "/failing",
        "/moved",
        "/gone",
        "/refusing",
        "/hanging",
        "/reset",
        "/garbage",
        "/broken",
    ]
    .iter()
    .map(|path| url("http", &address, path))
    .collect();
    urls.push(url("https", &plain.address().to_string(), ""));
    urls.push(url(
        "http",
        &format!("127.0.0.1:{}", free_port().unwrap()),
        "",
    ));
    urls.push(url("http", "none.example.com", ""));
    urls.push(url("http", "inside.example.com", ""));
    let mut ids = Vec::new();
    for url in urls {
        ids.push(system.endpoint(&url, &json!({})).await);
    }
    ids
}

/// Every message that is stored anywhere, without the payload where it is as it was published.
async fn stored(town: &Town) -> String {
    use futures_util::TryStreamExt as _;
    let context = async_nats::jetstream::new(town.cluster.nats.client().await.unwrap());
    let names: Vec<String> = context.stream_names().try_collect().await.unwrap();
    assert!(names.len() > 10, "{names:?}");
    let mut said = String::new();
    for name in names {
        let mut stream = context.get_stream(&name).await.unwrap();
        let state = stream.info().await.unwrap().state.clone();
        for sequence in state.first_sequence..=state.last_sequence {
            let Ok(message) = stream.get_raw_message(sequence).await else {
                continue;
            };
            let body = String::from_utf8_lossy(&message.payload).replace(PAYLOAD, "");
            let (subject, headers) = (&message.subject, &message.headers);
            said.push_str(&format!("{name} {subject} {headers:?} {body}\n"));
        }
    }
    said
}

/// What the APIs answer to calls that are wrong in what is confidential.
async fn refusals(town: &Town, id: &str) -> String {
    let mut said = String::new();
    let patch = format!("/v1/tenants/acme/endpoints/{id}");
    for document in [
        json!({"url": url("ftp", "example.com", "")}),
        json!({"url": url("https", "10.0.0.1", "")}),
        json!({"url": url("https", "example.com:25", "")}),
        json!({"url": "http://user-canary:password-canary@[/path-canary"}),
        json!({"secret": "whsec_document-canary!"}),
        json!({"headers": {"X-Token": "header-canary\r\n"}}),
        json!({"event_types": ["document-canary.>.>"], "retry": {"preset": "document-canary"}}),
    ] {
        let answer = town.api.patch(&patch, &document).await.unwrap();
        assert_eq!(answer.status, 422, "{}", answer.json());
        said.push_str(&format!("{}\n", answer.json()));
    }
    for (path, kind, body) in [
        (
            "/v1/tenants/acme/events",
            "application/json",
            "[{\"document-canary",
        ),
        (
            "/v1/tenants/acme/events",
            "application/x-ndjson",
            "document-canary\n{\"type\":\"a\"}",
        ),
        (
            "/v1/tenants/acme/endpoints",
            "application/json",
            "{\"url\":\"document-canary",
        ),
        (
            "/v1/tenants/acme/endpoints",
            "application/json",
            "\"document-canary\"",
        ),
    ] {
        let asked = town.api.ingest(reqwest::Method::POST, path);
        let asked = asked.header("content-type", kind).body(body);
        let answer = asked.send().await.unwrap();
        assert!(answer.status().is_client_error() || answer.status().as_u16() == 207);
        said.push_str(&answer.text().await.unwrap());
        said.push('\n');
    }
    let wrong = town.api.with_key("wrong-key-canary");
    for answer in [
        wrong.get("/v1/tenants/acme/endpoints").await,
        wrong.admin_get("/v1/dead-letters").await,
    ] {
        assert_eq!(answer.as_ref().unwrap().status, 401);
        said.push_str(&format!("{}\n", answer.unwrap().json()));
    }
    said
}

/// What operators and owners are shown, without payloads.
async fn shown(town: &Town, letters: &[Value], ids: &[String]) -> String {
    let mut said = String::new();
    for letter in letters {
        let mut whole = town.letter(&text(&letter["id"])).await;
        assert_eq!(whole["payload"], PAYLOAD);
        whole["payload"] = Value::Null;
        said.push_str(&format!("{letter}\n{whole}\n"));
    }
    let mut paths: Vec<(bool, String)> = Vec::new();
    for id in ids {
        paths.push((false, format!("/v1/tenants/acme/endpoints/{id}/attempts")));
    }
    for path in [
        "/v1/attempts?limit=500",
        "/v1/breakers",
        "/v1/lanes",
        "/v1/replays",
        "/v1/dead-letters",
        "/v1/api-keys",
        "/v1/audit",
    ] {
        paths.push((true, path.to_owned()));
    }
    for (operator, path) in paths {
        let answer = if operator {
            town.api.admin_get(&path).await
        } else {
            town.api.get(&path).await
        };
        let answer = answer.unwrap();
        assert_eq!(answer.status, 200, "{path}");
        said.push_str(&format!("{}\n", answer.json()));
    }
    said
}

async fn traced(collector: &Receiver) -> String {
    for service in [
        "posthorn-ingest",
        "posthorn-scheduler",
        "posthorn-dispatcher",
    ] {
        let sent = || async {
            let batches = collector.requests_to("/v1/traces");
            let of = |body: &[u8]| {
                body.windows(service.len())
                    .any(|part| part == service.as_bytes())
            };
            batches.iter().any(|batch| of(batch.body()))
        };
        eventually(SOON, service, sent).await.unwrap();
    }
    let batches = collector.requests();
    let texts = batches
        .iter()
        .map(|batch| String::from_utf8_lossy(batch.body()).into_owned());
    texts.collect::<Vec<_>>().join("\n")
}

/// The endpoints of a talkative system.
struct Endpoints {
    ok: String,
    paused: String,
    /// Those whose deliveries die.
    dying: Vec<String>,
    /// All of them.
    all: Vec<String>,
}

impl Talkative {
    /// A call that must be taken.
    async fn done(&self, path: &str, document: &Value) {
        let answer = self.town.api.post(path, document).await.unwrap();
        assert!(answer.status < 300, "{path}: {}", answer.json());
    }

    async fn endpoints(&self) -> Endpoints {
        let at = |path| url("http", &self.town.receiver.address().to_string(), path);
        let ok = self.endpoint(&at("/ok"), &json!({})).await;
        let paused = self.endpoint(&at("/paused"), &json!({})).await;
        let pause = format!("/v1/tenants/acme/endpoints/{paused}/pause");
        self.done(&pause, &json!({})).await;
        let breaker = json!({"failure_threshold": 1, "cooldown": "5m", "max_cooldown": "5m"});
        let breaker = json!({"breaker": breaker});
        let broken = self.endpoint(&at("/failing"), &breaker).await;
        let dying = bad(self).await;
        let mut all = dying.clone();
        all.extend([ok.clone(), paused.clone(), broken]);
        Endpoints {
            ok,
            paused,
            dying,
            all,
        }
    }

    /// One waits in a lane because its owner paused it, one because its breaker is open.
    async fn two_lanes(&self) {
        let lanes = || async {
            let listed = self.town.api.admin_list("/v1/lanes").await;
            listed.is_ok_and(|lanes| lanes.len() >= 2)
        };
        let waited = eventually(SOON, "two lanes are active", lanes).await;
        waited.unwrap();
    }

    /// Sends again one letter, then all; gives what waited its way.
    async fn recover(&self, endpoints: &Endpoints, letters: &[Value]) {
        let receiver = &self.town.receiver;
        receiver.answer("/failing/path-canary", Reply::ok());
        let replayed = self.town.replay(&text(&letters[0]["id"])).await;
        assert_eq!(replayed.status, 202);
        let job = json!({"filter": {"tenant": "acme"}, "rate_per_second": 100});
        let job = self.town.api.admin_post("/v1/replays", &job).await.unwrap();
        assert!(job.status < 300, "{}", job.json());
        let begun = || async { receiver.requests_to("/refusing/path-canary").len() >= 2 };
        let waited = eventually(SOON, "the job has begun", begun).await;
        waited.unwrap();
        let base = "/v1/tenants/acme/endpoints";
        let rotate = format!("{base}/{}/secret/rotate", endpoints.ok);
        self.done(&rotate, &json!({"overlap": "1h"})).await;
        let resume = format!("{base}/{}/resume", endpoints.paused);
        self.done(&resume, &json!({})).await;
        self.town.got("/paused/path-canary", 1).await;
    }

    /// What each process logs and counts.
    async fn check_processes(&mut self) {
        let town = &mut self.town;
        for role in [
            Role::Ingest,
            Role::Scheduler,
            Role::Dispatcher,
            Role::DlqAdmin,
        ] {
            assert_clean("/metrics", &town.metrics(role, 0).await);
            let verbose = || {
                let log = town.cluster.service(role, 0).unwrap().output();
                std::future::ready(log.contains("TRACE") || log.contains("DEBUG"))
            };
            let waited = eventually(Duration::from_secs(10), "it is verbose", verbose).await;
            waited.unwrap();
            let log = town.cluster.service(role, 0).unwrap().output();
            assert_clean(&format!("the log of {role:?}"), &log);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_06_nothing_that_the_system_writes_holds_what_it_was_told_in_confidence() {
    let _machine = alone().await;
    let mut system = Talkative::start().await;
    system.receiver_answers();
    let endpoints = system.endpoints().await;
    system.publish().await;
    let letters = system.town.letters("", endpoints.dying.len()).await;
    system.two_lanes().await;
    let mut all = stored(&system.town).await;
    for stream in ["LANES ", "DLQ ", "ATTEMPTS ", "ENDPOINTS "] {
        assert!(all.contains(&format!("POSTHORN_{stream}")), "{stream}");
    }
    system.recover(&endpoints, &letters).await;
    all.push_str(&stored(&system.town).await);
    let letters = system.town.api.admin_list("/v1/dead-letters?limit=500");
    let letters = letters.await.unwrap();
    let refused = refusals(&system.town, &endpoints.ok).await;
    let answers = refused + &shown(&system.town, &letters, &endpoints.all).await;
    assert_clean("what is stored", &all);
    assert_clean("an answer", &answers);
    assert_clean("a trace", &traced(&system.collector).await);
    system.check_processes().await;
    let got = system.town.receiver.requests_to("/ok/path-canary");
    assert_eq!(
        got[0].header("x-token"),
        Some("header-canary"),
        "it was sent"
    );
    assert_eq!(&got[0].body()[..], PAYLOAD.as_bytes());
}

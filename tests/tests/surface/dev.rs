//! `posthorn dev` with something of everything in it: an endpoint that takes, one that refuses,
//! a dead letter, a replay job, a key.

use posthorn_tests::api::Api;
use posthorn_tests::dns::{DnsAnswer, DnsServer};
use posthorn_tests::process::{Recipe, Service, free_port};
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::wait::eventually_some;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const START: Duration = Duration::from_secs(120);
const SOON: Duration = Duration::from_secs(60);
/// The key that may do everything.
pub const KEY: &str = "surface-admin-key-0123456789abcdef";
/// Everything but the loopback: the calls make endpoints of any URL, and none of those is to
/// be sent anything.
const ELSEWHERE: &str = "0.0.0.0/2,64.0.0.0/3,96.0.0.0/4,112.0.0.0/5,120.0.0.0/6,124.0.0.0/7,\
                         126.0.0.0/8,128.0.0.0/1,::/0";

/// What is there and can be asked for.
pub struct Known {
    pub endpoint: String,
    pub event: String,
    pub letter: String,
    pub job: String,
    pub key: String,
}

pub struct Dev {
    pub known: Known,
    ingest: String,
    admin: String,
    process: Service,
    folder: TempDir,
    _receiver: Receiver,
    _dns: DnsServer,
}

impl Dev {
    pub async fn start() -> Dev {
        let folder = TempDir::new().unwrap();
        let dns = DnsServer::start().await.unwrap();
        dns.answer_others(DnsAnswer::of(&["127.0.0.1"]));
        let [ingest, admin] = [free_port(), free_port()].map(|port| port.unwrap());
        let listen = |port: u16| format!("127.0.0.1:{port}");
        let recipe = Recipe::new("posthorn", folder.path())
            .arg("dev")
            .env("POSTHORN_DATA_DIR", folder.path().join("data"))
            .env("POSTHORN_NATS_PORT", "0")
            .env("POSTHORN_INGEST_LISTEN", listen(ingest))
            .env("POSTHORN_ADMIN_LISTEN", listen(admin))
            .env("POSTHORN_ADMIN_KEY", KEY)
            .env("POSTHORN_EGRESS_ALLOW", "127.0.0.0/8")
            .env("POSTHORN_EGRESS_DENY", ELSEWHERE)
            .env("POSTHORN_DNS_SERVERS", dns.address().to_string())
            .ops_port(free_port().unwrap());
        let mut process = recipe.spawn().await.unwrap();
        process.wait_ready(START).await.unwrap();
        let receiver = Receiver::start().await.unwrap();
        receiver.answer("/refuses", Reply::status(400));
        let [ingest, admin] = [ingest, admin].map(|port| format!("http://127.0.0.1:{port}"));
        let api = Api::new(vec![ingest.clone()], admin.clone(), KEY).unwrap();
        Dev {
            known: furnish(&api, &receiver).await,
            ingest,
            admin,
            process,
            folder,
            _receiver: receiver,
            _dns: dns,
        }
    }

    pub fn ingest(&self) -> &str {
        &self.ingest
    }

    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// A folder for whoever works with it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it wrote.
    pub fn output(&self) -> String {
        self.process.output()
    }
}

async fn furnish(api: &Api, receiver: &Receiver) -> Known {
    let endpoint = |path: &str| json!({"url": receiver.url(path)});
    let takes = api.create_endpoint("acme", &endpoint("/takes")).await;
    let refuses = api.create_endpoint("acme", &endpoint("/refuses")).await;
    refuses.unwrap();
    let published = api.publish("acme", "invoice.paid", "{}").await.unwrap();
    let letter = eventually_some(SOON, "there is a dead letter", || async {
        let list = api.admin_list("/v1/dead-letters").await.ok()?;
        list.first().map(|letter| text(letter, "id"))
    });
    let job = json!({"filter": {"tenant": "globex"}, "rate_per_second": 1});
    let key = json!({"name": "surface", "tenant": "acme", "scopes": ["publish"]});
    Known {
        endpoint: text(&takes.unwrap(), "id"),
        event: published.id,
        letter: letter.await.unwrap(),
        job: made(api, "/v1/replays", &job).await,
        key: made(api, "/v1/api-keys", &key).await,
    }
}

async fn made(api: &Api, path: &str, document: &Value) -> String {
    let answer = api.admin_post(path, document).await.unwrap();
    text(&answer.success().unwrap(), "id")
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap().to_owned()
}

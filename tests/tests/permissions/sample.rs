//! A nats-server that runs `deploy/nats/nats.conf`, with keys of its own and one server instead of
//! three.

use nkeys::KeyPair;
use posthorn_broker::{Broker, ConnectSettings, Topology};
use posthorn_nats_server::NatsServer;
use posthorn_tests::process::free_port;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use tempfile::TempDir;

/// Variables of public keys in the file begin like this.
const VARIABLE: &str = "$POSTHORN_NKEY_";
/// What is of the place and not of the sample: our server has its own.
const OWN: [&str; 3] = ["server_name: ", "port: ", "http_port: "];
const OWN_BLOCKS: [&str; 2] = ["jetstream {", "cluster {"];

/// The server with the keys of its users, by the names of their variables, such as `INGEST`.
pub struct Sample {
    // Before the folder, because fields are dropped in order.
    server: NatsServer,
    keys: BTreeMap<String, KeyPair>,
    folder: TempDir,
}

impl Sample {
    pub async fn start() -> Sample {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/nats/nats.conf");
        let text = std::fs::read_to_string(path).unwrap();
        let keys: BTreeMap<String, KeyPair> = variables(&text)
            .into_iter()
            .map(|name| (name, KeyPair::new_user()))
            .collect();
        let folder = TempDir::with_prefix("posthorn-nats-").unwrap();
        let server = NatsServer::builder()
            .data_dir(folder.path().join("nats"))
            .port(free_port().unwrap())
            .config_extra(&configuration(&text, &keys))
            .start()
            .await
            .unwrap();
        let sample = Sample {
            server,
            keys,
            folder,
        };
        for (name, key) in &sample.keys {
            std::fs::write(sample.seed_file(name), key.seed().unwrap()).unwrap();
        }
        sample
    }

    pub fn url(&self) -> &str {
        self.server.client_url()
    }

    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The names of all users.
    pub fn users(&self) -> Vec<&str> {
        self.keys.keys().map(String::as_str).collect()
    }

    pub fn key(&self, user: &str) -> &KeyPair {
        &self.keys[user]
    }

    /// The file that a process of this user is given.
    pub fn seed_file(&self, user: &str) -> PathBuf {
        self.folder.path().join(format!("{user}.seed"))
    }

    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Makes the streams, as the user that may.
    pub async fn install(&self) {
        let settings = ConnectSettings {
            nkey: Some(self.seed_file("SETUP")),
            ..ConnectSettings::plain(self.url(), "posthorn-setup")
        };
        let made = Broker::connect(&settings, Topology::new("posthorn")).await;
        made.map(drop)
            .unwrap_or_else(|error| panic!("{error:?}\n{:#?}", self.violations()));
    }

    /// A client library's connection as this user, with its inboxes where the user may listen.
    pub async fn client(&self, user: &str, inboxes: &str) -> async_nats::Client {
        async_nats::ConnectOptions::with_nkey(self.key(user).seed().unwrap())
            .custom_inbox_prefix(inboxes)
            .request_timeout(Some(std::time::Duration::from_secs(2)))
            .connect(self.url())
            .await
            .unwrap()
    }

    /// What the server has refused so far, each once: the user and the subject.
    pub fn violations(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.server.log()).unwrap();
        let refused = log.lines().filter(|line| line.contains("iolation"));
        let named = refused.map(|line| {
            self.keys
                .iter()
                .fold(line.to_owned(), |line, user| named(&line, user))
        });
        let said = named.map(|line| {
            line.rsplit_once("/nkey:")
                .map_or(line.clone(), |(_, end)| end.to_owned())
        });
        said.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// A line of the log with a user's name in place of its key.
fn named(line: &str, (name, key): (&String, &KeyPair)) -> String {
    line.replace(&key.public_key(), name)
}

fn variables(text: &str) -> Vec<String> {
    let after = text.split(VARIABLE).skip(1);
    let name = |rest: &str| -> String {
        let letters = rest
            .chars()
            .take_while(|c| c.is_ascii_uppercase() || *c == '_');
        letters.collect()
    };
    let mut names: Vec<String> = after.map(name).filter(|name| !name.is_empty()).collect();
    names.sort();
    names.dedup();
    names
}

/// The sample without what is of its place, and with these keys.
fn configuration(text: &str, keys: &BTreeMap<String, KeyPair>) -> String {
    let mut kept = String::new();
    let mut left_out = 0;
    let mut in_block = false;
    for line in text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
    {
        let begins_block = OWN_BLOCKS.contains(&line);
        if begins_block || OWN.iter().any(|key| line.starts_with(key)) {
            left_out += 1;
            in_block = begins_block;
        } else if !in_block {
            kept.push_str(line);
            kept.push('\n');
        } else if line == "}" {
            in_block = false;
        }
    }
    assert_eq!(left_out, OWN.len() + OWN_BLOCKS.len());
    // The longest first: one name may begin with another.
    let mut names: Vec<&String> = keys.keys().collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    for name in names {
        let variable = format!("{VARIABLE}{name}");
        kept = kept.replace(&variable, &keys[name].public_key());
    }
    assert!(!kept.contains("$POSTHORN") && !kept.contains("$NATS"));
    kept
}

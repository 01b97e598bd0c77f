//! Each way to connect, with the real binary on a real server, and what a wrong one leads to.
//!
//! `posthorn setup` connects as every service does, makes what is missing and ends: 0 says that
//! the way works.

use crate::jwt::Operator;
use nkeys::KeyPair as Nkey;
use posthorn_nats_server::NatsServer;
use posthorn_tests::process::{Recipe, free_port};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ENOUGH: Duration = Duration::from_secs(60);
/// Longer than a refusal takes: what is refused is refused at once and not after this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// A server with these lines, and a folder for the files of both sides.
struct Place {
    server: NatsServer,
    folder: TempDir,
}

/// How the process ended, and its last words.
struct Ended {
    code: Option<i32>,
    output: String,
    took: Duration,
}

impl Place {
    async fn start(folder: TempDir, lines: &str) -> Place {
        let server = NatsServer::builder()
            .data_dir(folder.path().join("nats"))
            .port(free_port().unwrap())
            .config_extra(lines)
            .start()
            .await
            .unwrap_or_else(|error| {
                let log = folder.path().join("nats/nats-server.log");
                panic!("{error}: {:?}", std::fs::read_to_string(log))
            });
        Place { server, folder }
    }

    fn url(&self) -> String {
        format!("nats://localhost:{}", self.server.port())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        write(self.folder.path(), name, text)
    }

    async fn setup(&self, env: &[(&str, &Path)]) -> Ended {
        let env = env
            .iter()
            .map(|(name, path)| (*name, path.display().to_string()));
        let env: Vec<_> = env.collect();
        setup(self.folder.path(), &self.url(), &env).await
    }
}

async fn setup(folder: &Path, url: &str, env: &[(&str, String)]) -> Ended {
    let log = tempfile::NamedTempFile::new_in(folder).unwrap();
    let mut recipe = Recipe::new("posthorn", folder)
        .log(log.path().to_owned())
        .arg("setup")
        .env(
            "POSTHORN_CONNECT_TIMEOUT",
            format!("{}s", CONNECT_TIMEOUT.as_secs()),
        )
        .env("POSTHORN_NATS_URL", url);
    for (name, value) in env {
        recipe = recipe.env(name, value);
    }
    let begin = Instant::now();
    let mut process = recipe.spawn().await.unwrap();
    let status = process.wait_exit(ENOUGH).await.unwrap();
    Ended {
        code: status.code(),
        output: process.output(),
        took: begin.elapsed(),
    }
}

impl Ended {
    fn works(&self) {
        assert_eq!(self.code, Some(0), "{}", self.output);
    }

    /// Refused at once as bad configuration, with these words.
    fn refused(&self, words: &str) {
        assert_eq!(self.code, Some(64), "{}", self.output);
        assert!(self.output.contains(words), "{words}: {}", self.output);
        assert!(self.took < CONNECT_TIMEOUT / 2, "{words}: {:?}", self.took);
    }
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// An authority that signs servers and clients, as files.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn file(&self, folder: &Path, name: &str) -> PathBuf {
        write(folder, &format!("{name}.ca.pem"), &self.0.pem())
    }

    /// The certificate and the key of `subject`, in files.
    fn sign(&self, folder: &Path, name: &str, subject: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![subject.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = key.serialize_pem();
        (
            write(folder, &format!("{name}.crt"), &certificate.pem()),
            write(folder, &format!("{name}.key"), &key),
        )
    }
}

/// A server with TLS, in the name of `localhost` where nothing else is said.
async fn with_tls(authority: &Authority, name: &str, verify: bool) -> Place {
    let folder = TempDir::new().unwrap();
    let (cert, key) = authority.sign(folder.path(), "server", name);
    let ca = authority.file(folder.path(), "own");
    let (cert, key, ca) = (cert.display(), key.display(), ca.display());
    let lines = format!(
        "tls {{ cert_file: \"{cert}\", key_file: \"{key}\", ca_file: \"{ca}\", verify: {verify} }}"
    );
    Place::start(folder, &lines).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_nkey_connects_and_a_wrong_one_is_told_so() {
    let folder = TempDir::new().unwrap();
    let key = Nkey::new_user();
    let lines = format!(
        "authorization {{ users: [ {{ nkey: {} }} ] }}",
        key.public_key()
    );
    let place = Place::start(folder, &lines).await;
    let seed = place.write("seed", &format!("{}\n", key.seed().unwrap()));
    let nkey = "POSTHORN_NATS_NKEY";
    place.setup(&[(nkey, &seed)]).await.works();
    let other = place.write("other", &Nkey::new_user().seed().unwrap());
    let refused = place.setup(&[(nkey, &other)]).await;
    refused.refused("bad configuration: the NATS connection settings are not usable: NATS refused the credentials");
    place
        .setup(&[])
        .await
        .refused("NATS refused the credentials");
    let broken = place.write("broken", "SUANOSEED");
    place.setup(&[(nkey, &broken)]).await.refused("cannot sign");
    let none = place.folder.path().join("none");
    place
        .setup(&[(nkey, &none)])
        .await
        .refused("nkey file: No such file");
    for seed in [&seed, &other, &broken] {
        let secret = std::fs::read_to_string(seed).unwrap();
        assert!(!refused.output.contains(secret.trim()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_an_operator_connect_and_wrong_ones_are_told_so() {
    let operator = Operator::new();
    let place = Place::start(TempDir::new().unwrap(), &operator.server_lines()).await;
    let creds = "POSTHORN_NATS_CREDS";
    let right = place.write("right.creds", &operator.credentials());
    place.setup(&[(creds, &right)]).await.works();
    let other = place.write("other.creds", &Operator::new().credentials());
    place
        .setup(&[(creds, &other)])
        .await
        .refused("NATS refused the credentials");
    let broken = place.write("broken.creds", "nothing in it");
    place.setup(&[(creds, &broken)]).await.refused("creds file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_connects_and_neither_it_nor_a_wrong_one_is_shown() {
    let lines = "authorization { user: posthorn, password: \"right-pa55word\" }";
    let place = Place::start(TempDir::new().unwrap(), lines).await;
    let port = place.server.port();
    for (password, works) in [("right-pa55word", true), ("wrong-pa55word", false)] {
        let url = format!("nats://posthorn:{password}@localhost:{port}");
        let trace = [("POSTHORN_LOG", "trace".to_owned())];
        let ended = setup(place.folder.path(), &url, &trace).await;
        if works {
            ended.works();
        } else {
            ended.refused("NATS refused the credentials");
        }
        assert!(!ended.output.contains("pa55word"), "{}", ended.output);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_an_authority_of_ones_own_connects_and_nothing_else_does() {
    let authority = Authority::new();
    let place = with_tls(&authority, "localhost", false).await;
    let ca = "POSTHORN_NATS_TLS_CA";
    let own = authority.file(place.folder.path(), "own");
    place.setup(&[(ca, &own)]).await.works();
    let other = Authority::new().file(place.folder.path(), "other");
    place
        .setup(&[(ca, &other)])
        .await
        .refused("TLS: invalid peer certificate");
    // The server asks for TLS, and its authority is not among the system's.
    place.setup(&[]).await.refused("TLS: ");
    let none = place.folder.path().join("none");
    place
        .setup(&[(ca, &none)])
        .await
        .refused("TLS: No such file");
    let elsewhere = with_tls(&authority, "nats.example.com", false).await;
    let refused = elsewhere.setup(&[(ca, &own)]).await;
    refused.refused("TLS: invalid peer certificate");
    // Who asks for TLS speaks without it to nobody.
    let plain = Place::start(TempDir::new().unwrap(), "").await;
    plain.setup(&[(ca, &own)]).await.refused("TLS: ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_connects_and_one_of_another_authority_does_not() {
    let authority = Authority::new();
    let place = with_tls(&authority, "localhost", true).await;
    let folder = place.folder.path();
    let ca = authority.file(folder, "own");
    let ca = ("POSTHORN_NATS_TLS_CA", ca.as_path());
    let names = ["POSTHORN_NATS_TLS_CERT", "POSTHORN_NATS_TLS_KEY"];
    let (cert, key) = authority.sign(folder, "client", "posthorn-ingest");
    place
        .setup(&[ca, (names[0], &cert), (names[1], &key)])
        .await
        .works();
    let (other, its_key) = Authority::new().sign(folder, "stranger", "posthorn-ingest");
    let refused = place
        .setup(&[ca, (names[0], &other), (names[1], &its_key)])
        .await;
    refused.refused("TLS: ");
    place.setup(&[ca]).await.refused("TLS: ");
    // A key that is not the certificate's, and one without the other.
    place
        .setup(&[ca, (names[0], &cert), (names[1], &its_key)])
        .await
        .refused("TLS: ");
    place
        .setup(&[ca, (names[0], &cert)])
        .await
        .refused("nats-tls-cert and nats-tls-key go together");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_another_exit_code_than_somebody_who_refuses() {
    let folder = TempDir::new().unwrap();
    let url = format!("nats://localhost:{}", free_port().unwrap());
    let env = [("POSTHORN_CONNECT_TIMEOUT", "1s".to_owned())];
    let ended = setup(folder.path(), &url, &env).await;
    assert_eq!(ended.code, Some(69), "{}", ended.output);
    assert!(
        ended.output.contains("NATS is not reachable"),
        "{}",
        ended.output
    );
}

//! The receivers of `examples/receivers`, which verify with the standard libraries for Standard
//! Webhooks, take real deliveries and believe nothing else; the page shows what they do.

use crate::desk::Desk;
use crate::markdown::{compare_generated, read, root};
use posthorn_signing::{Keys, Scheme, Secret, SignedMessage, sign};
use posthorn_tests::process::free_port;
use reqwest::StatusCode;
use serde_json::Value;
use std::process::Command;
use std::time::SystemTime;

const PAGE: &str = "docs/receivers.md";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const BODY: &str = "{\"caf\u{e9}\":1}";
/// Where `dev` runs, where commands are typed, where a receiver runs.
const DEV: u8 = 1;
const TYPED: u8 = 2;

/// A language that an example is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Python,
    Node,
    Rust,
}

impl Language {
    const ALL: [Language; 3] = [Language::Python, Language::Node, Language::Rust];

    fn name(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::Node => "node",
            Language::Rust => "rust",
        }
    }

    /// How a block of it is marked, and the file.
    fn source(self) -> (&'static str, &'static str) {
        match self {
            Language::Python => ("python", "examples/receivers/python/receiver.py"),
            Language::Node => ("javascript", "examples/receivers/node/receiver.js"),
            Language::Rust => ("rust", "examples/receivers/rust/src/main.rs"),
        }
    }

    /// Whether what runs it is there. The gate installs it; a machine without it has two
    /// examples less to run.
    fn is_there(self) -> bool {
        let program = match self {
            Language::Python => "python3",
            Language::Node => "npm",
            Language::Rust => return true,
        };
        let found = Command::new(program).arg("--version").output().is_ok();
        assert!(
            found || std::env::var_os("CI").is_none(),
            "{program} is missing"
        );
        found
    }

    /// The command that starts it, with what it leans on installed.
    fn command(self, desk: &Desk) -> String {
        match self {
            Language::Rust => "receiver-example".to_owned(),
            Language::Python => {
                let (_, file) = self.source();
                format!(
                    "{}/bin/python {}",
                    installed(self),
                    root().join(file).display()
                )
            }
            Language::Node => {
                // Node looks for libraries beside the file.
                let folder = desk.folder().join("node");
                std::fs::create_dir(&folder).unwrap();
                let own = root().join("examples/receivers/node");
                for file in ["package.json", "receiver.js"] {
                    std::fs::copy(own.join(file), folder.join(file)).unwrap();
                }
                let libraries = format!("{}/node_modules", installed(self));
                std::os::unix::fs::symlink(libraries, folder.join("node_modules")).unwrap();
                format!("node {}/receiver.js", folder.display())
            }
        }
    }
}

/// The folder with the libraries of a language, which are fetched once.
fn installed(language: Language) -> String {
    let output = Command::new(root().join(".ci/receivers"))
        .arg(language.name())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{}", text(output.stderr));
    text(output.stdout).trim().to_owned()
}

/// A receiver that runs, and its endpoint.
struct Subject {
    language: Language,
    terminal: u8,
    start: String,
    port: u16,
    endpoint: String,
}

impl Subject {
    async fn start(desk: &mut Desk, language: Language, terminal: u8) -> Subject {
        let port = free_port().unwrap();
        let name = language.name();
        let start = format!(
            "WEBHOOK_SECRET={SECRET} PORT={port} INBOX=inbox-{name} {}",
            language.command(desk)
        );
        desk.start(terminal, &start).await;
        let added = desk.run(
            TYPED,
            &format!(
                "posthorn endpoints add http://127.0.0.1:{port}/ --tenant {name} \
                 --secret {SECRET} --base 200ms --output json"
            ),
        );
        let added: Value = serde_json::from_str(&added).unwrap();
        Subject {
            language,
            terminal,
            start,
            port,
            endpoint: added["id"].as_str().unwrap().to_owned(),
        }
    }

    /// Publishes an event and sees it stored once, then done.
    async fn takes(&self, desk: &mut Desk, body: &str) {
        let name = self.language.name();
        let sent = format!("posthorn send invoice.paid '{body}' --tenant {name}");
        let id = desk.run(TYPED, &sent).trim().to_owned();
        let what = format!("{name} takes {id}");
        let lines = [format!("new {id}"), format!("done {id}")];
        desk.wait_until(self.terminal, &what, |text| {
            lines.iter().all(|line| count(text, line) == 1)
        })
        .await;
    }

    /// The status of a request that this test makes itself.
    async fn asked(&self, request: &Request) -> StatusCode {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("http://127.0.0.1:{}/", self.port);
        let mut call = client.post(url).body(request.body.to_owned());
        for (name, value) in &request.headers {
            call = call.header(*name, value);
        }
        call.send().await.unwrap().status()
    }
}

fn count(text: &str, line: &str) -> usize {
    text.lines().filter(|one| *one == line).count()
}

/// A request as a receiver gets it.
#[derive(Clone)]
struct Request {
    headers: Vec<(&'static str, String)>,
    body: &'static str,
}

impl Request {
    fn new(id: &str, at: i64, signatures: &str) -> Request {
        let headers = vec![
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", at.to_string()),
            ("webhook-signature", signatures.to_owned()),
        ];
        let body = BODY;
        Request { headers, body }
    }

    fn without(mut self, name: &str) -> Request {
        self.headers.retain(|(one, _)| *one != name);
        self
    }

    fn with_body(mut self, body: &'static str) -> Request {
        self.body = body;
        self
    }
}

fn signatures(secrets: &[&str], id: &str, at: i64) -> String {
    let secrets: Vec<Secret> = secrets
        .iter()
        .map(|one| Secret::parse(one).unwrap())
        .collect();
    let message = SignedMessage::try_new(id, at, BODY.as_bytes()).unwrap();
    let keys = Keys {
        secrets: &secrets,
        pairs: &[],
    };
    let headers = sign(&[Scheme::V1], &keys, &message).unwrap();
    let found = headers
        .into_iter()
        .find(|(name, _)| *name == "webhook-signature");
    found.unwrap().1
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(now.unwrap().as_secs()).unwrap()
}

/// Requests that nobody may believe, each with what is wrong with it.
fn forged() -> Vec<(&'static str, Request)> {
    let (id, now) = ("evt_forged", now());
    let good = signatures(&[SECRET], id, now);
    let request = Request::new(id, now, &good);
    let aged = |at: i64| Request::new(id, at, &signatures(&[SECRET], id, at));
    vec![
        (
            "another secret",
            Request::new(id, now, &signatures(&[OTHER], id, now)),
        ),
        (
            "a changed body",
            request.clone().with_body("{\"caf\u{e9}\":2}"),
        ),
        ("another id", Request::new("evt_other", now, &good)),
        ("another time", Request::new(id, now + 1, &good)),
        ("an old one", aged(now - 310)),
        ("one from the future", aged(now + 310)),
        ("no signature", request.clone().without("webhook-signature")),
        ("an empty signature", Request::new(id, now, "")),
        ("no time", request.clone().without("webhook-timestamp")),
        ("no id", request.clone().without("webhook-id")),
        (
            "a signature of another kind",
            Request::new(id, now, &good.replace("v1,", "v2,")),
        ),
        ("a body that is no JSON", request.with_body("\u{0}")),
    ]
}

async fn believes_nothing_else(desk: &mut Desk, subject: &Subject) {
    for (what, request) in forged() {
        let status = subject.asked(&request).await;
        assert_eq!(status, 401, "{:?}: {what}", subject.language);
    }
    let text = desk.printed(subject.terminal);
    assert!(!text.contains("evt_forged"), "{text}");
}

/// The same request comes twice, and again after a restart.
async fn takes_each_id_once(desk: &mut Desk, subject: &Subject) {
    let (id, at) = ("evt_twice", now());
    let request = Request::new(id, at, &signatures(&[OTHER, SECRET], id, at));
    let terminal = subject.terminal;
    for _ in 0..2 {
        assert_eq!(subject.asked(&request).await, 204, "{:?}", subject.language);
    }
    let twice =
        |text: &str| count(text, "done evt_twice") == 1 && count(text, "again evt_twice") == 1;
    desk.wait_until(terminal, "it is taken once", twice).await;
    desk.interrupt(terminal);
    desk.start(terminal, &subject.start).await;
    assert_eq!(subject.asked(&request).await, 204, "{:?}", subject.language);
    desk.wait_until(terminal, "it is known", |text| {
        count(text, "again evt_twice") == 1
    })
    .await;
    let text = desk.printed(terminal);
    assert_eq!(count(&text, "done evt_twice"), 0, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_receivers_take_real_deliveries_once_and_believe_nothing_else() {
    let mut desk = Desk::new().await;
    desk.type_in(DEV, "posthorn dev --log warn").await;
    let languages = Language::ALL.into_iter().filter(|one| one.is_there());
    for (language, terminal) in languages.zip(3..) {
        let subject = Subject::start(&mut desk, language, terminal).await;
        for body in ["{\"id\":\"in_1\"}", "{ \"caf\u{e9}\" : 1.00 }"] {
            subject.takes(&mut desk, body).await;
        }
        let (name, endpoint) = (language.name(), &subject.endpoint);
        let rotate = format!("posthorn endpoints rotate {endpoint} --tenant {name} --overlap 1h");
        desk.run(TYPED, &rotate);
        // Signed with both secrets now; this receiver knows the old one.
        subject.takes(&mut desk, "{\"id\":\"in_2\"}").await;
        believes_nothing_else(&mut desk, &subject).await;
        takes_each_id_once(&mut desk, &subject).await;
        desk.interrupt(terminal);
    }
    desk.leave();
}

/// The part of a file between two marks.
fn region(file: &str, mark: &str) -> String {
    let text = read(file);
    let lines = text.lines();
    let inside = lines
        .skip_while(|line| !line.ends_with(&format!("begin: {mark}")))
        .skip(1)
        .take_while(|line| !line.ends_with(&format!("end: {mark}")));
    let region: Vec<&str> = inside.collect();
    assert!(!region.is_empty(), "{file} has no region {mark}");
    region.join("\n").trim().to_owned()
}

#[test]
fn the_page_shows_what_the_receivers_do() {
    for language in Language::ALL {
        let (fence, file) = language.source();
        let shown = format!("\n```{fence}\n{}\n```\n\n", region(file, "verify"));
        compare_generated(PAGE, &format!("verify {}", language.name()), &shown);
    }
    let (fence, file) = Language::Python.source();
    let shown = format!("\n```{fence}\n{}\n```\n\n", region(file, "once"));
    compare_generated(PAGE, "once", &shown);
}

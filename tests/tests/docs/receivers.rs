//! The snippets for receivers are run against real signatures.

use crate::markdown::{blocks, read};
use posthorn_signing::{Keys, Scheme, Secret, SignedMessage, Verifier, sign};
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};

const PAGE: &str = "docs/receivers.md";
const NOW: i64 = 1_700_000_000;
const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const BODY: &str = "{\"caf\u{e9}\":1}";

// begin: the snippet of docs/receivers.md
/// Whether a request is Posthorn's and fresh; `now` is unix seconds.
fn is_genuine(
    secrets: &[Secret],
    id: &str,
    at: &str,
    signatures: &str,
    body: &[u8],
    now: i64,
) -> bool {
    let verifier = Verifier::new(secrets.iter().cloned());
    verifier.verify(id, at, signatures, body, now).is_ok()
}
// end

fn snippet(language: &str) -> String {
    let found: Vec<_> = blocks(&read(PAGE))
        .into_iter()
        .filter(|block| block.language == language)
        .collect();
    assert_eq!(found.len(), 1, "snippets in {language}");
    found.into_iter().next().unwrap().text
}

/// A request as a receiver sees it, and whether it is to be believed.
struct Case {
    what: &'static str,
    request: Value,
    genuine: bool,
}

fn signatures(secrets: &[Secret], at: i64) -> String {
    let message = SignedMessage::try_new("evt_1", at, BODY.as_bytes()).unwrap();
    let keys = Keys {
        secrets,
        pairs: &[],
    };
    let headers = sign(&[Scheme::V1], &keys, &message).unwrap();
    headers
        .into_iter()
        .find(|(name, _)| *name == "webhook-signature")
        .unwrap()
        .1
}

fn case(
    what: &'static str,
    secret: &str,
    signatures: &str,
    at: i64,
    body: &str,
    genuine: bool,
) -> Case {
    let request = json!({
        "secret": secret, "id": "evt_1", "timestamp": at.to_string(),
        "signatures": signatures, "body": body, "now": NOW,
    });
    Case {
        what,
        request,
        genuine,
    }
}

fn cases() -> Vec<Case> {
    let secrets = [OLD, NEW].map(|text| Secret::parse(text).unwrap());
    let one = signatures(&secrets[..1], NOW);
    let both = signatures(&secrets, NOW);
    let late = signatures(&secrets[..1], NOW - 301);
    vec![
        case("a good one", OLD, &one, NOW, BODY, true),
        case(
            "the old secret during a rotation",
            OLD,
            &both,
            NOW,
            BODY,
            true,
        ),
        case(
            "the new secret during a rotation",
            NEW,
            &both,
            NOW,
            BODY,
            true,
        ),
        case("another secret", NEW, &one, NOW, BODY, false),
        case("a changed body", OLD, &one, NOW, "{\"caf\u{e9}\":2}", false),
        case("another time", OLD, &one, NOW + 1, BODY, false),
        case("an old one", OLD, &late, NOW - 301, BODY, false),
        case("no signature", OLD, "", NOW, BODY, false),
    ]
}

/// Runs a program that reads a request a line and answers `true` or `false`; `None` where the
/// interpreter is not there.
fn answers(interpreter: &str, flag: &str, program: &str, cases: &[Case]) -> Option<Vec<bool>> {
    let child = Command::new(interpreter)
        .args([flag, program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut input = child.stdin.as_ref().unwrap();
    for case in cases {
        writeln!(input, "{}", case.request).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.parse().unwrap()).collect())
}

fn judge(interpreter: &str, answers: Option<Vec<bool>>, cases: &[Case]) {
    let Some(answers) = answers else { return };
    assert_eq!(answers.len(), cases.len(), "{interpreter}");
    for (case, answer) in cases.iter().zip(answers) {
        assert_eq!(answer, case.genuine, "{interpreter}: {}", case.what);
    }
}

#[test]
fn the_python_snippet_tells_genuine_from_forged() {
    let program = format!(
        "{}\nimport sys, json\nfor line in sys.stdin:\n    r = json.loads(line)\n    \
         h = {{'webhook-id': r['id'], 'webhook-timestamp': r['timestamp'], \
         'webhook-signature': r['signatures']}}\n    \
         print(str(is_genuine(r['secret'], h, r['body'].encode(), r['now'])).lower())\n",
        snippet("python")
    );
    let cases = cases();
    judge(
        "python3",
        answers("python3", "-c", &program, &cases),
        &cases,
    );
}

#[test]
fn the_node_snippet_tells_genuine_from_forged() {
    let program = format!(
        "{}\nfor (const line of require('fs').readFileSync(0, 'utf8').trim().split('\\n')) {{\n  \
         const r = JSON.parse(line);\n  \
         const h = {{'webhook-id': r.id, 'webhook-timestamp': r.timestamp, \
         'webhook-signature': r.signatures}};\n  \
         console.log(isGenuine(r.secret, h, Buffer.from(r.body), r.now));\n}}\n",
        snippet("javascript")
    );
    let cases = cases();
    judge("node", answers("node", "-e", &program, &cases), &cases);
}

#[test]
fn the_rust_snippet_is_the_one_that_is_compiled_here() {
    let source = include_str!("receivers.rs");
    let (_, rest) = source
        .split_once("// begin: the snippet of docs/receivers.md\n")
        .unwrap();
    let (compiled, _) = rest.split_once("// end\n").unwrap();
    let shown = snippet("rust");
    let (uses, shown) = shown.split_once("\n\n").unwrap();
    assert_eq!(uses, "use posthorn_signing::{Secret, Verifier};");
    assert_eq!(shown, compiled);
    for case in cases() {
        let text = |name: &str| case.request[name].as_str().unwrap();
        let secrets = [Secret::parse(text("secret")).unwrap()];
        let body = text("body").as_bytes();
        let (id, at, signatures) = (text("id"), text("timestamp"), text("signatures"));
        let genuine = is_genuine(&secrets, id, at, signatures, body, NOW);
        assert_eq!(genuine, case.genuine, "{}", case.what);
    }
}

//! schemathesis, as `.ci/tools` installs it.

use crate::dev::{Dev, KEY, Known};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

/// What every answer must keep.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,\
                      unsupported_method,allow_header_conformance,ignored_auth";
/// Fewer calls than this, for each operation, is no test of an interface.
const FEWEST: usize = 20;

/// Calls everything that the interface at `url` documents, and keeps what was said of it under
/// `name` in cargo's folder for tests.
///
/// # Panics
/// When a check failed, or an operation was not called.
pub async fn call(dev: &Dev, url: &str, name: &str) {
    let seconds = std::env::var("POSTHORN_SURFACE_SECONDS").unwrap_or_else(|_| "40".to_owned());
    let config = dev.folder().join("schemathesis.toml");
    std::fs::write(&config, settings(&dev.known)).unwrap();
    let output = Command::new(program().await)
        .current_dir(dev.folder())
        .args(["--config-file".as_ref(), config.as_os_str()])
        .arg("run")
        .arg(format!("{url}/v1/openapi.json"))
        .args(["--header", &format!("Authorization: Bearer {KEY}")])
        .args(["--checks", CHECKS])
        .args(["--max-time", &seconds, "--max-examples", "25"])
        .args(["--request-timeout", "20", "--continue-on-failure"])
        .arg("--no-color")
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = words(&output.stdout) + &words(&output.stderr);
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("surface-{name}.log"));
    std::fs::write(kept, &said).unwrap();
    let service = dev.output();
    assert!(output.status.success(), "{said}\n{service}");
    let operations = operations(url).await;
    assert_eq!(number(&said, "Tested: "), operations, "{said}");
    let calls = number(&said, "Test cases:");
    assert!(calls >= FEWEST * operations, "{calls} calls\n{said}");
    assert!(!service.contains("panicked"), "{service}");
}

/// The number that follows these words.
fn number(said: &str, words: &str) -> usize {
    let (_, after) = said.split_once(words).unwrap_or_default();
    let number = after.split_whitespace().next();
    number.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// How many operations the document describes, without the one that gives the document, which
/// was called to read it.
async fn operations(url: &str) -> usize {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let asked = client.get(format!("{url}/v1/openapi.json")).send();
    let text = asked.await.unwrap().text().await.unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let paths = document["paths"].as_object().unwrap().values();
    paths
        .map(|path| path.as_object().unwrap().len())
        .sum::<usize>()
        - 1
}

async fn program() -> PathBuf {
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/tools");
    let output = Command::new(install).stdin(Stdio::null()).output();
    let output = output.await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let folder = String::from_utf8(output.stdout).unwrap();
    Path::new(folder.trim_end()).join("schemathesis")
}

/// Half of all values are of what is there, so that calls come further than to a 404.
fn settings(known: &Known) -> String {
    let Known {
        endpoint,
        event,
        letter,
        job,
        key,
    } = known;
    let lists = [
        ("tenant", vec!["acme", "globex", "_posthorn"]),
        ("type", vec!["invoice.paid", "invoice.*"]),
        ("event", vec![event.as_str()]),
        ("endpoint", vec![endpoint.as_str()]),
        ("id", vec![endpoint, letter, job, key]),
    ];
    let mut text = String::new();
    for (name, values) in &lists {
        text.push_str(&format!("[dictionaries.{name}]\nvalues = {values:?}\n"));
    }
    text.push_str("[parameters]\n");
    for (name, _) in &lists {
        for place in ["path", "query"] {
            let binding = format!("{{ dictionary = \"{name}\", probability = 0.5 }}");
            text.push_str(&format!("\"{place}.{name}\" = {binding}\n"));
        }
    }
    text
}

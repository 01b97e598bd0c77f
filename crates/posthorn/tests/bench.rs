//! `posthorn bench --scenario` in a short form: the real binary, which starts its services as
//! processes of their own.
//!
//! What is a matter of milliseconds is not asked for here: other tests run at the same time.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

const LIMIT: Duration = Duration::from_secs(240);

/// Runs a scenario, whether its bars are kept or not.
async fn scenario(args: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthorn"));
    command
        .args(["bench", "--output", "json", "--scenario"])
        .args(args.split(' '))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    for (name, _) in std::env::vars_os() {
        let shown = name.to_string_lossy().into_owned();
        let ours = shown.starts_with("POSTHORN_") && shown != "POSTHORN_NATS_SERVER";
        if ours || shown.starts_with("OTEL_") {
            command.env_remove(name);
        }
    }
    let output = tokio::time::timeout(LIMIT, command.output());
    let output = output.await.unwrap().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let verdict: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{args}: no verdict\n{errors}"));
    let code = output.status.code().unwrap();
    let passed = verdict["passed"].as_bool().unwrap();
    assert_eq!(code, i32::from(!passed), "{args}: {verdict}\n{errors}");
    verdict
}

/// The bar whose name begins so was kept.
fn kept(verdict: &Value, what: &str) {
    let checks = verdict["checks"].as_array().unwrap();
    let found = checks
        .iter()
        .find(|check| check["what"].as_str().unwrap().starts_with(what))
        .unwrap_or_else(|| panic!("no bar {what}: {verdict}"));
    assert_eq!(found["passed"], true, "{verdict}");
}

#[tokio::test]
async fn a_quiet_endpoint_is_left_alone_by_every_dispatcher() {
    let verdict = scenario("retry-after --queued 90 --for 3s --runs 1 --dispatchers 2").await;
    assert_eq!(verdict["settings"]["dispatchers"], "2");
    assert_eq!(verdict["passed"], true, "{verdict}");
}

#[tokio::test]
async fn a_small_backlog_comes_back_slowly_and_whole() {
    let verdict = scenario("recovery --queued 500 --for 2s").await;
    kept(&verdict, "requests in the second after the probe");
    kept(&verdict, "lost");
}

#[tokio::test]
async fn a_neighbour_in_trouble_is_measured_beside_its_baseline() {
    let args = "hanging --queued 300 --samples 100 --runs 1 --dispatchers 2";
    let verdict = scenario(args).await;
    kept(&verdict, "still waiting at the end");
    kept(&verdict, "requests in flight to the neighbour");
    assert_eq!(verdict["figures"]["samples beside"], "100");
}

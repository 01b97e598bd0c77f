//! axe-core: whether everybody can use a view. Fetched once by npm, and compared with its hash.

use crate::browser::Browser;
use serde_json::{Value, json};
use sha2::{Digest, Sha512};
use std::path::PathBuf;
use tokio::process::Command;
use tokio::sync::OnceCell;

const PACKAGE: &str = "axe-core@4.14.1";
const FILE: &str = "axe-core-4.14.1.tgz";
const SHA512: &str = "1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b734f8c22a0dab8\
                      6ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5";

/// A view that keeps fewer rules than this is not there.
const FEWEST: u64 = 15;

async fn source() -> &'static str {
    static SOURCE: OnceCell<String> = OnceCell::const_new();
    SOURCE.get_or_init(fetch).await
}

async fn fetch() -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/tools/axe");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(FILE);
    if !file.exists() {
        let pack = ["pack", PACKAGE, "--silent", "--pack-destination"];
        let output = Command::new("npm").args(pack).arg(&folder).output().await;
        let output =
            output.expect("npm fetches axe-core: install it (Debian: apt-get install npm)");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success(),
            "npm cannot fetch {PACKAGE}: {errors}"
        );
    }
    let hash = Sha512::digest(std::fs::read(&file).unwrap());
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash, SHA512, "{} is another one", file.display());
    let mut tar = Command::new("tar");
    tar.arg("-xOzf").arg(&file).arg("package/axe.min.js");
    let output = tar.output().await.unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// Nothing serious is wrong with what is shown.
pub async fn finds_nothing(browser: &Browser, view: &str) {
    let body = format!("{}\nreturn typeof axe", source().await);
    browser.driver.script(&body, json!([])).await;
    let run = "const done = arguments[arguments.length - 1]; \
               axe.run(document, {resultTypes: ['violations']}).then( \
                 (found) => done([found.passes.length, found.violations]), \
                 (error) => done(String(error)))";
    let found = browser.driver.script_later(run).await;
    let kept = found[0]
        .as_u64()
        .unwrap_or_else(|| panic!("{view}: {found}"));
    assert!(
        kept >= FEWEST,
        "{view}: only {kept} rules had something to look at"
    );
    let found = found[1].as_array().unwrap();
    let serious = found
        .iter()
        .filter(|violation| matches!(violation["impact"].as_str(), Some("serious" | "critical")));
    let told: Vec<Value> = serious
        .map(|violation| {
            let nodes = violation["nodes"].as_array().unwrap();
            let nodes: Vec<&Value> = nodes.iter().map(|node| &node["failureSummary"]).collect();
            let at = &violation["nodes"][0]["html"];
            json!({"rule": violation["id"], "first": at, "why": nodes})
        })
        .collect();
    assert!(told.is_empty(), "{view}: {told:#?}");
}

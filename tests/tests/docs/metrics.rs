//! Every metric that is emitted is in the contract, and the contract on its page.

use crate::markdown::{compare_generated, files, read};
use posthorn_runtime::metrics::names::{ALL, Kind};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A metric as a source file emits it.
#[derive(Debug)]
struct Emitted {
    file: String,
    kind: Kind,
}

/// The emitted metrics by name; sources of tests are left out.
fn emitted() -> BTreeMap<String, Vec<Emitted>> {
    let constants = constants();
    let mut found: BTreeMap<String, Vec<Emitted>> = BTreeMap::new();
    for file in files("crates", ".rs") {
        let is_test = file.contains("/tests/") || file.ends_with("tests.rs");
        if is_test || !file.contains("/src/") || file.starts_with("crates/runtime/src/metrics") {
            continue;
        }
        let text = read(&file);
        let kinds = [
            ("counter!(", Kind::Counter),
            ("gauge!(", Kind::Gauge),
            ("histogram!(", Kind::Histogram),
        ];
        for (call, kind) in kinds {
            for rest in text.split(call).skip(1) {
                let argument = rest.split([',', ')']).next().unwrap().trim();
                let name = name_of(argument, &constants);
                let name = name.unwrap_or_else(|| panic!("{file}: {call}{argument}"));
                found.entry(name).or_default().push(Emitted {
                    file: file.clone(),
                    kind,
                });
            }
        }
    }
    found
}

/// The constants of the contract, by their identifiers.
fn constants() -> BTreeMap<String, String> {
    let source = read("crates/runtime/src/metrics/names.rs");
    let (_, list) = source.split_once("contract! {").unwrap();
    let lines = list.lines().filter(|line| line.contains(" = "));
    lines
        .filter_map(|line| {
            let (id, rest) = line.split_once(" = ")?;
            Some((id.trim().to_owned(), rest.split('"').nth(1)?.to_owned()))
        })
        .collect()
}

fn name_of(argument: &str, constants: &BTreeMap<String, String>) -> Option<String> {
    let quoted = argument
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    if let Some(name) = quoted {
        return Some(name.to_owned());
    }
    constants.get(argument.rsplit("::").next()?).cloned()
}

#[test]
fn every_emitted_metric_is_in_the_contract_with_its_kind() {
    for (name, places) in emitted() {
        let metric = ALL.iter().find(|metric| metric.name == name);
        let metric = metric.unwrap_or_else(|| panic!("{name} is not in the contract: {places:?}"));
        for Emitted { file, kind } in places {
            assert_eq!(kind, metric.kind, "{name} in {file}");
        }
    }
}

#[test]
fn every_metric_of_the_contract_is_emitted() {
    let emitted = emitted();
    for metric in ALL {
        assert!(
            emitted.contains_key(metric.name),
            "nothing emits {}",
            metric.name
        );
    }
}

#[test]
fn the_metrics_page_is_the_contract() {
    let mut page = "\n| name | kind | labels | meaning |\n|---|---|---|---|\n".to_owned();
    for metric in ALL {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let labels: Vec<String> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
        let labels = labels.join(", ");
        writeln!(
            page,
            "| `{}` | {kind} | {labels} | {} |",
            metric.name, metric.help
        )
        .unwrap();
    }
    compare_generated("docs/metrics.md", "metrics", &page);
}

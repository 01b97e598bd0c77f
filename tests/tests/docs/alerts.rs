//! Alerts ask for metrics that exist, and lead to what helps.

use crate::markdown::{anchors, read};
use posthorn_delivery::Reason;
use posthorn_runtime::metrics::names::{ALL, Kind};
use serde_yaml_ng::Value;

fn rules() -> Vec<Value> {
    let file: Value = serde_yaml_ng::from_str(&read("deploy/prometheus/alerts.yml")).unwrap();
    let groups = file["groups"].as_sequence().unwrap();
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_sequence().unwrap());
    rules.cloned().collect()
}

/// The names of metrics in an expression.
fn metrics_in(expression: &str) -> Vec<&str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("posthorn_")).collect()
}

fn exists(series: &str) -> bool {
    ALL.iter().any(|metric| {
        let parts: &[&str] = match metric.kind {
            Kind::Histogram => &["_bucket", "_sum", "_count"],
            Kind::Counter | Kind::Gauge => &[""],
        };
        parts
            .iter()
            .any(|part| format!("{}{part}", metric.name) == series)
    })
}

#[test]
fn every_alert_asks_for_metrics_that_exist() {
    let rules = rules();
    assert!(rules.len() >= 10);
    for rule in &rules {
        let name = rule["alert"].as_str().unwrap();
        let series = metrics_in(rule["expr"].as_str().unwrap());
        assert!(!series.is_empty(), "{name} asks for nothing");
        for series in series {
            assert!(exists(series), "{name}: {series}");
        }
    }
}

#[test]
fn every_reason_that_an_alert_names_is_one() {
    for rule in rules() {
        let expression = rule["expr"].as_str().unwrap().to_owned();
        for selector in ["reason=\"", "reason=~\""] {
            for rest in expression.split(selector).skip(1) {
                for reason in rest.split('"').next().unwrap().split('|') {
                    assert!(Reason::parse(reason).is_some(), "{reason}");
                }
            }
        }
    }
}

#[test]
fn every_alert_has_its_section_in_the_runbook() {
    let book = read("docs/runbook.md");
    let anchors = anchors(&book);
    for rule in rules() {
        let name = rule["alert"].as_str().unwrap();
        let link = rule["annotations"]["runbook"].as_str().unwrap();
        let anchor = link.strip_prefix("docs/runbook.md#").unwrap();
        assert!(anchors.iter().any(|a| a == anchor), "{name}: {anchor}");
        assert!(
            book.contains(&format!("`{name}`")),
            "{name} is not in the runbook"
        );
        assert!(rule["labels"]["severity"].is_string(), "{name}");
    }
}

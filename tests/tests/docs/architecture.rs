//! The map of the code names every crate.

use crate::markdown::{code_spans, read, root};
use posthorn_broker::{BucketName, Names, StreamName};

fn members() -> Vec<String> {
    let manifest = read("Cargo.toml");
    let (_, rest) = manifest.split_once("members = [").unwrap();
    let (list, _) = rest.split_once(']').unwrap();
    list.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_crate_of_the_workspace_is_on_the_code_map() {
    let text = read("ARCHITECTURE.md");
    let (_, map) = text.split_once("## Code map").unwrap();
    let (map, _) = map.split_once("\n## ").unwrap();
    let named = code_spans(map);
    let members = members();
    assert!(members.len() > 10);
    for member in &members {
        let shown = format!("{member}/");
        assert!(named.contains(&shown), "{shown} is not on the map");
        assert!(root().join(member).is_dir());
    }
}

#[test]
fn the_map_states_what_must_hold_and_what_is_absent() {
    let text = read("ARCHITECTURE.md");
    let count = text.matches("**Invariant:**").count();
    assert!(count >= 12, "{count} invariants");
}

#[test]
fn every_stream_and_bucket_is_described_under_its_real_name() {
    let text = read("docs/message-flow.md");
    let names = Names::new("posthorn");
    let streams = StreamName::ALL.map(|stream| names.stream(stream));
    let buckets = BucketName::ALL.map(|bucket| names.bucket(bucket));
    for name in streams.iter().chain(&buckets) {
        assert!(
            text.contains(&format!("`{name}`")),
            "{name} is not described"
        );
    }
    for span in code_spans(&text)
        .iter()
        .filter(|s| s.starts_with("POSTHORN_"))
    {
        let known = streams.contains(span) || buckets.contains(span);
        assert!(known || crate::help::looks_like_a_setting(span), "{span}");
    }
    for consumer in [
        posthorn_broker::FANOUT,
        posthorn_broker::DISPATCH,
        posthorn_broker::RETRY_NEAR,
    ] {
        assert!(text.contains(&format!("`{consumer}`")), "{consumer}");
    }
}

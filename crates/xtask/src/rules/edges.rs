//! Which crate may depend on which. The arrows of the architecture are the manifests' lines: a
//! service that could call another, or NATS past the broker crate, sooner or later would.

use super::zones;
use crate::finding::{Finding, Rule};
use crate::metadata::{Dependency, Package};

const OWN: Rule = Rule {
    name: "edge",
    reason: "rooms meet on streams only: pure crates stand alone, services never see each other, \
             and wire types stop at the broker",
};
const WRAPPED: Rule = Rule {
    name: "wrapper",
    reason: "a library that talks to the outside is used in one place, where its settings are right",
};
const IMPURE: Rule = Rule {
    name: "pure-deps",
    reason: "a pure crate does no input or output and waits for nothing",
};

/// What the services build on.
const FOUNDATION: &[&str] = &[
    "posthorn-delivery",
    "posthorn-signing",
    "posthorn-egress",
    "posthorn-vault",
    "posthorn-broker",
    "posthorn-runtime",
    "posthorn-wiring",
    "posthorn-lanes",
    "posthorn-notices",
    "posthorn-http-api",
];

/// Our crates, and which of ours each may use. A crate that is not here may use any but `xtask`.
const OURS: &[(&str, &[&str])] = &[
    ("posthorn-delivery", &[]),
    ("posthorn-signing", &[]),
    ("posthorn-egress", &[]),
    ("posthorn-vault", &["posthorn-delivery"]),
    ("posthorn-proto", &[]),
    ("posthorn-runtime", &[]),
    ("posthorn-nats-server", &[]),
    ("posthorn-broker", &["posthorn-delivery", "posthorn-proto"]),
    (
        "posthorn-wiring",
        &["posthorn-delivery", "posthorn-broker", "posthorn-runtime"],
    ),
    (
        "posthorn-lanes",
        &["posthorn-delivery", "posthorn-broker", "posthorn-wiring"],
    ),
    (
        "posthorn-notices",
        &[
            "posthorn-delivery",
            "posthorn-broker",
            "posthorn-runtime",
            "posthorn-wiring",
        ],
    ),
    (
        "posthorn-http-api",
        &["posthorn-delivery", "posthorn-broker", "posthorn-runtime"],
    ),
    ("posthorn-ingest", FOUNDATION),
    ("posthorn-scheduler", FOUNDATION),
    ("posthorn-dispatcher", FOUNDATION),
    ("posthorn-dlq-admin", FOUNDATION),
    ("posthorn-model", &["posthorn-delivery"]),
    (
        "posthorn-fuzz",
        &[
            "posthorn-delivery",
            "posthorn-signing",
            "posthorn-egress",
            "posthorn-broker",
            "posthorn-ingest",
            "posthorn-dlq-admin",
        ],
    ),
    ("xtask", &[]),
];

/// Crates whose own tests may start a real server.
const TESTED_ON_A_SERVER: [&str; 5] = [
    "posthorn-broker",
    "posthorn-ingest",
    "posthorn-scheduler",
    "posthorn-dispatcher",
    "posthorn-dlq-admin",
];
const SERVER: &str = "posthorn-nats-server";

/// Foreign libraries that only some crates may use.
const WRAPPERS: &[(&str, &[&str])] = &[
    ("async-nats", &["posthorn-broker", "posthorn-tests"]),
    ("reqwest", &["posthorn", "posthorn-tests"]),
    ("hickory-resolver", &["posthorn-dispatcher"]),
    ("stateright", &["posthorn-model"]),
    ("libfuzzer-sys", &["posthorn-fuzz"]),
    ("syn", &["xtask"]),
];

/// Libraries of input, output and waiting.
const IMPURE_LIBRARIES: [&str; 6] = [
    "tokio",
    "axum",
    "hyper",
    "futures-util",
    "tracing",
    "metrics",
];

/// Forbidden edges of one package. `manifest` is the manifest's path from the root and its text.
pub fn check(package: &Package, manifest: (&str, &str)) -> Vec<Finding> {
    let (path, text) = manifest;
    let forbidden = package.dependencies.iter().filter_map(|dependency| {
        let rule = judge(&package.name, dependency)?;
        let line = line_of(text, dependency.key());
        let what = format!("`{}` depends on `{}`", package.name, dependency.name);
        Some(Finding::new(rule, path, line, what))
    });
    forbidden.collect()
}

fn judge(package: &str, dependency: &Dependency) -> Option<Rule> {
    if is_ours(&dependency.name) {
        return (!may_use_ours(package, dependency)).then_some(OWN);
    }
    let wrapper = WRAPPERS
        .iter()
        .find(|(library, _)| *library == dependency.name);
    if wrapper.is_some_and(|(_, users)| !users.contains(&package)) {
        return Some(WRAPPED);
    }
    let pure = package
        .strip_prefix("posthorn-")
        .is_some_and(|name| zones::PURE.contains(&name));
    let impure = IMPURE_LIBRARIES.contains(&dependency.name.as_str()) && !dependency.is_dev();
    (pure && impure).then_some(IMPURE)
}

fn is_ours(name: &str) -> bool {
    name == "xtask" || name == "posthorn" || name.starts_with("posthorn-")
}

fn may_use_ours(package: &str, dependency: &Dependency) -> bool {
    let name = dependency.name.as_str();
    if dependency.is_dev() && name == SERVER && TESTED_ON_A_SERVER.contains(&package) {
        return true;
    }
    match OURS.iter().find(|(ours, _)| *ours == package) {
        Some((_, allowed)) => allowed.contains(&name),
        None => name != "xtask",
    }
}

/// The line of a manifest that lists `key`, 1 where it is written in another way.
fn line_of(manifest: &str, key: &str) -> usize {
    let lists = |line: &str| {
        let rest = line.trim_start().strip_prefix(key);
        rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    manifest
        .lines()
        .position(lists)
        .map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NORMAL: Option<&str> = None;
    const DEV: Option<&str> = Some("dev");

    fn names(package: &str, dependency: &str, kind: Option<&str>) -> Vec<&'static str> {
        let package = Package {
            name: package.to_owned(),
            manifest_path: String::new(),
            dependencies: vec![Dependency {
                name: dependency.to_owned(),
                rename: None,
                kind: kind.map(str::to_owned),
            }],
        };
        check(&package, ("Cargo.toml", ""))
            .iter()
            .map(|finding| finding.rule.name)
            .collect()
    }

    #[test]
    fn pure_crates_stand_alone() {
        for pure in zones::PURE {
            let package = format!("posthorn-{pure}");
            assert_eq!(names(&package, "posthorn-proto", NORMAL), ["edge"]);
            assert_eq!(names(&package, "posthorn-runtime", DEV), ["edge"]);
            assert_eq!(names(&package, "tokio", NORMAL), ["pure-deps"]);
            assert!(names(&package, "sha2", NORMAL).is_empty());
        }
    }

    #[test]
    fn a_service_never_sees_another() {
        for service in ["ingest", "scheduler", "dispatcher", "dlq-admin"] {
            let package = format!("posthorn-{service}");
            for other in ["ingest", "scheduler", "dispatcher", "dlq-admin"] {
                let other = format!("posthorn-{other}");
                assert_eq!(names(&package, &other, NORMAL), ["edge"]);
                assert_eq!(names(&package, &other, DEV), ["edge"]);
            }
            assert!(names(&package, "posthorn-broker", NORMAL).is_empty());
        }
    }

    #[test]
    fn the_model_sees_decisions_and_nothing_that_acts() {
        assert!(names("posthorn-model", "posthorn-delivery", NORMAL).is_empty());
        assert_eq!(names("posthorn-model", "posthorn-broker", NORMAL), ["edge"]);
        assert_eq!(names("posthorn-delivery", "stateright", DEV), ["wrapper"]);
    }

    #[test]
    fn wire_types_stop_at_the_broker() {
        assert_eq!(
            names("posthorn-scheduler", "posthorn-proto", NORMAL),
            ["edge"]
        );
        assert!(names("posthorn-broker", "posthorn-proto", NORMAL).is_empty());
    }

    #[test]
    fn nats_is_known_to_the_broker_only() {
        assert_eq!(
            names("posthorn-scheduler", "async-nats", NORMAL),
            ["wrapper"]
        );
        assert_eq!(names("posthorn", "async-nats", NORMAL), ["wrapper"]);
        assert!(names("posthorn-broker", "async-nats", NORMAL).is_empty());
        assert!(names("posthorn-tests", "async-nats", NORMAL).is_empty());
    }

    #[test]
    fn http_goes_out_in_one_place() {
        assert_eq!(names("posthorn-ingest", "reqwest", NORMAL), ["wrapper"]);
        assert!(names("posthorn", "reqwest", NORMAL).is_empty());
        assert_eq!(names("posthorn-dispatcher", "reqwest", NORMAL), ["wrapper"]);
    }

    #[test]
    fn a_real_server_is_for_tests() {
        assert!(names("posthorn-broker", SERVER, DEV).is_empty());
        assert_eq!(names("posthorn-broker", SERVER, NORMAL), ["edge"]);
        assert_eq!(names("posthorn-delivery", SERVER, DEV), ["edge"]);
        assert!(names("posthorn", SERVER, NORMAL).is_empty());
    }

    #[test]
    fn nobody_leans_on_the_checks() {
        assert_eq!(names("posthorn", "xtask", NORMAL), ["edge"]);
        assert_eq!(names("xtask", "posthorn-delivery", NORMAL), ["edge"]);
    }

    #[test]
    fn the_line_is_the_manifests() {
        let manifest =
            "[dependencies]\nposthorn-brokerage = \"1\"\nposthorn-broker.workspace = true";
        assert_eq!(line_of(manifest, "posthorn-broker"), 3);
    }
}

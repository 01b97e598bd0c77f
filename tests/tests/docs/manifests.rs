//! Compose, Kubernetes, KEDA, the image and the NATS configuration agree with the code.

use crate::help::{SERVICES, settings, variables};
use crate::markdown::{files, read};
use posthorn_broker::{DISPATCH, MINIMUM_SERVER, Names, StreamName};
use serde::Deserialize as _;
use serde_yaml_ng::Value;
use std::time::Duration;

/// The documents of a YAML file.
fn documents(path: &str) -> Vec<Value> {
    let text = read(path);
    let documents = serde_yaml_ng::Deserializer::from_str(&text);
    let parse = |one| Value::deserialize(one).unwrap_or_else(|error| panic!("{path}: {error}"));
    documents.map(parse).collect()
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value:?} is no text"))
}

fn port_of(address: &str) -> u64 {
    address.rsplit(':').next().unwrap().parse().unwrap()
}

async fn default_of(command: &str, flag: &str) -> String {
    let settings = settings(command).await;
    let setting = settings.into_iter().find(|setting| setting.flag == flag);
    setting.unwrap().default.unwrap()
}

async fn drain_timeout() -> Duration {
    let text = default_of("posthorn-dispatcher", "--drain-timeout").await;
    Duration::from_secs(text.strip_suffix('s').unwrap().parse().unwrap())
}

/// The port that a service serves its probes on when nothing is said, by its source.
fn ops_port_of(service: &str) -> u64 {
    let folder = format!("crates/{}/src", service.strip_prefix("posthorn-").unwrap());
    let ports = [9080_u64, 9081, 9082, 9083];
    let named: Vec<u64> = files(&folder, ".rs")
        .iter()
        .flat_map(|file| {
            let source = read(file);
            ports
                .into_iter()
                .filter(move |port| source.contains(&format!("{port})")))
        })
        .collect();
    assert_eq!(named.len(), 1, "{service}: {named:?}");
    named[0]
}

#[test]
fn the_configuration_page_tells_the_ports_of_the_probes() {
    let page = read("docs/configuration.md");
    for binary in SERVICES {
        let name = binary.strip_prefix("posthorn-").unwrap();
        let port = ops_port_of(binary);
        let told = [format!("{name} {port}"), format!("{name} on port {port}")];
        assert!(
            told.iter().any(|told| page.contains(told)),
            "{binary}: {port}"
        );
    }
}

/// The image names a NATS that the code runs on.
fn is_new_enough(image: &str) -> bool {
    let version = image.strip_prefix("nats:").unwrap();
    let mut numbers = version
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    let (major, minor) = (numbers.next().unwrap(), numbers.next().unwrap());
    (major, minor) >= (MINIMUM_SERVER.0, MINIMUM_SERVER.1)
}

#[tokio::test]
async fn compose_runs_the_real_binaries_with_settings_that_they_read() {
    let compose = documents("docker-compose.yml").remove(0);
    let services = compose["services"].as_mapping().unwrap();
    assert_eq!(services.len(), 1 + SERVICES.len());
    assert!(is_new_enough(text(&services["nats"]["image"])));
    for binary in SERVICES {
        let service = &services[binary.strip_prefix("posthorn-").unwrap()];
        assert_eq!(text(&service["command"][0]), binary);
        let known = variables(binary).await;
        let environment = service["environment"].as_mapping().unwrap();
        for (name, _) in environment {
            let name = text(name);
            assert!(known.contains(name), "{binary} does not read {name}");
        }
        let ops = port_of(text(&environment["POSTHORN_OPS_LISTEN"]));
        assert_eq!(ops, ops_port_of(binary), "{binary}");
        let probe = format!("http://127.0.0.1:{ops}/readyz");
        let asks = service["healthcheck"]["test"].as_sequence().unwrap();
        assert!(
            asks.iter().any(|word| text(word) == probe),
            "{binary}: {probe}"
        );
        let grace = text(&service["stop_grace_period"])
            .strip_suffix('s')
            .unwrap();
        let grace = Duration::from_secs(grace.parse().unwrap());
        assert!(grace > drain_timeout().await, "{binary}");
    }
}

#[tokio::test]
async fn the_published_ports_of_compose_are_those_that_the_services_listen_on() {
    let compose = documents("docker-compose.yml").remove(0);
    for (service, binary) in [
        ("ingest", "posthorn-ingest"),
        ("dlq-admin", "posthorn-dlq-admin"),
    ] {
        let service = &compose["services"][service];
        let listen = text(&service["environment"]["POSTHORN_LISTEN"]).to_owned();
        let default = default_of(binary, "--listen").await;
        assert_eq!(port_of(&listen), port_of(&default));
        let published = text(&service["ports"][0]);
        assert_eq!(published, format!("{default}:{}", port_of(&listen)));
    }
    for service in ["scheduler", "dispatcher"] {
        let ports = &compose["services"][service]["ports"];
        assert!(ports.is_null(), "{service} could not be scaled");
    }
}

fn deployments() -> Vec<Value> {
    let manifests = files("deploy/kubernetes", ".yaml");
    let all = manifests.iter().flat_map(|file| documents(file));
    all.filter(|one| one["kind"] == "Deployment").collect()
}

#[tokio::test]
async fn kubernetes_runs_the_real_binaries_with_settings_that_they_read() {
    let deployments = deployments();
    assert_eq!(deployments.len(), SERVICES.len());
    let shared = read("deploy/kubernetes/base/posthorn.env");
    let shared = shared.lines().filter(|line| !line.starts_with('#'));
    let shared: Vec<&str> = shared
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    assert!(shared.len() >= 4);
    for deployment in deployments {
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let binary = text(&container["command"][0]);
        assert!(SERVICES.contains(&binary), "{binary}");
        let known = variables(binary).await;
        let own = container["env"].as_sequence().unwrap();
        for name in shared
            .iter()
            .copied()
            .chain(own.iter().map(|one| text(&one["name"])))
        {
            assert!(known.contains(name), "{binary} does not read {name}");
        }
        let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(
            Duration::from_secs(grace) > drain_timeout().await,
            "{binary}"
        );
    }
}

#[test]
fn kubernetes_probes_and_scrapes_what_is_served() {
    let served = read("crates/runtime/src/ops.rs");
    for deployment in deployments() {
        let template = &deployment["spec"]["template"];
        let container = &template["spec"]["containers"][0];
        let ports = container["ports"].as_sequence().unwrap();
        let ops = ports.iter().find(|port| port["name"] == "ops").unwrap();
        let ops = ops["containerPort"].as_u64().unwrap();
        assert_eq!(ops, ops_port_of(text(&container["command"][0])));
        let env = container["env"].as_sequence().unwrap();
        let listen = env
            .iter()
            .find(|one| one["name"] == "POSTHORN_OPS_LISTEN")
            .unwrap();
        assert_eq!(port_of(text(&listen["value"])), ops);
        let annotations = &template["metadata"]["annotations"];
        assert_eq!(text(&annotations["prometheus.io/port"]), ops.to_string());
        let live = &container["livenessProbe"]["httpGet"];
        assert_eq!(text(&live["path"]), "/livez", "liveness never asks NATS");
        let ready = &container["readinessProbe"]["httpGet"];
        assert_eq!(text(&ready["path"]), "/readyz");
        for path in [
            &live["path"],
            &ready["path"],
            &annotations["prometheus.io/path"],
        ] {
            let route = format!(".route(\"{}\"", text(path));
            assert!(served.contains(&route), "{route} is not served");
        }
    }
}

#[tokio::test]
async fn the_autoscaler_follows_the_consumer_that_the_dispatchers_share() {
    let scaled = documents("deploy/kubernetes/keda/scaledobject.yaml").remove(0);
    let trigger = &scaled["spec"]["triggers"][0]["metadata"];
    let names = Names::new("posthorn");
    assert_eq!(
        text(&trigger["stream"]),
        names.stream(StreamName::Deliveries)
    );
    assert_eq!(text(&trigger["consumer"]), DISPATCH);
    let nats = read("deploy/nats/nats.conf");
    assert!(nats.contains(&format!("{} {{", text(&trigger["account"]))));
    let in_flight = default_of("posthorn-dispatcher", "--dispatch-concurrency").await;
    let in_flight: u64 = in_flight.parse().unwrap();
    let lag: u64 = text(&trigger["lagThreshold"]).parse().unwrap();
    assert_eq!(
        lag,
        2 * in_flight,
        "twice what one dispatcher has in flight"
    );
    let target = text(&scaled["spec"]["scaleTargetRef"]["name"]).to_owned();
    let deployed = deployments();
    assert!(
        deployed
            .iter()
            .any(|one| one["metadata"]["name"] == target.as_str())
    );
}

#[test]
fn nats_is_new_enough_and_lets_publishers_reach_the_intake_only() {
    let nats = documents("deploy/kubernetes/base/nats.yaml");
    let server = nats
        .iter()
        .find(|one| one["kind"] == "StatefulSet")
        .unwrap();
    let image = &server["spec"]["template"]["spec"]["containers"][0]["image"];
    assert!(is_new_enough(text(image)));
    let intake = Names::new("posthorn").all_of(StreamName::Events);
    let configuration = read("deploy/nats/nats.conf");
    assert!(configuration.contains(&format!("exports: [ {{ service: \"{intake}\" }} ]")));
    assert!(configuration.contains(&format!("allow: [\"{intake}\"]")));
}

#[test]
fn the_image_has_all_five_binaries() {
    let file = read("deploy/docker/Dockerfile");
    for binary in SERVICES.iter().chain(&["posthorn"]) {
        let built = file.split_whitespace().any(|word| word == *binary);
        assert!(built, "-p {binary}");
        let copied = format!("target/dist/{binary}");
        let words = file.split_whitespace();
        assert!(words.clone().any(|word| word == copied), "{copied}");
    }
    let toolchain = read("rust-toolchain.toml");
    let channel = toolchain.split('"').nth(1).unwrap();
    assert!(file.contains(&format!("FROM rust:{channel}")), "{channel}");
    assert!(file.contains(&format!("RUSTUP_TOOLCHAIN={channel}")));
}

#[test]
fn every_manifest_is_yaml() {
    let mut count = 0;
    for file in files("deploy", ".yaml")
        .iter()
        .chain(&files("deploy", ".yml"))
    {
        count += documents(file).len();
    }
    assert!(count > 20, "{count} documents");
}

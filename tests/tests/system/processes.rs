//! How the processes start, or say why they do not; and what they refuse to call.

use crate::support::{SOON, Town, shared, text};
use posthorn_tests::cluster::SECRET_KEYS;
use posthorn_tests::process::{Recipe, Service, free_port};
use posthorn_tests::{Cluster, Role};
use serde_json::json;
use std::path::Path;

const BINARIES: [&str; 4] = [
    "posthorn-ingest",
    "posthorn-scheduler",
    "posthorn-dispatcher",
    "posthorn-dlq-admin",
];

fn recipe(name: &str, folder: &Path) -> Recipe {
    let recipe = Recipe::new(name, folder)
        .ops_port(free_port().unwrap())
        // Nobody listens there.
        .env("POSTHORN_NATS_URL", "nats://127.0.0.1:1")
        .env("POSTHORN_SECRET_KEYS", SECRET_KEYS);
    match name {
        "posthorn-ingest" | "posthorn-dlq-admin" => {
            let listen = format!("127.0.0.1:{}", free_port().unwrap());
            recipe.env("POSTHORN_LISTEN", listen)
        }
        _ => recipe,
    }
}

/// Runs a process to its end: its code and all it wrote.
async fn end(recipe: Recipe) -> (Option<i32>, String) {
    let mut service: Service = recipe.spawn().await.unwrap();
    let status = service.wait_exit(SOON).await;
    let status = status.unwrap_or_else(|error| panic!("{error}: {}", service.output()));
    (status.code(), service.output())
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_say_whose_fault_it_is() {
    let _machine = shared().await;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, case: &str| {
        let file = folder.path().join(format!("{name}-{case}.log"));
        recipe(name, folder.path()).log(file)
    };
    for name in ["posthorn-ingest", "posthorn-dlq-admin"] {
        let (code, said) = end(at(name, "no-key")).await;
        assert_eq!(code, Some(64), "{name}: {said}");
        assert!(said.contains("POSTHORN_ADMIN_KEY"), "{said}");
    }
    for name in BINARIES {
        let with_key = |case| at(name, case).env("POSTHORN_ADMIN_KEY", "key-canary");
        let (code, said) = end(with_key("flag").arg("--no-such-flag")).await;
        assert_eq!(code, Some(64), "{name}: {said}");
        assert!(said.contains("--no-such-flag"), "{said}");
        let away = with_key("away").arg("--connect-timeout").arg("1s");
        let (code, said) = end(away).await;
        assert_eq!(code, Some(69), "{name}: {said}");
        assert!(!said.contains("key-canary"), "{said}");
    }
    for name in ["posthorn-ingest", "posthorn-dispatcher"] {
        for (case, keys) in [("unset", ""), ("short", "k1:a2V5LWNhbmFyeQ==")] {
            let keys = at(name, case)
                .env("POSTHORN_ADMIN_KEY", "key-canary")
                .env("POSTHORN_SECRET_KEYS", keys);
            let (code, said) = end(keys).await;
            assert_eq!(code, Some(64), "{name}: {said}");
            assert!(said.contains("openssl rand -base64 32"), "{said}");
            assert!(!said.contains("a2V5LWNhbmFyeQ"), "{said}");
        }
        let cidr = at(name, "cidr")
            .env("POSTHORN_ADMIN_KEY", "key-canary")
            .env("POSTHORN_EGRESS_ALLOW", "10.0.0.0/33");
        let (code, said) = end(cidr).await;
        assert_eq!(code, Some(64), "{name}: {said}");
        assert!(said.contains("10.0.0.0/33"), "{said}");
    }
}

/// On one machine nothing has to be set that is not about this very installation.
#[tokio::test(flavor = "multi_thread")]
async fn beside_a_nats_on_the_same_machine_the_services_need_a_key_and_a_place_to_deliver_to() {
    let _machine = shared().await;
    let mut town = Town::of(Cluster::builder().bare().copies(Role::Dispatcher, 2)).await;
    town.endpoint("acme", "/hook", json!({})).await;
    town.publish("acme", "{}").await;
    town.got("/hook", 1).await;
    for role in [Role::Ingest, Role::Dispatcher] {
        let said = town.cluster.service(role, 0).unwrap().output();
        assert!(said.contains("POSTHORN_SECRET_KEYS is none"), "{said}");
    }
    let away = json!({"url": "http://hooks.example.com/hook"});
    let refused = town.cluster.api().unwrap();
    let refused = refused.post("/v1/tenants/acme/endpoints", &away).await;
    assert_eq!(refused.unwrap().status, 422, "http leaves the machine");
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_06_checking_and_printing_a_configuration_shows_no_secret() {
    let _machine = shared().await;
    let folder = tempfile::tempdir().unwrap();
    for name in BINARIES {
        for flag in ["--check-config", "--print-config"] {
            let file = folder.path().join(format!("{name}{flag}.log"));
            let mut asked = recipe(name, folder.path()).log(file).arg(flag).env(
                "POSTHORN_NATS_URL",
                "nats://user:password-canary@127.0.0.1:1",
            );
            asked = match name {
                "posthorn-dispatcher" => {
                    asked.env("POSTHORN_EGRESS_PROXY", "http://u:proxy-canary@127.0.0.1:3")
                }
                "posthorn-scheduler" => asked,
                _ => asked.env("POSTHORN_ADMIN_KEY", "key-canary"),
            };
            let (code, said) = end(asked).await;
            assert_eq!(code, Some(0), "{name} {flag}: {said}");
            assert!(!said.contains("canary"), "{name} {flag}: {said}");
            assert!(!said.contains("AAECAwQF"), "{name} {flag}: {said}");
            assert!(!said.is_empty());
            if flag == "--print-config" {
                assert!(
                    said.contains("nats_url") && said.contains("127.0.0.1:1"),
                    "{said}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ssrf_04_a_loopback_endpoint_is_refused_by_name_of_the_rule() {
    let _machine = shared().await;
    let town = Town::of(Cluster::builder().env("POSTHORN_EGRESS_ALLOW", "")).await;
    for (url, rule) in [
        (town.receiver.url("/hook"), "loopback"),
        ("http://[::ffff:127.0.0.1]/".to_owned(), "loopback"),
        ("http://10.1.2.3/".to_owned(), "private"),
        ("http://localhost./".to_owned(), "not public"),
    ] {
        let document = json!({"url": url});
        let answer = town.api.post("/v1/tenants/acme/endpoints", &document).await;
        let answer = answer.unwrap();
        assert_eq!(answer.status, 422, "{url}");
        let problem = answer.json();
        assert!(problem.to_string().contains("url"), "{problem}");
        assert!(problem.to_string().contains(rule), "{url}: {problem}");
    }
    let list = town.api.get("/v1/tenants/acme/endpoints").await.unwrap();
    assert_eq!(list.json()["count"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ssrf_04_what_the_dispatcher_may_not_call_is_dead_as_egress_denied() {
    let _machine = shared().await;
    let mut town = Town::of(Cluster::builder().copies(Role::Dispatcher, 0)).await;
    let strict = [("POSTHORN_EGRESS_ALLOW", "")];
    town.cluster.add(Role::Dispatcher, &strict).await.unwrap();
    town.endpoint("acme", "/hook", json!({})).await;
    town.publish("acme", "{}").await;
    let letter = &town.letters("", 1).await[0];
    assert_eq!(letter["reason"], "egress_denied");
    let shown = town.letter(&text(&letter["id"])).await;
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(town.receiver.connections(), 0, "not even a connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_work_does_not_start() {
    let _machine = shared().await;
    let nats = posthorn_tests::TestNats::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (case, name, value) in [
        // Nothing was created there, and nothing may be.
        ("unmanaged", "POSTHORN_MANAGE_STREAMS", "false"),
        // As large as the server's largest message: no room for anything else.
        ("large", "POSTHORN_MAX_PAYLOAD", "1MiB"),
        ("listen", "POSTHORN_LISTEN", &taken),
        ("ops", "POSTHORN_OPS_LISTEN", &taken),
        ("filter", "POSTHORN_LOG", "loud"),
        ("prefix", "POSTHORN_PREFIX", "Posthorn"),
        ("replicas", "POSTHORN_REPLICAS", "2"),
        ("retention", "POSTHORN_ATTEMPT_RETENTION", "30d"),
    ] {
        let broken = recipe("posthorn-ingest", folder.path())
            .log(folder.path().join(case))
            .env("POSTHORN_NATS_URL", nats.url())
            .env("POSTHORN_ADMIN_KEY", "key-canary")
            .env(name, value);
        let (code, said) = end(broken).await;
        assert_eq!(code, Some(64), "{case}: {said}");
        assert!(
            said.lines().count() >= 1 && !said.contains("key-canary"),
            "{case}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_installations_share_one_nats_and_do_not_meet() {
    let _machine = shared().await;
    let mut town = Town::start().await;
    for role in [
        Role::Ingest,
        Role::Scheduler,
        Role::Dispatcher,
        Role::DlqAdmin,
    ] {
        let other = [("POSTHORN_PREFIX", "other")];
        town.cluster.add(role, &other).await.unwrap();
    }
    let (ingests, admins) = (
        town.cluster.urls(Role::Ingest),
        town.cluster.urls(Role::DlqAdmin),
    );
    let api = |copy: usize| {
        let (ingest, admin) = (ingests[copy].clone(), admins[copy].clone());
        posthorn_tests::api::Api::new(vec![ingest], admin, posthorn_tests::cluster::ADMIN_KEY)
    };
    let apis = [api(0).unwrap(), api(1).unwrap()];
    let mut wanted = Vec::new();
    for (copy, path) in ["/one", "/two"].into_iter().enumerate() {
        let document = json!({"url": town.receiver.url(path)});
        apis[copy].create_endpoint("acme", &document).await.unwrap();
        town.receiver
            .script(path, [posthorn_tests::Reply::status(400)]);
    }
    for (copy, path) in ["/one", "/two"].into_iter().enumerate() {
        for _ in 0..2 {
            let event = apis[copy].publish_with_key("acme", "a.b", path, "{}").await;
            wanted.push((event.unwrap().id, path.to_owned()));
        }
    }
    wanted.dedup();
    town.receiver.wait_for(2, SOON).await.unwrap();
    for (copy, path) in ["/one", "/two"].into_iter().enumerate() {
        let letters = posthorn_tests::eventually_some(SOON, "one letter", || async {
            let letters = apis[copy].admin_list("/v1/dead-letters").await.ok()?;
            (letters.len() == 1).then_some(letters)
        });
        let (event, of) = &wanted[copy];
        assert_eq!(
            (&letters.await.unwrap()[0]["event_id"], of.as_str()),
            (&json!(event), path)
        );
    }
    town.settled().await;
    town.streams_empty(&["OTHER_EVENTS", "OTHER_DELIVERIES", "OTHER_RETRIES"])
        .await;
    assert_eq!(town.receiver.count(), 2);
}

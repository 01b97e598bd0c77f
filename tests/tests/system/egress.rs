//! The operator's rules about URLs: the same where an endpoint is made, changed, tested and
//! called, and named wherever they refuse.

use crate::support::{Town, shared, text};
use posthorn_tests::dns::{DnsAnswer, DnsServer};
use posthorn_tests::{Cluster, Role};
use serde_json::json;

const ENDPOINTS: &str = "/v1/tenants/acme/endpoints";
const RULES: [(&str, &str); 4] = [
    ("POSTHORN_EGRESS_ALLOW", "hooks.example.com,10.1.0.0/16"),
    ("POSTHORN_EGRESS_DENY", "*.evil.example,10.1.9.0/24,9.9.9.9"),
    ("POSTHORN_EGRESS_ALLOW_HTTP", "false"),
    ("POSTHORN_EGRESS_PORTS", "443,8000-8999"),
];

/// What is refused by these rules, and the words that name the rule. `hush` is what no refusal
/// may repeat.
const REFUSED: [(&str, &str); 11] = [
    (
        "https://a.evil.example/hush?hush=hush",
        "the deny list (*.evil.example)",
    ),
    (
        "https://u:hush@A.B.EVIL.example./hush",
        "the deny list (*.evil.example)",
    ),
    ("https://10.1.9.7/hush", "the deny list (10.1.9.0/24)"),
    (
        "https://[::ffff:10.1.9.7]/hush",
        "the deny list (10.1.9.0/24)",
    ),
    ("https://9.9.9.9/hush", "the deny list (9.9.9.9/32)"),
    ("https://10.2.0.1/hush", "private-use (10.0.0.0/8)"),
    ("https://0x7f.1/hush", "loopback (127.0.0.0/8)"),
    (
        "https://localhost/hush",
        "localhost names mean this machine",
    ),
    ("https://metadata.google.internal/hush", "metadata service"),
    ("http://hooks.example.com/hush", "https is required"),
    ("https://example.com:25/hush", "port 25"),
];

#[tokio::test(flavor = "multi_thread")]
async fn ssrf_04_the_rule_that_refuses_is_named_at_create_and_at_change() {
    let _machine = shared().await;
    let builder = RULES
        .iter()
        .fold(Cluster::builder(), |builder, (name, value)| {
            builder.env(name, value)
        });
    let town = Town::of(builder).await;
    for url in [
        "https://hooks.example.com/",
        "https://10.1.0.1:8443/",
        "https://example.com/",
    ] {
        let made = town
            .api
            .post(ENDPOINTS, &json!({"url": url}))
            .await
            .unwrap();
        assert_eq!(made.status, 201, "{url}: {}", made.json());
    }
    let made = town
        .api
        .post(ENDPOINTS, &json!({"url": "https://example.com/"}))
        .await;
    let one = format!("{ENDPOINTS}/{}", text(&made.unwrap().json()["id"]));
    for (url, rule) in REFUSED {
        let document = json!({"url": url});
        for answer in [
            town.api.post(ENDPOINTS, &document).await.unwrap(),
            town.api.patch(&one, &document).await.unwrap(),
        ] {
            let said = answer.json().to_string();
            assert_eq!(answer.status, 422, "{url}: {said}");
            assert!(said.contains(rule), "{url}: {said}");
            assert!(!said.contains("hush"), "{url}: {said}");
        }
    }
    let list = town.api.get(ENDPOINTS).await.unwrap();
    assert_eq!(list.json()["count"], 4, "what was refused is not stored");
}

/// Hosts that the look-up leads to an address which the dispatcher may not call, and the words of
/// the letter. The last ones are refused without a look-up.
const CALLED: [(&str, &[&str], &str); 8] = [
    (
        "http://other.example.com:PORT/hush",
        &["127.0.0.1"],
        "an address of the host is loopback (127.0.0.0/8)",
    ),
    (
        "http://a.evil.example:PORT/hush?hush",
        &["127.0.0.1"],
        "the host is on the deny list (*.evil.example)",
    ),
    (
        "http://nine.example.com:PORT/hush",
        &["9.9.9.9"],
        "an address of the host is on the deny list (9.9.9.9/32)",
    ),
    (
        "http://inner.example.com:PORT/hush",
        &["10.2.0.1"],
        "an address of the host is private-use (10.0.0.0/8)",
    ),
    (
        "http://meta.example.com:PORT/hush",
        &["1.1.1.1", "169.254.169.254"],
        "an address of the host is link-local (169.254.0.0/16)",
    ),
    (
        "http://127.0.0.1:PORT/hush",
        &[],
        "address 127.0.0.1 is loopback (127.0.0.0/8)",
    ),
    (
        "http://localhost/hush",
        &[],
        "the URL's host is not public: localhost names mean this machine",
    ),
    (
        "https://example.com:25/hush",
        &[],
        "port 25 may not be called",
    ),
];

async fn names() -> DnsServer {
    let dns = DnsServer::start().await.unwrap();
    dns.script("hooks.example.com", [DnsAnswer::of(&["127.0.0.1"])]);
    for (url, addresses, _) in CALLED {
        if let (false, Some(host)) = (addresses.is_empty(), url.split([':', '/']).nth(3)) {
            dns.script(host, [DnsAnswer::of(addresses)]);
        }
    }
    dns
}

/// A system whose API takes any URL and whose dispatcher has strict rules.
async fn two_minds(dns: &DnsServer) -> Town {
    let lenient = Cluster::builder()
        .copies(Role::Dispatcher, 0)
        .env("POSTHORN_EGRESS_ALLOW", "0.0.0.0/0,::/0")
        .env("POSTHORN_EGRESS_PORTS", "1-65535")
        .env("POSTHORN_DNS_SERVERS", &dns.address().to_string());
    let mut town = Town::of(lenient).await;
    let ports = format!("443,{}", town.receiver.address().port());
    let strict = [
        ("POSTHORN_EGRESS_ALLOW", "hooks.example.com"),
        ("POSTHORN_EGRESS_DENY", "*.evil.example,9.9.9.9"),
        ("POSTHORN_EGRESS_PORTS", ports.as_str()),
    ];
    town.cluster.add(Role::Dispatcher, &strict).await.unwrap();
    town
}

/// Makes each endpoint by rules that let it pass, and calls it by those that do not.
#[tokio::test(flavor = "multi_thread")]
async fn ssrf_04_ssrf_06_the_rule_that_refuses_is_named_in_the_letter_of_a_test_and_of_an_event() {
    let _machine = shared().await;
    let dns = names().await;
    let town = two_minds(&dns).await;
    let port = town.receiver.address().port();
    let good = json!({"url": format!("http://hooks.example.com:{port}/hook")});
    town.endpoint("acme", "/hook", good).await;
    let mut made = Vec::new();
    for (url, _, rule) in CALLED {
        let url = json!({"url": url.replace("PORT", &port.to_string())});
        made.push((town.endpoint("acme", "", url).await, rule));
    }
    town.publish("acme", "{}").await;
    town.letters("", CALLED.len()).await;
    for (id, rule) in &made {
        let test = format!("{ENDPOINTS}/{id}/test");
        let tested = town.api.post(&test, &json!({})).await.unwrap();
        assert_eq!(tested.status, 200);
        let tested = tested.json();
        assert_eq!(tested["outcome"], "refused", "{tested}");
        assert_eq!(tested["error"], "egress_denied", "{tested}");
        assert_eq!(tested["detail"], *rule, "{tested}");
        assert!(tested["response"].is_null(), "{tested}");
        // Its URL is for whoever may see the endpoint; the rule says nothing of it.
        assert!(!text(&tested["detail"]).contains("hush"), "{tested}");
    }
    for (id, rule) in &made {
        for letter in town.letters(&format!("&endpoint={id}"), 1).await {
            let shown = town.letter(&text(&letter["id"])).await;
            assert_eq!(shown["reason"], "egress_denied", "{shown}");
            assert_eq!(shown["detail"], *rule, "{shown}");
            assert_eq!(shown["attempts"].as_array().unwrap().len(), 1);
            assert_eq!(shown["attempts"][0]["detail"], *rule, "{shown}");
            assert!(!shown.to_string().contains("hush"), "{shown}");
        }
        // The record of the test and of the event, for its owner and for operators.
        let own = town.api.get(&format!("{ENDPOINTS}/{id}/attempts")).await;
        let all = format!("/v1/attempts?endpoint={id}");
        let all = town.api.admin_get(&all).await;
        for list in [own.unwrap().json(), all.unwrap().json()] {
            assert_eq!(list["count"], 2, "{list}");
            for attempt in list["items"].as_array().unwrap() {
                assert_eq!(attempt["detail"], *rule, "{attempt}");
                assert!(!attempt.to_string().contains("hush"), "{attempt}");
            }
        }
    }
    town.got("/hook", 1).await;
    assert_eq!(town.receiver.count(), 1, "only the allowed host was called");
}

/// One rule at every place where a URL turns up.
#[tokio::test(flavor = "multi_thread")]
async fn https_is_required_where_a_url_is_made_changed_tested_and_called() {
    const RULE: &str = "the URL's scheme is http; https is required here";
    let _machine = shared().await;
    let mut town = Town::of(Cluster::builder().copies(Role::Dispatcher, 0)).await;
    // Made while it was permitted.
    let id = town.endpoint("acme", "/hook", json!({})).await;
    let strict = [("POSTHORN_EGRESS_ALLOW_HTTP", "false")];
    town.cluster.add(Role::Dispatcher, &strict).await.unwrap();
    town.cluster.add(Role::Ingest, &strict).await.unwrap();
    let urls = |role| town.cluster.urls(role);
    let (ingest, admin) = (urls(Role::Ingest).remove(1), urls(Role::DlqAdmin).remove(0));
    let key = posthorn_tests::cluster::ADMIN_KEY;
    let api = posthorn_tests::api::Api::new(vec![ingest], admin, key).unwrap();
    let one = format!("{ENDPOINTS}/{id}");
    let document = json!({"url": town.receiver.url("/other")});
    for refused in [
        api.post(ENDPOINTS, &document).await.unwrap(),
        api.patch(&one, &document).await.unwrap(),
        // Whatever else is changed, what is stored has to be right.
        api.patch(&one, &json!({"description": "x"})).await.unwrap(),
    ] {
        let said = refused.json();
        assert_eq!(refused.status, 422, "{said}");
        assert_eq!(said["field"], "url", "{said}");
        assert!(said.to_string().contains(RULE), "{said}");
    }
    let tested = api.post(&format!("{one}/test"), &json!({})).await.unwrap();
    assert_eq!(tested.json()["detail"], RULE, "{}", tested.json());
    api.publish("acme", "a.b", "{}").await.unwrap();
    let letter = town.letters("", 1).await.remove(0);
    assert_eq!(letter["detail"], RULE, "{letter}");
    // What must be possible with an endpoint that may not be called: to stop and to mend it.
    for action in ["pause", "resume"] {
        let done = api.post(&format!("{one}/{action}"), &json!({})).await;
        assert_eq!(done.unwrap().status, 200, "{action}");
    }
    let mended = json!({"url": "https://example.com/hook"});
    assert_eq!(api.patch(&one, &mended).await.unwrap().status, 200);
    assert_eq!(town.receiver.connections(), 0);
}

/// An endpoint from before `http` was forbidden is not called in plain.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_was_made_while_http_was_allowed_is_dead_lettered_when_it_no_longer_is() {
    let _machine = shared().await;
    let mut town = Town::of(Cluster::builder().copies(Role::Dispatcher, 0)).await;
    let strict = [("POSTHORN_EGRESS_ALLOW_HTTP", "false")];
    town.cluster.add(Role::Dispatcher, &strict).await.unwrap();
    town.endpoint("acme", "/hook", json!({})).await;
    town.publish("acme", "{}").await;
    let id = text(&town.letters("", 1).await[0]["id"]);
    let letter = town.letter(&id).await;
    assert_eq!(letter["reason"], "egress_denied");
    assert_eq!(
        letter["detail"],
        "the URL's scheme is http; https is required here"
    );
    assert_eq!(town.receiver.connections(), 0);
    // What was refused is not lost: an operator who permits it replays it.
    town.cluster
        .service(Role::Dispatcher, 0)
        .unwrap()
        .terminate(crate::support::SOON)
        .await
        .unwrap();
    let lenient = [("POSTHORN_EGRESS_ALLOW_HTTP", "true")];
    town.cluster.add(Role::Dispatcher, &lenient).await.unwrap();
    assert_eq!(town.replay(&id).await.status, 202);
    town.letter_is(&id, "delivered").await;
    assert_eq!(town.receiver.count(), 1);
}

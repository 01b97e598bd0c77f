//! The real binary: `posthorn dev` and the command line against it.
//!
//! Every test has a data folder, ports and a nats-server of its own.

#![allow(clippy::unwrap_used)]

#[path = "dev/manual.rs"]
mod manual;
#[path = "dev/place.rs"]
mod place;
#[path = "dev/room.rs"]
mod room;
#[path = "dev/terminal.rs"]
mod terminal;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use place::{Place, Running, SECRET, eventually, finished, gone, is_alive, posthorn};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};
use tokio::process::Command;

#[tokio::test]
async fn dev_delivers_signed_after_failures_and_ends_in_order() {
    let place = Place::new();
    let mut dev = place.dev().await;
    let (receiver, url) = place.listen("listen", &["--fail", "503:2"]).await;
    let endpoint = place.endpoint(&url).await;

    let body = "{ \"id\":\"in_1\",  \"amount\": 1.00 }";
    let sent = [
        "send",
        "invoice.paid",
        body,
        "--tenant",
        "acme",
        "--id",
        "key-1",
    ];
    let answer = place.ok(&sent).await;
    let event = answer["id"].as_str().unwrap().to_owned();
    let repeated = place.ok(&sent).await;
    assert_eq!(
        (&repeated["id"], &repeated["duplicate"]),
        (&answer["id"], &true.into())
    );

    let requests = eventually("three requests", || {
        let requests: Vec<Value> = receiver.lines().into_iter().skip(1).collect();
        async move { (requests.len() >= 3).then_some(requests) }
    })
    .await;
    let field = |name: &str| -> Vec<Value> { requests.iter().map(|r| r[name].clone()).collect() };
    assert_eq!(field("status"), [503, 503, 200]);
    assert_eq!(field("attempt"), ["1", "2", "3"]);
    assert_eq!(field("id"), [&*event; 3]);
    assert_eq!(field("signature"), ["verified"; 3]);
    assert_eq!(field("body"), [body; 3]);
    assert_eq!(field("duplicate"), [false; 3]);

    let delivered = eventually("the delivery is recorded", || async {
        let answer = place.ok(&["deliveries", &event]).await;
        let delivery = answer["items"][0].clone();
        (delivery["state"] == "delivered").then_some(delivery)
    })
    .await;
    assert_eq!(delivered["endpoint"], *endpoint);
    assert_eq!(delivered["attempts"].as_array().unwrap().len(), 3);

    let data = place.data_arg();
    let args = [
        "tail",
        "--since",
        "5m",
        "--data-dir",
        &data,
        "--output",
        "json",
    ];
    let tail = Running::start(posthorn(&args), place.folder.path(), "tail");
    let seen = eventually("the attempts in the tail", || {
        let seen = tail.lines();
        async move { (seen.len() >= 3).then_some(seen) }
    })
    .await;
    let numbers: Vec<Value> = seen.iter().map(|line| line["number"].clone()).collect();
    assert_eq!(numbers, [1, 2, 3]);

    let nats = place.nats_pid().unwrap();
    dev.signal(Signal::SIGINT);
    assert_eq!(dev.exit().await, Some(0), "{}", place.dev_errors());
    assert!(!is_alive(nats), "nats-server outlived an orderly end");
    assert!(place.dev_json().is_none());
}

#[tokio::test]
async fn what_dev_prints_can_be_typed() {
    let place = Place::new();
    let mut dev = place.dev().await;
    let file = place.dev_json().unwrap();
    let printed = eventually("the text", || async {
        let text = std::fs::read_to_string(&dev.out).unwrap();
        text.contains("nats pub").then_some(text)
    })
    .await;
    for key in ["ingest_url", "admin_url", "ops_url", "nats_url", "api_key"] {
        assert!(printed.contains(file[key].as_str().unwrap()), "{key}");
    }
    let commands: Vec<&str> = printed
        .split("\n\n")
        .filter(|part| part.contains("  curl "))
        .collect();
    assert_eq!(commands.len(), 2);
    for command in commands {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).kill_on_drop(true);
        let (code, out, err) = finished(shell).await;
        assert_eq!(code, 0, "{err}");
        let answer: Value = serde_json::from_str(&out).unwrap();
        assert!(answer["id"].is_string(), "{command}\n{out}");
    }
    let mode = place
        .data()
        .join("dev.json")
        .metadata()
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    dev.signal(Signal::SIGTERM);
    assert_eq!(dev.exit().await, Some(0), "{}", place.dev_errors());
}

#[tokio::test]
async fn a_killed_dev_takes_its_nats_server_along_and_the_next_one_has_the_data() {
    let place = Place::new();
    let mut dev = place.dev().await;
    let key = place.dev_json().unwrap()["api_key"].clone();
    let endpoint = place.endpoint("http://127.0.0.1:1025/").await;
    let nats = place.nats_pid().unwrap();
    dev.signal(Signal::SIGKILL);
    assert_eq!(dev.exit().await, None);
    gone(nats).await;

    let mut dev = place.dev().await;
    assert_eq!(place.dev_json().unwrap()["api_key"], key);
    let shown = place
        .ok(&["endpoints", "show", &endpoint, "--tenant", "acme"])
        .await;
    assert_eq!(shown["id"], *endpoint);
    dev.signal(Signal::SIGINT);
    assert_eq!(dev.exit().await, Some(0), "{}", place.dev_errors());
}

#[tokio::test]
async fn a_killed_nats_server_comes_back_and_the_services_ride_through() {
    let place = Place::new();
    let mut dev = place.dev().await;
    let (receiver, url) = place.listen("listen", &[]).await;
    place.endpoint(&url).await;
    let (old, port) = (
        place.nats_pid().unwrap(),
        place.dev_json().unwrap()["nats_url"].clone(),
    );
    kill(Pid::from_raw(old), Signal::SIGKILL).unwrap();
    let new = eventually("another nats-server", || {
        let pid = place.nats_pid().filter(|pid| *pid != old && is_alive(*pid));
        async move { pid }
    })
    .await;
    // The same key on every try: however many are stored, it is one event.
    let send = [
        "send",
        "invoice.paid",
        "{}",
        "--tenant",
        "acme",
        "--id",
        "one",
    ];
    let event = eventually("an event is accepted again", || async {
        let (code, answer, _) = place.cli(&send).await;
        (code == 0).then(|| answer["id"].clone())
    })
    .await;
    eventually("it is delivered", || {
        let came = receiver.lines().iter().any(|line| line["id"] == event);
        async move { came.then_some(()) }
    })
    .await;
    assert_eq!(place.dev_json().unwrap()["nats_url"], port);
    dev.signal(Signal::SIGINT);
    assert_eq!(dev.exit().await, Some(0), "{}", place.dev_errors());
    assert!(!is_alive(new));
}

#[tokio::test]
async fn a_dead_letter_is_listed_shown_and_sent_again() {
    let place = Place::new();
    let mut dev = place.dev().await;
    let (receiver, url) = place.listen("listen", &["--fail", "404:1"]).await;
    place.endpoint(&url).await;
    let answer = place
        .ok(&["send", "invoice.paid", "{\"n\":1}", "--tenant", "acme"])
        .await;
    let letter = eventually("a dead letter", || async {
        let list = place.ok(&["dlq", "list", "--tenant", "acme"]).await;
        list["items"].get(0).cloned()
    })
    .await;
    assert_eq!(letter["reason"], "permanent_status");
    assert_eq!(letter["event_id"], answer["id"]);
    let id = letter["id"].as_str().unwrap();
    let shown = place.ok(&["dlq", "show", id]).await;
    assert_eq!(shown["payload"], "{\"n\":1}");
    assert_eq!(shown["attempts"][0]["status"], 404);

    let counted = place
        .ok(&["dlq", "replay", "--tenant", "acme", "--dry-run"])
        .await;
    assert_eq!(counted["matched"], 1);
    let job = place.ok(&["dlq", "replay", "--tenant", "acme"]).await;
    assert_eq!(
        (&job["state"], &job["replayed"]),
        (&"completed".into(), &1.into())
    );
    eventually("it is delivered", || {
        let good = receiver.lines().iter().any(|line| line["status"] == 200);
        async move { good.then_some(()) }
    })
    .await;
    eventually("the letter leaves the list", || async {
        let list = place.ok(&["dlq", "list", "--tenant", "acme"]).await;
        list["items"].as_array()?.is_empty().then_some(())
    })
    .await;
    dev.signal(Signal::SIGINT);
    assert_eq!(dev.exit().await, Some(0), "{}", place.dev_errors());
}

#[tokio::test]
async fn endpoints_and_breakers_are_steered() {
    let place = Place::new();
    let mut dev = place.dev().await;
    let (receiver, url) = place.listen("listen", &[]).await;
    let id = place.endpoint(&url).await;
    let on = async |verb: &str, more: &[&str]| {
        let args = [&["endpoints", verb, &id, "--tenant", "acme"], more].concat();
        place.ok(&args).await
    };
    assert_eq!(on("pause", &[]).await["disabled_reason"], "paused");
    assert_eq!(on("resume", &[]).await["enabled"], true);
    let changed = on("update", &["--timeout", "3s", "--max-attempts", "2"]).await;
    assert_eq!(changed["timeout"], "3s");
    assert_eq!(changed["retry"]["max_attempts"], 2);
    assert_eq!(changed["retry"]["base"], "100ms");

    let sent = on("test", &[]).await;
    eventually("the test event", || {
        let came = receiver.lines().iter().any(|line| line["id"] == sent["id"]);
        async move { came.then_some(()) }
    })
    .await;
    let rotated = on("rotate", &["--overlap", "1h"]).await;
    let new = rotated["secret"].as_str().unwrap();
    assert!(new.starts_with("whsec_") && new != SECRET);
    let secrets = on("secret", &[]).await.to_string();
    assert!(secrets.contains(new) && secrets.contains(SECRET));
    let kept = place.ok(&["secrets", "rotate"]).await;
    assert_eq!((&kept["key"], &kept["current"]), (&"dev".into(), &1.into()));

    let opened = place.ok(&["breakers", "open", &id, "--for", "5m"]).await;
    assert_eq!(opened["state"], "open");
    let list = place.ok(&["breakers", "list", "--tenant", "acme"]).await;
    assert_eq!(list["items"][0]["endpoint"], *id);
    assert_eq!(
        place.ok(&["breakers", "close", &id]).await["state"],
        "closed"
    );
    assert_eq!(
        place.ok(&["breakers", "show", &id]).await["state"],
        "closed"
    );

    on("delete", &[]).await;
    let list = place.ok(&["endpoints", "list", "--tenant", "acme"]).await;
    assert!(list["items"].as_array().unwrap().is_empty());
    dev.signal(Signal::SIGINT);
    assert_eq!(dev.exit().await, Some(0), "{}", place.dev_errors());
}

#[tokio::test]
async fn a_key_is_made_used_and_revoked() {
    let place = Place::new();
    let mut dev = place.dev().await;
    let scopes = ["--tenant", "acme", "--scope", "endpoints,operate"];
    let made = place
        .ok(&[&["keys", "add", "ops"], &scopes[..]].concat())
        .await;
    let (id, key) = (&made["id"], made["key"].as_str().unwrap());
    // As a person types it: the key alone on stdout, and the remark beside it.
    let data = place.data_arg();
    let shown = [
        "keys",
        "add",
        "other",
        "--scope",
        "publish",
        "--data-dir",
        &data,
    ];
    let (code, out, err) = finished(posthorn(&shown)).await;
    assert_eq!(code, 0, "{err}");
    assert!(
        out.starts_with("phk_") && out.trim_end().len() == 85,
        "{out}"
    );
    assert!(err.contains("shown this once") && !err.contains(out.trim_end()));

    let with_key = async |args: &[&str]| {
        let mut command = posthorn(&[args, &["--data-dir", &data]].concat());
        command.env("POSTHORN_API_KEY", key);
        finished(command).await
    };
    let of_acme = ["endpoints", "list", "--tenant", "acme"];
    assert_eq!(with_key(&of_acme).await.0, 0);
    let (code, _, err) = with_key(&["endpoints", "list", "--tenant", "globex"]).await;
    assert_eq!(code, 1, "{err}");
    let (code, _, err) = with_key(&["keys", "list"]).await;
    assert!(code == 1 && err.contains("admin key"), "{err}");

    let list = place.ok(&["keys", "list"]).await;
    assert_eq!(list["total"], 2);
    assert!(!list.to_string().contains(key));
    place.ok(&["keys", "revoke", id.as_str().unwrap()]).await;
    eventually("the revocation at the public API", || async {
        (with_key(&of_acme).await.0 == 1).then_some(())
    })
    .await;
    assert_eq!(place.ok(&["keys", "list"]).await["total"], 1);
    dev.signal(Signal::SIGINT);
    assert_eq!(dev.exit().await, Some(0), "{}", place.dev_errors());
}

#[tokio::test]
async fn a_breaker_closed_by_hand_lets_the_backlog_go_at_once() {
    let place = Place::new();
    let mut dev = place.dev().await;
    let (receiver, url) = place.listen("listen", &[]).await;
    let id = place.endpoint(&url).await;
    place.ok(&["breakers", "open", &id, "--for", "30m"]).await;
    for _ in 0..5 {
        place
            .ok(&["send", "invoice.paid", "{}", "--tenant", "acme"])
            .await;
    }
    eventually("five wait", || async {
        let list = place.ok(&["breakers", "list"]).await;
        (list["items"][0]["backlog"] == 5).then_some(())
    })
    .await;
    let held = place.ok(&["lanes", "--reason", "breaker_open"]).await;
    let (until, probe) = (
        held["items"][0]["hold_until"].clone(),
        place.ok(&["breakers", "show", &id]).await["next_probe_at"].clone(),
    );
    assert!(until.is_string() && until == probe, "{until} {probe}");

    let closed = Instant::now();
    place.ok(&["breakers", "close", &id]).await;
    eventually("all five arrive", || {
        let came = receiver.lines().len() - 1;
        async move { (came == 5).then_some(()) }
    })
    .await;
    // Without being woken the owner would look again after a minute.
    assert!(closed.elapsed() < Duration::from_secs(10));
    dev.signal(Signal::SIGINT);
    assert_eq!(dev.exit().await, Some(0), "{}", place.dev_errors());
}

#[tokio::test]
async fn what_waits_for_a_paused_endpoint_is_listed_and_watched() {
    let place = Place::new();
    let mut dev = place.dev().await;
    let (receiver, url) = place.listen("listen", &[]).await;
    let id = place.endpoint(&url).await;
    let none = place.ok(&["lanes"]).await;
    assert_eq!((&none["count"], &none["total"]), (&0.into(), &0.into()));

    place
        .ok(&["endpoints", "pause", &id, "--tenant", "acme"])
        .await;
    for _ in 0..3 {
        place
            .ok(&["send", "invoice.paid", "{}", "--tenant", "acme"])
            .await;
    }
    let lane = eventually("three wait", || async {
        let list = place.ok(&["lanes", "--tenant", "acme"]).await;
        let lane = list["items"][0].clone();
        (lane["depth"] == 3 && lane["reason"] == "paused").then_some(lane)
    })
    .await;
    assert_eq!(lane["endpoint"], *id);
    assert_eq!(lane["kind"], "live");
    let others = place.ok(&["lanes", "--reason", "replay"]).await;
    assert_eq!(others["count"], 0);
    let (code, _, err) = place.cli(&["lanes", "--reason", "broken"]).await;
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("breaker_open"), "{err}");
    let data = place.data_arg();
    let (_, table, _) = finished(posthorn(&["lanes", "--data-dir", &data])).await;
    for word in ["REASON", "WAITING", "paused", &id] {
        assert!(table.contains(word), "{table}");
    }

    let args = ["lanes", "--watch", "--data-dir", &data, "--output", "json"];
    let watch = Running::start(posthorn(&args), place.folder.path(), "lanes");
    let depths = || {
        let looks = watch.lines();
        let depth = |look: &Value| look["items"][0]["depth"].as_u64().unwrap_or(0);
        looks.iter().map(depth).collect::<Vec<u64>>()
    };
    eventually("two looks", || {
        let twice = depths().iter().filter(|depth| **depth == 3).count() >= 2;
        async move { twice.then_some(()) }
    })
    .await;
    place
        .ok(&["endpoints", "resume", &id, "--tenant", "acme"])
        .await;
    eventually("the lane is empty", || {
        let empty = depths().last() == Some(&0);
        async move { empty.then_some(()) }
    })
    .await;
    eventually("all three arrive", || {
        let came = receiver.lines().len() - 1;
        async move { (came == 3).then_some(()) }
    })
    .await;
    dev.signal(Signal::SIGINT);
    assert_eq!(dev.exit().await, Some(0), "{}", place.dev_errors());
}

#[tokio::test]
async fn a_nats_that_is_there_is_used_and_left_alone() {
    let place = Place::new();
    let store = place.folder.path().join("elsewhere");
    let server = posthorn_nats_server::NatsServer::builder().data_dir(store);
    let server = server.start().await.unwrap();
    let mut command = place.dev_command();
    command.args(["--nats-url", server.client_url()]);
    let mut dev = place.dev_as(command).await;
    assert_eq!(place.dev_json().unwrap()["nats_url"], server.client_url());
    assert!(!place.data().join("nats").exists());
    let answer = place.ok(&["send", "a.b", "{}", "--tenant", "acme"]).await;
    assert!(answer["id"].is_string());
    dev.signal(Signal::SIGINT);
    assert_eq!(dev.exit().await, Some(0), "{}", place.dev_errors());
    assert!(is_alive(i32::try_from(server.pid()).unwrap()));
}

#[tokio::test]
async fn what_a_newcomer_meets_is_one_sentence() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = place.dev_command();
    command.args(["--check-config"]);
    assert_eq!(finished(command).await.0, 0);

    let data = place.data_arg();
    let args = ["dev", "--data-dir", &data, "--ingest-listen", &address];
    let (code, _, err) = finished(posthorn(&args)).await;
    assert_eq!((code, err.lines().count()), (64, 1), "{err}");
    assert!(
        err.contains(&address) && err.contains("--ingest-listen"),
        "{err}"
    );

    let file = place.folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let (code, _, err) = finished(posthorn(&["dev", "--data-dir", file.to_str().unwrap()])).await;
    assert_eq!((code, err.lines().count()), (64, 1), "{err}");
    assert!(err.contains("--data-dir"), "{err}");

    let mut command = place.dev_command();
    command.env("POSTHORN_NATS_SERVER", file);
    let (code, _, err) = finished(command).await;
    assert_eq!((code, err.lines().count()), (64, 1), "{err}");
    assert!(err.contains("POSTHORN_NATS_SERVER"), "{err}");
}

#[tokio::test]
async fn the_exit_code_says_what_went_wrong() {
    let place = Place::new();
    std::fs::create_dir(place.data()).unwrap();
    let (code, _, err) = place.cli(&["dlq", "list"]).await;
    assert_eq!(code, 64, "{err}");
    assert!(err.contains("posthorn dev"), "{err}");
    let (code, ..) = finished(posthorn(&["send"])).await;
    assert_eq!(code, 64);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let args = ["dlq", "list", "--admin-url", &url, "--api-key", "k"];
    let (code, _, err) = place.cli(&args).await;
    assert_eq!(code, 69, "{err}");

    let mut dev = place.dev().await;
    let nobody = "ep_00000000000000000000000000000000";
    let (code, _, err) = place
        .cli(&["endpoints", "show", nobody, "--tenant", "acme"])
        .await;
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("404"), "{err}");
    let (code, _, err) = place.cli(&["dlq", "list", "--api-key", "wrong"]).await;
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("401"), "{err}");
    dev.signal(Signal::SIGINT);
    assert_eq!(dev.exit().await, Some(0), "{}", place.dev_errors());
}

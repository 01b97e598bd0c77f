//! The operator's room by command line: find, understand, mend, send again, prove.

use crate::place::{Place, Running, eventually, finished, posthorn};
use crate::terminal::in_terminal;
use nix::sys::signal::Signal;
use serde_json::Value;

/// Endpoints that answer badly, and what became of events for them.
struct Room {
    place: Place,
    dev: Running,
    receiver: Running,
    endpoint: String,
    events: Vec<String>,
}

impl Room {
    /// `count` events whose receiver fails as `fail` says.
    async fn new(fail: &str, count: usize) -> Room {
        let place = Place::new();
        let dev = place.dev().await;
        let (receiver, url) = place.listen("listen", &["--fail", fail]).await;
        let endpoint = place.endpoint(&url).await;
        let mut events = Vec::new();
        for n in 0..count {
            let body = format!("{{ \"n\" : {n} }}");
            let sent = place
                .ok(&["send", "invoice.paid", &body, "--tenant", "acme"])
                .await;
            events.push(sent["id"].as_str().unwrap().to_owned());
        }
        Room {
            place,
            dev,
            receiver,
            endpoint,
            events,
        }
    }

    /// Waits until so many letters are listed.
    async fn letters(&self, count: usize) -> Vec<Value> {
        eventually("the letters are written", || async {
            let list = self.place.ok(&["dlq", "list", "--tenant", "acme"]).await;
            let items = list["items"].as_array().unwrap().clone();
            (items.len() == count).then_some(items)
        })
        .await
    }

    /// What a person sees: exit code, stdout, stderr.
    async fn typed(&self, args: &[&str]) -> (i32, String, String) {
        let data = self.place.data_arg();
        finished(posthorn(&[args, &["--data-dir", &data]].concat())).await
    }

    /// What a person sees of something that goes well.
    async fn shown(&self, args: &[&str]) -> String {
        let (code, out, err) = self.typed(args).await;
        assert_eq!(code, 0, "{args:?}: {err}");
        out
    }

    async fn end(mut self) {
        self.dev.signal(Signal::SIGINT);
        assert_eq!(
            self.dev.exit().await,
            Some(0),
            "{}",
            self.place.dev_errors()
        );
    }
}

fn ids(list: &[Value]) -> Vec<&str> {
    list.iter().map(|one| one["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_letter_is_found_by_each_filter_and_understood() {
    let room = Room::new("404:3", 3).await;
    let letters = room.letters(3).await;
    let endpoint = room.endpoint.clone();
    for filter in [
        &["--endpoint", &endpoint][..],
        &["--type", "invoice.*"],
        &["--reason", "permanent_status"],
        &["--status", "404"],
        &["--since", "1h"],
        &["--state", "dead"],
    ] {
        let found = room.place.ok(&[&["dlq", "list"], filter].concat()).await;
        assert_eq!(found["items"].as_array().unwrap().len(), 3, "{filter:?}");
    }
    for filter in [
        &["--reason", "gone"][..],
        &["--status", "500"],
        &["--until", "1h"],
        &["--text", "never said"],
    ] {
        let text = room.shown(&[&["dlq", "list"], filter].concat()).await;
        assert_eq!(text, "no dead letters\n", "{filter:?}");
    }
    let quiet = room.shown(&["dlq", "list", "-q"]).await;
    assert_eq!(quiet.lines().collect::<Vec<_>>(), ids(&letters));
    let counted = room.shown(&["dlq", "count", "--tenant", "acme"]).await;
    assert_eq!(counted, "3\n");

    let (id, event) = (ids(&letters)[0], letters[0]["event_id"].as_str().unwrap());
    let shown = room.shown(&["dlq", "show", id]).await;
    for word in ["permanent_status", "#1", "404", "payload", "\"n\": 2"] {
        assert!(shown.contains(word), "{word} in\n{shown}");
    }
    let payload = room.shown(&["dlq", "show", id, "--payload"]).await;
    assert_eq!(payload, "{ \"n\" : 2 }");
    assert_eq!(event, room.events[2]);
    for verb in [&["events", "show"][..], &["deliveries"]] {
        let shown = room
            .shown(&[verb, &[event, "--tenant", "acme"]].concat())
            .await;
        assert!(
            shown.contains("dead, dead letter dl_") && shown.contains("#1"),
            "{shown}"
        );
    }
    let attempts = ["endpoints", "attempts", &endpoint, "--tenant", "acme"];
    let attempts = room.shown(&attempts).await;
    assert_eq!(attempts.lines().count(), 4, "{attempts}");
    room.end().await;
}

#[tokio::test]
async fn what_is_sent_again_and_thrown_away_is_watched_and_proven() {
    let room = Room::new("404:4", 4).await;
    let letters = room.letters(4).await;
    let all = ids(&letters);
    room.place.ok(&["dlq", "delete", all[0]]).await;
    let (code, _, err) = room.typed(&["dlq", "delete", all[0]]).await;
    assert!(code == 1 && err.contains("404"), "{err}");
    let one = room.shown(&["dlq", "replay", all[1]]).await;
    assert!(one.contains("is sent again: rpl_"), "{one}");

    let rest = ["dlq", "replay", "--endpoint", &room.endpoint, "--rate", "1"];
    let job = room.place.ok(&[&rest[..], &["--detach"]].concat()).await;
    let job = job["id"].as_str().unwrap();
    assert_eq!(
        room.place.ok(&["replays", "pause", job]).await["state"],
        "paused"
    );
    let paused = room
        .shown(&["replays", "show", job, "-w", "--times", "1"])
        .await;
    assert!(
        paused.contains("paused") && paused.contains(" of 2 ("),
        "{paused}"
    );
    assert_eq!(
        room.place.ok(&["replays", "resume", job]).await["state"],
        "running"
    );
    let watched = [
        "replays", "show", job, "-w", "--every", "100ms", "--output", "json",
    ];
    let looks = room.shown(&watched).await;
    let last: Value = serde_json::from_str(looks.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["state"], &last["matched"]),
        (&"completed".into(), &2.into())
    );
    let (code, _, err) = room.typed(&["replays", "cancel", job]).await;
    assert!(code == 1 && err.contains("409"), "{err}");
    let followed = room.shown(&["replays", "show", job, "--follow"]).await;
    assert!(followed.contains("completed: 2 of 2"), "{followed}");
    let listed = room.shown(&["replays", "list", "-q"]).await;
    assert_eq!(listed.lines().collect::<Vec<_>>(), [job]);

    eventually("three are delivered", || {
        let lines = room.receiver.lines();
        let good = lines.iter().filter(|line| line["status"] == 200).count();
        async move { (good == 3).then_some(()) }
    })
    .await;
    room.letters(0).await;
    let purge = ["dlq", "purge", "--tenant", "acme"];
    assert_eq!(room.place.ok(&purge).await["matched"], 0);
    assert_eq!(room.typed(&["dlq", "purge", "--yes"]).await.0, 64);

    let acts = room
        .shown(&["audit", "--since", "1h", "--action", "replay"])
        .await;
    for act in ["replay.create", "replay.pause", "replay.resume"] {
        assert!(acts.contains(act) && acts.contains(job), "{acts}");
    }
    let none = room.place.ok(&["audit", "--object", "nobody"]).await;
    assert_eq!(
        (&none["count"], &none["complete"]),
        (&0.into(), &true.into())
    );
    let few = room.place.ok(&["audit", "--limit", "2"]).await;
    assert_eq!(few["items"].as_array().unwrap().len(), 2);
    room.end().await;
}

#[tokio::test]
async fn a_tail_shows_what_is_asked_for_and_ends() {
    let room = Room::new("503:1", 1).await;
    eventually("it is delivered at the second attempt", || {
        let lines = room.receiver.lines();
        let good = lines.iter().any(|line| line["status"] == 200);
        async move { good.then_some(()) }
    })
    .await;
    let event = room.events[0].clone();
    let tail = async |more: &[&str]| {
        let fixed = ["tail", "--since", "5m", "--output", "json", "--limit"];
        let out = room.shown(&[&fixed[..], more].concat()).await;
        let line = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        out.lines().map(line).collect::<Vec<_>>()
    };
    let both = tail(&["2", "--event", &event]).await;
    let statuses: Vec<&Value> = both.iter().map(|one| &one["status"]).collect();
    assert_eq!(statuses, [503, 200]);
    let failed = tail(&["1", "--outcome", "failed", "--type", "invoice.*"]).await;
    assert_eq!(failed[0]["disposition"], "retry");
    let good = tail(&["1", "--outcome", "delivered", "--endpoint", &room.endpoint]).await;
    assert_eq!(good[0]["number"], 2);
    let text = room
        .shown(&[
            "tail",
            "--since",
            "5m",
            "--status",
            "503",
            "--limit",
            "1",
            "--show-answer",
        ])
        .await;
    assert!(text.contains("503") && text.contains("acme evt_"), "{text}");
    room.end().await;
}

#[tokio::test]
async fn lists_are_watched_in_both_forms() {
    let room = Room::new("404:1", 1).await;
    room.letters(1).await;
    let watched = ["--watch", "--every", "100ms", "--times", "3"];
    for list in [
        &["dlq", "list"][..],
        &["overview"],
        &["endpoints", "health"],
        &["lanes"],
        &["breakers", "list"],
        &["replays", "list"],
        &["keys", "list"],
        &["endpoints", "list", "--tenant", "acme"],
        &["audit"],
        &["audit", "--action", "endpoint"],
        &["deliveries", &room.events[0]],
        &["breakers", "show", &room.endpoint],
    ] {
        let args = [list, &watched, &["--output", "json"]].concat();
        let out = room.shown(&args).await;
        let lines: Vec<Value> = out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 3, "{list:?}\n{out}");
        assert!(lines.iter().all(Value::is_object), "{list:?}");
    }
    let data = room.place.data_arg();
    let args = [&["dlq", "list"], &watched[..], &["--data-dir", &data]].concat();
    let screen = in_terminal(posthorn(&args), 12, 40).await;
    assert_eq!(screen.matches("\x1b[H").count(), 3, "{screen:?}");
    assert!(
        screen.contains("\x1b[J") && screen.contains("dl_"),
        "{screen:?}"
    );
    room.end().await;
}

#[tokio::test]
async fn an_endpoint_in_trouble_is_seen_at_a_glance() {
    let room = Room::new("503", 6).await;
    let ill = ["endpoints", "health", "--trouble", "-q"];
    eventually("its breaker is open", || async {
        let ids = room.shown(&ill).await;
        (ids.trim() == room.endpoint).then_some(())
    })
    .await;
    let health = room
        .shown(&["endpoints", "health", "--tenant", "acme"])
        .await;
    assert!(health.contains("failing"), "{health}");
    let glance = room.shown(&["overview"]).await;
    assert!(
        glance.contains("endpoints 1   disabled 0   breakers open 1"),
        "{glance}"
    );
    let of_one = room.place.ok(&["overview", "--tenant", "acme"]).await;
    assert!(of_one["streams"].is_null());
    let none = room
        .shown(&["endpoints", "health", "--tenant", "globex"])
        .await;
    assert_eq!(none, "no such endpoints\n");
    room.end().await;
}

#[tokio::test]
async fn a_watch_outlives_a_restart() {
    let mut room = Room::new("404", 0).await;
    let data = room.place.data_arg();
    let args = [
        "endpoints",
        "health",
        "-w",
        "--every",
        "300ms",
        "--output",
        "json",
    ];
    let command = posthorn(&[&args[..], &["--data-dir", &data]].concat());
    let mut watch = Running::start(command, room.place.folder.path(), "watch");
    let seen = || watch.lines().len();
    eventually("a look", || async { (seen() > 0).then_some(()) }).await;
    room.dev.signal(Signal::SIGKILL);
    room.dev.exit().await;
    let before = seen();
    room.dev = room.place.dev().await;
    eventually("looks after the restart", || async {
        (seen() > before + 1).then_some(())
    })
    .await;
    let said = std::fs::read_to_string(room.place.folder.path().join("watch.err")).unwrap();
    assert!(said.contains("does not answer"), "{said}");
    // What a shell starts in the background may be told to ignore SIGINT.
    watch.signal(Signal::SIGTERM);
    assert_eq!(watch.exit().await, None);
    room.end().await;
}

#[tokio::test]
async fn a_bulk_replay_in_a_terminal_has_a_progress_bar() {
    let room = Room::new("404:3", 3).await;
    room.letters(3).await;
    let data = room.place.data_arg();
    let args = [
        "dlq",
        "replay",
        "--tenant",
        "acme",
        "--rate",
        "2",
        "--data-dir",
        &data,
    ];
    let screen = in_terminal(posthorn(&args), 24, 100).await;
    assert!(screen.contains("Ctrl-C stops the watching"), "{screen:?}");
    assert!(
        screen.contains("/3") && screen.contains("eta"),
        "{screen:?}"
    );
    assert!(
        screen.contains("completed: 3 of 3 sent again"),
        "{screen:?}"
    );
    room.end().await;
}

#[tokio::test]
async fn an_endpoint_is_tested_and_what_it_missed_is_sent() {
    let room = Room::new("404:2", 2).await;
    room.letters(2).await;
    let on = |verb: &'static str| {
        [
            "endpoints",
            verb,
            room.endpoint.as_str(),
            "--tenant",
            "acme",
        ]
    };
    let shown = room.shown(&on("test")).await;
    for word in ["request", "POST ", "webhook-id", "response", "200"] {
        assert!(shown.contains(word), "{word} in\n{shown}");
    }
    let recover = [&on("recover")[..], &["--since", "1h"]].concat();
    let counted = room
        .place
        .ok(&[&recover[..], &["--dry-run"]].concat())
        .await;
    assert_eq!(counted["matched"], 2);
    let done = room.shown(&recover).await;
    assert!(done.contains("completed: 2 of 2"), "{done}");
    eventually("both are delivered", || {
        let lines = room.receiver.lines();
        let came = |id: &String| {
            lines
                .iter()
                .any(|line| line["id"] == **id && line["status"] == 200)
        };
        let both = room.events.iter().all(came);
        async move { both.then_some(()) }
    })
    .await;
    let again = room
        .place
        .ok(&[&recover[..], &["--dry-run"]].concat())
        .await;
    assert_eq!(again["matched"], 0);
    let all = [&recover[..], &["--dry-run", "--include-delivered"]].concat();
    assert_eq!(room.place.ok(&all).await["matched"], 2);
    room.end().await;
}

#[tokio::test]
async fn a_test_that_the_endpoint_does_not_take_has_failed() {
    let room = Room::new("503", 0).await;
    // Its id is enough: whose it is can be looked up.
    let shown = room.place.ok(&["endpoints", "show", &room.endpoint]).await;
    assert_eq!(shown["tenant"], "acme");
    let nobody = "ep_00000000000000000000000000000000";
    assert_eq!(room.typed(&["endpoints", "show", nobody]).await.0, 1);
    let args = ["endpoints", "test", &room.endpoint];
    let (code, out, err) = room.typed(&args).await;
    assert_eq!(code, 1, "{out}{err}");
    assert!(
        out.contains("503") && err.contains("the endpoint answered 503"),
        "{err}"
    );
    room.end().await;
}

#[tokio::test]
async fn an_error_says_what_to_do() {
    let room = Room::new("404", 0).await;
    let nobody = "ep_00000000000000000000000000000000";
    for (args, code, word) in [
        (
            &["dlq", "list", "--api-key", "wrong"][..],
            1,
            "POSTHORN_API_KEY",
        ),
        (&["dlq", "list", "--reason", "odd"], 1, "exhausted"),
        (&["breakers", "show", nobody], 1, "sees that tenant's only"),
        (&["dlq", "replay"], 64, "--tenant"),
        (&["dlq", "purge", "--yes"], 64, "--tenant"),
        (
            &["dlq", "list", "--admin-url", "http://127.0.0.1:1"],
            69,
            "127.0.0.1:1",
        ),
    ] {
        let (found, _, err) = room.typed(args).await;
        assert_eq!(found, code, "{args:?}: {err}");
        assert!(err.contains(word), "{args:?}: {err}");
    }
    let scoped = ["keys", "add", "p", "--tenant", "acme", "--scope", "publish"];
    let made = room.place.ok(&scoped).await;
    let key = made["key"].as_str().unwrap();
    let (code, _, err) = room.typed(&["dlq", "list", "--api-key", key]).await;
    assert!(code == 1 && err.contains("posthorn keys add"), "{err}");
    room.end().await;
}

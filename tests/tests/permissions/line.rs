//! One event after another through the whole line, over HTTP and over NATS, each service with a
//! user of its own: failure, retry, lane, breaker, dead letter, replay, and everything that an
//! operator and a customer may ask for. The server must have refused nothing.

use crate::raw::Raw;
use crate::site::{SOON, Site};
use async_nats::{HeaderMap, jetstream};
use posthorn_tests::api::{Answer, send};
use posthorn_tests::wait::{eventually, eventually_some};
use posthorn_tests::{Receiver, Reply};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

struct Line {
    site: Site,
    receiver: Receiver,
}

impl Line {
    async fn start() -> Line {
        Line {
            site: Site::start().await,
            receiver: Receiver::start().await.unwrap(),
        }
    }

    /// An endpoint at `path` that takes events of type `a.<path>`. Returns its id.
    async fn endpoint(&self, tenant: &str, path: &str, more: Value) -> String {
        let mut document = json!({
            "url": self.receiver.url(&format!("/{path}")),
            "event_types": [format!("a.{path}")],
            "retry": {"base": "50ms", "max_delay": "200ms", "max_attempts": 3},
            "breaker": null,
        });
        for (name, value) in more.as_object().unwrap() {
            document[name] = value.clone();
        }
        let made = self.site.api.create_endpoint(tenant, &document).await;
        made.unwrap()["id"].as_str().unwrap().to_owned()
    }

    async fn publish(&self, path: &str) -> String {
        let event_type = format!("a.{path}");
        let sent = self.site.api.publish("acme", &event_type, "{}").await;
        sent.unwrap().id
    }

    async fn got(&self, path: &str, count: usize) {
        let path = format!("/{path}");
        let got = self.receiver.wait_for_path(&path, count, SOON).await;
        got.unwrap_or_else(|error| panic!("{path}: {error}\n{:#?}", self.refusals()));
    }

    fn refusals(&self) -> Vec<String> {
        self.site.sample.violations()
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.site.api.post(path, &body).await.unwrap();
        self.succeeded(path, answer)
    }

    async fn admin_post(&self, path: &str, body: Value) -> Value {
        let answer = self.site.api.admin_post(path, &body).await.unwrap();
        self.succeeded(path, answer)
    }

    fn succeeded(&self, path: &str, answer: Answer) -> Value {
        let refusals = || self.refusals();
        let failed = |error| panic!("{path}: {error}\n{:#?}", refusals());
        answer.success().unwrap_or_else(failed)
    }

    async fn admin_list(&self, path: &str) -> Vec<Value> {
        self.site.api.admin_list(path).await.unwrap()
    }

    /// Waits until a list of dlq-admin has so many items, and returns them.
    async fn listed(&self, path: &str, count: usize) -> Vec<Value> {
        let found = eventually_some(SOON, path, || async {
            let items = self.site.api.admin_list(path).await.ok()?;
            (items.len() == count).then_some(items)
        });
        match found.await {
            Ok(items) => items,
            Err(error) => panic!("{error}\n{:#?}", self.refusals()),
        }
    }

    /// Failure and retry, over HTTP; then over NATS, of two publishers.
    async fn delivers(&self) {
        self.receiver.script("/plain", [Reply::status(503)]);
        let id = self.endpoint("acme", "plain", json!({})).await;
        self.endpoint("globex", "theirs", json!({})).await;
        let api = &self.site.api;
        for duplicate in [false, true] {
            let sent = api.publish_with_key("acme", "a.plain", "once", "{}").await;
            assert_eq!(sent.unwrap().duplicate, duplicate);
        }
        self.got("plain", 2).await;
        for (user, subject) in [
            ("ACME", "posthorn.events.acme.a.plain"),
            ("APPLICATION", "posthorn.events.globex.a.theirs"),
        ] {
            let client = jetstream::new(self.site.sample.client(user, "_INBOX").await);
            let sent = client.publish(subject, "{}".into()).await;
            sent.unwrap().await.unwrap();
        }
        self.got("plain", 3).await;
        self.got("theirs", 1).await;
        let path = format!("/v1/tenants/acme/endpoints/{id}/attempts");
        eventually(SOON, "the attempts are shown", || async {
            let answer = api.get(&path).await.unwrap().success().unwrap();
            answer["items"].as_array().unwrap().len() == 3
        })
        .await
        .unwrap();
        self.listed(&format!("/v1/attempts?endpoint={id}"), 3).await;
    }

    /// Everything that a customer may do with an endpoint.
    async fn keeps_endpoints(&self) {
        let id = self.endpoint("acme", "kept", json!({})).await;
        let path = format!("/v1/tenants/acme/endpoints/{id}");
        let api = &self.site.api;
        let patch = json!({"description": "changed"});
        api.patch(&path, &patch).await.unwrap().success().unwrap();
        api.get(&path).await.unwrap().success().unwrap();
        api.get("/v1/tenants/acme/endpoints")
            .await
            .unwrap()
            .success()
            .unwrap();
        self.post(&format!("{path}/test"), json!({})).await;
        self.got("kept", 1).await;
        let overlap = json!({"overlap": "1h"});
        self.post(&format!("{path}/secret/rotate"), overlap).await;
        api.get(&format!("{path}/secret"))
            .await
            .unwrap()
            .success()
            .unwrap();
        api.delete(&path).await.unwrap().success().unwrap();
        let batch =
            json!([{"type": "a.nobody", "payload": {}}, {"type": "a.plain", "payload": {}}]);
        assert_eq!(
            api.post("/v1/tenants/acme/events", &batch)
                .await
                .unwrap()
                .status,
            202
        );
        self.got("plain", 4).await;
    }

    /// Lanes: a pause, an order, a rate.
    async fn holds(&self) {
        let id = self.endpoint("acme", "paused", json!({})).await;
        let path = format!("/v1/tenants/acme/endpoints/{id}");
        self.post(&format!("{path}/pause"), json!({})).await;
        self.publish("paused").await;
        self.listed("/v1/lanes", 1).await;
        self.post(&format!("{path}/resume"), json!({})).await;
        self.got("paused", 1).await;
        self.endpoint("acme", "fifo", json!({"ordering": "fifo"}))
            .await;
        self.receiver.script("/fifo", [Reply::status(503)]);
        let rate = json!({"rate_limit": {"per_second": 50}});
        self.endpoint("acme", "rated", rate).await;
        for _ in 0..3 {
            self.publish("fifo").await;
            self.publish("rated").await;
        }
        self.got("fifo", 4).await;
        self.got("rated", 3).await;
        // Lanes that are kept have their deliveries removed one by one, those that are not close.
        self.listed("/v1/lanes?tenant=acme", 2).await;
    }

    /// A breaker that opens by itself and by hand, and an endpoint that is gone.
    async fn cuts_off(&self) {
        let breaker =
            json!({"breaker": {"failure_threshold": 1, "cooldown": "1s", "max_cooldown": "1s"}});
        let id = self.endpoint("acme", "breaks", breaker).await;
        self.receiver.script("/breaks", [Reply::status(500)]);
        self.publish("breaks").await;
        self.got("breaks", 2).await;
        let path = format!("/v1/breakers/{id}");
        for (verb, state) in [("open", "open"), ("close", "closed")] {
            self.admin_post(&format!("{path}/{verb}"), json!({})).await;
            let shown = self.site.api.admin_get(&path).await.unwrap();
            assert_eq!(shown.success().unwrap()["state"], state);
        }
        self.admin_list("/v1/breakers").await;
        let gone = self.endpoint("acme", "gone", json!({})).await;
        self.receiver.answer("/gone", Reply::status(410));
        self.publish("gone").await;
        let path = format!("/v1/tenants/acme/endpoints/{gone}");
        eventually(SOON, "the endpoint is disabled", || async {
            let shown = self.site.api.get(&path).await.unwrap();
            shown.success().unwrap()["disabled_reason"] == "gone"
        })
        .await
        .unwrap();
        self.recovers(&path).await;
        let answer = self.site.api.delete(&path).await.unwrap();
        answer.success().unwrap();
        self.admin_post(
            "/v1/dead-letters/purge",
            json!({
                "filter": {"endpoint": gone}, "dry_run": false,
            }),
        )
        .await;
    }

    /// An endpoint that was gone, by the letter of what it refused and from the archive.
    async fn recovers(&self, endpoint: &str) {
        self.publish("gone").await;
        self.listed("/v1/attempts?limit=500&status=410", 1).await;
        self.receiver.answer("/gone", Reply::ok());
        self.post(&format!("{endpoint}/resume"), json!({})).await;
        let path = format!("{endpoint}/recover");
        let counted = json!({"since": "2020-01-01T00:00:00Z", "dry_run": true});
        eventually(SOON, "both are owed", || async {
            let counted = self.site.api.post(&path, &counted).await.unwrap();
            counted.success().unwrap()["matched"] == 2
        })
        .await
        .unwrap();
        let all = json!({"since": "2020-01-01T00:00:00Z"});
        self.post(&path, all).await;
        self.got("gone", 3).await;
    }

    /// Dead letters: shown, sent again by one and by many, deleted, purged.
    async fn gives_up(&self) {
        let id = self.endpoint("acme", "dies", json!({})).await;
        self.receiver.answer("/dies", Reply::status(400));
        let list = format!("/v1/dead-letters?endpoint={id}");
        for _ in 0..5 {
            self.publish("dies").await;
        }
        let letters = self.listed(&list, 5).await;
        self.receiver.answer("/dies", Reply::ok());
        let one = format!("/v1/dead-letters/{}", letters[0]["id"].as_str().unwrap());
        self.site
            .api
            .admin_get(&one)
            .await
            .unwrap()
            .success()
            .unwrap();
        self.admin_post(&format!("{one}/replay"), json!({})).await;
        self.listed(&list, 4).await;
        let other = format!("/v1/dead-letters/{}", letters[1]["id"].as_str().unwrap());
        self.site
            .api
            .admin_delete(&other)
            .await
            .unwrap()
            .success()
            .unwrap();
        let job = json!({"filter": {"endpoint": id}, "rate_per_second": 50});
        let job = self.admin_post("/v1/replays", job).await;
        let job = format!("/v1/replays/{}", job["id"].as_str().unwrap());
        eventually(SOON, "the job is done", || async {
            let shown = self.site.api.admin_get(&job).await.unwrap();
            shown.success().unwrap()["state"] == "completed"
        })
        .await
        .unwrap();
        self.got("dies", 9).await;
        self.listed(&list, 0).await;
        let event = self.publish("dies").await;
        self.listed(&format!("/v1/deliveries?event={event}"), 1)
            .await;
    }

    /// A key of one tenant: made, used, on record, taken back.
    async fn keeps_keys(&self) {
        let asked = json!({"name": "acme", "tenant": "acme", "scopes": ["publish"]});
        let made = self.admin_post("/v1/api-keys", asked).await;
        let theirs = self.site.api.with_key(made["key"].as_str().unwrap());
        eventually(SOON, "the key is known", || async {
            theirs.publish("acme", "a.nobody", "{}").await.is_ok()
        })
        .await
        .unwrap();
        self.listed("/v1/api-keys", 1).await;
        let path = format!("/v1/api-keys/{}", made["id"].as_str().unwrap());
        let revoked = self.site.api.admin_delete(&path).await.unwrap();
        revoked.success().unwrap();
        eventually(SOON, "the key is not known", || async {
            theirs.publish("acme", "a.nobody", "{}").await.is_err()
        })
        .await
        .unwrap();
        let acts = self.admin_list("/v1/audit?limit=500").await;
        assert!(acts.len() > 10, "{acts:?}");
    }

    /// What is due only in minutes, and what cannot be read at all.
    async fn puts_aside(&self) {
        let soon = OffsetDateTime::now_utc() + std::time::Duration::from_secs(310);
        let mut headers = HeaderMap::new();
        headers.insert("Deliver-At", soon.format(&Rfc3339).unwrap());
        let client = jetstream::new(self.site.sample.client("ACME", "_INBOX").await);
        let sent = client
            .publish_with_headers("posthorn.events.acme.a.plain", headers, "{}".into())
            .await;
        sent.unwrap().await.unwrap();
        let client = self
            .site
            .sample
            .client("SCHEDULER", "_INBOX_posthorn-scheduler")
            .await;
        let retries = jetstream::new(client);
        let retries = retries.get_stream("POSTHORN_RETRIES").await.unwrap();
        let mover = format!("retry-far-{}", soon.unix_timestamp() / 3_600);
        eventually(SOON, "the calendar's hour has its durable", || async {
            retries.consumer_info(&mover).await.is_ok()
        })
        .await
        .unwrap();
        let sample = &self.site.sample;
        let mut raw = Raw::connect(sample.port(), sample.key("ACME")).await;
        let head = b"NATS/1.0\r\nX: \xff\r\n\r\n";
        let inbox = "_INBOX.unreadable";
        raw.request("posthorn.events.acme.a.plain", inbox, head)
            .await;
        self.listed("/v1/dead-letters?reason=invalid_event", 1)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_line_works_with_a_user_for_each_service() {
    let mut line = Line::start().await;
    line.delivers().await;
    line.keeps_endpoints().await;
    line.holds().await;
    line.cuts_off().await;
    line.gives_up().await;
    line.keeps_keys().await;
    line.puts_aside().await;
    // Somebody without a key is told so, which needs no look at NATS.
    let anonymous = line.site.api.with_key("wrong");
    let refused = send(anonymous.publishing("acme", "a.plain", "{}")).await;
    assert_eq!(refused.unwrap().status, 401);
    line.site.stop().await;
    assert_eq!(line.refusals(), Vec::<String>::new());
}

//! Every call of both interfaces by those whom it is not for: nobody, another tenant, a key without
//! the scope. The calls are the ones that the two documents name, so that a call that is added to
//! them is tried as well, or fails here for want of an example.

use crate::support::{SOON, Town, shared, text};
use posthorn_tests::Role;
use posthorn_tests::api::{Answer, Api, send};
use posthorn_tests::wait::eventually;
use reqwest::Method;
use serde_json::{Value, json};

/// Calls that a document describes.
struct Call {
    role: Role,
    method: Method,
    /// As the document has it.
    template: String,
    /// With the ids of the tenant whose things they are.
    path: String,
    body: Option<Value>,
    /// The names of its query parameters, but for those that it needs: they are in the path.
    query: Vec<String>,
    /// Whether anybody may make it.
    public: bool,
}

impl Call {
    fn name(&self) -> String {
        format!("{} {}", self.method, self.template)
    }

    /// Whether it is about the caller: signing in and out, and who one is.
    fn is_about_caller(&self) -> bool {
        self.template == "/session"
    }

    /// Whether the admin key alone may make it.
    fn is_admins(&self) -> bool {
        self.template.starts_with("/v1/api-keys") || self.template == "/v1/secrets/reseal"
    }

    /// Whether its path says whose things it is about.
    fn is_about_something(&self) -> bool {
        self.template.contains('{')
    }

    async fn made(&self, api: &Api, path: &str) -> Answer {
        let request = match self.role {
            Role::Ingest => api.ingest(self.method.clone(), path),
            _ => api.admin(self.method.clone(), path),
        };
        let request = match &self.body {
            Some(body) => request
                .header("content-type", "application/json")
                .body(body.to_string()),
            None => request,
        };
        send(request).await.unwrap()
    }
}

/// What the tenant `acme` has.
struct Things {
    endpoint: String,
    event: String,
    letter: String,
    job: String,
    key: String,
}

impl Things {
    async fn of(town: &Town) -> Things {
        let fails = json!({"retry": {"max_attempts": 1}});
        town.receiver
            .answer("/hook", posthorn_tests::Reply::status(500));
        let endpoint = town.endpoint("acme", "/hook", fails).await;
        let event = town.publish("acme", "{\"theirs\":true}").await;
        let letter = text(&town.letters("", 1).await[0]["id"]);
        let job = json!({"filter": {"tenant": "acme", "type": "none.such"}});
        let made = town.api.admin_post("/v1/replays", &job).await.unwrap();
        let job = text(&made.success().unwrap()["id"]);
        let path = format!("/v1/replays/{job}");
        eventually(SOON, "the job is done", || async {
            let shown = town.api.admin_get(&path).await.unwrap().json();
            shown["state"] == "completed" || shown["state"] == "done"
        })
        .await
        .unwrap();
        let key = json!({"name": "theirs", "tenant": "acme", "scopes": ["publish"]});
        let made = town.api.admin_post("/v1/api-keys", &key).await.unwrap();
        let key = text(&made.success().unwrap()["id"]);
        Things {
            endpoint,
            event,
            letter,
            job,
            key,
        }
    }

    /// A path of a document with these things in it.
    fn in_path(&self, template: &str) -> String {
        let id = [
            ("/v1/tenants/{tenant}/endpoints", &self.endpoint),
            ("/v1/dead-letters", &self.letter),
            ("/v1/replays", &self.job),
            ("/v1/api-keys", &self.key),
        ];
        let id = id.iter().find(|(start, _)| template.starts_with(start));
        let mut path = template
            .replace("{tenant}", "acme")
            .replace("{type}", "a.b")
            .replace("{action}", "pause")
            .replace("{endpoint}", &self.endpoint);
        if let Some((_, id)) = id {
            path = path.replace("{id}", id);
        }
        assert!(!path.contains('{'), "no example of {template}");
        path
    }

    /// A body that would do something.
    fn body(&self, template: &str) -> Value {
        match template.rsplit('/').next().unwrap() {
            "{type}" => json!({"stolen": true}),
            "events" => json!([{"type": "a.b", "payload": {"stolen": true}}]),
            "endpoints" => json!({"url": "https://example.com/stolen"}),
            "rotate" => json!({"overlap": "1h"}),
            "replays" | "purge" => {
                json!({"filter": {"endpoint": self.endpoint}, "dry_run": false})
            }
            "api-keys" => json!({"name": "stolen", "scopes": ["publish"]}),
            "recover" => json!({"since": "2020-01-01T00:00:00Z"}),
            "{id}" => json!({"description": "stolen"}),
            _ => json!({}),
        }
    }

    /// The value of a query parameter that asks for these things.
    fn in_query(&self, name: &str) -> Option<&str> {
        match name {
            "tenant" => Some("acme"),
            "endpoint" => Some(&self.endpoint),
            "event" => Some(&self.event),
            _ => None,
        }
    }

    /// Whether any of them is in an answer to who has not named it.
    fn are_in(&self, body: &str, asked: &str) -> bool {
        let ids = [
            &self.endpoint,
            &self.event,
            &self.letter,
            &self.job,
            &self.key,
        ];
        let told = |id: &&String| body.contains(id.as_str()) && !asked.contains(id.as_str());
        ids.iter().any(told)
    }

    /// Everything of the tenant that a call could change.
    async fn state(&self, town: &Town) -> Value {
        let mut all = Vec::new();
        for path in [
            "/v1/audit?tenant=acme&limit=500".to_owned(),
            "/v1/dead-letters?limit=500".to_owned(),
            format!("/v1/dead-letters/{}", self.letter),
            format!("/v1/replays/{}", self.job),
            "/v1/api-keys".to_owned(),
            format!("/v1/breakers/{}", self.endpoint),
        ] {
            let answer = town.api.admin_get(&path).await.unwrap();
            all.push(answer.success().unwrap());
        }
        let endpoints = town.api.get("/v1/tenants/acme/endpoints").await.unwrap();
        all.push(endpoints.success().unwrap());
        all.push(json!(town.receiver.count()));
        Value::Array(all)
    }
}

/// Whether an operation asks for no key: what it says of that, or else what its document does.
fn is_public(document: &Value, operation: &Value) -> bool {
    let said = operation.get("security").or(document.get("security"));
    let ways = said.and_then(Value::as_array);
    ways.is_none_or(|ways| ways.is_empty() || ways.contains(&json!({})))
}

/// The path with what its query needs, and the names of what it may have.
fn asked(things: &Things, template: &str, operation: &Value) -> (String, Vec<String>) {
    let mut path = things.in_path(template);
    let mut may = Vec::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = text(&parameter["name"]);
        match (parameter["in"] == "query", parameter["required"] == true) {
            (true, true) => {
                let value = things.in_query(&name);
                let value = value.unwrap_or_else(|| panic!("no example of {name}"));
                path = with_query(&path, &name, value);
            }
            (true, false) => may.push(name),
            (false, _) => {}
        }
    }
    (path, may)
}

fn with_query(path: &str, name: &str, value: &str) -> String {
    let joint = if path.contains('?') { '&' } else { '?' };
    format!("{path}{joint}{name}={value}")
}

async fn calls(town: &Town, things: &Things) -> Vec<Call> {
    let mut all = Vec::new();
    for role in [Role::Ingest, Role::DlqAdmin] {
        let path = "/v1/openapi.json";
        let document = match role {
            Role::Ingest => town.api.get(path).await,
            _ => town.api.admin_get(path).await,
        };
        let document = document.unwrap().success().unwrap();
        for (template, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let method: Method = method.to_uppercase().parse().unwrap();
                let takes_body = operation["requestBody"].is_object();
                let (path, query) = asked(things, template, operation);
                all.push(Call {
                    role,
                    method,
                    path,
                    body: takes_body.then(|| things.body(template)),
                    query,
                    public: is_public(&document, operation),
                    template: template.clone(),
                });
            }
        }
    }
    all
}

/// An interface as the holder of a new key sees it.
async fn holder(town: &Town, tenant: &str, scopes: &[&str]) -> Api {
    let key = json!({"name": "other", "tenant": tenant, "scopes": scopes});
    let made = town.api.admin_post("/v1/api-keys", &key).await.unwrap();
    let api = town.api.with_key(&text(&made.success().unwrap()["key"]));
    let path = format!("/v1/tenants/{tenant}/endpoints");
    eventually(SOON, "the key is known", || async {
        api.get(&path).await.unwrap().status != 401
    })
    .await
    .unwrap();
    api
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_05_no_call_of_either_document_reaches_what_is_another_tenants() {
    let _machine = shared().await;
    let town = Town::start().await;
    let things = Things::of(&town).await;
    let all = calls(&town, &things).await;
    let other = holder(&town, "globex", &["publish", "endpoints", "operate"]).await;
    let before = things.state(&town).await;
    let mut wrong = Vec::new();
    let mut tried = 0;
    let asked = all.iter().filter(|call| !call.public);
    for call in asked.filter(|call| !call.is_about_caller()) {
        let mut paths = vec![call.path.clone()];
        let asking = call.query.iter();
        let asking = asking.filter_map(|name| Some((name, things.in_query(name)?)));
        paths.extend(asking.map(|(name, value)| with_query(&call.path, name, value)));
        for path in paths {
            let answer = call.made(&other, &path).await;
            let said = String::from_utf8_lossy(&answer.body).into_owned();
            let named = format!("{path} {:?}", call.body);
            let right = match answer.status {
                404 => true,
                // What is for those who see all tenants names no one's things.
                403 => call.is_admins() || !call.is_about_something(),
                200 | 202 => !call.is_about_something() && !things.are_in(&said, &named),
                _ => false,
            };
            tried += 1;
            if !right {
                wrong.push(format!("{} {path}: {} {said}", call.name(), answer.status));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(tried >= 60, "{tried} calls");
    assert_eq!(things.state(&town).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_of_either_document_is_for_nobody_or_for_a_wrong_key() {
    let _machine = shared().await;
    let town = Town::start().await;
    let things = Things::of(&town).await;
    let before = things.state(&town).await;
    let wrong_secret = format!("phk_{}_{}", things.key, "0".repeat(64));
    let almost = posthorn_tests::cluster::ADMIN_KEY.to_uppercase();
    for key in ["", "wrong", &wrong_secret, &almost] {
        let api = town.api.with_key(key);
        for call in calls(&town, &things).await {
            let answer = call.made(&api, &call.path).await;
            let right = match answer.status {
                200 => call.public,
                401 => !call.public || call.is_about_caller(),
                403 => call.is_about_caller(),
                _ => false,
            };
            assert!(right, "{} {key:?}: {}", call.name(), answer.status);
            let said = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(!things.are_in(&said, ""), "{}: {said}", call.name());
        }
    }
    assert_eq!(things.state(&town).await, before);
}

/// What a key of one scope may call at all; everything else is 403. What the operator's page hands
/// on is ingest's.
fn is_in_scope(call: &Call, scope: &str) -> bool {
    let publishes = call.template.contains("/events");
    let ingests = call.role == Role::Ingest || call.template.starts_with("/ingest");
    match scope {
        _ if call.is_admins() => false,
        "publish" => publishes,
        // How they are is for those who keep them as well.
        "endpoints" if call.template.starts_with("/v1/endpoints") => true,
        "endpoints" => ingests && !publishes,
        "operate" => !ingests,
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_of_either_document_needs_its_scope() {
    let _machine = shared().await;
    let town = Town::start().await;
    let things = Things::of(&town).await;
    let all = calls(&town, &things).await;
    let mut holders = Vec::new();
    for scope in ["publish", "endpoints", "operate"] {
        holders.push((scope, holder(&town, "acme", &[scope]).await));
    }
    let before = things.state(&town).await;
    let mut wrong = Vec::new();
    for (scope, api) in &holders {
        for call in all.iter().filter(|call| !call.public) {
            if is_in_scope(call, scope) || call.is_about_caller() {
                continue;
            }
            let status = call.made(api, &call.path).await.status;
            if status != 403 {
                wrong.push(format!("{scope}: {}: {status}", call.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(things.state(&town).await, before);
}

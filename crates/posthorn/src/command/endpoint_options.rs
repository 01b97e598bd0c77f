//! An endpoint as it is described by flags: `add` makes one of them, `update` changes one.
//!
//! The service knows the rules; here a flag is only put where it belongs in the JSON.

use crate::failure::{Failure, chain};
use crate::input;
use clap::Args;
use serde_json::{Map, Number, Value, json};

/// The fields of an endpoint, each optional.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Endpoint")]
pub(crate) struct EndpointOptions {
    /// The whole description in JSON, as text, @file or -; flags come on top of it.
    #[arg(long, value_name = "JSON|@FILE|-")]
    json: Option<String>,

    /// An event type it subscribes to, with NATS wildcards; may be repeated. Without any: all.
    #[arg(long = "type", value_name = "PATTERN")]
    types: Vec<String>,

    /// What it is for.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// A header of every request; may be repeated.
    #[arg(long, value_name = "NAME: VALUE", value_parser = input::header)]
    header: Vec<(String, String)>,

    /// How requests are signed: v1, v1a, hub, svix; may be repeated.
    #[arg(long, value_name = "SCHEME")]
    signature: Vec<String>,

    /// Its secret, instead of one that is made: whsec_…
    #[arg(long, value_name = "SECRET")]
    secret: Option<posthorn_runtime::SecretString>,

    /// The retry schedule: exponential, stripe, sooner, standard or github.
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,

    /// The first delay, such as 2s.
    #[arg(long, value_name = "DURATION")]
    base: Option<String>,

    /// By what each delay grows.
    #[arg(long, value_name = "NUMBER")]
    factor: Option<f64>,

    /// The longest delay, such as 1h.
    #[arg(long, value_name = "DURATION")]
    max_delay: Option<String>,

    /// How delays are spread: full, equal, none.
    #[arg(long, value_name = "KIND")]
    jitter: Option<String>,

    /// How many attempts there are.
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,

    /// How long a delivery is tried, such as 3d.
    #[arg(long, value_name = "DURATION")]
    max_age: Option<String>,

    /// How long one request may take, such as 15s.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,

    /// How many requests may be under way at once.
    #[arg(long, value_name = "N")]
    max_in_flight: Option<u32>,

    /// How many requests a second there may be, from 0.01 to 10000, or none.
    #[arg(long, value_name = "PER_SECOND|none", value_parser = rate_limit)]
    rate_limit: Option<Value>,

    /// In which order deliveries come: none, or fifo, the order of the events.
    #[arg(long, value_name = "ORDER")]
    ordering: Option<String>,

    /// How many deliveries may wait for it.
    #[arg(long, value_name = "N")]
    max_backlog: Option<u64>,

    /// Begin paused.
    #[arg(long)]
    paused: bool,
}

impl EndpointOptions {
    /// The description in JSON, of what is said and nothing else.
    ///
    /// # Errors
    /// [`Failure::Usage`] when `--json` is no JSON object.
    pub fn to_json(&self, url: Option<&str>) -> Result<Value, Failure> {
        let mut endpoint = self.given()?;
        set(&mut endpoint, "url", url);
        set(&mut endpoint, "description", self.description.as_deref());
        set(&mut endpoint, "timeout", self.timeout.as_deref());
        set(&mut endpoint, "max_in_flight", self.max_in_flight);
        set(&mut endpoint, "rate_limit", self.rate_limit.as_ref());
        set(&mut endpoint, "ordering", self.ordering.as_deref());
        set(&mut endpoint, "max_backlog", self.max_backlog);
        let secret = self.secret.as_ref().map(|secret| secret.expose());
        set(&mut endpoint, "secret", secret);
        set(&mut endpoint, "enabled", self.paused.then_some(false));
        set(&mut endpoint, "event_types", some(&self.types));
        set(&mut endpoint, "signatures", some(&self.signature));
        merge(&mut endpoint, "headers", self.headers());
        merge(&mut endpoint, "retry", self.retry());
        Ok(Value::Object(endpoint))
    }

    fn given(&self) -> Result<Map<String, Value>, Failure> {
        let Some(json) = &self.json else {
            return Ok(Map::new());
        };
        let bytes = input::read(json)?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Failure::usage(format!("--json is no JSON object: {}", chain(&error))))
    }

    fn headers(&self) -> Map<String, Value> {
        let headers = self.header.iter();
        headers
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect()
    }

    fn retry(&self) -> Map<String, Value> {
        let mut retry = Map::new();
        set(&mut retry, "preset", self.preset.as_deref());
        set(&mut retry, "base", self.base.as_deref());
        set(&mut retry, "factor", self.factor);
        set(&mut retry, "max_delay", self.max_delay.as_deref());
        set(&mut retry, "jitter", self.jitter.as_deref());
        set(&mut retry, "max_attempts", self.max_attempts);
        set(&mut retry, "max_age", self.max_age.as_deref());
        retry
    }
}

/// A rate limit as the service takes it; `none` is the word for being without.
fn rate_limit(text: &str) -> Result<Value, String> {
    if text == "none" {
        return Ok(Value::Null);
    }
    let per_second: Number = text
        .parse()
        .map_err(|_| "must be a number of requests a second, or none".to_owned())?;
    Ok(json!({ "per_second": per_second }))
}

fn some(list: &[String]) -> Option<&[String]> {
    (!list.is_empty()).then_some(list)
}

fn set(object: &mut Map<String, Value>, key: &str, value: Option<impl serde::Serialize>) {
    if let Some(value) = value {
        object.insert(key.to_owned(), json!(value));
    }
}

/// Puts `more` into the object at `key`, which what is there keeps beside it.
fn merge(object: &mut Map<String, Value>, key: &str, more: Map<String, Value>) {
    if more.is_empty() {
        return;
    }
    match object.get_mut(key) {
        Some(Value::Object(there)) => there.extend(more),
        _ => {
            object.insert(key.to_owned(), Value::Object(more));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        options: EndpointOptions,
    }

    fn json_of(args: &[&str]) -> Result<Value, Failure> {
        let args = [&["x"], args].concat();
        let only = Only::try_parse_from(args).unwrap();
        only.options.to_json(Some("http://127.0.0.1:9000/"))
    }

    #[test]
    fn what_is_not_said_is_not_sent() {
        assert_eq!(json_of(&[]), Ok(json!({"url": "http://127.0.0.1:9000/"})));
    }

    #[test]
    fn every_flag_is_in_its_place() {
        let args = [
            "--type",
            "invoice.*",
            "--type",
            "order.>",
            "--description",
            "d",
            "--header",
            "X-A: b",
            "--signature",
            "v1a",
            "--secret",
            "whsec_x",
            "--preset",
            "stripe",
            "--base",
            "3s",
            "--factor",
            "1.5",
            "--max-delay",
            "1m",
            "--jitter",
            "none",
            "--max-attempts",
            "4",
            "--max-age",
            "2d",
            "--timeout",
            "5s",
            "--max-in-flight",
            "7",
            "--rate-limit",
            "12.5",
            "--ordering",
            "fifo",
            "--max-backlog",
            "500",
            "--paused",
        ];
        let wanted = json!({
            "url": "http://127.0.0.1:9000/", "event_types": ["invoice.*", "order.>"],
            "description": "d", "headers": {"X-A": "b"}, "signatures": ["v1a"],
            "secret": "whsec_x", "timeout": "5s", "max_in_flight": 7, "enabled": false,
            "rate_limit": {"per_second": 12.5}, "ordering": "fifo", "max_backlog": 500,
            "retry": {"preset": "stripe", "base": "3s", "factor": 1.5, "max_delay": "1m",
                      "jitter": "none", "max_attempts": 4, "max_age": "2d"},
        });
        assert_eq!(json_of(&args), Ok(wanted));
    }

    #[test]
    fn a_rate_limit_is_a_number_as_it_was_typed_or_none() {
        let made = json_of(&["--rate-limit", "50"]).unwrap();
        assert_eq!(made["rate_limit"].to_string(), r#"{"per_second":50}"#);
        let json = r#"{"rate_limit":{"per_second":50}}"#;
        let made = json_of(&["--json", json, "--rate-limit", "none"]).unwrap();
        assert!(made["rate_limit"].is_null() && made.get("rate_limit").is_some());
        for bad in ["fifty", "", "50/s", "None"] {
            assert!(
                Only::try_parse_from(["x", "--rate-limit", bad]).is_err(),
                "{bad}"
            );
        }
    }

    #[test]
    fn flags_come_on_top_of_the_json() {
        let json = r#"{"timeout":"9s","retry":{"base":"1s","max_attempts":2},"breaker":null}"#;
        let made = json_of(&["--json", json, "--base", "4s"]).unwrap();
        assert_eq!(made["retry"], json!({"base": "4s", "max_attempts": 2}));
        assert_eq!(made["timeout"], "9s");
        assert!(made["breaker"].is_null() && made.get("breaker").is_some());
    }

    #[test]
    fn json_that_is_no_object_is_wrong_usage() {
        for bad in ["[]", "{", "3"] {
            assert!(matches!(json_of(&["--json", bad]), Err(Failure::Usage(_))));
        }
    }
}

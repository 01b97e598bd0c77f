//! What a caller writes about an endpoint, checked in every field.

use super::custom_headers;
use super::fields::{Errors, Fields, Object};
use super::flow::{self, Flow};
use super::mask;
use super::retry;
use posthorn_delivery::endpoint::Hidden;
use posthorn_delivery::endpoint::limits::{MAX_DESCRIPTION, MAX_PATTERNS, TIMEOUT};
use posthorn_delivery::{BreakerPolicy, Endpoint, Pattern, RetryPolicy};
use posthorn_egress::{EgressPolicy, TargetUrl};
use posthorn_http_api::Problem;
use posthorn_signing::{Scheme, Secret};
use serde_json::Value;
use std::time::Duration;

/// The bound of an attempt where nothing is said.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);

/// What a caller may write.
pub(crate) const WRITABLE: [&str; 14] = [
    "url",
    "event_types",
    "description",
    "headers",
    "signatures",
    "secret",
    "enabled",
    "ordering",
    "retry",
    "timeout",
    "rate_limit",
    "max_in_flight",
    "max_backlog",
    "breaker",
];
/// Bounds of a breaker's durations.
const COOLDOWN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(86_400));

/// An endpoint as it was written: every field has passed its rule.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub url: Hidden,
    pub event_types: Vec<Pattern>,
    pub description: String,
    pub headers: Vec<(String, Hidden)>,
    pub signatures: Vec<Scheme>,
    /// `None` where none was written: it is then made, or stays what it is.
    pub secret: Option<Secret>,
    pub enabled: bool,
    pub retry: RetryPolicy,
    pub timeout: Duration,
    pub flow: Flow,
    pub breaker: Option<BreakerPolicy>,
}

/// Reads a whole document; what is not said is at its default. A mask stands for what is stored
/// in `stored`, an endpoint in plain, which there is not when one is created.
///
/// # Errors
/// 422 with every field that breaks its rule.
pub(crate) fn read(
    mut document: Object,
    stored: Option<&Endpoint>,
    egress: &EgressPolicy,
) -> Result<Draft, Problem> {
    let mut errors = Errors::default();
    mask::restore(&mut document, stored, &mut errors);
    let draft = read_fields(&document, egress, &mut errors);
    match draft {
        Some(draft) if errors.is_empty() => Ok(draft),
        _ => Err(errors.into_problem()),
    }
}

fn read_fields(document: &Object, egress: &EgressPolicy, errors: &mut Errors) -> Option<Draft> {
    let fields = Fields::new("", document, &WRITABLE, errors);
    let url = url(&fields, egress, errors);
    let event_types = event_types(&fields, errors);
    let description = description(&fields, errors);
    let headers = fields.object("headers", errors);
    let headers = headers.map(|object| custom_headers::read(object, errors));
    let signatures = signatures(&fields, errors);
    let secret = secret(&fields, errors);
    let enabled = fields.flag("enabled", errors).unwrap_or(true);
    let retry = retry_policy(&fields, errors);
    let timeout = fields.duration("timeout", TIMEOUT, errors);
    let flow = flow::read(&fields, errors);
    let breaker = breaker(&fields, document.get("breaker"), errors);
    Some(Draft {
        url: url?,
        event_types,
        description,
        headers: headers.unwrap_or_default(),
        signatures,
        secret,
        enabled,
        retry: retry?,
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
        flow,
        breaker,
    })
}

fn url(fields: &Fields<'_>, egress: &EgressPolicy, errors: &mut Errors) -> Option<Hidden> {
    if fields.get("url").is_none() {
        errors.add("url", "is needed");
        return None;
    }
    let text = fields.text("url", errors)?;
    match TargetUrl::parse(text, egress) {
        Ok(target) => Some(Hidden::new(target.as_str().to_owned())),
        Err(rule) => {
            errors.add("url", rule.to_string());
            None
        }
    }
}

fn event_types(fields: &Fields<'_>, errors: &mut Errors) -> Vec<Pattern> {
    let Some(given) = fields.list("event_types", errors) else {
        return vec![Pattern::all()];
    };
    if given.is_empty() || given.len() > MAX_PATTERNS {
        errors.add(
            "event_types",
            format!("has 1 to {MAX_PATTERNS} patterns; leave it out to get every event"),
        );
    }
    let mut patterns: Vec<Pattern> = Vec::with_capacity(given.len());
    for (at, text) in given.iter().enumerate() {
        match text.as_str().map(Pattern::parse) {
            Some(Ok(pattern)) if patterns.contains(&pattern) => {}
            Some(Ok(pattern)) => patterns.push(pattern),
            Some(Err(rule)) => errors.add(format!("event_types[{at}]"), rule.to_string()),
            None => errors.add(format!("event_types[{at}]"), "is a string"),
        }
    }
    patterns
}

fn description(fields: &Fields<'_>, errors: &mut Errors) -> String {
    let text = fields.text("description", errors).unwrap_or_default();
    if text.chars().count() > MAX_DESCRIPTION {
        errors.add(
            "description",
            format!("has at most {MAX_DESCRIPTION} characters"),
        );
    }
    text.to_owned()
}

fn signatures(fields: &Fields<'_>, errors: &mut Errors) -> Vec<Scheme> {
    let Some(given) = fields.list("signatures", errors) else {
        return vec![Scheme::V1];
    };
    if given.is_empty() {
        errors.add("signatures", "has at least one of v1, v1a, hub, svix");
    }
    let mut schemes = Vec::new();
    for (at, name) in given.iter().enumerate() {
        match name.as_str().map(str::parse::<Scheme>) {
            Some(Ok(scheme)) if schemes.contains(&scheme) => {}
            Some(Ok(scheme)) => schemes.push(scheme),
            _ => errors.add(format!("signatures[{at}]"), "is one of v1, v1a, hub, svix"),
        }
    }
    schemes
}

fn secret(fields: &Fields<'_>, errors: &mut Errors) -> Option<Secret> {
    let text = fields.text("secret", errors)?;
    let secret = Secret::parse(text);
    secret
        .map_err(|rule| errors.add("secret", rule.to_string()))
        .ok()
}

fn retry_policy(fields: &Fields<'_>, errors: &mut Errors) -> Option<RetryPolicy> {
    if fields.get("retry").is_none() {
        return Some(RetryPolicy::default());
    }
    retry::read(fields.object("retry", errors)?, errors)
}

/// Not there is the default, `null` is off.
fn breaker(
    fields: &Fields<'_>,
    written: Option<&Value>,
    errors: &mut Errors,
) -> Option<BreakerPolicy> {
    let default = BreakerPolicy::default();
    match written {
        None => return Some(default),
        Some(Value::Null) => return None,
        Some(_) => {}
    }
    let object = fields.object("breaker", errors)?;
    let known = ["failure_threshold", "cooldown", "max_cooldown"];
    let fields = Fields::new("breaker.", object, &known, errors);
    let before = errors.len();
    let threshold = fields.number("failure_threshold", (1, 1_000), errors);
    let cooldown = fields.duration("cooldown", COOLDOWN, errors);
    let max_cooldown = fields.duration("max_cooldown", COOLDOWN, errors);
    if errors.len() > before {
        return None;
    }
    let cooldown = cooldown.unwrap_or(default.cooldown());
    // A longer first cooldown than the default's cap raises the cap with it.
    let max_cooldown = max_cooldown.unwrap_or(default.max_cooldown().max(cooldown));
    let threshold = threshold.unwrap_or(default.failure_threshold());
    let policy = BreakerPolicy::try_new(threshold, cooldown, max_cooldown);
    policy
        .map_err(|_| errors.add("breaker.cooldown", "is at most breaker.max_cooldown"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_json(value: &Value) -> Result<Draft, Problem> {
        let document = value.as_object().unwrap().clone();
        read(document, None, &EgressPolicy::locked_down())
    }

    fn with(name: &str, value: Value) -> Value {
        let mut document = json!({"url": "https://example.com/hook"});
        document[name] = value;
        document
    }

    #[test]
    fn a_url_is_enough() {
        let draft = read_json(&json!({"url": "https://example.com/hook"})).unwrap();
        assert_eq!(draft.event_types, [Pattern::all()]);
        assert_eq!(draft.signatures, [Scheme::V1]);
        assert_eq!(draft.timeout, Duration::from_secs(15));
        assert_eq!(draft.flow, Flow::default());
        assert_eq!(draft.breaker, Some(BreakerPolicy::default()));
        assert!(draft.enabled && draft.secret.is_none());
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let document = json!({"url": "ftp://x", "timeout": "1h", "event_types": [],
                              "headers": {"Host": "x"}, "retry": {"base": "0s"}, "nonsense": 1});
        let problem = read_json(&document).unwrap_err();
        let mut fields: Vec<&str> = problem.errors().iter().map(|e| e.field.as_str()).collect();
        fields.sort_unstable();
        let expected = [
            "event_types",
            "headers.Host",
            "nonsense",
            "retry.base",
            "timeout",
            "url",
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn each_rule_names_its_field() {
        for (name, value, field) in [
            ("url", json!(null), "url"),
            ("url", json!(7), "url"),
            ("url", json!("http://127.0.0.1/"), "url"),
            ("event_types", json!("a"), "event_types"),
            ("event_types", json!(["a", "b.>.c"]), "event_types[1]"),
            ("event_types", json!([1]), "event_types[0]"),
            ("description", json!("x".repeat(1_025)), "description"),
            ("headers", json!([]), "headers"),
            ("signatures", json!([]), "signatures"),
            ("signatures", json!(["v1", "v2"]), "signatures[1]"),
            ("secret", json!("hunter2"), "secret"),
            ("enabled", json!("yes"), "enabled"),
            ("ordering", json!("lifo"), "ordering"),
            ("retry", json!("stripe"), "retry"),
            ("timeout", json!("99ms"), "timeout"),
            ("timeout", json!("61s"), "timeout"),
            ("timeout", json!(15), "timeout"),
            ("rate_limit", json!(50), "rate_limit"),
            ("rate_limit", json!({}), "rate_limit.per_second"),
            ("max_in_flight", json!(0), "max_in_flight"),
            ("max_in_flight", json!(1_025), "max_in_flight"),
            ("max_backlog", json!(0), "max_backlog"),
            ("breaker", json!(1), "breaker"),
            (
                "breaker",
                json!({"failure_threshold": 0}),
                "breaker.failure_threshold",
            ),
            ("breaker", json!({"cooldown": "1ms"}), "breaker.cooldown"),
            (
                "breaker",
                json!({"cooldown": "2m", "max_cooldown": "1m"}),
                "breaker.cooldown",
            ),
            ("breaker", json!({"window": 1}), "breaker.window"),
            ("id", json!("ep_1"), "id"),
        ] {
            let document = with(name, value);
            let problem = read_json(&document).unwrap_err();
            let fields: Vec<&str> = problem.errors().iter().map(|e| e.field.as_str()).collect();
            assert_eq!(fields, [field], "{document}");
            assert_eq!(problem.status().as_u16(), 422);
        }
    }

    #[test]
    fn defaults_may_be_said_and_null_is_the_default() {
        for name in WRITABLE {
            if name != "url" {
                assert!(read_json(&with(name, Value::Null)).is_ok(), "{name}");
            }
        }
        for name in ["ordering", "rate_limit", "max_in_flight", "max_backlog"] {
            let draft = read_json(&with(name, Value::Null)).unwrap();
            assert_eq!(draft.flow, Flow::default(), "{name}");
        }
        assert!(read_json(&with("ordering", json!("none"))).is_ok());
        assert!(read_json(&with("max_backlog", json!(1_000_000))).is_ok());
        assert_eq!(
            read_json(&with("breaker", Value::Null)).unwrap().breaker,
            None
        );
    }

    #[test]
    fn dlq_06_no_error_repeats_a_secret_or_a_path() {
        let document =
            json!({"url": "https://u:pw@10.0.0.1/tok/en?key=abc", "secret": "whsec_pw!"});
        let text = serde_json::to_string(&read_json(&document).unwrap_err()).unwrap();
        for private in ["pw", "tok", "abc"] {
            assert!(!text.contains(private), "{text}");
        }
    }
}

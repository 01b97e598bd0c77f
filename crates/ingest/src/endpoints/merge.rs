//! `PATCH`: a JSON merge patch (RFC 7396) of the endpoint as it is shown.
//!
//! `null` in a patch removes a member, and what is removed is at its default, with one exception
//! that the representation itself makes: a `breaker` that is `null` is off.

use super::fields::{Errors, Object};
use super::retry;
use posthorn_http_api::Problem;
use serde_json::Value;

/// The document that `patch` makes of the one that is shown. What is shown and cannot be
/// written may be in the patch as it is, so that a whole representation can be sent back.
///
/// # Errors
/// 422 where the patch changes what cannot be written.
pub(crate) fn merge(shown: &Object, writable: &[&str], patch: &Object) -> Result<Object, Problem> {
    let mut errors = Errors::default();
    let is_writable = |name: &str| writable.contains(&name);
    let mut merged: Object = shown.clone();
    merged.retain(|name, _| is_writable(name));
    for (name, value) in patch {
        if is_writable(name) {
            let current = merged.remove(name).unwrap_or(Value::Null);
            merged.insert(name.clone(), member(name, current, value));
        } else if !shown.contains_key(name) {
            errors.add(name, "there is no such field");
        } else if shown.get(name) != Some(value) {
            errors.add(name, "is not set by callers");
        }
    }
    if !errors.is_empty() {
        return Err(errors.into_problem());
    }
    Ok(merged)
}

fn member(name: &str, current: Value, patch: &Value) -> Value {
    let (current, Value::Object(patch)) = (current, patch) else {
        return patch.clone();
    };
    let current = match current {
        Value::Object(current) if name == "retry" => retry::before_patch(current, patch),
        Value::Object(current) => current,
        _ => Object::new(),
    };
    let mut merged = current;
    for (key, value) in patch {
        match value {
            Value::Null => drop(merged.remove(key)),
            value => drop(merged.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(patch: Value) -> Result<Value, Problem> {
        let shown = json!({
            "id": "ep_1", "url": "https://a", "headers": {"A": "1", "B": "2"},
            "breaker": {"failure_threshold": 5, "cooldown": "30s"},
            "retry": {"preset": "exponential", "base": "2s", "max_attempts": 16},
        });
        let writable = ["url", "headers", "breaker", "retry", "secret"];
        let document = merge(
            shown.as_object().unwrap(),
            &writable,
            patch.as_object().unwrap(),
        )?;
        Ok(Value::Object(document))
    }

    #[test]
    fn members_are_merged_and_null_removes() {
        let document = merged(json!({"headers": {"A": null, "C": "3"}})).unwrap();
        assert_eq!(document["headers"], json!({"B": "2", "C": "3"}));
        assert_eq!(document["url"], "https://a");
        let document = merged(json!({"breaker": {"cooldown": "1m"}})).unwrap();
        let expected = json!({"failure_threshold": 5, "cooldown": "1m"});
        assert_eq!(document["breaker"], expected);
        assert_eq!(
            merged(json!({"breaker": null})).unwrap()["breaker"],
            Value::Null
        );
        let document = merged(json!({"retry": {"preset": "stripe"}})).unwrap();
        assert_eq!(document["retry"], json!({"preset": "stripe"}));
        assert_eq!(merged(json!({"secret": "s"})).unwrap()["secret"], "s");
    }

    #[test]
    fn what_is_shown_only_may_come_back_unchanged() {
        assert!(merged(json!({"id": "ep_1"})).unwrap().get("id").is_none());
        assert_eq!(
            merged(json!({"id": "ep_2"})).unwrap_err().field(),
            Some("id")
        );
        assert_eq!(merged(json!({"idd": 1})).unwrap_err().field(), Some("idd"));
    }
}

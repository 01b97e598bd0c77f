//! A service's refusal, in its own words and with what to do about it.

use crate::failure::Failure;
use reqwest::StatusCode;
use serde_json::Value;

/// The refusal: the detail of its problem, every field, and what may help. `retry_after` is what
/// the service says in the header of that name.
pub(crate) fn refusal(status: StatusCode, retry_after: Option<&str>, text: &str) -> Failure {
    let problem: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    let mut sentence = sentence(status, &problem);
    if let Some(advice) = advice(status, retry_after) {
        sentence = format!("{sentence}; {advice}");
    }
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Failure::NotNow(sentence)
        }
        _ => Failure::Refused(sentence),
    }
}

fn sentence(status: StatusCode, problem: &Value) -> String {
    let word = |pointer: &str| problem.pointer(pointer).and_then(Value::as_str);
    let detail = word("/detail").or(word("/title")).unwrap_or("refused");
    let head = match word("/field") {
        Some(field) => format!("{field}: {detail}"),
        None => detail.to_owned(),
    };
    let mut sentence = format!("{head} ({})", status.as_u16());
    let errors = problem.pointer("/errors").and_then(Value::as_array);
    for error in errors.into_iter().flatten() {
        let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let more = format!("{}: {}", word("field"), word("detail"));
        // One field alone is the whole problem and has been named.
        if more != head {
            sentence = format!("{sentence}; {more}");
        }
    }
    sentence
}

/// What whoever reads it can do next, where the sentence does not say so itself.
fn advice(status: StatusCode, retry_after: Option<&str>) -> Option<String> {
    let advice = match status {
        StatusCode::UNAUTHORIZED => {
            "set POSTHORN_API_KEY to a key of this installation (is it revoked, or of another?)"
        }
        StatusCode::FORBIDDEN => "`posthorn keys add` makes a key with other scopes",
        StatusCode::NOT_FOUND => {
            "a list shows what there is, and a key of one tenant sees that tenant's only"
        }
        StatusCode::TOO_MANY_REQUESTS => return Some(again(retry_after, "the key has a rate")),
        StatusCode::SERVICE_UNAVAILABLE => {
            return Some(again(
                retry_after,
                "/readyz of the service names what is missing",
            ));
        }
        StatusCode::INTERNAL_SERVER_ERROR => "the service's log says why",
        _ => return None,
    };
    Some(advice.to_owned())
}

fn again(retry_after: Option<&str>, why: &str) -> String {
    match retry_after.and_then(|seconds| seconds.parse::<u32>().ok()) {
        Some(seconds) => format!("try again in {seconds} s: {why}"),
        None => format!("try again: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_the_services_own_words() {
        let text = r#"{"title":"Unprocessable","detail":"two fields are wrong","errors":[
            {"field":"url","detail":"no host"},{"field":"retry.base","detail":"too long"}]}"#;
        let failure = refusal(StatusCode::UNPROCESSABLE_ENTITY, None, text);
        let words = "two fields are wrong (422); url: no host; retry.base: too long";
        assert_eq!(failure, Failure::refused(words));
        let text =
            r#"{"detail":"no host","field":"url","errors":[{"field":"url","detail":"no host"}]}"#;
        let failure = refusal(StatusCode::UNPROCESSABLE_ENTITY, None, text);
        assert_eq!(failure, Failure::refused("url: no host (422)"));
        let failure = refusal(StatusCode::BAD_GATEWAY, None, "<html>");
        assert_eq!(failure, Failure::refused("refused (502)"));
    }

    #[test]
    fn who_can_do_something_is_told_what() {
        let text = |status, after| refusal(status, after, "{}").to_string();
        assert!(text(StatusCode::UNAUTHORIZED, None).contains("POSTHORN_API_KEY"));
        assert!(text(StatusCode::FORBIDDEN, None).contains("posthorn keys add"));
        assert!(text(StatusCode::NOT_FOUND, None).contains("one tenant"));
        let busy = refusal(StatusCode::SERVICE_UNAVAILABLE, Some("7"), "{}");
        assert!(busy.may_pass() && busy.to_string().contains("again in 7 s"));
        let fast = refusal(StatusCode::TOO_MANY_REQUESTS, Some("junk"), "{}");
        assert!(fast.may_pass() && fast.to_string().contains("try again:"));
    }
}

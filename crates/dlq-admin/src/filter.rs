//! Which dead letters somebody means.
//!
//! The same filter serves the list, replay jobs and the purge, so that what an operator saw in
//! the list is what the other two touch. A job keeps the filter as it was asked for and reads
//! it again after a restart: reading is total, and every bad value is named by its field.

use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{
    DeadLetter, EndpointId, EventType, LetterState, Pattern, Reason, Tenant, UnixMillis,
};
use posthorn_http_api::time::parse_rfc3339;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A filter as it is asked for. Every field that is there must hold; one that is absent holds
/// for every letter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FilterBody {
    /// Letters of this tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Letters of the endpoint with this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Letters of this event type; NATS wildcards are understood.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// Letters that died of this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Letters whose last attempt was answered with this HTTP status, 100 to 599.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Letters that died at this time (RFC 3339) or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Letters that died before this time (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// A field of a filter that breaks its rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {rule}")]
pub struct FilterError {
    /// Which field.
    pub field: &'static str,
    /// Its rule.
    pub rule: String,
}

/// A filter whose every value is valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LetterFilter {
    asked: FilterBody,
    tenant: Option<Tenant>,
    endpoint: Option<EndpointId>,
    pattern: Option<Pattern>,
    reason: Option<Reason>,
    since: Option<UnixMillis>,
    until: Option<UnixMillis>,
}

impl LetterFilter {
    /// Checks a filter.
    ///
    /// # Errors
    /// [`FilterError`] names the first field that breaks its rule.
    pub fn try_new(asked: FilterBody) -> Result<LetterFilter, FilterError> {
        let filter = LetterFilter {
            tenant: field("tenant", asked.tenant.as_deref(), Tenant::parse_any)?,
            endpoint: field("endpoint", asked.endpoint.as_deref(), EndpointId::parse)?,
            pattern: field("type", asked.event_type.as_deref(), Pattern::parse)?,
            reason: field("reason", asked.reason.as_deref(), reason)?,
            since: field("since", asked.since.as_deref(), parse_rfc3339)?,
            until: field("until", asked.until.as_deref(), parse_rfc3339)?,
            asked,
        };
        if filter
            .asked
            .status
            .is_some_and(|s| !(100..=599).contains(&s))
        {
            return Err(broken("status", "an HTTP status is from 100 to 599"));
        }
        let backwards = filter
            .since
            .zip(filter.until)
            .is_some_and(|(since, until)| since >= until);
        if backwards {
            return Err(broken("until", "it must be later than since"));
        }
        Ok(filter)
    }

    /// Reads the filter that a job keeps.
    ///
    /// # Errors
    /// [`FilterError`] when it is not one.
    pub fn from_json(json: &str) -> Result<LetterFilter, FilterError> {
        let asked = serde_json::from_str(json).map_err(|_| broken("filter", "it is no filter"))?;
        LetterFilter::try_new(asked)
    }

    /// The filter as it was asked for, in JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.asked).expect("text and numbers are always JSON")
    }

    /// The filter as it was asked for.
    #[must_use]
    pub fn asked(&self) -> &FilterBody {
        &self.asked
    }

    /// Whether every letter there is would match.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.asked == FilterBody::default()
    }

    /// Whose letters; `None` for all tenants.
    #[must_use]
    pub fn tenant(&self) -> Option<&Tenant> {
        self.tenant.as_ref()
    }

    /// The tenant and endpoint tokens of the narrowest subject that holds all matches.
    #[must_use]
    pub fn tokens(&self) -> (&str, &str) {
        let tenant = self.tenant.as_ref().map_or("*", Tenant::as_str);
        let endpoint = self.endpoint.as_ref().map_or("*", EndpointId::as_str);
        (tenant, endpoint)
    }

    /// Whether a letter is meant. The tenant is compared once more, although the subject has
    /// it already: what one tenant asks for must never touch another's.
    #[must_use]
    pub fn matches(&self, letter: &DeadLetter) -> bool {
        let tenant = (self.tenant.as_ref()).is_none_or(|want| want.as_str() == letter.tenant);
        let endpoint = self.endpoint.is_none() || self.endpoint == letter.endpoint_id;
        let kind = (self.pattern.as_ref()).is_none_or(|want| wants(want, &letter.event_type));
        let reason = self.reason.is_none_or(|want| want == letter.reason);
        let status = (self.asked.status).is_none_or(|want| last_status(letter) == Some(want));
        let after = self.since.is_none_or(|since| letter.died_at >= since);
        let before = self.until.is_none_or(|until| letter.died_at < until);
        tenant && endpoint && kind && reason && status && after && before
    }

    /// Whether a letter is meant and still waits for an operator.
    #[must_use]
    pub fn matches_dead(&self, letter: &DeadLetter) -> bool {
        letter.state == LetterState::Dead && self.matches(letter)
    }
}

/// A type that could not be read matches no pattern but the one that is its own text.
fn wants(pattern: &Pattern, event_type: &str) -> bool {
    match EventType::parse(event_type) {
        Ok(event_type) => pattern.matches(&event_type),
        Err(_) => pattern.as_str() == event_type,
    }
}

fn last_status(letter: &DeadLetter) -> Option<u16> {
    match letter.history.last()?.result {
        AttemptResult::Status(code) => Some(code),
        AttemptResult::Error(_) => None,
    }
}

fn reason(text: &str) -> Result<Reason, String> {
    Reason::parse(text).ok_or_else(|| {
        let all: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        format!("a reason is one of {}", all.join(", "))
    })
}

fn field<T, E: ToString>(
    name: &'static str,
    text: Option<&str>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, FilterError> {
    let parsed = text.map(parse).transpose();
    parsed.map_err(|rule| broken(name, &rule.to_string()))
}

fn broken(field: &'static str, rule: &str) -> FilterError {
    FilterError {
        field,
        rule: rule.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::letter;

    fn filter(json: &str) -> LetterFilter {
        LetterFilter::from_json(json).unwrap()
    }

    #[test]
    fn each_field_selects_by_itself() {
        let letter = letter("acme", 1, 1_700_000_000_000);
        let endpoint = letter.endpoint_id.clone().unwrap();
        let yes = [
            r#"{"tenant":"acme"}"#.to_owned(),
            format!(r#"{{"endpoint":"{endpoint}"}}"#),
            r#"{"type":"invoice.paid"}"#.to_owned(),
            r#"{"type":"invoice.*"}"#.to_owned(),
            r#"{"reason":"exhausted"}"#.to_owned(),
            r#"{"status":500}"#.to_owned(),
            r#"{"since":"2023-11-14T22:13:20Z"}"#.to_owned(),
            r#"{"until":"2023-11-14T22:13:20.001Z"}"#.to_owned(),
        ];
        for json in yes {
            assert!(filter(&json).matches(&letter), "{json}");
        }
        for json in [
            r#"{"tenant":"globex"}"#,
            r#"{"endpoint":"ep_000000000000000000000000000000ff"}"#,
            r#"{"type":"invoice"}"#,
            r#"{"reason":"gone"}"#,
            r#"{"status":404}"#,
            r#"{"since":"2023-11-14T22:13:20.001Z"}"#,
            r#"{"until":"2023-11-14T22:13:20Z"}"#,
        ] {
            assert!(!filter(json).matches(&letter), "{json}");
        }
    }

    #[test]
    fn dlq_05_a_tenant_filter_never_matches_another_tenant() {
        let acme = filter(r#"{"tenant":"acme"}"#);
        assert_eq!(acme.tokens(), ("acme", "*"));
        assert!(!acme.matches(&letter("globex", 1, 5)));
        for wide in ["*", ">", "acme.*", "", "ACME"] {
            let asked = FilterBody {
                tenant: Some(wide.to_owned()),
                ..FilterBody::default()
            };
            assert_eq!(LetterFilter::try_new(asked).unwrap_err().field, "tenant");
        }
    }

    #[test]
    fn every_bad_value_is_named() {
        for (json, field) in [
            (r#"{"endpoint":"ep_*"}"#, "endpoint"),
            (r#"{"type":"a..b"}"#, "type"),
            (r#"{"reason":"bored"}"#, "reason"),
            (r#"{"status":99}"#, "status"),
            (r#"{"since":"yesterday"}"#, "since"),
            (
                r#"{"since":"2024-01-02T00:00:00Z","until":"2024-01-01T00:00:00Z"}"#,
                "until",
            ),
            (r#"{"nonsense":1}"#, "filter"),
        ] {
            assert_eq!(LetterFilter::from_json(json).unwrap_err().field, field);
        }
    }

    #[test]
    fn a_job_reads_back_the_filter_that_was_asked_for() {
        let asked = filter(r#"{"tenant":"acme","type":"invoice.>","status":503}"#);
        assert_eq!(filter(&asked.to_json()), asked);
        assert!(!asked.is_empty());
        assert!(filter("{}").is_empty());
    }

    #[test]
    fn a_letter_that_is_replaying_waits_for_nobody() {
        let mut letter = letter("acme", 1, 5);
        assert!(filter("{}").matches_dead(&letter));
        letter.state = LetterState::Replaying;
        assert!(!filter("{}").matches_dead(&letter));
    }
}

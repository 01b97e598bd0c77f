//! Which dead letters somebody means.
//!
//! The same filter serves the list, replay jobs and the purge, so that what an operator saw in
//! the list is what the other two touch. A job keeps the filter as it was asked for and reads
//! it again after a restart: reading is total, and every bad value is named by its field.

use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{
    DeadLetter, EndpointId, EventType, LetterEntry, LetterState, Pattern, Reason, Tenant,
    UnixMillis,
};
use posthorn_http_api::time::parse_rfc3339;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A filter as it is asked for. Every field that is there must hold; one that is absent holds
/// for every letter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
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
    /// Letters that say this, in capitals or not: in the detail, in the name of the last
    /// attempt's failure, or in the first 256 bytes of the last answer. 2 to 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Letters that are `dead` or `replaying`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
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
    /// In small letters.
    text: Option<String>,
    state: Option<LetterState>,
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
            text: field("text", asked.text.as_deref(), text)?,
            state: field("state", asked.state.as_deref(), state)?,
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

    /// The tokens of the narrowest subject of the register that holds all matches.
    #[must_use]
    pub fn entry_tokens(&self) -> (&str, &str, &str) {
        let (tenant, endpoint) = self.tokens();
        (tenant, endpoint, self.reason.map_or("*", Reason::as_str))
    }

    /// Whether the subject of the register holds the matches and nothing else, so that the
    /// broker's own count is theirs.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        let searched = FilterBody {
            tenant: None,
            endpoint: None,
            reason: None,
            ..self.asked.clone()
        };
        searched == FilterBody::default()
    }

    /// From when on.
    #[must_use]
    pub fn since(&self) -> Option<UnixMillis> {
        self.since
    }

    /// Until when.
    #[must_use]
    pub fn until(&self) -> Option<UnixMillis> {
        self.until
    }

    /// Which state, where one is asked for.
    #[must_use]
    pub fn state(&self) -> Option<LetterState> {
        self.state
    }

    /// Whether a letter is meant.
    #[must_use]
    pub fn matches(&self, letter: &DeadLetter) -> bool {
        self.state.is_none_or(|want| want == letter.state)
            && self.matches_entry(&LetterEntry::of(letter))
    }

    /// Whether the letter of an entry is meant, whatever its state. The tenant is compared once
    /// more, although the subject has it already: what one tenant asks for must never touch
    /// another's.
    #[must_use]
    pub fn matches_entry(&self, entry: &LetterEntry) -> bool {
        let tenant = (self.tenant.as_ref()).is_none_or(|want| want.as_str() == entry.tenant);
        let endpoint = self.endpoint.is_none() || self.endpoint == entry.endpoint_id;
        let kind = (self.pattern.as_ref()).is_none_or(|want| wants(want, &entry.event_type));
        let reason = self.reason.is_none_or(|want| want == entry.reason);
        let status =
            (self.asked.status).is_none_or(|want| entry.last == Some(AttemptResult::Status(want)));
        let text = (self.text.as_deref()).is_none_or(|want| says(entry, want));
        let after = self.since.is_none_or(|since| entry.died_at >= since);
        let before = self.until.is_none_or(|until| entry.died_at < until);
        tenant && endpoint && kind && reason && status && text && after && before
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

/// Whether one of an entry's texts holds `want`, which is in small letters.
fn says(entry: &LetterEntry, want: &str) -> bool {
    let failure = match entry.last {
        Some(AttemptResult::Error(failure)) => failure.as_str(),
        Some(AttemptResult::Status(_)) | None => "",
    };
    let texts = [failure, entry.detail.as_str(), entry.answer.as_str()];
    texts.iter().any(|text| text.to_lowercase().contains(want))
}

fn text(text: &str) -> Result<String, &'static str> {
    match text.chars().count() {
        2..=100 => Ok(text.to_lowercase()),
        _ => Err("a text to look for has 2 to 100 characters"),
    }
}

fn state(text: &str) -> Result<LetterState, &'static str> {
    match text {
        "dead" => Ok(LetterState::Dead),
        "replaying" => Ok(LetterState::Replaying),
        "delivered" => Err("a letter whose replay was delivered has left the list; \
             it is shown by its id, and in the deliveries of its event"),
        _ => Err("a state is dead or replaying"),
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
        let letter = DeadLetter {
            answer: "{\"error\":\"Quota exceeded\"}".to_owned(),
            ..letter("acme", 1, 1_700_000_000_000)
        };
        let endpoint = letter.endpoint_id.clone().unwrap();
        let yes = [
            r#"{"tenant":"acme"}"#.to_owned(),
            format!(r#"{{"endpoint":"{endpoint}"}}"#),
            r#"{"type":"invoice.paid"}"#.to_owned(),
            r#"{"type":"invoice.*"}"#.to_owned(),
            r#"{"reason":"exhausted"}"#.to_owned(),
            r#"{"status":500}"#.to_owned(),
            r#"{"text":"16 ATT"}"#.to_owned(),
            r#"{"text":"quota ex"}"#.to_owned(),
            r#"{"state":"dead"}"#.to_owned(),
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
            r#"{"text":"17 attempts"}"#,
            r#"{"state":"replaying"}"#,
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
            (r#"{"text":"a"}"#, "text"),
            (r#"{"state":"delivered"}"#, "state"),
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
        assert!(!asked.is_empty() && !asked.is_counted());
        assert!(filter(r#"{"tenant":"acme","reason":"gone"}"#).is_counted());
        assert!(filter("{}").is_empty());
    }

    #[test]
    fn a_failure_is_found_by_its_name() {
        let mut letter = letter("acme", 1, 5);
        letter.history[0].result = AttemptResult::Error(posthorn_delivery::Failure::Timeout);
        assert!(filter(r#"{"text":"Timeout"}"#).matches(&letter));
        assert!(!filter(r#"{"text":"timeouts"}"#).matches(&letter));
    }

    #[test]
    fn a_letter_that_is_replaying_waits_for_nobody() {
        let mut letter = letter("acme", 1, 5);
        assert!(filter("{}").matches_dead(&letter));
        letter.state = LetterState::Replaying;
        assert!(!filter("{}").matches_dead(&letter));
    }
}

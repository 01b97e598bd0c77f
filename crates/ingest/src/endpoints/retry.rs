//! The retry policy of an endpoint, as it is written and as it is shown.

use super::fields::{Errors, Fields, Object};
use super::view::number_of_milli;
use posthorn_delivery::RetryPolicy;
use posthorn_delivery::retry::{Backoff, Jitter, MAX_ATTEMPTS, Preset, RetryPolicyParts, Schedule};
use posthorn_http_api::time::{duration_text, parse_duration};
use serde::Serialize;
use serde_json::{Number, Value};
use std::time::Duration;
use utoipa::ToSchema;

const DELAY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(7 * 86_400));
const AGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30 * 86_400));
const KNOWN: [&str; 9] = [
    "preset",
    "base",
    "factor",
    "max_delay",
    "jitter",
    "max_attempts",
    "max_age",
    "schedule",
    "permanent_statuses",
];
/// What a schedule of one's own stands for, and so cannot be said beside it.
const EXPONENTIAL: [&str; 3] = ["base", "factor", "max_delay"];

/// A retry policy as it is shown. Where `schedule` is set, the three fields of the exponential
/// are not.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct RetryView {
    /// Where the fields begin from: `exponential`, `stripe`, `sooner`, `standard`, `github`.
    #[schema(example = "exponential", default = "exponential")]
    preset: &'static str,
    /// The first delay's ceiling.
    #[schema(example = "2s")]
    base: Option<String>,
    /// What each delay is multiplied by: 1, or 1.1 to 10.
    #[schema(example = 2, value_type = Option<f64>)]
    factor: Option<Number>,
    /// The longest delay.
    #[schema(example = "1h")]
    max_delay: Option<String>,
    /// How a delay is drawn: `full`, `equal`, `none`, or `up:10` for 10 % upward.
    #[schema(example = "full")]
    jitter: String,
    /// Attempts in all, 1 to 64.
    #[schema(example = 16)]
    max_attempts: u32,
    /// How long a delivery is tried from its acceptance on.
    #[schema(example = "3d")]
    max_age: Option<String>,
    /// The delays themselves; beyond its end the last one repeats.
    schedule: Option<Vec<String>>,
    /// Statuses that end a delivery at once; null is the default list.
    permanent_statuses: Option<Vec<u16>>,
}

impl RetryView {
    /// Of a policy.
    pub(crate) fn of(policy: &RetryPolicy) -> RetryView {
        let parts = policy.parts();
        let (backoff, rungs) = match &parts.schedule {
            Schedule::Exponential(backoff) => (Some(backoff), None),
            Schedule::Ladder(rungs) => (None, Some(rungs)),
        };
        let texts = |rungs: &Vec<Duration>| rungs.iter().copied().map(duration_text).collect();
        RetryView {
            preset: parts.preset.as_str(),
            base: backoff.map(|b| duration_text(b.base())),
            factor: backoff.map(|b| number_of_milli(b.factor_milli())),
            max_delay: backoff.map(|b| duration_text(b.max_delay())),
            jitter: parts.jitter.name(),
            max_attempts: parts.max_attempts,
            max_age: Some(duration_text(parts.max_age)),
            schedule: rungs.map(texts),
            permanent_statuses: parts.permanent.clone(),
        }
    }
}

/// What remains of the shown policy when a patch of it says something that the rest belonged
/// to: another preset begins anew, another schedule has its own attempts and jitter.
pub(crate) fn before_patch(mut shown: Object, patch: &Object) -> Object {
    let says = |name: &str| patch.get(name).is_some_and(|value| !value.is_null());
    let mut forget: Vec<&str> = Vec::new();
    if patch.contains_key("preset") {
        forget.extend(["max_age"]);
    }
    if patch.contains_key("preset") || patch.contains_key("schedule") {
        forget.extend(["schedule", "jitter", "max_attempts"]);
        forget.extend(EXPONENTIAL);
    } else if EXPONENTIAL.iter().any(|name| says(name)) {
        forget.push("schedule");
    }
    for name in forget {
        shown.remove(name);
    }
    shown
}

/// Reads a policy; what is not said is the preset's.
pub(crate) fn read(object: &Object, errors: &mut Errors) -> Option<RetryPolicy> {
    let fields = Fields::new("retry.", object, &KNOWN, errors);
    let preset = read_preset(&fields, errors)?;
    let mut parts = RetryPolicyParts::of(preset);
    let before = errors.len();
    read_schedule(&fields, &mut parts, errors);
    if let Some(text) = fields.text("jitter", errors) {
        match Jitter::parse(text) {
            Some(jitter) => parts.jitter = jitter,
            None => errors.add(
                "retry.jitter",
                "is full, equal, none, or up:PERCENT with PERCENT from 1 to 100",
            ),
        }
    }
    if let Some(attempts) = fields.number("max_attempts", (1, MAX_ATTEMPTS), errors) {
        parts.max_attempts = attempts;
    }
    if let Some(age) = fields.duration("max_age", AGE, errors) {
        parts.max_age = age;
    }
    parts.permanent = read_statuses(&fields, errors);
    if errors.len() > before {
        return None;
    }
    let policy = RetryPolicy::try_new(parts);
    policy
        .map_err(|rule| errors.add("retry", rule.to_string()))
        .ok()
}

fn read_preset(fields: &Fields<'_>, errors: &mut Errors) -> Option<Preset> {
    if fields.get("preset").is_none() {
        return Some(Preset::Exponential);
    }
    let preset = Preset::parse(fields.text("preset", errors)?);
    if preset.is_none() {
        let names: Vec<&str> = Preset::ALL.iter().map(|preset| preset.as_str()).collect();
        errors.add("retry.preset", format!("is one of {}", names.join(", ")));
    }
    preset
}

fn read_schedule(fields: &Fields<'_>, parts: &mut RetryPolicyParts, errors: &mut Errors) {
    if let Some(rungs) = fields.list("schedule", errors) {
        for name in EXPONENTIAL {
            if fields.get(name).is_some() {
                errors.add(fields.path(name), "has no meaning beside retry.schedule");
            }
        }
        let ladder = read_ladder(rungs, errors);
        parts.max_attempts = u32::try_from(ladder.len() + 1).unwrap_or(MAX_ATTEMPTS);
        parts.jitter = Jitter::Upward { percent: 10 };
        parts.schedule = Schedule::Ladder(ladder);
        return;
    }
    if EXPONENTIAL.iter().all(|name| fields.get(name).is_none()) {
        return;
    }
    // A preset that is a ladder has no exponential of its own to change.
    let default = match &parts.schedule {
        Schedule::Exponential(backoff) => *backoff,
        Schedule::Ladder(_) => match RetryPolicyParts::of(Preset::Exponential).schedule {
            Schedule::Exponential(backoff) => backoff,
            Schedule::Ladder(_) => return,
        },
    };
    if let Some(backoff) = read_backoff(fields, default, errors) {
        parts.schedule = Schedule::Exponential(backoff);
    }
}

fn read_ladder(rungs: &[Value], errors: &mut Errors) -> Vec<Duration> {
    let most = MAX_ATTEMPTS as usize - 1;
    if rungs.is_empty() || rungs.len() > most {
        errors.add("retry.schedule", format!("has 1 to {most} delays"));
    }
    let mut ladder = Vec::with_capacity(rungs.len());
    for (at, rung) in rungs.iter().enumerate() {
        let delay = rung.as_str().and_then(|text| parse_duration(text).ok());
        match delay.filter(|delay| *delay >= DELAY.0 && *delay <= DELAY.1) {
            Some(delay) => ladder.push(delay),
            None => errors.add(
                format!("retry.schedule[{at}]"),
                "is a duration from 1ms to 7d, as text with a unit",
            ),
        }
    }
    ladder
}

fn read_backoff(fields: &Fields<'_>, default: Backoff, errors: &mut Errors) -> Option<Backoff> {
    let before = errors.len();
    let base = fields.duration("base", DELAY, errors);
    let max_delay = fields.duration("max_delay", DELAY, errors);
    let factor = read_factor(fields, errors);
    if errors.len() > before {
        return None;
    }
    let base = base.unwrap_or(default.base());
    let max_delay = max_delay.unwrap_or(default.max_delay());
    if base > max_delay {
        errors.add("retry.base", "is at most retry.max_delay");
        return None;
    }
    let factor = factor.unwrap_or(default.factor_milli());
    let backoff = Backoff::try_new(base, factor, max_delay);
    if backoff.is_none() {
        errors.add("retry.factor", FACTOR_RULE);
    }
    backoff
}

const FACTOR_RULE: &str = "is 1, or from 1.1 to 10";

/// A factor in thousandths.
fn read_factor(fields: &Fields<'_>, errors: &mut Errors) -> Option<u32> {
    let given = fields.get("factor")?;
    let milli = given.as_f64().map(|factor| (factor * 1_000.0).round());
    let inside = milli.filter(|milli| (1_000.0..=10_000.0).contains(milli));
    let Some(milli) = inside else {
        errors.add("retry.factor", FACTOR_RULE);
        return None;
    };
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number from 1,000 to 10,000"
    )]
    Some(milli as u32)
}

fn read_statuses(fields: &Fields<'_>, errors: &mut Errors) -> Option<Vec<u16>> {
    let given = fields.list("permanent_statuses", errors)?;
    let mut statuses = Vec::new();
    for (at, status) in given.iter().enumerate() {
        let status = status
            .as_u64()
            .and_then(|status| u16::try_from(status).ok());
        match status.filter(|status| (300..=599).contains(status)) {
            Some(status) if statuses.contains(&status) => {}
            Some(status) => statuses.push(status),
            None => {
                let path = format!("retry.permanent_statuses[{at}]");
                errors.add(path, "is a status from 300 to 599");
            }
        }
    }
    Some(statuses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The default, as it is shown.
    fn example() -> Value {
        json!({"preset": "exponential", "base": "2s", "factor": 2, "max_delay": "1h",
               "jitter": "full", "max_attempts": 16, "max_age": "3d",
               "schedule": null, "permanent_statuses": null})
    }

    fn policy(value: Value) -> Result<RetryPolicy, Vec<String>> {
        let mut errors = Errors::default();
        let policy = read(value.as_object().unwrap(), &mut errors);
        if errors.is_empty() {
            return Ok(policy.unwrap());
        }
        let problem = errors.into_problem();
        Err(problem.errors().iter().map(|e| e.field.clone()).collect())
    }

    #[test]
    fn nothing_said_is_the_default() {
        assert_eq!(policy(json!({})).unwrap(), RetryPolicy::default());
        let shown = serde_json::to_value(RetryView::of(&RetryPolicy::default())).unwrap();
        assert_eq!(shown, example());
    }

    #[test]
    fn what_is_shown_reads_back() {
        let odd = json!({"preset": "sooner", "factor": 1.5, "max_attempts": 3, "max_age": "90m",
                         "jitter": "up:7", "permanent_statuses": [404, 410]});
        let own = json!({"schedule": ["1s", "1m 30s", "7d"]});
        let presets = Preset::ALL.map(|preset| json!({"preset": preset.as_str()}));
        for written in presets.into_iter().chain([odd, own]) {
            let read = policy(written).unwrap();
            let shown = serde_json::to_value(RetryView::of(&read)).unwrap();
            let mut again = shown.as_object().unwrap().clone();
            again.retain(|_, value| !value.is_null());
            assert_eq!(policy(Value::Object(again)).unwrap(), read, "{shown}");
        }
    }

    #[test]
    fn a_schedule_has_its_own_attempts_and_jitter() {
        let read = policy(json!({"schedule": ["1s", "2s"]})).unwrap();
        assert_eq!(read.max_attempts(), 3);
        assert_eq!(read.parts().jitter, Jitter::Upward { percent: 10 });
        let read = policy(json!({"schedule": ["1s"], "max_attempts": 9, "jitter": "none"}));
        assert_eq!(read.unwrap().max_attempts(), 9);
    }

    #[test]
    fn each_rule_names_its_field() {
        for (bad, field) in [
            (json!({"preset": "x"}), "retry.preset"),
            (json!({"base": "0s"}), "retry.base"),
            (json!({"base": 2}), "retry.base"),
            (json!({"base": "2h"}), "retry.base"),
            (json!({"base": "1500us"}), "retry.base"),
            (json!({"max_delay": "8d"}), "retry.max_delay"),
            (json!({"factor": 1.05}), "retry.factor"),
            (json!({"factor": 11}), "retry.factor"),
            (json!({"factor": "2"}), "retry.factor"),
            (json!({"jitter": "up:0"}), "retry.jitter"),
            (json!({"max_attempts": 0}), "retry.max_attempts"),
            (json!({"max_attempts": 65}), "retry.max_attempts"),
            (json!({"max_attempts": 1.5}), "retry.max_attempts"),
            (json!({"max_age": "31d"}), "retry.max_age"),
            (json!({"schedule": []}), "retry.schedule"),
            (json!({"schedule": vec!["1s"; 64]}), "retry.schedule"),
            (json!({"schedule": ["1s", "0s"]}), "retry.schedule[1]"),
            (json!({"schedule": ["1s"], "base": "1s"}), "retry.base"),
            (
                json!({"permanent_statuses": [200]}),
                "retry.permanent_statuses[0]",
            ),
            (
                json!({"permanent_statuses": "x"}),
                "retry.permanent_statuses",
            ),
            (json!({"attempts": 1}), "retry.attempts"),
        ] {
            assert_eq!(policy(bad.clone()).unwrap_err(), [field], "{bad}");
        }
    }

    #[test]
    fn a_patch_of_the_preset_begins_anew() {
        let shown = example().as_object().unwrap().clone();
        let patch = |value: Value| before_patch(shown.clone(), value.as_object().unwrap());
        let other = patch(json!({"preset": "stripe"}));
        assert!(!other.contains_key("base") && !other.contains_key("max_age"));
        let own = patch(json!({"schedule": ["1s"]}));
        assert!(!own.contains_key("base") && own.contains_key("max_age"));
        let base = patch(json!({"base": "3s"}));
        assert!(!base.contains_key("schedule") && base.contains_key("max_delay"));
        assert_eq!(patch(json!({"max_attempts": 3})), shown);
    }
}

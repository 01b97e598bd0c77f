//! Reading a JSON object field by field, and collecting everything that is wrong with it.
//!
//! A derived reader stops at the first mistake; whoever fills in a form wants all of them.

use posthorn_http_api::time::{duration_text, parse_duration};
use posthorn_http_api::{FieldError, Problem};
use serde_json::{Map, Value};
use std::fmt::Display;
use std::time::Duration;

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// What is wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Errors(Vec<FieldError>);

impl Errors {
    /// Notes that `field` breaks the rule that `detail` states.
    pub(crate) fn add(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.0.push(FieldError::new(field, detail));
    }

    /// Whether anything is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many things are wrong.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// 422 with everything that is wrong.
    pub(crate) fn into_problem(self) -> Problem {
        Problem::invalid(self.0)
    }
}

/// An object under a path; what is `null` counts as not there.
pub(crate) struct Fields<'a> {
    prefix: &'static str,
    object: &'a Object,
}

impl<'a> Fields<'a> {
    /// The fields of `object`, whose paths begin with `prefix`. Any name that is not `known` is
    /// an error: a setting that is mistyped must not be silently at its default.
    pub(crate) fn new(
        prefix: &'static str,
        object: &'a Object,
        known: &[&str],
        errors: &mut Errors,
    ) -> Fields<'a> {
        for name in object.keys().filter(|name| !known.contains(&name.as_str())) {
            errors.add(format!("{prefix}{name}"), "there is no such field");
        }
        Fields { prefix, object }
    }

    /// The whole path of a field.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A field that is there and not `null`.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    fn typed<T>(
        &self,
        name: &str,
        what: &str,
        errors: &mut Errors,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Option<T> {
        let value = read(self.get(name)?);
        if value.is_none() {
            errors.add(self.path(name), format!("is {what}"));
        }
        value
    }

    /// A text.
    pub(crate) fn text(&self, name: &str, errors: &mut Errors) -> Option<&'a str> {
        self.typed(name, "a string", errors, Value::as_str)
    }

    /// A truth.
    pub(crate) fn flag(&self, name: &str, errors: &mut Errors) -> Option<bool> {
        self.typed(name, "true or false", errors, Value::as_bool)
    }

    /// A list.
    pub(crate) fn list(&self, name: &str, errors: &mut Errors) -> Option<&'a Vec<Value>> {
        self.typed(name, "an array", errors, Value::as_array)
    }

    /// An object.
    pub(crate) fn object(&self, name: &str, errors: &mut Errors) -> Option<&'a Object> {
        self.typed(name, "an object", errors, Value::as_object)
    }

    /// A whole number from `least` to `most`.
    pub(crate) fn number<N>(
        &self,
        name: &str,
        (least, most): (N, N),
        errors: &mut Errors,
    ) -> Option<N>
    where
        N: TryFrom<u64> + PartialOrd + Display,
    {
        let what = format!("a whole number from {least} to {most}");
        self.typed(name, &what, errors, |value| {
            let number = N::try_from(value.as_u64()?).ok()?;
            (least..=most).contains(&number).then_some(number)
        })
    }

    /// A duration from `least` to `most`, in whole milliseconds.
    pub(crate) fn duration(
        &self,
        name: &str,
        (least, most): (Duration, Duration),
        errors: &mut Errors,
    ) -> Option<Duration> {
        let (low, high) = (duration_text(least), duration_text(most));
        let what = format!("a duration from {low} to {high}, as text with a unit");
        self.typed(name, &what, errors, |value| {
            let duration = parse_duration(value.as_str()?).ok()?;
            let whole = duration.subsec_nanos().is_multiple_of(1_000_000);
            (whole && duration >= least && duration <= most).then_some(duration)
        })
    }
}

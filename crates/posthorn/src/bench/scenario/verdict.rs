//! What a scenario says: its bars, what was seen, and whether they were kept.

use super::usage::load_average;
use crate::failure::Failure;
use crate::output::{self, Output};
use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::json;

/// One bar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    what: String,
    bar: String,
    seen: String,
    passed: bool,
}

/// The outcome of a scenario.
#[derive(Debug)]
pub(crate) struct Verdict {
    scenario: String,
    /// The load average before it began.
    load_before: Option<f64>,
    settings: Vec<(&'static str, String)>,
    checks: Vec<Check>,
    figures: Vec<(String, String)>,
}

impl Verdict {
    /// Of a scenario that begins now, with what can be set about it.
    pub fn begin(scenario: &str, settings: Vec<(&'static str, String)>) -> Verdict {
        Verdict {
            scenario: scenario.to_owned(),
            load_before: load_average(),
            settings,
            checks: Vec::new(),
            figures: Vec::new(),
        }
    }

    /// A bar, and what was seen.
    pub fn check(
        &mut self,
        what: impl Into<String>,
        bar: impl Into<String>,
        seen: impl Into<String>,
        passed: bool,
    ) {
        self.checks.push(Check {
            what: what.into(),
            bar: bar.into(),
            seen: seen.into(),
            passed,
        });
    }

    /// Something that was seen and is no bar.
    pub fn figure(&mut self, what: impl Into<String>, seen: impl Into<String>) {
        self.figures.push((what.into(), seen.into()));
    }

    fn passed(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.passed)
    }

    /// Prints it.
    ///
    /// # Errors
    /// [`Failure::Refused`] when a bar was missed, [`Failure::Closed`].
    pub fn show(&self, output: Output) -> Result<(), Failure> {
        match output {
            Output::Json => output::line(&self.as_json().to_string())?,
            Output::Table => output::line(&self.as_text())?,
        }
        match self.passed() {
            true => Ok(()),
            false => Err(Failure::refused("a bar was missed")),
        }
    }

    fn as_json(&self) -> serde_json::Value {
        let object = |pairs: Vec<(&str, &String)>| -> serde_json::Map<String, serde_json::Value> {
            let values = pairs.into_iter();
            values.map(|(k, v)| (k.to_owned(), json!(v))).collect()
        };
        json!({
            "scenario": self.scenario,
            "debug_build": cfg!(debug_assertions),
            "load_average": [self.load_before, load_average()],
            "settings": object(self.settings.iter().map(|(k, v)| (*k, v)).collect()),
            "checks": self.checks,
            "figures": object(self.figures.iter().map(|(k, v)| (k.as_str(), v)).collect()),
            "passed": self.passed(),
        })
    }

    fn as_text(&self) -> String {
        let mut bars = Table::new();
        bars.load_preset(presets::NOTHING);
        bars.set_header(["", "bar", "seen", ""]);
        for check in &self.checks {
            let kept = if check.passed { "kept" } else { "MISSED" };
            bars.add_row([&check.what, &check.bar, &check.seen, kept]);
        }
        let mut figures = Table::new();
        figures.load_preset(presets::NOTHING);
        for (what, seen) in &self.figures {
            figures.add_row([what, seen]);
        }
        let settings: Vec<String> = self
            .settings
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let load = |load: Option<f64>| load.map_or_else(|| "-".to_owned(), |l| format!("{l:.1}"));
        format!(
            "{}: {}; load average {} before, {} after\n\n{}\n\n{}",
            self.scenario,
            settings.join(", "),
            load(self.load_before),
            load(load_average()),
            bars.trim_fmt(),
            figures.trim_fmt(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_missed_bar_fails_the_scenario_and_none_at_all_does_too() {
        let mut verdict = Verdict::begin("dead", vec![("queued", "5".to_owned())]);
        assert!(!verdict.passed(), "nothing was shown");
        verdict.check("requests", "at most 36", "36", true);
        assert!(verdict.passed());
        verdict.check("probes", "1", "2", false);
        verdict.figure("opened after", "12 ms");
        assert!(!verdict.passed());
        let json = verdict.as_json();
        assert_eq!(json["checks"][1]["passed"], false);
        assert_eq!(json["settings"]["queued"], "5");
        let text = verdict.as_text();
        assert!(text.contains("MISSED") && text.contains("12 ms"), "{text}");
        let shown = verdict.show(Output::Json);
        assert_eq!(shown, Err(Failure::refused("a bar was missed")));
    }
}

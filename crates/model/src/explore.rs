//! Explores and reports.

use crate::action::Action;
use crate::line::Line;
use crate::settings::Settings;
use crate::state::State;
use stateright::{Checker, HasDiscoveries, Model};
use std::fmt;

/// What an exploration found.
pub struct Report {
    /// What was explored.
    pub name: &'static str,
    /// Different states.
    pub states: usize,
    /// Steps taken.
    pub steps: usize,
    /// The longest shortest way to a state.
    pub depth: usize,
    /// Properties that do not hold.
    pub broken: Vec<Broken>,
}

/// A property that does not hold.
pub struct Broken {
    /// Which.
    pub property: &'static str,
    /// How it comes to that; empty for what was never seen.
    pub trace: Vec<(State, Option<Action>)>,
}

/// Explores everything within `settings`, with so many threads.
#[must_use]
pub fn explore(settings: Settings, threads: usize) -> Report {
    let line = Line::new(settings);
    let properties = line.properties();
    let checker = line
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let mut found = checker.discoveries();
    let broken = properties.into_iter().filter_map(|property| {
        let discovery = found.remove(property.name);
        let bad = property.expectation.discovery_is_failure();
        let trace = match (bad, discovery) {
            (true, Some(path)) => path.into_vec(),
            (false, None) => Vec::new(),
            _ => return None,
        };
        Some(Broken {
            property: property.name,
            trace,
        })
    });
    Report {
        name: settings.name,
        broken: broken.collect(),
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
    }
}

impl Report {
    /// Whether `property` was seen to be broken.
    #[must_use]
    pub fn breaks(&self, property: &str) -> bool {
        self.broken.iter().any(|broken| broken.property == property)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            name,
            states,
            steps,
            depth,
            ..
        } = self;
        write!(f, "{name}: {states} states, {steps} steps, depth {depth}")?;
        for broken in &self.broken {
            write!(f, "\n{broken}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.trace.is_empty() {
            return write!(f, "  NEVER SEEN: {}", self.property);
        }
        write!(f, "  BROKEN: {}", self.property)?;
        for (_, action) in &self.trace {
            if let Some(action) = action {
                write!(f, "\n    {action:?}")?;
            }
        }
        if let Some((last, _)) = self.trace.last() {
            write!(f, "\n    in the end: {last:?}")?;
        }
        Ok(())
    }
}

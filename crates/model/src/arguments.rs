//! An exploration of one's own from the command line: `unordered crashes=3 lags=1`.

use crate::settings::{Settings, Sweep};
use crate::suite;

/// Reads which exploration is meant, and what is to be different in it. `None` when that
/// cannot be read.
#[must_use]
pub fn read(arguments: &[String]) -> Option<Settings> {
    let (name, changes) = arguments.split_first()?;
    let mut settings = suite::gate()
        .into_iter()
        .find(|settings| settings.name.replace(' ', "-") == *name)?;
    for change in changes {
        let (what, value) = change.split_once('=')?;
        set(&mut settings, what, value.parse().ok()?)?;
    }
    Some(settings)
}

fn set(settings: &mut Settings, what: &str, value: u8) -> Option<()> {
    let mishaps = &mut settings.mishaps;
    match what {
        "schedulers" => settings.schedulers = usize::from(value.clamp(1, 2)),
        "dispatchers" => settings.dispatchers = usize::from(value.clamp(1, 2)),
        "events" => settings.events = usize::from(value.clamp(1, 3)),
        "cap" => settings.cap = usize::from(value.max(1)),
        "attempts" => settings.attempts = value.max(1),
        "breaker" => settings.breaker = value > 0,
        "each_write" => settings.each_write = value > 0,
        "sweep" => {
            settings.sweep =
                *[Sweep::Never, Sweep::AtRest, Sweep::Always].get(usize::from(value))?;
        }
        "settles" => settings.settles = value > 0,
        "crashes" => mishaps.crashes = value,
        "failures" => mishaps.failures = value,
        "lags" => mishaps.lags = value,
        "expiries" => mishaps.expiries = value,
        "forgets" => mishaps.forgets = value,
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn what_is_said_is_changed_and_nothing_else() {
        let settings = read(&words("ordered crashes=4 events=2")).unwrap();
        assert!(settings.ordered);
        assert_eq!((settings.mishaps.crashes, settings.events), (4, 2));
        assert_eq!(settings.attempts, suite::ordered().attempts);
        for bad in [
            "",
            "both",
            "ordered crashes",
            "ordered crashes=x",
            "ordered x=1",
        ] {
            assert!(read(&words(bad)).is_none(), "{bad:?}");
        }
    }
}

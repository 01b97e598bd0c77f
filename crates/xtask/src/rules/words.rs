//! Words that have no place in the repository: unfinished work, tests that are switched off, and
//! paths that exist on one machine only.
//!
//! The words are spelled in two pieces here so that this file passes its own rule.

use crate::finding::{Finding, Rule};
use crate::repository::TextFile;

const UNFINISHED: Rule = Rule {
    name: "unfinished",
    reason: "what is merged is finished; what is missing is an issue, not a comment",
};
const SWITCHED_OFF: Rule = Rule {
    name: "switched-off",
    reason: "a test that does not run proves nothing; mend it or delete it",
};
const MACHINE_PATH: Rule = Rule {
    name: "machine-path",
    reason: "a path of one machine breaks on every other; use a relative path or a temporary folder",
};
const OUTSIDE: Rule = Rule {
    name: "outside",
    reason: "everything the project needs travels with it",
};

const MARKERS: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];
const MACROS: [&str; 2] = [concat!("todo", "!"), concat!("unimplemented", "!")];
const IGNORE: &str = concat!("#[", "ignore");
const SIBLING: &str = concat!("../", "shared");
const PREFIXES: [&str; 3] = [
    concat!("/t", "mp/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
];

/// Forbidden words of one file, tests and documents included.
pub fn check(file: &TextFile) -> Vec<Finding> {
    let lines = file.text.lines().zip(1..);
    lines
        .flat_map(|(line, number)| {
            judge(line).map(move |(rule, word)| {
                Finding::new(rule, &file.path, number, format!("`{word}` is there"))
            })
        })
        .collect()
}

fn judge(line: &str) -> impl Iterator<Item = (Rule, &'static str)> {
    let unfinished = MARKERS.iter().filter(|word| has_word(line, word));
    let macros = MACROS.iter().filter(|word| has_start(line, word, is_name));
    let machine = PREFIXES
        .iter()
        .filter(|prefix| has_start(line, prefix, continues_a_path));
    let off = line.contains(IGNORE).then_some((SWITCHED_OFF, IGNORE));
    let outside = line.contains(SIBLING).then_some((OUTSIDE, SIBLING));
    let named = unfinished.chain(macros).map(|word| (UNFINISHED, *word));
    let found: Vec<_> = named
        .chain(machine.map(|word| (MACHINE_PATH, *word)))
        .chain(off)
        .chain(outside)
        .collect();
    found.into_iter()
}

/// Whether `word` stands in the line with no letter, digit or `_` on either side.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

/// Whether `word` stands in the line where no character that `continues` it comes before.
fn has_start(line: &str, word: &str, continues: fn(char) -> bool) -> bool {
    line.match_indices(word)
        .any(|(at, _)| !line[..at].chars().next_back().is_some_and(continues))
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A prefix after one of these is the middle of a longer, usually relative or templated, path.
fn continues_a_path(c: char) -> bool {
    is_name(c) || matches!(c, '/' | '.' | '-' | '}' | '~' | '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&'static str> {
        let file = TextFile {
            path: "docs/a.md".to_owned(),
            text: text.to_owned(),
        };
        check(&file)
            .iter()
            .map(|finding| finding.rule.name)
            .collect()
    }

    #[test]
    fn unfinished_work_is_caught() {
        assert_eq!(names(&format!("// {}: later", MARKERS[0])), ["unfinished"]);
        assert_eq!(names(&format!("// ({})", MARKERS[1])), ["unfinished"]);
        assert_eq!(names(&format!("    {}(\"x\")", MACROS[0])), ["unfinished"]);
        assert_eq!(names(&format!("    {}()", MACROS[1])), ["unfinished"]);
    }

    #[test]
    fn words_that_only_contain_a_marker_pass() {
        let inside = format!("const {}S: u8 = 0; // MAS{}N", MARKERS[0], MARKERS[0]);
        assert!(names(&inside).is_empty());
        assert!(names("a to-do list; mastodon").is_empty());
    }

    #[test]
    fn switched_off_tests_are_caught() {
        assert_eq!(
            names(&format!("    {IGNORE} = \"slow\"]")),
            ["switched-off"]
        );
    }

    #[test]
    fn paths_of_one_machine_are_caught() {
        for prefix in PREFIXES {
            for opening in ["", "\"", "`", " ", "(", "=", ":"] {
                let line = format!("x{opening}{prefix}a").replacen('x', "", 1);
                assert_eq!(names(&line), ["machine-path"], "{line}");
            }
        }
    }

    #[test]
    fn longer_paths_that_contain_one_pass() {
        let inner = PREFIXES[2];
        assert!(names(&format!("https://example.com{inner}a and target{inner}b")).is_empty());
        assert!(names(&format!("${{dir}}{inner}a")).is_empty());
    }

    #[test]
    fn what_lies_outside_the_project_is_caught() {
        assert_eq!(names(&format!("see {SIBLING}/a.md")), ["outside"]);
    }
}

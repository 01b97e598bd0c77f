//! Files and functions that one can hold in the head.

use crate::finding::{Finding, Rule};
use crate::source::Source;

/// Longest file, without its tests, in lines.
const MAX_FILE: usize = 500;
/// Longest function, in lines.
const MAX_FUNCTION: usize = 80;

const FILE: Rule = Rule {
    name: "file-size",
    reason: "a file holds one idea; past 500 lines it holds several",
};
const FUNCTION: Rule = Rule {
    name: "function-size",
    reason: "a function is read at one glance; past 80 lines it hides its steps",
};

/// What is too long in one file that is no test.
pub fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = source.code_lines();
    if lines > MAX_FILE {
        findings.push(Finding::new(
            FILE,
            &source.path,
            1,
            format!("{lines} lines without tests"),
        ));
    }
    for function in source
        .functions
        .iter()
        .filter(|function| function.lines > MAX_FUNCTION)
    {
        let what = format!("`{}` has {} lines", function.name, function.lines);
        findings.push(Finding::new(FUNCTION, &source.path, function.line, what));
    }
    findings
}

/// The median of some lengths, 0 of none.
pub fn median(mut lengths: Vec<usize>) -> usize {
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&'static str> {
        let source = Source::parse("crates/broker/src/a.rs", text).unwrap();
        check(&source)
            .iter()
            .map(|finding| finding.rule.name)
            .collect()
    }

    fn function(statements: usize) -> String {
        format!("fn a() {{\n{}}}\n", "    b();\n".repeat(statements))
    }

    #[test]
    fn a_long_function_is_caught_at_the_line_after_the_last_allowed() {
        assert!(names(&function(78)).is_empty());
        assert_eq!(names(&function(79)), ["function-size"]);
    }

    #[test]
    fn a_long_file_is_caught_and_its_tests_do_not_count() {
        let consts = |n: usize| "const A: u8 = 0;\n".repeat(n);
        assert!(names(&consts(500)).is_empty());
        assert_eq!(names(&consts(501)), ["file-size"]);
        let tested = format!(
            "{}#[cfg(test)]\nmod tests {{\n{}}}\n",
            consts(500),
            consts(600)
        );
        assert!(names(&tested).is_empty());
    }

    #[test]
    fn a_long_test_is_no_finding() {
        let test = format!("#[test]\n{}", function(200));
        assert!(names(&test).is_empty());
    }

    #[test]
    fn the_median_of_nothing_is_nothing() {
        assert_eq!(median(vec![]), 0);
        assert_eq!(median(vec![9, 1, 5]), 5);
    }
}

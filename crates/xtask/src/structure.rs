//! `cargo xtask structure`: runs every rule over the repository and prints what is broken.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, Result};

use crate::finding::{Finding, Rule};
use crate::metadata;
use crate::repository::{self, TextFile};
use crate::rules::{clock, edges, providers, sizes, words, zones};
use crate::source::Source;

const SYNTAX: Rule = Rule {
    name: "syntax",
    reason: "what does not parse cannot be checked",
};

/// Checks the repository and reports; `false` when a rule is broken.
///
/// # Errors
/// When git or cargo cannot answer.
pub fn run() -> Result<bool> {
    let root = repository::root();
    let files = repository::text_files(&root)?;
    let (sources, mut findings) = parse_sources(&files);
    let lengths: Vec<usize> = sources.iter().map(Source::code_lines).collect();
    findings.extend(check_edges(&root)?);
    findings.extend(sources.iter().flat_map(sizes::check));
    findings.extend(sources.iter().flat_map(clock::check));
    findings.extend(files.iter().flat_map(words::check));
    findings.extend(providers::check(&root)?);
    report(&findings, lengths);
    Ok(findings.is_empty())
}

fn report(findings: &[Finding], lengths: Vec<usize>) {
    for finding in findings {
        println!("{finding}");
    }
    let longest = lengths.iter().max().copied().unwrap_or(0);
    let count = lengths.len();
    println!(
        "structure: {} broken; {count} source files, median {} lines, longest {longest}",
        findings.len(),
        sizes::median(lengths),
    );
}

fn check_edges(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in metadata::read(root)?.packages {
        let path = Path::new(&package.manifest_path);
        let text = std::fs::read_to_string(path).context("a manifest cannot be read")?;
        let relative = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
        findings.extend(edges::check(&package, (&relative, &text)));
    }
    Ok(findings)
}

/// Parses every source that ships, and finds those that do not parse. Test files are left out,
/// also a test module that lives in a file of its own.
fn parse_sources(files: &[TextFile]) -> (Vec<Source>, Vec<Finding>) {
    let mut sources = Vec::new();
    let mut findings = Vec::new();
    let shipping = files
        .iter()
        .filter(|file| file.path.ends_with(".rs") && !zones::is_test_file(&file.path));
    for file in shipping {
        match Source::parse(&file.path, &file.text) {
            Ok(source) => sources.push(source),
            Err(error) => findings.push(Finding::new(SYNTAX, &file.path, 1, format!("{error:#}"))),
        }
    }
    let tests: HashSet<String> = sources.iter().flat_map(test_module_folders).collect();
    sources.retain(|source| !belongs_to_a_test_module(&source.path, &tests));
    (sources, findings)
}

/// Where the out-of-line test modules of a file live, without `.rs`.
fn test_module_folders(source: &Source) -> Vec<String> {
    let stem = source.path.strip_suffix(".rs").unwrap_or(&source.path);
    let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let home = if matches!(name, "lib" | "main" | "mod") {
        folder
    } else {
        stem
    };
    source
        .test_modules
        .iter()
        .map(|module| format!("{home}/{module}"))
        .collect()
}

fn belongs_to_a_test_module(path: &str, folders: &HashSet<String>) -> bool {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    Path::new(stem)
        .ancestors()
        .any(|part| folders.contains(&*part.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_test_module_in_its_own_file_is_left_out() {
        let files = [
            file("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod tests;\n"),
            file("crates/a/src/b.rs", "#[cfg(test)]\nmod cases;\n"),
            file("crates/a/src/tests.rs", "mod deep;\n"),
            file("crates/a/src/tests/deep.rs", ""),
            file("crates/a/src/b/cases.rs", ""),
            file("crates/a/tests/suite.rs", ""),
        ];
        let (sources, findings) = parse_sources(&files);
        let paths: Vec<&str> = sources.iter().map(|source| source.path.as_str()).collect();
        assert_eq!(paths, ["crates/a/src/lib.rs", "crates/a/src/b.rs"]);
        assert!(findings.is_empty());
    }

    #[test]
    fn a_file_that_does_not_parse_is_a_finding() {
        let (_, findings) = parse_sources(&[file("crates/a/src/lib.rs", "fn a( {")]);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].rule, SYNTAX);
    }
}

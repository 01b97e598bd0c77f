//! Which test proves what: the tables of `tests/README.md`, held against the tests.

use crate::markdown::{code_spans, compare_generated, files, read};
use std::collections::BTreeSet;
use std::fmt::Write as _;

const PAGE: &str = "tests/README.md";

/// The tests of the workspace: file and name.
fn tests() -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for file in files("crates", ".rs")
        .into_iter()
        .chain(files("tests", ".rs"))
    {
        let mut is_test = false;
        for line in read(&file).lines().map(str::trim_start) {
            if line.starts_with("#[") {
                is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            } else if is_test && line.contains("fn ") {
                let (_, rest) = line.split_once("fn ").unwrap();
                let name = rest.split('(').next().unwrap().to_owned();
                found.insert((file.clone(), name));
                is_test = false;
            }
        }
    }
    found
}

/// The ids of failure cases in a test's name, such as `ssrf_02`.
fn ids_in(name: &str) -> Vec<String> {
    let words: Vec<&str> = name.split('_').collect();
    let families = [
        "ssrf", "http", "hdr", "sig", "ra", "bo", "cb", "js", "ing", "fan", "dlq", "ops",
    ];
    let pairs = words.windows(2).filter(|pair| {
        let number = pair[1].len() == 2 && pair[1].bytes().all(|b| b.is_ascii_digit());
        families.contains(&pair[0]) && number
    });
    pairs
        .map(|pair| format!("{}-{}", pair[0].to_uppercase(), pair[1]))
        .collect()
}

/// The cases of the page, with what they are about.
fn cases() -> Vec<(String, String)> {
    let page = read(PAGE);
    let (_, rest) = page.split_once("<!-- generated: cases -->").unwrap();
    let (table, _) = rest.split_once("<!-- end: cases -->").unwrap();
    let rows = table
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('-'));
    rows.map(|row| {
        let mut cells = row.split('|').map(str::trim).skip(1);
        (
            cells.next().unwrap().to_owned(),
            cells.next().unwrap().to_owned(),
        )
    })
    .filter(|(id, _)| id != "id")
    .collect()
}

#[test]
fn the_table_of_failure_cases_names_the_files_with_their_tests() {
    let tests = tests();
    let mut table = "\n| id | what goes wrong elsewhere | tests in |\n|---|---|---|\n".to_owned();
    let cases = cases();
    assert!(cases.len() >= 60, "{} cases", cases.len());
    for (id, about) in &cases {
        let mine = tests.iter().filter(|(_, name)| ids_in(name).contains(id));
        let files: BTreeSet<String> = mine.map(|(file, _)| format!("`{file}`")).collect();
        let files: Vec<String> = files.into_iter().collect();
        let shown = match files.is_empty() {
            true => "**none yet**".to_owned(),
            false => files.join(", "),
        };
        writeln!(table, "| {id} | {about} | {shown} |").unwrap();
    }
    compare_generated(PAGE, "cases", &table);
}

#[test]
fn every_case_that_a_test_names_is_in_the_table() {
    let known: BTreeSet<String> = cases().into_iter().map(|(id, _)| id).collect();
    for (file, name) in tests() {
        for id in ids_in(&name) {
            assert!(known.contains(&id), "{file}: {name} names {id}");
        }
    }
}

#[test]
fn every_test_that_the_page_names_exists() {
    let tests = tests();
    let mut count = 0;
    let mut missing = Vec::new();
    for span in code_spans(&read(PAGE)) {
        let Some((file, name)) = span.split_once(".rs::") else {
            continue;
        };
        count += 1;
        if !tests.contains(&(format!("{file}.rs"), name.to_owned())) {
            missing.push(span);
        }
    }
    assert!(count >= 30, "{count} tests are named");
    assert!(missing.is_empty(), "no such test:\n{}", missing.join("\n"));
}

#[test]
fn every_suite_is_in_the_layout() {
    let page = read(PAGE);
    let suites = files("tests/tests", ".rs").into_iter();
    let suites = suites.filter(|file| file.matches('/').count() == 2);
    for suite in suites {
        assert!(
            page.contains(&format!("| `{suite}` |")),
            "{suite} is not told"
        );
    }
}

#[test]
fn ids_are_read_out_of_names() {
    assert_eq!(ids_in("cb_01_cb_03_every_sequence"), ["CB-01", "CB-03"]);
    assert_eq!(ids_in("http_12_a_2xx_is"), ["HTTP-12"]);
    assert!(ids_in("hdr_custom_headers_arrive").is_empty());
}

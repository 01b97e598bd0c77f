//! Links lead somewhere, and so do the paths that prose names.

use crate::markdown::{anchors, code_spans, documents, links, read, root};
use std::path::Path;

#[test]
fn every_link_has_a_target_and_every_anchor_a_heading() {
    let mut broken = Vec::new();
    for document in documents() {
        for link in links(&read(&document)) {
            if link.starts_with("https://") || link.starts_with("http://") {
                continue;
            }
            if !leads_somewhere(&document, &link) {
                broken.push(format!("{document}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

fn leads_somewhere(document: &str, link: &str) -> bool {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let folder = Path::new(document).parent().unwrap();
    let target = match path {
        "" => Path::new(document).to_owned(),
        path => folder.join(path),
    };
    let target = root().join(target);
    if anchor.is_empty() {
        return target.exists();
    }
    std::fs::read_to_string(target).is_ok_and(|text| anchors(&text).iter().any(|a| a == anchor))
}

/// What looks like a path of this repository.
fn is_path(span: &str) -> bool {
    let tops = [
        "crates/",
        "tests/",
        "docs/",
        "deploy/",
        "proto/",
        "examples/",
        ".ci/",
        ".config/",
    ];
    let plain = !span.contains([' ', '*', '{', '<', '…', ':']);
    plain && tops.iter().any(|top| span.starts_with(top))
}

#[test]
fn every_path_that_a_document_names_exists() {
    let mut missing = Vec::new();
    let mut looked_at = 0;
    for document in documents() {
        for span in code_spans(&read(&document))
            .into_iter()
            .filter(|span| is_path(span))
        {
            looked_at += 1;
            if !root().join(&span).exists() {
                missing.push(format!("{document}: {span}"));
            }
        }
    }
    assert!(looked_at > 50, "only {looked_at} paths were found");
    assert!(missing.is_empty(), "no such file:\n{}", missing.join("\n"));
}

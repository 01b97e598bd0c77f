//! Reading documents: code blocks, headings, links, and the parts that are generated.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap().to_owned()
}

/// The text of a file of the repository.
pub fn read(path: &str) -> String {
    let file = root().join(path);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files below `folder` whose names end in `suffix`, as paths from the root, in order.
pub fn files(folder: &str, suffix: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(&root(), Path::new(folder), suffix, &mut found);
    found.sort();
    found
}

fn collect(root: &Path, folder: &Path, suffix: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            collect(root, &path, suffix, found);
        } else if path.to_str().unwrap().ends_with(suffix) {
            found.push(path.to_str().unwrap().to_owned());
        }
    }
}

/// Every document of the project.
pub fn documents() -> Vec<String> {
    let top = [
        "README",
        "ARCHITECTURE",
        "CHANGELOG",
        "CONTRIBUTING",
        "SECURITY",
    ];
    let mut all: Vec<String> = top.iter().map(|name| format!("{name}.md")).collect();
    all.push("tests/README.md".to_owned());
    all.extend(files("docs", ".md"));
    all
}

/// A fenced block of code.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// Its language, as written behind the fence.
    pub language: String,
    /// What is in it, without the fences.
    pub text: String,
    /// The line of the opening fence.
    pub line: usize,
}

/// The blocks of a document, in order.
pub fn blocks(document: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (line, number) in document.lines().zip(1..) {
        let fence = line.strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(language)) => {
                open = Some(Block {
                    language: language.trim().to_owned(),
                    text: String::new(),
                    line: number,
                });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    found
}

/// The document without its blocks of code.
pub fn prose(document: &str) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in document.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if !inside {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// What is between single backticks in the prose.
pub fn code_spans(document: &str) -> Vec<String> {
    let prose = prose(document);
    let lines = prose.lines();
    lines
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

/// The anchors of a document's headings, as GitHub makes them.
pub fn anchors(document: &str) -> Vec<String> {
    let prose = prose(document);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

/// The targets of the links in the prose.
pub fn links(document: &str) -> Vec<String> {
    let prose = prose(document);
    let ends = prose.split("](").skip(1);
    ends.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
        .collect()
}

/// Compares the part of a document between its two marks with what it should be; with
/// `POSTHORN_BLESS` set, writes it.
pub fn compare_generated(path: &str, mark: &str, wanted: &str) {
    let text = read(path);
    let (open, close) = (
        format!("<!-- generated: {mark} -->\n"),
        format!("<!-- end: {mark} -->"),
    );
    let (before, rest) = text
        .split_once(&open)
        .unwrap_or_else(|| panic!("{path} has no mark {mark}"));
    let (found, after) = rest
        .split_once(&close)
        .unwrap_or_else(|| panic!("{path} does not end {mark}"));
    if found == wanted {
        return;
    }
    if std::env::var_os("POSTHORN_BLESS").is_some() {
        let text = format!("{before}{open}{wanted}{close}{after}");
        return std::fs::write(root().join(path), text).unwrap();
    }
    let missing = wanted.lines().filter(|line| !found.contains(line));
    let stale = found.lines().filter(|line| !wanted.contains(line));
    panic!(
        "{path}, part {mark}, is not what the code says; POSTHORN_BLESS=1 writes it.\n\
         to add:\n{}\nto drop:\n{}",
        missing.collect::<Vec<_>>().join("\n"),
        stale.collect::<Vec<_>>().join("\n"),
    );
}

#[test]
fn blocks_spans_and_anchors_are_read_as_they_stand() {
    let text = "# A `b` (c)\n\nsee `x/y.rs` [l](z.md#q)\n\n```sh\nrun `not a span`\n```\n";
    let found = blocks(text);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].language.as_str(), found[0].line), ("sh", 5));
    assert_eq!(found[0].text, "run `not a span`\n");
    assert_eq!(code_spans(text), ["b", "x/y.rs"]);
    assert_eq!(anchors(text), ["a-b-c"]);
    assert_eq!(links(text), ["z.md#q"]);
}

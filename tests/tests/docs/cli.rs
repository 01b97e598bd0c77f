//! The page of the command line is what the command line says about itself.

use crate::help::{Setting, run, settings};
use crate::markdown::{blocks, code_spans, compare_generated, documents, read};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// What is configured rather than typed, and told in the page of settings.
const CONFIGURED: [&str; 3] = ["dev", "setup", "bench"];

/// A command: its words behind `posthorn`, and what it is for.
struct Command {
    words: Vec<String>,
    about: String,
}

/// The commands that a help text lists.
fn listed(help: &str) -> Vec<(String, String)> {
    let (_, rest) = help.split_once("\nCommands:\n").unwrap_or_default();
    let rows = rest.lines().take_while(|line| line.starts_with("  "));
    let rows = rows.filter_map(|row| row.trim().split_once("  "));
    rows.map(|(name, about)| (name.trim().to_owned(), about.trim().to_owned()))
        .filter(|(name, _)| name != "help")
        .collect()
}

/// The commands that do something, in their order.
async fn leaves() -> Vec<Command> {
    let mut found = Vec::new();
    for (name, about) in listed(&run("posthorn -h").await) {
        let below = match CONFIGURED.contains(&name.as_str()) {
            true => Vec::new(),
            false => listed(&run(&format!("posthorn {name} -h")).await),
        };
        if below.is_empty() {
            let words = vec![name];
            found.push(Command { words, about });
            continue;
        }
        for (verb, about) in below {
            let words = vec![name.clone(), verb];
            found.push(Command { words, about });
        }
    }
    found
}

fn usage(help: &str) -> &str {
    let line = help.lines().find_map(|line| line.strip_prefix("Usage: "));
    line.unwrap().trim()
}

/// The flags of a command that the head of the page has not told of.
fn own(all: &[Setting]) -> Vec<Setting> {
    let told = ["Connection", "List", "Watch"];
    let own = |s: &&Setting| s.flag != "--output" && !told.contains(&s.section.as_str());
    all.iter().filter(own).cloned().collect()
}

/// Which of the flags that many have this one has too.
fn shared(all: &[Setting]) -> &'static str {
    let has = |section| all.iter().any(|setting| setting.section == section);
    match (has("List"), has("Watch")) {
        (true, _) => "\nWith the flags of a list.\n",
        (false, true) => "\nIt can be watched.\n",
        (false, false) => "",
    }
}

fn table(page: &mut String, settings: &[Setting]) {
    if settings.is_empty() {
        return;
    }
    page.push_str("\n| flag | default | |\n|---|---|---|\n");
    for setting in settings {
        let default = setting.default.as_ref();
        let default = default.map_or(String::new(), |text| format!("`{text}`"));
        let env = setting.env.as_ref();
        let env = env.map_or(String::new(), |name| format!(" (`{name}`)"));
        let help = setting.help.replace('|', "\\|").replace('<', "&lt;");
        writeln!(page, "| `{}` | {default} | {help}{env} |", setting.flag).unwrap();
    }
}

#[tokio::test]
async fn the_page_of_the_command_line_is_what_it_says_itself() {
    let leaves = leaves().await;
    assert!(leaves.len() > 40, "{} commands", leaves.len());
    let mut page = String::new();
    for Command { words, about } in leaves {
        let name = format!("posthorn {}", words.join(" "));
        write!(page, "\n### {name}\n\n{about}.\n").unwrap();
        if CONFIGURED.contains(&words[0].as_str()) {
            continue;
        }
        let help = run(&format!("{name} -h")).await;
        write!(page, "\n`{}`\n", usage(&help)).unwrap();
        let all = settings(&name).await;
        table(&mut page, &own(&all));
        page.push_str(shared(&all));
    }
    page.push('\n');
    compare_generated("docs/cli.md", "commands", &page);
}

/// The flags of every command by its words; a group of commands has none of its own.
async fn known() -> BTreeMap<String, BTreeSet<String>> {
    let mut known = BTreeMap::new();
    for Command { words, .. } in leaves().await {
        let all = settings(&format!("posthorn {}", words.join(" "))).await;
        let flags = all.into_iter().map(|setting| setting.flag).collect();
        known.insert(words.join(" "), flags);
        known.entry(words[0].clone()).or_default();
    }
    known
}

/// What is wrong with a command line, where something is.
fn fault(line: &str, known: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let name = |count: usize| words.get(..count).map(|words| words.join(" "));
    let flags = [2, 1].map(|count| known.get(&name(count)?));
    let Some(flags) = flags.into_iter().flatten().next() else {
        return (!words.is_empty() && !words[0].starts_with('-'))
            .then(|| "there is no such command".to_owned());
    };
    let given = words.iter().filter(|word| word.starts_with("--"));
    let mut given = given.map(|word| word.split('=').next().unwrap());
    let unknown = given.find(|flag| {
        let everywhere = ["--help", "--version", "--output"];
        !everywhere.contains(flag) && !flags.contains(*flag)
    });
    unknown.map(|flag| format!("there is no {flag}"))
}

/// The command lines of a document: in its prose, and in what is typed.
fn command_lines(document: &str) -> Vec<String> {
    let typed = blocks(document).into_iter();
    let typed = typed.filter(|block| block.language == "sh");
    let typed = typed.flat_map(|block| block.text.lines().map(str::to_owned).collect::<Vec<_>>());
    let all = code_spans(document).into_iter().chain(typed);
    let parts = all.flat_map(|line| {
        let parts = line.split(['|', '$', '>', '(', ')']).map(str::trim);
        parts.map(str::to_owned).collect::<Vec<_>>()
    });
    parts.filter(|part| part.starts_with("posthorn ")).collect()
}

#[tokio::test]
async fn every_command_that_a_document_names_is_one_and_has_these_flags() {
    let known = known().await;
    let mut count = 0;
    let mut faults = Vec::new();
    for document in documents() {
        for line in command_lines(&read(&document)) {
            count += 1;
            let fault = fault(&line, &known);
            faults.extend(fault.map(|fault| format!("{document}: {line}: {fault}")));
        }
    }
    assert!(count > 100, "{count} command lines");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_command_line_is_held_against_the_commands() {
    let flags = |flags: &[&str]| flags.iter().map(|&flag| flag.to_owned()).collect();
    let known = BTreeMap::from([
        ("dlq".to_owned(), flags(&[])),
        ("dlq list".to_owned(), flags(&["--reason"])),
        ("send".to_owned(), flags(&["--tenant"])),
    ]);
    for good in [
        "posthorn dlq",
        "posthorn dlq list --reason gone --output json",
        "posthorn send a.b {} --tenant=t",
        "posthorn --version",
    ] {
        assert_eq!(fault(good, &known), None, "{good}");
    }
    for bad in [
        "posthorn dql list",
        "posthorn dlq list --tenant t",
        "posthorn send --reason x",
    ] {
        assert!(fault(bad, &known).is_some(), "{bad}");
    }
    let text = "see `posthorn a b` and `posthorn-ingest`\n\n```sh\nX=$(posthorn c -q | x)\n```\n";
    assert_eq!(command_lines(text), ["posthorn a b", "posthorn c -q"]);
}

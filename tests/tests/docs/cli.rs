//! The page of the command line is what the command line says about itself.

use crate::help::{Setting, run, settings};
use crate::markdown::compare_generated;
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

//! The README, typed.
//!
//! Its blocks for the shell are run as they stand, in their order, each in the terminal that its
//! first line names; the blocks of text after them are what must then be seen. Only the ports
//! are others, and the two commands that build are replaced by what they have built: those are
//! compared with what the gate runs.

use crate::desk::{DEV, Desk};
use crate::help::SERVICES;
use crate::markdown::{Block, blocks, read};

const TEST: &str = "cargo test --workspace";
/// By which whoever looks at the receiver meanwhile sees that the letter, which follows its
/// answer by a moment, is written.
const LETTERS: &str = "posthorn dlq list --tenant acme --output json";

/// What a block is for, by its first line or its commands.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// Typed in this terminal.
    Typed(u8),
    /// Must be seen in this terminal.
    Seen(u8),
    /// Needs an engine or minutes: its form is checked.
    Looked,
    /// Not for a shell.
    Other,
}

fn kind(block: &Block) -> Kind {
    let first = block.text.lines().next().unwrap_or_default();
    let terminal = |prefix: &str| {
        first
            .strip_prefix(prefix)?
            .split([':', ' '])
            .next()?
            .parse()
            .ok()
    };
    match block.language.as_str() {
        "sh" => match terminal("# terminal ") {
            Some(number) => Kind::Typed(number),
            None => Kind::Looked,
        },
        "text" => terminal("terminal ").map_or(Kind::Other, Kind::Seen),
        _ => Kind::Other,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_readme_do_what_it_says() {
    let mut desk = Desk::new().await;
    let (mut typed, mut seen) = (0, 0);
    for block in blocks(&read("README.md")) {
        match kind(&block) {
            Kind::Typed(number) => {
                if block.text.contains("dlq list") {
                    desk.wait_for(number, LETTERS, "dl_").await;
                }
                desk.type_in(number, &block.text).await;
                typed += 1;
            }
            Kind::Seen(number) => {
                desk.sees(number, "README", &block).await;
                seen += 1;
            }
            Kind::Looked | Kind::Other => {}
        }
    }
    assert!(typed >= 8 && seen >= 5, "{typed} typed, {seen} seen");
    desk.leave();
}

#[test]
fn the_two_commands_that_build_are_those_of_the_gate() {
    let readme = read("README.md");
    let lines: Vec<&str> = readme.lines().collect();
    assert!(lines.contains(&DEV) && lines.contains(&TEST));
    let gate = read("crates/xtask/src/ci.rs");
    assert!(gate.contains(r#"arguments: &["test", "--workspace"]"#));
}

#[test]
fn what_is_not_typed_is_at_least_well_formed() {
    let readme = read("README.md");
    let mut count = 0;
    for block in blocks(&readme)
        .iter()
        .filter(|block| kind(block) == Kind::Looked)
    {
        let known = |line: &str| {
            let words = [
                "docker ",
                "export POSTHORN_ADMIN_KEY=",
                "export POSTHORN_SECRET_KEYS=",
                "kubectl ",
                "git ",
                "cargo build ",
                TEST,
            ];
            let service = SERVICES.iter().any(|name| line.starts_with(name));
            service || words.iter().any(|word| line.starts_with(word))
        };
        let lines = block
            .text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            assert!(
                known(line),
                "README line {}: {line} is not run by any test",
                block.line
            );
        }
        let checked = std::process::Command::new("bash")
            .args(["-n", "-c", &block.text])
            .status();
        assert!(checked.unwrap().success(), "README line {}", block.line);
        count += 1;
    }
    assert!(count >= 2, "{count} blocks");
}

//! The README, typed.
//!
//! Its blocks for the shell are run as they stand, in their order, each in the terminal that its
//! first line names; the blocks of text after them are what must then be seen. Only the ports
//! are others, and the two commands that build are replaced by what they have built: those are
//! compared with what the gate runs.

use crate::help::SERVICES;
use crate::markdown::{Block, blocks, read};
use crate::terminal::{Terminal, write_nats};
use posthorn_tests::process::free_port;
use posthorn_tests::{bins, eventually};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const DEV: &str = "cargo run --release -p posthorn -- dev";
const TEST: &str = "cargo test --workspace";
/// The addresses that the README uses, and the variables by which `dev` is told of others.
const ADDRESSES: [(&str, Option<&str>); 3] = [
    ("127.0.0.1:8080", Some("POSTHORN_INGEST_LISTEN")),
    ("127.0.0.1:8081", Some("POSTHORN_ADMIN_LISTEN")),
    ("127.0.0.1:9000", None),
];
const LIMIT: Duration = Duration::from_secs(60);

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

/// The places of one run, and the terminals by their numbers.
struct Desk {
    folder: tempfile::TempDir,
    addresses: BTreeMap<&'static str, String>,
    terminals: BTreeMap<u8, Terminal>,
    /// What the last command of a terminal printed, where it has ended.
    printed: BTreeMap<u8, String>,
}

impl Desk {
    async fn new() -> Desk {
        let folder = tempfile::tempdir().unwrap();
        write_nats(folder.path());
        let picked = [
            ("POSTHORN_OPS_LISTEN", "127.0.0.1:0"),
            ("POSTHORN_NATS_PORT", "0"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut environment: Vec<_> = picked.into_iter().map(owned).collect();
        let mut addresses = BTreeMap::new();
        for (address, variable) in ADDRESSES {
            let own = format!("127.0.0.1:{}", free_port().unwrap());
            environment.extend(variable.map(|name| (name.to_owned(), own.clone())));
            addresses.insert(address, own);
        }
        let binaries = bins::bins().await.unwrap();
        let path: [&Path; 2] = [folder.path(), binaries];
        let open = |number: u8| {
            let name = format!("terminal-{number}");
            (
                number,
                Terminal::open(folder.path(), &name, &path, &environment),
            )
        };
        let terminals = (1..=3).map(open).collect();
        Desk {
            folder,
            addresses,
            terminals,
            printed: BTreeMap::new(),
        }
    }

    /// The block with the addresses of this run.
    fn moved(&self, text: &str) -> String {
        let pairs = self.addresses.iter();
        pairs.fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    async fn type_in(&mut self, number: u8, block: &Block) {
        let text = self
            .moved(&block.text)
            .replace(DEV, "posthorn dev --log warn");
        let last = text.lines().last().unwrap_or_default();
        let stays = ["posthorn dev", "posthorn listen"]
            .iter()
            .any(|it| last.starts_with(it));
        if text.contains("dlq list") {
            self.letter_is_written().await;
        }
        let terminal = self.terminals.get_mut(&number).unwrap();
        self.printed.remove(&number);
        if stays {
            terminal.start(&text);
            return self.is_up(number, last.starts_with("posthorn dev")).await;
        }
        let printed = terminal.run(&text);
        self.printed.insert(number, printed);
    }

    /// Until the program answers, nobody types on.
    async fn is_up(&mut self, number: u8, is_dev: bool) {
        let data = self.folder.path().join(".posthorn/dev.json");
        let terminal = std::cell::RefCell::new(self.terminals.get_mut(&number).unwrap());
        let up = eventually(LIMIT, "it is up", || {
            let (text, runs) = terminal.borrow_mut().printed();
            assert!(runs, "it ended:\n{text}");
            let up = if is_dev {
                data.exists()
            } else {
                text.contains("listening on")
            };
            async move { up }
        });
        up.await.unwrap();
    }

    /// A person has looked at the receiver meanwhile; the letter follows its answer by a moment.
    async fn letter_is_written(&mut self) {
        let terminal = std::cell::RefCell::new(self.terminals.get_mut(&3).unwrap());
        let written = eventually(LIMIT, "the dead letter is written", || {
            let list = "posthorn dlq list --tenant acme --output json";
            let found = terminal.borrow_mut().run(list).contains("dl_");
            async move { found }
        });
        written.await.unwrap();
    }

    /// Every line is seen, in this order; `…` stands for anything.
    async fn sees(&mut self, number: u8, block: &Block) {
        let wanted = self.moved(&block.text);
        let wanted: Vec<&str> = wanted.lines().skip(1).collect();
        if let Some(printed) = self.printed.get(&number) {
            let missing = first_missing(printed, &wanted);
            assert!(
                missing.is_none(),
                "README line {}: {missing:?} in\n{printed}",
                block.line
            );
            return;
        }
        let terminal = std::cell::RefCell::new(self.terminals.get_mut(&number).unwrap());
        let seen = eventually(LIMIT, "the lines are seen", || {
            let (text, runs) = terminal.borrow_mut().printed();
            assert!(runs, "it ended:\n{text}");
            let all = first_missing(&text, &wanted).is_none();
            async move { all }
        });
        if seen.await.is_err() {
            let (text, _) = terminal.borrow_mut().printed();
            panic!(
                "README line {}: {:?} in\n{text}",
                block.line,
                first_missing(&text, &wanted)
            );
        }
    }
}

/// The first of `wanted` that does not come after its predecessor.
fn first_missing<'a>(printed: &str, wanted: &[&'a str]) -> Option<&'a str> {
    let mut lines = printed.lines();
    wanted
        .iter()
        .find(|wanted| !lines.any(|line| matches(line, wanted)))
        .copied()
}

/// Whether a line is like a pattern in which `…` stands for anything; widths do not count.
fn matches(line: &str, pattern: &str) -> bool {
    let narrow = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, pattern) = (narrow(line), narrow(pattern));
    let mut parts = pattern.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty() || pattern.ends_with('…')
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_readme_do_what_it_says() {
    let mut desk = Desk::new().await;
    let (mut typed, mut seen) = (0, 0);
    for block in blocks(&read("README.md")) {
        match kind(&block) {
            Kind::Typed(number) => {
                desk.type_in(number, &block).await;
                typed += 1;
            }
            Kind::Seen(number) => {
                desk.sees(number, &block).await;
                seen += 1;
            }
            Kind::Looked | Kind::Other => {}
        }
    }
    assert!(typed >= 8 && seen >= 5, "{typed} typed, {seen} seen");
    desk.terminals
        .values_mut()
        .rev()
        .for_each(Terminal::interrupt);
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

#[test]
fn patterns_match_whole_lines() {
    assert!(matches("a 200 b  c", "… 200 … c"));
    assert!(matches("a b", "a …"));
    for (line, pattern) in [("a 200 b c", "… 200 … d"), ("ab", "b"), ("ab", "a")] {
        assert!(!matches(line, pattern), "{line} {pattern}");
    }
    assert_eq!(first_missing("a\nb\n", &["a", "b"]), None);
    assert_eq!(first_missing("b\na\n", &["a", "b"]), Some("b"));
}

//! The desk of whoever follows a document: terminals, with the system's programs at hand and
//! ports of their own.

use crate::markdown::Block;
use crate::terminal::{Terminal, write_nats};
use posthorn_tests::process::free_port;
use posthorn_tests::{bins, eventually};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// How the README starts the system; here it has been built.
pub const DEV: &str = "cargo run --release -p posthorn -- dev";
/// The addresses that documents use, and the variables by which `dev` is told of others.
const ADDRESSES: [(&str, Option<&str>); 3] = [
    ("127.0.0.1:8080", Some("POSTHORN_INGEST_LISTEN")),
    ("127.0.0.1:8081", Some("POSTHORN_ADMIN_LISTEN")),
    ("127.0.0.1:9000", None),
];
pub const LIMIT: Duration = Duration::from_secs(60);

/// The places of one run, and the terminals by their numbers.
pub struct Desk {
    folder: tempfile::TempDir,
    addresses: BTreeMap<&'static str, String>,
    terminals: BTreeMap<u8, Terminal>,
    /// What the last command of a terminal printed, where it has ended.
    printed: BTreeMap<u8, String>,
}

impl Desk {
    pub async fn new() -> Desk {
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
        let terminals = (1..=6).map(open).collect();
        Desk {
            folder,
            addresses,
            terminals,
            printed: BTreeMap::new(),
        }
    }

    /// Where the terminals are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The text with the addresses of this run.
    pub fn moved(&self, text: &str) -> String {
        let pairs = self.addresses.iter();
        pairs.fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    fn terminal(&mut self, number: u8) -> &mut Terminal {
        self.terminals.get_mut(&number).unwrap()
    }

    /// Types commands; where the last of them runs on, until it is up.
    pub async fn type_in(&mut self, number: u8, commands: &str) {
        let text = self.moved(commands).replace(DEV, "posthorn dev --log warn");
        let last = text.lines().last().unwrap_or_default();
        let is_dev = last.starts_with("posthorn dev");
        let stays = is_dev || last.starts_with("posthorn listen");
        self.printed.remove(&number);
        if stays {
            self.terminal(number).start(&text);
            return self.is_up(number, is_dev).await;
        }
        let printed = self.terminal(number).run(&text);
        self.printed.insert(number, printed);
    }

    /// Until the program answers, nobody types on.
    async fn is_up(&mut self, number: u8, is_dev: bool) {
        let data = self.folder.path().join(".posthorn/dev.json");
        let up = |text: &str| match is_dev {
            true => data.exists(),
            false => text.contains("listening on"),
        };
        until(self.terminals.get_mut(&number).unwrap(), "it is up", up).await;
    }

    /// Starts a program that says where it listens, as the receivers do.
    pub async fn start(&mut self, number: u8, commands: &str) {
        let text = self.moved(commands);
        self.printed.remove(&number);
        self.terminal(number).start(&text);
        self.is_up(number, false).await;
    }

    /// Types a command again and again, as whoever waits for something does, until it prints
    /// this.
    pub async fn wait_for(&mut self, number: u8, command: &str, word: &str) {
        let command = self.moved(command);
        let terminal = RefCell::new(self.terminal(number));
        let mut last = String::new();
        let seen = eventually(LIMIT, "the command prints it", || {
            last = terminal.borrow_mut().run(&command);
            let found = last.contains(word);
            async move { found }
        });
        let seen = seen.await;
        assert!(seen.is_ok(), "{command}: no {word} in\n{last}");
    }

    /// Waits until the running program has printed what `is_there` looks for.
    pub async fn wait_until(&mut self, number: u8, what: &str, is_there: impl Fn(&str) -> bool) {
        until(self.terminal(number), what, is_there).await;
    }

    /// What the program of a terminal has printed.
    pub fn printed(&mut self, number: u8) -> String {
        self.terminal(number).printed().0
    }

    /// Types a command and gives what it prints.
    pub fn run(&mut self, number: u8, command: &str) -> String {
        let command = self.moved(command);
        self.terminal(number).run(&command)
    }

    /// Ctrl-C in a terminal.
    pub fn interrupt(&mut self, number: u8) {
        self.terminal(number).interrupt();
    }

    /// Every line of a block but its first is seen, in this order; `…` stands for anything.
    pub async fn sees(&mut self, number: u8, document: &str, block: &Block) {
        let wanted = self.moved(&block.text);
        let wanted: Vec<&str> = wanted.lines().skip(1).collect();
        let place = format!("{document} line {}", block.line);
        if let Some(printed) = self.printed.get(&number) {
            let missing = first_missing(printed, &wanted);
            assert!(missing.is_none(), "{place}: {missing:?} in\n{printed}");
            return;
        }
        let all = |text: &str| first_missing(text, &wanted).is_none();
        until(self.terminal(number), &place, all).await;
    }

    /// Ctrl-C everywhere, the system last.
    pub fn leave(&mut self) {
        let terminals = self.terminals.values_mut().rev();
        terminals.for_each(Terminal::interrupt);
    }
}

async fn until(terminal: &mut Terminal, what: &str, is_there: impl Fn(&str) -> bool) {
    let terminal = RefCell::new(terminal);
    let seen = eventually(LIMIT, what, || {
        let (text, runs) = terminal.borrow_mut().printed();
        assert!(runs, "{what}: it ended:\n{text}");
        let there = is_there(&text);
        async move { there }
    });
    let seen = seen.await;
    assert!(
        seen.is_ok(),
        "{what}: not in\n{}",
        terminal.borrow_mut().printed().0
    );
}

/// The first of `wanted` that does not come after its predecessor.
pub fn first_missing<'a>(printed: &str, wanted: &[&'a str]) -> Option<&'a str> {
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

//! The settings of the real binaries, read from what they print when asked for help.

use posthorn_tests::bins;
use std::collections::BTreeSet;
use std::process::Stdio;
use tokio::process::Command;

/// The four services.
pub const SERVICES: [&str; 4] = [
    "posthorn-ingest",
    "posthorn-scheduler",
    "posthorn-dispatcher",
    "posthorn-dlq-admin",
];

/// One flag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// The heading that it stands under.
    pub section: String,
    /// `--like-this`.
    pub flag: String,
    /// The variable, where there is one.
    pub env: Option<String>,
    /// The default, where there is one.
    pub default: Option<String>,
    /// What it means.
    pub help: String,
}

/// Whether a name in prose is meant as a setting and not as a stream or a bucket.
pub fn looks_like_a_setting(name: &str) -> bool {
    let words = [
        "URL",
        "WINDOW",
        "RETENTION",
        "BYTES",
        "RATE",
        "PREFIX",
        "REPLICAS",
        "AFTER",
        "GROWTH",
    ];
    words.iter().any(|word| name.ends_with(word))
}

/// What a command prints, such as `posthorn dev -h`.
pub async fn run(command: &str) -> String {
    let mut words = command.split(' ');
    let binary = bins::bin(words.next().unwrap()).await.unwrap();
    let output = Command::new(binary)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{command}");
    String::from_utf8(output.stdout).unwrap()
}

/// The flags of a command, such as `posthorn dev`.
pub async fn settings(command: &str) -> Vec<Setting> {
    let settings = parse(&run(&format!("{command} -h")).await);
    assert!(!settings.is_empty(), "{command} has no flags");
    settings
}

/// The variables that a command reads.
pub async fn variables(command: &str) -> BTreeSet<String> {
    let settings = settings(command).await.into_iter();
    settings.filter_map(|setting| setting.env).collect()
}

fn parse(help: &str) -> Vec<Setting> {
    let mut found: Vec<Setting> = Vec::new();
    let mut section = String::new();
    for line in help.lines() {
        let text = line.trim_start();
        if !line.starts_with(' ') {
            section = line.trim_end_matches(':').to_owned();
        } else if let Some(text) = of_a_flag(text) {
            let (flag, help) = text.split_once("  ").unwrap_or((text, ""));
            found.push(Setting {
                section: section.clone(),
                flag: flag.split(' ').next().unwrap().to_owned(),
                help: help.trim().to_owned(),
                ..Setting::default()
            });
        } else if let Some(last) = found.last_mut() {
            last.help = format!("{} {text}", last.help).trim().to_owned();
        }
    }
    let everywhere = ["--help", "--version"];
    let own = |s: &Setting| !everywhere.contains(&s.flag.as_str());
    found.into_iter().filter(own).map(take_notes).collect()
}

/// A line that begins a flag, from its long form on.
fn of_a_flag(text: &str) -> Option<&str> {
    if text.starts_with("--") {
        return Some(text);
    }
    let (short, _) = text.split_once(", --")?;
    (short.len() == 2 && short.starts_with('-')).then(|| &text[4..])
}

/// Takes the notes in brackets off the end of the text.
fn take_notes(mut setting: Setting) -> Setting {
    while let Some((help, note)) = setting.help.rsplit_once(" [") {
        let Some(note) = note.strip_suffix(']') else {
            break;
        };
        match note.split_once(": ") {
            Some(("env", name)) => setting.env = Some(name.trim_end_matches('=').to_owned()),
            Some(("default", value)) => setting.default = Some(value.to_owned()),
            Some(("possible values", _)) => {}
            _ => break,
        }
        setting.help = help.to_owned();
    }
    setting
}

#[test]
fn help_is_read_in_both_of_its_forms() {
    let help = "About\n\nUsage: x\n\nNATS:\n      --url <URL>  Where it is [env: P_URL] [default: n]\n      \
                --long <N>\n          Of two lines [env: P_LONG=]\n  -q, --quiet  Less\n  \
                -h, --help  Print help\n";
    let found = parse(help);
    assert_eq!(found.len(), 3);
    assert_eq!(
        (found[2].flag.as_str(), found[2].help.as_str()),
        ("--quiet", "Less")
    );
    assert_eq!(
        (found[0].section.as_str(), found[0].flag.as_str()),
        ("NATS", "--url")
    );
    assert_eq!(found[0].env.as_deref(), Some("P_URL"));
    assert_eq!(found[0].default.as_deref(), Some("n"));
    assert_eq!(found[1].help, "Of two lines");
    assert_eq!(found[1].env.as_deref(), Some("P_LONG"));
}

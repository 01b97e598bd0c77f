//! What is printed, for people or for programs.
//!
//! A program gets what the service answered, byte for byte. A person gets a table in which no
//! value can move the cursor or change the colours: a receiver's answer is shown here, and a
//! receiver is a stranger.

use crate::failure::Failure;
use clap::ValueEnum;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;

/// To the upper left corner, and nothing below it.
const CLEAR: &[u8] = b"\x1b[H\x1b[J";

/// The form of what is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs: what the service answered.
    Json,
}

/// One line on stdout.
///
/// # Errors
/// [`Failure::Closed`] when nobody reads any more.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    written.map_err(|_| Failure::Closed)
}

/// Begins a page anew where a terminal shows it; elsewhere one page follows the other.
///
/// # Errors
/// [`Failure::Closed`] when nobody reads any more.
pub(crate) fn new_page() -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    if !stdout.is_terminal() {
        return Ok(());
    }
    let written = stdout.write_all(CLEAR).and_then(|()| stdout.flush());
    written.map_err(|_| Failure::Closed)
}

/// A remark for a person, on stderr, so that it is not in the way of a pipe.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Why the command failed, and its exit code.
pub(crate) fn last_words(failure: &Failure) -> ExitCode {
    remark(&format!("posthorn: {}", printable(&failure.to_string())));
    failure.code()
}

/// Whether a progress bar would be seen and not be in the way.
pub(crate) fn is_watched(output: Output) -> bool {
    output == Output::Table && std::io::stderr().is_terminal()
}

/// `text` without anything that a terminal would act on.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            // A String takes whatever is written to it.
            let _ = write!(safe, "{}", c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Marks that change the direction or the looks of the text after them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_steers_the_terminal() {
        let hostile = "a\u{1b}[2Jb\r\nc\u{202e}d\u{7}";
        let shown = printable(hostile);
        assert!(!shown.chars().any(|c| c.is_control() || is_invisible(c)));
        assert_eq!(shown, "a\\u{1b}[2Jb\\u{d}\\u{a}c\\u{202e}d\\u{7}");
    }

    #[test]
    fn ordinary_text_is_shown_as_it_is() {
        let text = "Grüße, 世界 {\"a\": 1}";
        assert_eq!(printable(text), text);
    }
}

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

/// To the upper left corner.
const HOME: &str = "\x1b[H";
/// Nothing more on this line.
const END_OF_LINE: &str = "\x1b[K";
/// Nothing below.
const END_OF_SCREEN: &str = "\x1b[J";

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

/// A page in the place of the one before, as much of it as a terminal shows; elsewhere one page
/// follows the other.
///
/// # Errors
/// [`Failure::Closed`] when nobody reads any more.
pub(crate) fn page(text: &str) -> Result<(), Failure> {
    let terminal = console::Term::stdout();
    if !terminal.is_term() {
        return line(text);
    }
    let (rows, columns) = terminal.size();
    let page = fit(text, usize::from(rows), usize::from(columns));
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(page.as_bytes())
        .and_then(|()| stdout.flush());
    written.map_err(|_| Failure::Closed)
}

/// Text for the whole of a screen. Every line is written over what was there, so that nothing
/// flickers, and none is longer than the screen is wide, so that a line is a row.
fn fit(text: &str, rows: usize, columns: usize) -> String {
    // The last row stays free for the cursor, and for what goes to stderr.
    let room = rows.saturating_sub(2).max(1);
    let count = text.lines().count();
    let shown = if count > room { room - 1 } else { count };
    let mut page = HOME.to_owned();
    for row in text.lines().take(shown) {
        page.push_str(&console::truncate_str(row, columns, "…"));
        page.push_str(END_OF_LINE);
        page.push('\n');
    }
    if count > shown {
        let more = format!("… {} lines more{END_OF_LINE}\n", count - shown);
        page.push_str(&more);
    }
    page.push_str(END_OF_SCREEN);
    page
}

/// Bytes on stdout, as they are.
///
/// # Errors
/// [`Failure::Closed`] when nobody reads any more.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
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
    fn a_page_is_never_higher_or_wider_than_the_screen() {
        let text: String = (0..50)
            .map(|n| format!("{n} {}\n", "x".repeat(200)))
            .collect();
        let page = fit(&text, 24, 80);
        assert_eq!(page.lines().count(), 23);
        let width = |row: &str| console::measure_text_width(row);
        assert!(page.lines().all(|row| width(row) <= 80));
        assert!(page.contains("… 29 lines more"), "{page}");
        let short = fit("a\nb", 24, 80);
        assert_eq!(short, "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
    }

    #[test]
    fn ordinary_text_is_shown_as_it_is() {
        let text = "Grüße, 世界 {\"a\": 1}";
        assert_eq!(printable(text), text);
    }
}

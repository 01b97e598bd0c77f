//! What a shell and a manual need to know of the command line, made from the command line itself,
//! so that neither can be out of date.

use crate::cli::Cli;
use crate::failure::{Failure, chain};
use crate::output::{self, Output};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use serde_json::json;
use std::io;
use std::path::{Path, PathBuf};

const NAME: &str = "posthorn";

/// For which shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Where the manual goes.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder, which is made where it is not there; `man -M` and `MANPATH` want the `man1`
    /// of theirs.
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
}

/// Prints the completions of a shell.
///
/// # Errors
/// [`Failure::Closed`] when nobody reads any more.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    output::bytes(&script(args.shell))
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut script);
    script
}

/// Writes a page for the program and one for each of its commands.
///
/// # Errors
/// [`Failure::Usage`] when the folder cannot be written.
pub(crate) fn man(args: &ManArgs, output: Output) -> Result<(), Failure> {
    let folder = args.dir.display();
    let count = write(&args.dir).map_err(|error| {
        Failure::usage(format!("cannot write --dir {folder}: {}", chain(&error)))
    })?;
    output::line(&match output {
        Output::Table => format!("{count} pages in {folder}; man -l {folder}/posthorn.1"),
        Output::Json => json!({ "dir": args.dir, "pages": count }).to_string(),
    })
}

fn write(folder: &Path) -> io::Result<usize> {
    std::fs::create_dir_all(folder)?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    page(&command, folder)
}

/// A page for each command that is not hidden, named as `posthorn-dlq-list.1`.
fn page(command: &Command, folder: &Path) -> io::Result<usize> {
    clap_mangen::Man::new(command.clone()).generate_to(folder)?;
    let commands = command.get_subcommands().filter(|one| !one.is_hide_set());
    let mut count = 1;
    for one in commands {
        count += page(one, folder)?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;
    use std::collections::BTreeSet;

    /// The commands that are not hidden, each as its words.
    fn commands(command: &Command, words: &[String], found: &mut Vec<Vec<String>>) {
        for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            let words = [words, &[one.get_name().to_owned()]].concat();
            found.push(words.clone());
            commands(one, &words, found);
        }
    }

    fn all() -> Vec<Vec<String>> {
        let mut found = Vec::new();
        commands(&Cli::command(), &[], &mut found);
        assert!(found.len() > 40, "{} commands", found.len());
        found
    }

    #[test]
    fn there_is_a_page_for_every_command_and_for_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let count = write(folder.path()).unwrap();
        let written: BTreeSet<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut wanted: BTreeSet<String> = all()
            .iter()
            .map(|words| format!("{NAME}-{}.1", words.join("-")))
            .collect();
        wanted.insert(format!("{NAME}.1"));
        assert_eq!(written, wanted);
        assert_eq!(count, written.len());
        for name in &written {
            let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(
                text.contains(".SH SYNOPSIS") && text.contains(".SH DESCRIPTION"),
                "{name}"
            );
        }
    }

    #[test]
    fn every_shell_is_told_of_every_command() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).unwrap();
            for word in all().iter().flatten() {
                assert!(script.contains(word.as_str()), "{shell}: {word}");
            }
        }
    }

    #[test]
    fn a_folder_that_cannot_be_is_wrong_usage() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let args = ManArgs { dir: file };
        assert!(matches!(man(&args, Output::Table), Err(Failure::Usage(_))));
    }
}

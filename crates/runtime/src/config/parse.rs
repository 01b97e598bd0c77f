//! From arguments, environment and file to a service's configuration.

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Parser};

use super::error::ConfigError;
use super::file::File;

/// Reads a configuration: flag, else environment, else the file that `--config` names, else the
/// default. `args` begins with the program's name, as [`std::env::args_os`] does.
///
/// Where `T` has subcommands, the file belongs to the one that `args` calls, if it has a
/// `--config`.
///
/// # Errors
/// [`ConfigError`] for an unknown flag, an unknown key, a refused value or an unreadable file. A
/// request for help or version is one too: see [`ConfigError::is_information`].
pub fn parse<T: Parser>(args: impl IntoIterator<Item = OsString>) -> Result<T, ConfigError> {
    let args: Vec<OsString> = args.into_iter().collect();
    let mut command = without_env_values(T::command());
    let called = called(&command, &args);
    let file = match config_path(at(&command, &called), &args) {
        Some(path) => Some(File::read(&path)?),
        None => None,
    };
    if let Some(file) = &file {
        file.check(at(&command, &called))?;
        command = with_defaults(command, &called, file);
    }
    let matches = command
        .try_get_matches_from_mut(args)
        .and_then(|matches| T::from_arg_matches(&matches).map_err(|e| e.format(&mut command)));
    matches.map_err(|error| explain(error, file.as_ref()))
}

/// Without it, `--help` shows what the environment holds, keys included.
fn without_env_values(command: Command) -> Command {
    command
        .mut_args(|arg| arg.hide_env_values(true))
        .mut_subcommands(without_env_values)
}

/// The names of the subcommands that `args` calls, outermost first.
fn called(command: &Command, args: &[OsString]) -> Vec<String> {
    let mut names = Vec::new();
    let mut command = command;
    for arg in args.iter().skip(1) {
        let Some(next) = command.find_subcommand(arg) else {
            break;
        };
        names.push(next.get_name().to_owned());
        command = next;
    }
    names
}

fn at<'a>(command: &'a Command, called: &[String]) -> &'a Command {
    called.iter().fold(command, |command, name| {
        command.find_subcommand(name).unwrap_or(command)
    })
}

fn with_defaults(command: Command, called: &[String], file: &File) -> Command {
    match called.split_first() {
        None => command.mut_args(|arg| file.as_default(arg)),
        Some((name, rest)) => {
            command.mut_subcommand(name.as_str(), |sub| with_defaults(sub, rest, file))
        }
    }
}

/// The file to read, from the flag or else the environment. It is looked for before clap runs,
/// because clap is only complete with the file in it; a malformed flag is left for clap to refuse.
fn config_path(command: &Command, args: &[OsString]) -> Option<PathBuf> {
    let flag = command
        .get_arguments()
        .find(|arg| arg.get_long() == Some("config"))?;
    let mut words = args.iter().skip(1).take_while(|arg| *arg != "--");
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word.to_str().and_then(|w| w.strip_prefix("--config=")) {
            return Some(PathBuf::from(path));
        }
    }
    let path = std::env::var_os(flag.get_env()?)?;
    (!path.is_empty()).then(|| PathBuf::from(path))
}

/// Refused values in our own words: clap quotes the value, and it may be a credential.
fn explain(error: clap::Error, file: Option<&File>) -> ConfigError {
    let Some((argument, value, reason)) = refused_value(&error) else {
        return ConfigError::Usage(error);
    };
    let long = argument.trim_start_matches("--");
    let long = long.split([' ', '=', '[']).next().unwrap_or(long);
    file.and_then(|file| file.blame(long, &value, &reason))
        .unwrap_or(ConfigError::Value { argument, reason })
}

fn refused_value(error: &clap::Error) -> Option<(String, String, String)> {
    if !matches!(
        error.kind(),
        ErrorKind::ValueValidation | ErrorKind::InvalidValue
    ) {
        return None;
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let reason = match (error.source(), error.get(ContextKind::ValidValue)) {
        (Some(source), _) => source.to_string(),
        (None, Some(ContextValue::Strings(valid))) if !valid.is_empty() => {
            format!("must be one of {}", valid.join(", "))
        }
        _ => "must not be empty".to_owned(),
    };
    Some((
        text(ContextKind::InvalidArg)?,
        text(ContextKind::InvalidValue)?,
        reason,
    ))
}

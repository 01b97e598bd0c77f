//! The configuration file: flat TOML whose keys are the flags with underscores.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use toml::Value;

use super::error::ConfigError;

/// Keys that only make sense on the command line: a file that names a file, or that makes every
/// start print and exit.
const NOT_IN_A_FILE: [&str; 5] = ["config", "check_config", "print_config", "help", "version"];

/// A file's settings, each as the text its flag would take.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    settings: BTreeMap<String, Setting>,
}

#[derive(Debug)]
struct Setting {
    /// The elements of an array, else the one value.
    items: Vec<String>,
    is_bool: bool,
}

impl Setting {
    fn parse(value: &Value) -> Result<Self, &'static str> {
        let items = match value {
            Value::Array(items) => items.iter().map(element).collect::<Result<_, _>>()?,
            one => vec![text_of(one)?],
        };
        let is_bool = value.is_bool();
        Ok(Self { items, is_bool })
    }

    /// As the command line would have it.
    fn text(&self) -> OsString {
        self.items.join(",").into()
    }
}

impl File {
    /// Reads and checks the syntax of the file at `path`.
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(path, &text)
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            ConfigError::Syntax {
                path: path.to_owned(),
                line: 1 + text.bytes().take(at).filter(|b| *b == b'\n').count(),
                message: error.message().to_owned(),
            }
        })?;
        let mut settings = BTreeMap::new();
        for (key, value) in &table {
            let setting = Setting::parse(value).map_err(|reason| file_value(path, key, reason))?;
            settings.insert(key.clone(), setting);
        }
        Ok(Self {
            path: path.to_owned(),
            settings,
        })
    }

    /// Refuses keys that are no flag of `command`, and values that its flags cannot take.
    pub(super) fn check(&self, command: &Command) -> Result<(), ConfigError> {
        for (key, setting) in &self.settings {
            let flag = command.get_arguments().find(|arg| key_of(arg) == *key);
            let flag = flag.filter(|_| !NOT_IN_A_FILE.contains(&key.as_str()));
            let Some(flag) = flag else {
                return Err(ConfigError::UnknownKey {
                    path: self.path.clone(),
                    key: key.clone(),
                });
            };
            if matches!(flag.get_action(), ArgAction::SetTrue) && !setting.is_bool {
                return Err(file_value(&self.path, key, "must be true or false"));
            }
        }
        Ok(())
    }

    /// `arg` with the file's value as its default, where the file has one.
    ///
    /// As a default it gives way to the flag and to the environment, and it is hidden from the
    /// help text because it may be a secret.
    pub(super) fn as_default(&self, arg: Arg) -> Arg {
        let Some(setting) = self.settings.get(&key_of(&arg)) else {
            return arg;
        };
        let arg = arg.required(false);
        match arg.get_action() {
            // A list may be empty, which is not a list of one empty value.
            ArgAction::Append => arg.default_values(&setting.items).hide_default_value(true),
            ArgAction::Set => arg.default_value(setting.text()).hide_default_value(true),
            // A switch has no value to hide, and clap refuses to be asked to.
            _ => arg.default_value(setting.text()),
        }
    }

    /// The error for a value that the flag `long` refused, if it came from here.
    pub(super) fn blame(&self, long: &str, value: &str, reason: &str) -> Option<ConfigError> {
        let key = long.replace('-', "_");
        let items = &self.settings.get(&key)?.items;
        let parts = |item: &String| item == value || item.split(',').any(|part| part == value);
        let came_from_here = items.iter().any(parts) || items.join(",") == value;
        came_from_here.then(|| file_value(&self.path, &key, reason))
    }
}

fn file_value(path: &Path, key: &str, reason: impl Into<String>) -> ConfigError {
    ConfigError::FileValue {
        path: path.to_owned(),
        key: key.to_owned(),
        reason: reason.into(),
    }
}

/// The file key of a flag; empty for what has no long form and so no key.
fn key_of(arg: &Arg) -> String {
    arg.get_long().unwrap_or_default().replace('-', "_")
}

fn text_of(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(truth) => Ok(truth.to_string()),
        Value::Array(_) => Err("must not hold an array in an array"),
        Value::Table(_) => Err("must not be a table: the file is flat"),
        Value::Datetime(_) => Err("must not be a date"),
    }
}

/// A comma separates the elements on the command line, so none may be inside of one.
fn element(value: &Value) -> Result<String, &'static str> {
    let text = text_of(value)?;
    match text.contains(',') {
        true => Err("must not hold a comma in an element"),
        false => Ok(text),
    }
}

//! What can be wrong with a configuration before its values are looked at together.

use std::path::PathBuf;

/// Why a configuration could not be read. No text holds a configured value.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// clap's own answer: an unknown flag, a missing value, or a request for help or version.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    /// A flag or its environment variable has a value that its rule refuses.
    #[error("invalid value for '{argument}': {reason}")]
    Value {
        /// The flag with its placeholder, as `--help` shows it.
        argument: String,
        /// The rule that was broken.
        reason: String,
    },
    /// A key of the file has a value that its rule refuses.
    #[error("key `{key}` in {}: {reason}", path.display())]
    FileValue {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The rule that was broken.
        reason: String,
    },
    /// The file names a key that is no setting of this command.
    #[error("unknown key `{key}` in {}", path.display())]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
    },
    /// The file could not be read.
    #[error("cannot read the configuration file {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is not TOML. The parser's message is used without the line it would quote.
    #[error("{}:{line}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the parser expected.
        message: String,
    },
}

impl ConfigError {
    /// Whether this is a request for help or for the version, which is no failure.
    #[must_use]
    pub fn is_information(&self) -> bool {
        matches!(self, Self::Usage(error) if !error.use_stderr())
    }
}

//! Why a process ended, and the exit code that tells its supervisor.
//!
//! A supervisor restarts on 69 and 70 and alerts on 64: a wrong configuration does not get
//! better by trying again.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// Whose fault it is that a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitKind {
    /// The configuration is wrong: exit code 64. Trying again does not help.
    Config,
    /// NATS could not be reached within the connect timeout: exit code 69.
    Unavailable,
    /// Something inside failed: exit code 70.
    Internal,
}

impl ExitKind {
    /// The process exit code: 64, 69 or 70.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Config => 64,
            Self::Unavailable => 69,
            Self::Internal => 70,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Config => "bad configuration",
            Self::Unavailable => "NATS is not reachable",
            Self::Internal => "internal failure",
        }
    }
}

impl From<ExitKind> for ExitCode {
    fn from(kind: ExitKind) -> Self {
        Self::from(kind.code())
    }
}

/// The error a service's `run` ends with. Its chain is printed once, by [`crate::process`].
#[derive(Debug)]
pub struct ExitError {
    kind: ExitKind,
    source: anyhow::Error,
}

impl ExitError {
    /// The configuration is wrong (64).
    #[must_use]
    pub fn config(source: impl Into<anyhow::Error>) -> Self {
        Self::new(ExitKind::Config, source)
    }

    /// NATS could not be reached at start (69).
    #[must_use]
    pub fn unavailable(source: impl Into<anyhow::Error>) -> Self {
        Self::new(ExitKind::Unavailable, source)
    }

    /// Something inside failed (70).
    #[must_use]
    pub fn internal(source: impl Into<anyhow::Error>) -> Self {
        Self::new(ExitKind::Internal, source)
    }

    /// An error of the given kind.
    #[must_use]
    pub fn new(kind: ExitKind, source: impl Into<anyhow::Error>) -> Self {
        Self {
            kind,
            source: source.into(),
        }
    }

    /// Whose fault it is.
    #[must_use]
    pub const fn kind(&self) -> ExitKind {
        self.kind
    }

    /// The error and all its causes in one line, outermost first.
    #[must_use]
    pub fn chain(&self) -> String {
        format!("{}: {:#}", self.kind.words(), self.source)
    }
}

impl fmt::Display for ExitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.words())
    }
}

impl Error for ExitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.source.as_ref())
    }
}

/// An error nobody classified is an internal failure.
impl From<anyhow::Error> for ExitError {
    fn from(source: anyhow::Error) -> Self {
        Self::internal(source)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn each_kind_has_its_exit_code() {
        assert_eq!(ExitKind::Config.code(), 64);
        assert_eq!(ExitKind::Unavailable.code(), 69);
        assert_eq!(ExitKind::Internal.code(), 70);
    }

    #[test]
    fn the_chain_names_every_cause_once() {
        let error = ExitError::unavailable(anyhow!("connection refused").context("connecting"));
        assert_eq!(
            error.chain(),
            "NATS is not reachable: connecting: connection refused"
        );
        assert_eq!(error.to_string(), "NATS is not reachable");
    }

    #[test]
    fn an_unclassified_error_is_internal() {
        let failed: Result<(), ExitError> = (|| {
            Err::<(), _>(std::io::Error::other("disk full")).context("writing the state")?;
            Ok(())
        })();
        assert_eq!(failed.unwrap_err().kind(), ExitKind::Internal);
    }
}

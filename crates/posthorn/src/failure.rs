//! Why a command failed, and the exit code that tells a script.

use posthorn_runtime::ExitKind;
use std::error::Error;
use std::process::ExitCode;

/// Why a command failed. The text is one sentence for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The thing asked for was refused or did not succeed: exit code 1.
    #[error("{0}")]
    Refused(String),
    /// The service cannot do it at the moment (429, 503): exit code 1. Asking again may help.
    #[error("{0}")]
    NotNow(String),
    /// It was asked for wrongly: exit code 64.
    #[error("{0}")]
    Usage(String),
    /// A service cannot be reached: exit code 69.
    #[error("{0}")]
    Unreachable(String),
    /// Something inside failed: exit code 70.
    #[error("{0}")]
    Internal(String),
    /// Whoever read the output has gone, as `head` does: exit code 0.
    #[error("the output was closed")]
    Closed,
}

impl Failure {
    /// The exit code of wrong usage.
    pub const USAGE: ExitKind = ExitKind::Config;

    /// It was asked for wrongly.
    pub fn usage(text: impl Into<String>) -> Failure {
        Failure::Usage(text.into())
    }

    /// The thing asked for did not succeed.
    pub fn refused(text: impl Into<String>) -> Failure {
        Failure::Refused(text.into())
    }

    /// `what` failed because of `source`.
    pub fn internal(what: &str, source: &(dyn Error + 'static)) -> Failure {
        Failure::Internal(format!("{what}: {}", chain(source)))
    }

    /// Whether the same question may be answered a moment later.
    pub fn may_pass(&self) -> bool {
        matches!(self, Failure::NotNow(_) | Failure::Unreachable(_))
    }

    /// The process's exit code.
    pub fn code(&self) -> ExitCode {
        match self {
            Failure::Refused(_) | Failure::NotNow(_) => ExitCode::from(1),
            Failure::Usage(_) => ExitKind::Config.into(),
            Failure::Unreachable(_) => ExitKind::Unavailable.into(),
            Failure::Internal(_) => ExitKind::Internal.into(),
            Failure::Closed => ExitCode::SUCCESS,
        }
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(source) = at {
        text = format!("{text}: {source}");
        at = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_has_its_exit_code() {
        let code = |failure: Failure| format!("{:?}", failure.code());
        let number = |n: u8| format!("{:?}", ExitCode::from(n));
        assert_eq!(code(Failure::refused("x")), number(1));
        assert_eq!(code(Failure::NotNow("x".into())), number(1));
        assert_eq!(code(Failure::usage("x")), number(64));
        assert_eq!(code(Failure::Unreachable("x".into())), number(69));
        assert_eq!(code(Failure::Internal("x".into())), number(70));
        assert_eq!(code(Failure::Closed), number(0));
    }

    #[test]
    fn a_chain_names_every_cause_once() {
        let error = anyhow::anyhow!("inner").context("outer");
        let error: Box<dyn Error + 'static> = error.into();
        assert_eq!(chain(error.as_ref()), "outer: inner");
    }
}

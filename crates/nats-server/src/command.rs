//! A foreign program, run to its end and no longer than a bound.
//!
//! An engine that does not answer or a package index that stalls would otherwise hold up a
//! start for ever.

use std::io;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;

/// Why a program did not run to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("the program could not be started")]
    Start(#[source] io::Error),
    #[error("the program took longer than {} s", .0.as_secs())]
    TimedOut(Duration),
}

/// Runs `command` without input and collects what it prints; kills it after `limit`.
pub(crate) async fn run(mut command: Command, limit: Duration) -> Result<Output, CommandError> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(limit, command.output()).await {
        Ok(output) => output.map_err(CommandError::Start),
        Err(_) => Err(CommandError::TimedOut(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_that_hangs_is_given_up() {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do sleep 1; done"]);
        let result = run(command, Duration::from_millis(50)).await;
        assert!(matches!(result, Err(CommandError::TimedOut(_))));
    }

    #[tokio::test]
    async fn a_missing_program_is_told_apart() {
        let result = run(Command::new("/nonexistent/program"), Duration::from_secs(5)).await;
        assert!(matches!(result, Err(CommandError::Start(_))));
    }
}

//! What the receiver is told.

use super::fail::FailSpec;
use clap::Args;
use posthorn_runtime::SecretString;
use posthorn_runtime::config::duration_between;
use std::net::SocketAddr;
use std::time::Duration;

const MAX_DELAY: Duration = Duration::from_secs(600);

/// How to receive.
#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// Where; port 0 picks one.
    #[arg(long, default_value = "127.0.0.1:9000", value_name = "ADDRESS")]
    pub listen: SocketAddr,

    /// The one path that is answered; without it every path is.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// Fail first: 503:5 answers 503 to the first five requests, 503 to all.
    #[arg(long, value_name = "STATUS[:COUNT]", value_parser = FailSpec::parse)]
    pub fail: Option<FailSpec>,

    /// A secret to check signatures with; several during a rotation.
    #[arg(
        long,
        env = "POSTHORN_WEBHOOK_SECRET",
        value_delimiter = ',',
        value_name = "whsec_…"
    )]
    pub secret: Vec<SecretString>,

    /// A public key to check v1a signatures with.
    #[arg(long, value_delimiter = ',', value_name = "whpk_…")]
    pub public_key: Vec<String>,

    /// Wait before each answer.
    #[arg(long, default_value = "0s", value_name = "DURATION",
        value_parser = duration_between(Duration::ZERO, MAX_DELAY))]
    pub delay: Duration,

    /// Ask for this many seconds of rest with each failure.
    #[arg(long, value_name = "SECONDS")]
    pub retry_after: Option<u32>,

    /// Print the bodies too.
    #[arg(long)]
    pub show_body: bool,
}

impl ListenArgs {
    /// The path that is shown: with a slash in front.
    pub fn path(&self) -> String {
        let path = self.path.as_deref().unwrap_or("/");
        format!("/{}", path.trim_start_matches('/'))
    }

    /// Whether requests to `path` are answered.
    pub fn answers(&self, path: &str) -> bool {
        self.path.is_none() || self.path() == path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        listen: ListenArgs,
    }

    fn parse(args: &[&str]) -> ListenArgs {
        Only::try_parse_from([&["x"], args].concat())
            .unwrap()
            .listen
    }

    #[test]
    fn a_path_is_answered_alone_and_without_one_all_are() {
        let all = parse(&[]);
        assert!(all.answers("/") && all.answers("/hooks"));
        let one = parse(&["--path", "hooks"]);
        assert_eq!(one.path(), "/hooks");
        assert!(one.answers("/hooks") && !one.answers("/"));
    }

    #[test]
    fn dlq_06_a_secret_is_not_in_the_debug_form() {
        let args = parse(&["--secret", "whsec_abc,whsec_def"]);
        assert_eq!(args.secret.len(), 2);
        assert!(!format!("{args:?}").contains("whsec_abc"));
    }
}

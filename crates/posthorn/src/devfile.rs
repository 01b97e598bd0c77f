//! `dev.json`: what a running `posthorn dev` chose, for whoever wants to use it.
//!
//! It is there when everything is ready and gone after a clean end, so a script may wait for
//! the file. It is written in one step: nobody reads half of it. It holds the key, so only this
//! user may read it.

use serde::{Deserialize, Serialize};
use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const FILE: &str = "dev.json";
/// Where `posthorn dev` keeps its data when nothing else is said.
pub(crate) const DEFAULT_FOLDER: &str = "./.posthorn";

/// What a running `posthorn dev` chose.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DevFile {
    /// The public API.
    pub ingest_url: String,
    /// The operator's API and page.
    pub admin_url: String,
    /// Probes and metrics.
    pub ops_url: String,
    /// The broker.
    pub nats_url: String,
    /// The key that may do everything.
    pub api_key: String,
    /// The process.
    pub pid: u32,
}

impl DevFile {
    /// The file in a data folder, if it is there and can be read.
    pub fn read(folder: &Path) -> Option<DevFile> {
        let text = std::fs::read(place(folder)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Writes it in one step.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        write_private(&place(folder), &text)
    }

    /// Removes the file of process `pid`, and leaves the one of another.
    pub fn remove(folder: &Path, pid: u32) {
        if DevFile::read(folder).is_some_and(|file| file.pid == pid) {
            // Already gone is as good.
            let _ = std::fs::remove_file(place(folder));
        }
    }
}

/// Where the file of a data folder is.
pub(crate) fn place(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// Writes a file that only this user may read, in one step.
///
/// # Errors
/// What the system says.
pub(crate) fn write_private(place: &Path, text: &[u8]) -> io::Result<()> {
    let folder = place.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.as_file()
        .set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(text)?;
    file.persist(place)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(pid: u32) -> DevFile {
        DevFile {
            ingest_url: "http://127.0.0.1:1".to_owned(),
            admin_url: "http://127.0.0.1:2".to_owned(),
            ops_url: "http://127.0.0.1:3".to_owned(),
            nats_url: "nats://127.0.0.1:4".to_owned(),
            api_key: "k".to_owned(),
            pid,
        }
    }

    #[test]
    fn it_comes_back_as_it_was_written_and_only_this_user_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        assert!(DevFile::read(folder.path()).is_none());
        sample(7).write(folder.path()).unwrap();
        assert!(DevFile::read(folder.path()) == Some(sample(7)));
        let mode = place(folder.path()).metadata().unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }

    #[test]
    fn the_file_of_another_process_is_left() {
        let folder = tempfile::tempdir().unwrap();
        sample(7).write(folder.path()).unwrap();
        DevFile::remove(folder.path(), 8);
        assert!(place(folder.path()).exists());
        DevFile::remove(folder.path(), 7);
        assert!(!place(folder.path()).exists());
    }

    #[test]
    fn its_keys_are_the_documented_ones() {
        let json = serde_json::to_value(sample(7)).unwrap();
        let mut keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        keys.sort();
        let documented = [
            "admin_url",
            "api_key",
            "ingest_url",
            "nats_url",
            "ops_url",
            "pid",
        ];
        assert_eq!(keys, documented);
    }
}

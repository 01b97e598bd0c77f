//! The note beside the data that says which server works on it.

use std::io::{self, Write as _};
use std::path::Path;

use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const FILE: &str = "nats-server.json";

/// `<data_dir>/nats-server.json`. It may be stale: whoever reads it asks the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The process id of nats-server itself.
    pub pid: u32,
    pub port: u16,
    pub url: String,
    pub server_name: String,
    /// The process that started it, and with which it ends.
    pub owner: u32,
}

impl State {
    /// Reads the note; `None` where there is none that can be read.
    pub(crate) fn read(data_dir: &Path) -> Option<Self> {
        let text = std::fs::read(data_dir.join(FILE)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Writes the note in one step, so that no reader sees half of it.
    pub(crate) fn write(&self, data_dir: &Path) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(data_dir)?;
        serde_json::to_writer(&mut file, self)?;
        file.write_all(b"\n")?;
        file.persist(data_dir.join(FILE))?;
        Ok(())
    }

    pub(crate) fn url(port: u16) -> String {
        format!("nats://127.0.0.1:{port}")
    }
}

/// Whether a process of that id exists. Signal 0 only asks.
pub(crate) fn is_alive(pid: u32) -> bool {
    i32::try_from(pid).is_ok_and(|pid| pid > 0 && kill(Pid::from_raw(pid), None).is_ok())
}

/// The name of the server of a data folder: the same at every start, and another for every
/// folder, so that a server which took over a remembered port is not mistaken for this one.
pub(crate) fn server_name(data_dir: &Path) -> String {
    let digest = Sha256::digest(data_dir.as_os_str().as_encoded_bytes());
    let hex: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
    format!("posthorn-{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(State::read(folder.path()), None);
        let state = State {
            pid: 1,
            port: 2,
            url: State::url(2),
            server_name: "three".to_owned(),
            owner: 4,
        };
        state.write(folder.path()).unwrap();
        assert_eq!(State::read(folder.path()), Some(state));
    }

    #[test]
    fn folders_have_names_of_their_own() {
        assert_eq!(
            server_name(Path::new("/one")),
            server_name(Path::new("/one"))
        );
        assert_ne!(
            server_name(Path::new("/one")),
            server_name(Path::new("/two"))
        );
    }

    #[test]
    fn this_process_is_alive_and_the_impossible_ones_are_not() {
        assert!(is_alive(std::process::id()));
        assert!(!is_alive(0));
        assert!(!is_alive(u32::MAX));
    }
}

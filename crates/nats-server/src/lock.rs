//! One server on a data folder.
//!
//! nats-server takes no lock on its store: a second one starts on the same folder without a
//! word, and both write. The lock here is an advisory one on a file in the folder, and it is
//! the *server process* that holds it: the locked file is opened by the starter and inherited
//! by the server, so the lock ends exactly when the last process that could write ends,
//! however the starter ended.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

const FILE: &str = "nats-server.lock";

/// The lock of a data folder, held until this and every inherited copy of the file is closed.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Takes the lock, or `None` where another process has it.
    pub(crate) fn try_take(data_dir: &Path) -> io::Result<Option<Self>> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(data_dir.join(FILE))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The open file, for a child process to inherit. The lock goes with it.
    pub(crate) fn into_file(self) -> File {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_exclusive_and_ends_with_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let first = Lock::try_take(folder.path()).unwrap();
        assert!(first.is_some());
        assert!(Lock::try_take(folder.path()).unwrap().is_none());
        drop(first);
        assert!(Lock::try_take(folder.path()).unwrap().is_some());
    }
}

//! The development key: made once, kept, so that what was copied yesterday works today.

use crate::devfile::write_private;
use anyhow::Context;
use posthorn_runtime::SecretString;
use rand::CryptoRng;
use std::io::ErrorKind;
use std::path::Path;

const FILE: &str = "api-key";
/// Which key this is, for whoever finds it.
const PREFIX: &str = "phdev_";

/// The key of a data folder, made where there is none.
///
/// # Errors
/// When the file cannot be read or written.
pub(crate) fn load_or_make(
    folder: &Path,
    rng: &mut (impl CryptoRng + ?Sized),
) -> anyhow::Result<SecretString> {
    let place = folder.join(FILE);
    let shown = place.display();
    match std::fs::read_to_string(&place) {
        Ok(text) if !text.trim().is_empty() => {
            return Ok(SecretString::from(text.trim().to_owned()));
        }
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
    }
    let key = make(rng);
    write_private(&place, format!("{key}\n").as_bytes())
        .with_context(|| format!("cannot write {shown}"))?;
    Ok(SecretString::from(key))
}

/// 256 bits, in hex.
fn make(rng: &mut (impl CryptoRng + ?Sized)) -> String {
    use std::fmt::Write as _;
    let mut bits = [0_u8; 32];
    rng.fill_bytes(&mut bits);
    let mut key = PREFIX.to_owned();
    for byte in bits {
        // A String takes whatever is written to it.
        let _ = write!(key, "{byte:02x}");
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthorn_runtime::rng::rng;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_is_made_once_and_only_this_user_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let first = load_or_make(folder.path(), &mut rng()).unwrap();
        let second = load_or_make(folder.path(), &mut rng()).unwrap();
        assert!(first.matches(second.expose()));
        assert_eq!(first.expose().len(), PREFIX.len() + 64);
        let mode = folder.path().join(FILE).metadata().unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }

    #[test]
    fn every_folder_has_its_own() {
        let keys = [make(&mut rng()), make(&mut rng())];
        assert_ne!(keys[0], keys[1]);
    }
}

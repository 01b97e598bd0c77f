//! The keys of a development system: made once, kept, so that what was copied or stored yesterday
//! works today.

use crate::devfile::write_private;
use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthorn_runtime::SecretString;
use rand::CryptoRng;
use std::io::ErrorKind;
use std::path::Path;

const API_KEY: &str = "api-key";
const SECRET_KEYS: &str = "secret-keys";
/// Which key this is, for whoever finds it.
const PREFIX: &str = "phdev_";

/// The API key of a data folder, made where there is none.
///
/// # Errors
/// When the file cannot be read or written.
pub(crate) fn api_key(
    folder: &Path,
    rng: &mut (impl CryptoRng + ?Sized),
) -> anyhow::Result<SecretString> {
    load_or_make(folder, API_KEY, || make_api_key(rng))
}

/// The keys that a data folder's endpoints are stored under, one made where there is none. The
/// file is the setting, so more keys can be written into it.
///
/// # Errors
/// When the file cannot be read or written.
pub(crate) fn secret_keys(
    folder: &Path,
    rng: &mut (impl CryptoRng + ?Sized),
) -> anyhow::Result<SecretString> {
    load_or_make(folder, SECRET_KEYS, || make_secret_key(rng))
}

fn load_or_make(
    folder: &Path,
    file: &str,
    make: impl FnOnce() -> String,
) -> anyhow::Result<SecretString> {
    let place = folder.join(file);
    let shown = place.display();
    match std::fs::read_to_string(&place) {
        Ok(text) if !text.trim().is_empty() => {
            return Ok(SecretString::from(text.trim().to_owned()));
        }
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
    }
    let key = make();
    write_private(&place, format!("{key}\n").as_bytes())
        .with_context(|| format!("cannot write {shown}"))?;
    Ok(SecretString::from(key))
}

/// 256 bits, in hex.
fn make_api_key(rng: &mut (impl CryptoRng + ?Sized)) -> String {
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

fn make_secret_key(rng: &mut (impl CryptoRng + ?Sized)) -> String {
    let mut bits = [0_u8; 32];
    rng.fill_bytes(&mut bits);
    format!("dev:{}", STANDARD.encode(bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthorn_runtime::rng::rng;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_is_made_once_and_only_this_user_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let first = api_key(folder.path(), &mut rng()).unwrap();
        let second = api_key(folder.path(), &mut rng()).unwrap();
        assert!(first.matches(second.expose()));
        assert_eq!(first.expose().len(), PREFIX.len() + 64);
        let sealing = secret_keys(folder.path(), &mut rng()).unwrap();
        let kept = secret_keys(folder.path(), &mut rng()).unwrap();
        assert!(sealing.matches(kept.expose()) && !sealing.matches(first.expose()));
        for file in [API_KEY, SECRET_KEYS] {
            let mode = folder.path().join(file).metadata().unwrap().permissions();
            assert_eq!(mode.mode() & 0o777, 0o600, "{file}");
        }
    }

    #[test]
    fn every_folder_has_its_own() {
        assert_ne!(make_api_key(&mut rng()), make_api_key(&mut rng()));
        assert_ne!(make_secret_key(&mut rng()), make_secret_key(&mut rng()));
    }
}

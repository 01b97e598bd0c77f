//! HMAC-SHA256 over parts, so that a body is never copied to be signed.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The digest of the parts in a row, as if they were one text.
pub(crate) fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

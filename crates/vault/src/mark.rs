//! Ids that nobody can make who has not the keys.
//!
//! Some ids must be the same whoever of us makes them, and however often, and yet be nothing that
//! an outsider who knows what they are made of can make first. A keyed hash is both.

use crate::vault::Vault;
use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key, sign};
use aws_lc_rs::pbkdf2::{self, PBKDF2_HMAC_SHA256};
use std::fmt;
use std::num::NonZeroU32;
use zeroize::Zeroizing;

/// A mark's length in bytes: too many to be guessed, few enough to be kept by the million.
pub const MARK_BYTES: usize = 16;

/// What an operator typed may be short. Whoever reads marks and knows what they are of could try
/// words against them, so that each try is made to cost this many hashes.
const ROUNDS: NonZeroU32 = NonZeroU32::new(100_000).expect("it is not zero");

/// Makes marks for one purpose. Printed, it is its name alone.
#[derive(Clone)]
pub struct Marker {
    key: Key,
}

impl fmt::Debug for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Marker")
    }
}

impl Marker {
    /// Under a key that is made of the vault's first one, or of `otherwise` where the vault has
    /// none. Marks of different purposes tell nothing of each other, and none of its key.
    #[must_use]
    pub fn new(vault: &Vault, purpose: &str, otherwise: &str) -> Marker {
        let bytes = vault
            .derived(purpose)
            .unwrap_or_else(|| stretched(purpose, otherwise));
        Marker {
            key: Key::new(HMAC_SHA256, &*bytes),
        }
    }

    /// The mark of these parts, in this order: the same for the same, and for nothing else.
    #[must_use]
    pub fn mark(&self, parts: &[&[u8]]) -> [u8; MARK_BYTES] {
        let mut context = Context::with_key(&self.key);
        for part in parts {
            // Without its length, a part could take over the beginning of the next.
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let tag = context.sign();
        let mut mark = [0; MARK_BYTES];
        mark.copy_from_slice(&tag.as_ref()[..MARK_BYTES]);
        mark
    }
}

/// A key of 32 bytes for `purpose`, made of one that is as good as random.
pub(crate) fn derive(root: &Key, purpose: &str) -> Zeroizing<[u8; 32]> {
    let tag = sign(root, purpose.as_bytes());
    let mut bytes = Zeroizing::new([0; 32]);
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

fn stretched(purpose: &str, text: &str) -> Zeroizing<[u8; 32]> {
    let mut bytes = Zeroizing::new([0; 32]);
    let salt = purpose.as_bytes();
    pbkdf2::derive(
        PBKDF2_HMAC_SHA256,
        ROUNDS,
        salt,
        text.as_bytes(),
        bytes.as_mut(),
    );
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    fn vault(byte: u8) -> Vault {
        let setting = format!("k1:{}", STANDARD.encode([byte; 32]));
        Vault::from_setting(Some(&setting)).unwrap()
    }

    fn mark(vault: &Vault, purpose: &str, otherwise: &str) -> [u8; MARK_BYTES] {
        Marker::new(vault, purpose, otherwise).mark(&[b"acme", b"order-1"])
    }

    #[test]
    fn a_mark_is_the_same_for_the_same_key_and_purpose_only() {
        let first = mark(&vault(1), "a", "x");
        assert_eq!(first, mark(&vault(1), "a", "y"), "the key alone counts");
        assert_ne!(first, mark(&vault(2), "a", "x"));
        assert_ne!(first, mark(&vault(1), "b", "x"));
        let plain = mark(&Vault::plain(), "a", "x");
        assert_eq!(plain, mark(&Vault::plain(), "a", "x"));
        assert_ne!(plain, mark(&Vault::plain(), "a", "y"));
        assert_ne!(plain, mark(&Vault::plain(), "b", "x"));
        assert_ne!(plain, first);
    }

    #[test]
    fn the_first_key_marks_whatever_its_name_and_its_followers() {
        let key = |id: &str, byte: u8| format!("{id}:{}", STANDARD.encode([byte; 32]));
        let of = |setting: &str| mark(&Vault::from_setting(Some(setting)).unwrap(), "a", "");
        assert_eq!(of(&key("k1", 1)), of(&key("k9", 1)));
        let two = format!("{},{}", key("k1", 1), key("k2", 2));
        assert_eq!(of(&key("k1", 1)), of(&two));
        assert_ne!(of(&key("k2", 2)), of(&two));
    }

    #[test]
    fn nothing_of_it_is_printed() {
        assert_eq!(format!("{:?}", Marker::new(&vault(1), "a", "b")), "Marker");
    }

    proptest! {
        #[test]
        fn js_10_parts_that_join_to_the_same_text_are_marked_apart(
            a in "[a-c]{0,3}", b in "[a-c]{0,3}", c in "[a-c]{0,3}", d in "[a-c]{0,3}",
        ) {
            let marker = Marker::new(&vault(1), "a", "");
            let of = |x: &str, y: &str| marker.mark(&[x.as_bytes(), y.as_bytes()]);
            prop_assert_eq!(of(&a, &b) == of(&c, &d), (&a, &b) == (&c, &d));
        }
    }
}

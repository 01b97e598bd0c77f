//! Key pairs for receivers that must not be able to sign.
//!
//! With a shared secret whoever can check a delivery can also forge one. The `v1a` scheme gives
//! the receiver only the public half. The texts are `whsk_` and `whpk_`, each followed by padded
//! standard base64 of 32 bytes: the seed of RFC 8032, and the compressed public point.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use rand::CryptoRng;
use zeroize::Zeroizing;

const PAIR_PREFIX: &str = "whsk_";
const PUBLIC_PREFIX: &str = "whpk_";
const KEY_BYTES: usize = 32;
/// Base64 of [`KEY_BYTES`]; a text of another length is not decoded at all.
const ENCODED_BYTES: usize = KEY_BYTES.div_ceil(3) * 4;

/// Why a text is not a key. Says nothing of the text itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It does not begin with the prefix of its kind.
    #[error("the key begins with {expected}")]
    Prefix {
        /// `whsk_` or `whpk_`.
        expected: &'static str,
    },
    /// What follows the prefix is not padded standard base64 of 32 bytes.
    #[error("after its prefix the key is base64 of {KEY_BYTES} bytes, with padding")]
    Encoding,
    /// The bytes are no point on the curve, or a weak one under which signatures prove nothing.
    #[error("the bytes are not a usable public key")]
    Point,
}

/// A private key with its public half. Wiped when dropped and never printed.
#[derive(Clone)]
pub struct KeyPair {
    text: Zeroizing<String>,
    key: SigningKey,
}

impl KeyPair {
    /// Reads `whsk_` and base64 of the 32-byte seed.
    ///
    /// # Errors
    ///
    /// [`KeyError`] names the rule that the text breaks.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        Ok(Self::from_seed(&*decode(PAIR_PREFIX, text)?))
    }

    /// Makes a new pair.
    pub fn generate(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut seed = Zeroizing::new([0; KEY_BYTES]);
        rng.fill_bytes(&mut *seed);
        Self::from_seed(&seed)
    }

    fn from_seed(seed: &[u8; KEY_BYTES]) -> Self {
        let encoded = Zeroizing::new(STANDARD.encode(seed));
        Self {
            text: Zeroizing::new([PAIR_PREFIX, &encoded].concat()),
            key: SigningKey::from_bytes(seed),
        }
    }

    /// The private key's text, to store it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The half that a receiver is given.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.key.verifying_key())
    }

    /// The 64-byte signature of the message. Deterministic, as RFC 8032 has it.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.key.sign(message).to_bytes()
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("whsk_[redacted]")
    }
}

/// The public half of a [`KeyPair`]: no secret, shown as `whpk_` and base64.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Reads `whpk_` and base64 of the 32-byte point.
    ///
    /// # Errors
    ///
    /// [`KeyError`] names the rule that the text breaks.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let bytes = decode(PUBLIC_PREFIX, text)?;
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| KeyError::Point)?;
        if key.is_weak() {
            return Err(KeyError::Point);
        }
        Ok(Self(key))
    }

    /// Whether the signature is this key's of this message.
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        // The strict form, so that a signature has no second spelling that also passes.
        let signature = Signature::from_bytes(signature);
        self.0.verify_strict(message, &signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC_PREFIX}{}", STANDARD.encode(self.0.as_bytes()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn decode(prefix: &'static str, text: &str) -> Result<Zeroizing<[u8; KEY_BYTES]>, KeyError> {
    let encoded = text
        .strip_prefix(prefix)
        .ok_or(KeyError::Prefix { expected: prefix })?;
    if encoded.len() != ENCODED_BYTES {
        return Err(KeyError::Encoding);
    }
    let bytes = STANDARD.decode(encoded).map_err(|_| KeyError::Encoding)?;
    let bytes = Zeroizing::new(bytes);
    let key = <[u8; KEY_BYTES]>::try_from(&**bytes).map_err(|_| KeyError::Encoding)?;
    Ok(Zeroizing::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    fn pair(seed: u64) -> KeyPair {
        KeyPair::generate(&mut StdRng::seed_from_u64(seed))
    }

    /// RFC 8032, section 7.1, test 1.
    #[test]
    fn the_published_vector_is_signed() {
        let seed = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec,
            0x2c, 0xc4, 0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03,
            0x1c, 0xae, 0x7f, 0x60,
        ];
        let public = [
            0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64,
            0x07, 0x3a, 0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68,
            0xf7, 0x07, 0x51, 0x1a,
        ];
        let pair = KeyPair::parse(&format!("whsk_{}", STANDARD.encode(seed))).unwrap();
        let text = format!("whpk_{}", STANDARD.encode(public));
        assert_eq!(pair.public().to_string(), text);
        assert_eq!(
            STANDARD.encode(pair.sign(b"")),
            "5VZDAMNgrHKQhuLMgG6CioSHfx645dl02HPgZSJJAVVfuIIVkKM7rMYeOXAc+bRr0lv18FlbviRlUUFDjnoQCw=="
        );
    }

    #[test]
    fn texts_go_both_ways() {
        let pair = pair(1);
        let read = KeyPair::parse(pair.reveal()).unwrap();
        assert_eq!(read.public(), pair.public());
        assert_eq!(
            PublicKey::parse(&pair.public().to_string()),
            Ok(pair.public())
        );
    }

    #[test]
    fn only_its_own_signature_of_this_message_passes() {
        let (other, pair) = (pair(3), pair(2));
        let good = pair.sign(b"message");
        assert!(pair.public().verify(b"message", &good));
        assert!(!pair.public().verify(b"massage", &good));
        assert!(!other.public().verify(b"message", &good));
        for bit in 0..512 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!pair.public().verify(b"message", &bad), "bit {bit}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let private = pair(4).reveal().to_owned();
        let public = pair(4).public().to_string();
        let prefix = KeyError::Prefix { expected: "whsk_" };
        assert_eq!(KeyPair::parse(&public).err(), Some(prefix));
        assert!(matches!(
            PublicKey::parse(&private),
            Err(KeyError::Prefix { .. })
        ));
        for text in [
            "whsk_".to_owned(),
            private.trim_end_matches('=').to_owned(),
            format!("{private}\n"),
            format!("whsk_{}", STANDARD.encode([1; 31])),
            format!("whsk_{}", STANDARD.encode([1; 33])),
            format!("whsk_{}", STANDARD.encode([1; 64])),
            private.replace('=', "!"),
        ] {
            assert_eq!(
                KeyPair::parse(&text).err(),
                Some(KeyError::Encoding),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_weak_point_is_no_public_key() {
        let mut identity = [0; 32];
        identity[0] = 1;
        for bytes in [identity, [0; 32]] {
            let text = format!("whpk_{}", STANDARD.encode(bytes));
            assert_eq!(PublicKey::parse(&text), Err(KeyError::Point));
        }
    }

    #[test]
    fn a_private_key_is_never_printed() {
        let pair = pair(5);
        let shown = format!("{pair:?} {:#?}", Some(&pair));
        assert!(!shown.contains(&pair.reveal()[5..]), "{shown}");
    }
}

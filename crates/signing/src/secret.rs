//! The shared secret of an endpoint.
//!
//! One rule, and no second spelling: `whsec_` and then base64 in the standard alphabet, padded,
//! of 24 to 64 bytes. Decoders that are lenient here have signed with the text and its prefix,
//! with half a key, or with an empty one that anybody can guess. So an unpadded, url-safe or
//! line-broken text is refused where it is written, not found out by a receiver.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::CryptoRng;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

const PREFIX: &str = "whsec_";
const MIN_KEY_BYTES: usize = 24;
const MAX_KEY_BYTES: usize = 64;
const NEW_KEY_BYTES: usize = 32;
/// Base64 of [`MAX_KEY_BYTES`]: what is longer is not decoded at all.
const MAX_ENCODED_BYTES: usize = MAX_KEY_BYTES.div_ceil(3) * 4;

/// Why a text is not a secret. Says nothing of the text itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// It does not begin with `whsec_`.
    #[error("a secret begins with whsec_")]
    Prefix,
    /// What follows the prefix is not base64 in the standard alphabet with its padding.
    // The decoder's own error names the offending byte, which is a byte of the secret.
    #[error("after whsec_ a secret is base64 in the standard alphabet, with padding")]
    Base64,
    /// The key has fewer than 24 bytes.
    #[error("the key has {bytes} bytes, fewer than {MIN_KEY_BYTES}")]
    TooShort {
        /// Its length.
        bytes: usize,
    },
    /// The key has more than 64 bytes.
    #[error("the key has more than {MAX_KEY_BYTES} bytes")]
    TooLong,
}

/// A shared secret of 24 to 64 bytes. Wiped when dropped, compared in constant time, and never
/// printed: [`Secret::reveal`] is the only way to its text.
#[derive(Clone)]
pub struct Secret {
    text: Zeroizing<String>,
    key: Zeroizing<Vec<u8>>,
}

impl Secret {
    /// Reads `whsec_` and padded standard base64.
    ///
    /// # Errors
    ///
    /// [`SecretError`] names the rule that the text breaks.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(SecretError::Prefix)?;
        if encoded.len() > MAX_ENCODED_BYTES {
            return Err(SecretError::TooLong);
        }
        let key = STANDARD.decode(encoded).map_err(|_| SecretError::Base64)?;
        let key = Zeroizing::new(key);
        if key.len() < MIN_KEY_BYTES {
            return Err(SecretError::TooShort { bytes: key.len() });
        }
        if key.len() > MAX_KEY_BYTES {
            return Err(SecretError::TooLong);
        }
        let text = Zeroizing::new(text.to_owned());
        Ok(Self { text, key })
    }

    /// Makes a new secret of 32 bytes.
    pub fn generate(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut key = Zeroizing::new(vec![0; NEW_KEY_BYTES]);
        rng.fill_bytes(&mut key);
        let encoded = Zeroizing::new(STANDARD.encode(&*key));
        let text = Zeroizing::new([PREFIX, &encoded].concat());
        Self { text, key }
    }

    /// The text, prefix included: to store it, to show it once, and the key of the `hub` scheme.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The decoded bytes, 24 to 64: the key of the `v1` and `svix` schemes.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        // The decoder takes one text for each key only, so equal keys are equal secrets.
        self.key.ct_eq(&other.key).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("whsec_[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    fn whsec(key: &[u8]) -> String {
        format!("whsec_{}", STANDARD.encode(key))
    }

    #[test]
    fn sig_03_one_spelling_is_accepted() {
        for bytes in [24, 25, 26, 32, 63, 64] {
            let key = vec![0xfb; bytes];
            let text = whsec(&key);
            let secret = Secret::parse(&text).unwrap();
            assert_eq!(secret.key(), key);
            assert_eq!(secret.reveal(), text);
        }
    }

    #[test]
    fn sig_03_every_other_spelling_is_refused() {
        let good = whsec(&[0xfb; 25]);
        assert!(good.ends_with('=') && good.contains('+') && Secret::parse(&good).is_ok());
        let table = [
            (good.replace("whsec_", ""), SecretError::Prefix),
            (format!("v1,{good}"), SecretError::Prefix),
            (format!(" {good}"), SecretError::Prefix),
            (good.replace("whsec_", "WHSEC_"), SecretError::Prefix),
            (good.replace("whsec_", "whsk_"), SecretError::Prefix),
            (String::new(), SecretError::Prefix),
            (good.trim_end_matches('=').to_owned(), SecretError::Base64),
            (good.replace('+', "-"), SecretError::Base64),
            (format!("{good}\n"), SecretError::Base64),
            (format!("{good} "), SecretError::Base64),
            (format!("{good}="), SecretError::Base64),
            (good.replacen('+', "\n", 1), SecretError::Base64),
            ("whsec_!!!!".to_owned(), SecretError::Base64),
            ("whsec_whsec_".to_owned(), SecretError::Base64),
            ("whsec_".to_owned(), SecretError::TooShort { bytes: 0 }),
            (whsec(&[1; 8]), SecretError::TooShort { bytes: 8 }),
            (whsec(&[1; 23]), SecretError::TooShort { bytes: 23 }),
            (whsec(&[1; 65]), SecretError::TooLong),
            (whsec(&[1; 67]), SecretError::TooLong),
            (
                format!("whsec_{}", "A".repeat(1 << 20)),
                SecretError::TooLong,
            ),
        ];
        for (text, error) in table {
            let shown: String = text.chars().take(80).collect();
            assert_eq!(Secret::parse(&text).err(), Some(error), "{shown:?}");
        }
    }

    #[test]
    fn sig_03_one_key_has_one_text() {
        // The unused bits of the last digit are zero in the only accepted spelling.
        let good = whsec(&[0; 25]);
        assert!(good.ends_with("AA=="));
        let twin = good.replace("AA==", "AB==");
        assert_eq!(Secret::parse(&twin).err(), Some(SecretError::Base64));
    }

    #[test]
    fn equality_is_of_keys() {
        let a = Secret::parse(&whsec(&[1; 24])).unwrap();
        assert_eq!(a, a.clone());
        assert_ne!(a, Secret::parse(&whsec(&[2; 24])).unwrap());
        assert_ne!(a, Secret::parse(&whsec(&[1; 25])).unwrap());
    }

    proptest! {
        #[test]
        fn generated_secrets_parse_and_differ(seed: u64) {
            let mut rng = StdRng::seed_from_u64(seed);
            let secret = Secret::generate(&mut rng);
            prop_assert_eq!(secret.key().len(), 32);
            prop_assert_eq!(&Secret::parse(secret.reveal()).unwrap(), &secret);
            prop_assert_ne!(secret, Secret::generate(&mut rng));
        }

        #[test]
        fn a_secret_is_never_printed(seed: u64) {
            let secret = Secret::generate(&mut StdRng::seed_from_u64(seed));
            let shown = format!("{secret} {secret:?} {:#?} {:?}", Some(&secret), [&secret]);
            prop_assert!(!shown.contains(&secret.reveal()[6..]));
            let key = format!("{:?}", secret.key());
            prop_assert!(!shown.contains(&key));
            prop_assert!(shown.starts_with("whsec_[redacted] whsec_[redacted]"));
        }
    }
}

//! The keys, as an operator writes them down.

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use zeroize::Zeroizing;

/// Keys that may be known at the same time: a new one, and old ones that still open something.
pub const MAX_KEYS: usize = 16;
const KEY_BYTES: usize = 32;
const MAX_ID: usize = 16;

/// Why a setting holds no keys. Says nothing of what it holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// There is no key, and storing secrets in plain was not asked for.
    #[error(
        "secret-keys (POSTHORN_SECRET_KEYS) is needed: the keys that endpoints' secrets are \
         stored under, like k1:$(openssl rand -base64 32); or `none`, to store them as they are"
    )]
    Missing,
    /// There are more than [`MAX_KEYS`].
    #[error("secret-keys (POSTHORN_SECRET_KEYS) holds more than {MAX_KEYS} keys")]
    TooMany,
    /// An item is not an id, a colon and a key.
    #[error(
        "item {at} of secret-keys (POSTHORN_SECRET_KEYS) is not an id of 1 to {MAX_ID} of a-z \
         and 0-9, a colon and a key"
    )]
    Item {
        /// Its place, from 1.
        at: usize,
    },
    /// What follows the colon is no key.
    #[error(
        "item {at} of secret-keys (POSTHORN_SECRET_KEYS) has no key of {KEY_BYTES} bytes in \
         padded standard base64 after its colon: openssl rand -base64 {KEY_BYTES} makes one"
    )]
    Key {
        /// Its place, from 1.
        at: usize,
    },
    /// Two keys have one id, so what is sealed could not say which it is.
    #[error("item {at} of secret-keys (POSTHORN_SECRET_KEYS) has the id of an earlier one")]
    Twice {
        /// The second one's place, from 1.
        at: usize,
    },
}

/// The name of a key: 1 to 16 of `a-z` and `0-9`. It is no secret and stands in what is sealed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyId(Box<str>);

impl KeyId {
    /// From its text; `None` where that breaks the rule.
    #[must_use]
    pub fn parse(text: &str) -> Option<KeyId> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let valid = (1..=MAX_ID).contains(&text.len()) && text.bytes().all(allowed);
        valid.then(|| KeyId(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key and its name. Printed, it is the name alone.
pub(crate) struct NamedKey {
    pub id: KeyId,
    pub key: LessSafeKey,
    /// What keys for other purposes are made of.
    pub root: hmac::Key,
}

impl fmt::Debug for NamedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id.as_str())
    }
}

/// Reads `id:key,id:key`, in their order; at least one.
pub(crate) fn parse_keys(text: &str) -> Result<Vec<NamedKey>, KeysError> {
    if text.trim().is_empty() {
        return Err(KeysError::Missing);
    }
    let mut keys: Vec<NamedKey> = Vec::new();
    for (index, item) in text.split(',').enumerate() {
        if index == MAX_KEYS {
            return Err(KeysError::TooMany);
        }
        let key = parse_key(item.trim(), index + 1)?;
        if keys.iter().any(|known| known.id == key.id) {
            return Err(KeysError::Twice { at: index + 1 });
        }
        keys.push(key);
    }
    Ok(keys)
}

fn parse_key(item: &str, at: usize) -> Result<NamedKey, KeysError> {
    let named = item.split_once(':');
    let named = named.and_then(|(id, key)| Some((KeyId::parse(id)?, key)));
    let (id, encoded) = named.ok_or(KeysError::Item { at })?;
    let bytes = Zeroizing::new(
        STANDARD
            .decode(encoded)
            .map_err(|_| KeysError::Key { at })?,
    );
    if bytes.len() != KEY_BYTES {
        return Err(KeysError::Key { at });
    }
    let unbound = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| KeysError::Key { at })?;
    Ok(NamedKey {
        id,
        key: LessSafeKey::new(unbound),
        root: hmac::Key::new(hmac::HMAC_SHA256, &bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(id: &str, byte: u8, bytes: usize) -> String {
        format!("{id}:{}", STANDARD.encode(vec![byte; bytes]))
    }

    fn error_of(text: &str) -> KeysError {
        parse_keys(text).unwrap_err()
    }

    #[test]
    fn keys_are_read_in_their_order() {
        let text = format!(" {}, {}", item("k2", 2, 32), item("2024a", 1, 32));
        let keys = parse_keys(&text).unwrap();
        assert_eq!(format!("{keys:?}"), "[k2, 2024a]");
        let many: Vec<String> = (0..16).map(|n| item(&format!("k{n}"), n, 32)).collect();
        assert_eq!(parse_keys(&many.join(",")).unwrap().len(), MAX_KEYS);
        let more = format!("{},{}", many.join(","), item("k16", 9, 32));
        assert_eq!(error_of(&more), KeysError::TooMany);
    }

    #[test]
    fn what_is_no_key_is_refused_by_its_place_and_not_repeated() {
        let good = item("k1", 1, 32);
        for (text, error) in [
            (String::new(), KeysError::Missing),
            ("  ".to_owned(), KeysError::Missing),
            (",".to_owned(), KeysError::Item { at: 1 }),
            (format!("{good},"), KeysError::Item { at: 2 }),
            (STANDARD.encode([7; 32]), KeysError::Item { at: 1 }),
            (item("", 1, 32), KeysError::Item { at: 1 }),
            (item("K1", 1, 32), KeysError::Item { at: 1 }),
            (item("k_1", 1, 32), KeysError::Item { at: 1 }),
            (item("seventeenlongname", 1, 32), KeysError::Item { at: 1 }),
            (item("k1", 1, 31), KeysError::Key { at: 1 }),
            (item("k1", 1, 33), KeysError::Key { at: 1 }),
            (item("k1", 1, 0), KeysError::Key { at: 1 }),
            (
                item("k1", 1, 32).trim_end_matches('=').to_owned(),
                KeysError::Key { at: 1 },
            ),
            ("k1:hunter2-hunter2".to_owned(), KeysError::Key { at: 1 }),
            (format!("{good},{good}"), KeysError::Twice { at: 2 }),
        ] {
            assert_eq!(error_of(&text), error);
            let said = error_of(&text).to_string();
            let secret = text.rsplit(':').next().unwrap();
            assert!(secret.len() < 8 || !said.contains(secret), "{said}");
            assert!(said.contains("POSTHORN_SECRET_KEYS"), "{said}");
        }
        assert!(
            KeysError::Missing
                .to_string()
                .contains("openssl rand -base64 32")
        );
    }
}

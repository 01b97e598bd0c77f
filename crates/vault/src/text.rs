//! The text of what is sealed: `sealed:v1:<key id>:<base64url of nonce and ciphertext>`.

use crate::key::KeyId;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const MARK: &str = "sealed:";
const VERSION: &str = "v1";

/// Whether a stored text is a sealed one. No URL, no secret and no header value that the API
/// takes begins like one.
#[must_use]
pub fn is_sealed(text: &str) -> bool {
    text.starts_with(MARK)
}

/// The text of `bytes` that were sealed with the key of this id.
pub(crate) fn write(key: &KeyId, bytes: &[u8]) -> String {
    let body = URL_SAFE_NO_PAD.encode(bytes);
    format!("{MARK}{VERSION}:{key}:{body}")
}

/// The key's id and the bytes of a sealed text; `None` where it has another form.
pub(crate) fn read(text: &str) -> Option<(KeyId, Vec<u8>)> {
    let (key, body) = split(text)?;
    Some((key, URL_SAFE_NO_PAD.decode(body).ok()?))
}

/// The id of the key that a text was sealed with.
pub(crate) fn key_of(text: &str) -> Option<KeyId> {
    split(text).map(|(key, _)| key)
}

fn split(text: &str) -> Option<(KeyId, &str)> {
    let rest = text.strip_prefix(MARK)?.strip_prefix(VERSION)?;
    let (key, body) = rest.strip_prefix(':')?.split_once(':')?;
    Some((KeyId::parse(key)?, body))
}

//! The signatures of one attempt.
//!
//! Called anew for every attempt and every replay, with the keys as they are now: a signature
//! that travelled with a queued message would be too old for the receiver by the later attempts,
//! and would keep a revoked secret alive.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::headers::{
    HUB_SIGNATURE, HUB_TIMESTAMP, SVIX_ID, SVIX_SIGNATURE, SVIX_TIMESTAMP, WEBHOOK_ID,
    WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP,
};
use crate::mac::hmac_sha256;
use crate::{IdError, KeyPair, Scheme, Secret, SignedMessage, hex};

/// The keys of an endpoint that are live at the moment of the attempt, newest first.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    /// During a rotation's overlap both the new and the old secret are live, and both sign.
    pub secrets: &'a [Secret],
    /// Likewise for the pairs of the `v1a` scheme.
    pub pairs: &'a [KeyPair],
}

/// Why a request cannot be signed. None of these is cured by trying again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The id may not be part of a signed text.
    #[error("the message's id cannot be signed")]
    Id(#[source] IdError),
    /// The time of the attempt lies before 1970.
    #[error("the message's timestamp is before the unix epoch")]
    Timestamp,
    /// The endpoint asks for no scheme, and nothing goes out unsigned.
    #[error("no signature scheme is asked for")]
    NoScheme,
    /// The scheme needs a secret and there is none.
    #[error("scheme {scheme} needs a secret")]
    NoSecret {
        /// The scheme that was asked for.
        scheme: Scheme,
    },
    /// The scheme needs a key pair and there is none.
    #[error("scheme {scheme} needs a key pair")]
    NoKeyPair {
        /// The scheme that was asked for.
        scheme: Scheme,
    },
}

/// The headers to put on the request: `webhook-id` and `webhook-timestamp` always, and those of
/// each scheme asked for. Names are lower case and occur once. A scheme named twice counts once.
///
/// `webhook-signature` holds one `v1` for each live secret and then one `v1a` for each live pair,
/// as far as these schemes are asked for.
///
/// # Errors
///
/// [`SignError`] when no scheme is asked for or a scheme lacks its key.
pub fn sign(
    schemes: &[Scheme],
    keys: &Keys<'_>,
    message: &SignedMessage<'_>,
) -> Result<Vec<(&'static str, String)>, SignError> {
    check_keys(schemes, keys)?;
    let timestamp = message.timestamp().to_string();
    let asks = |scheme| schemes.contains(&scheme);

    let hmacs = if asks(Scheme::V1) || asks(Scheme::Svix) {
        v1(keys.secrets, message, &timestamp)
    } else {
        Vec::new()
    };
    let mut standard = Vec::new();
    if asks(Scheme::V1) {
        standard.extend_from_slice(&hmacs);
    }
    if asks(Scheme::V1a) {
        standard.extend(v1a(keys.pairs, message, &timestamp));
    }

    let mut headers = Vec::with_capacity(8);
    headers.push((WEBHOOK_ID, message.id().to_owned()));
    headers.push((WEBHOOK_TIMESTAMP, timestamp.clone()));
    if !standard.is_empty() {
        headers.push((WEBHOOK_SIGNATURE, standard.join(" ")));
    }
    if asks(Scheme::Svix) {
        headers.push((SVIX_ID, message.id().to_owned()));
        headers.push((SVIX_TIMESTAMP, timestamp.clone()));
        headers.push((SVIX_SIGNATURE, hmacs.join(" ")));
    }
    if let (true, Some(newest)) = (asks(Scheme::Hub), keys.secrets.first()) {
        headers.push((HUB_SIGNATURE, hub(newest, message, &timestamp)));
        headers.push((HUB_TIMESTAMP, timestamp));
    }
    Ok(headers)
}

fn check_keys(schemes: &[Scheme], keys: &Keys<'_>) -> Result<(), SignError> {
    if schemes.is_empty() {
        return Err(SignError::NoScheme);
    }
    for &scheme in schemes {
        match scheme {
            Scheme::V1a if keys.pairs.is_empty() => return Err(SignError::NoKeyPair { scheme }),
            Scheme::V1 | Scheme::Hub | Scheme::Svix if keys.secrets.is_empty() => {
                return Err(SignError::NoSecret { scheme });
            }
            Scheme::V1 | Scheme::V1a | Scheme::Hub | Scheme::Svix => {}
        }
    }
    Ok(())
}

fn v1(secrets: &[Secret], message: &SignedMessage<'_>, timestamp: &str) -> Vec<String> {
    let sign = |secret| STANDARD.encode(standard_mac(secret, message, timestamp));
    secrets
        .iter()
        .map(|secret| format!("v1,{}", sign(secret)))
        .collect()
}

fn v1a(pairs: &[KeyPair], message: &SignedMessage<'_>, timestamp: &str) -> Vec<String> {
    let text = standard_text(message, timestamp);
    let sign = |pair: &KeyPair| STANDARD.encode(pair.sign(&text));
    pairs
        .iter()
        .map(|pair| format!("v1a,{}", sign(pair)))
        .collect()
}

fn hub(secret: &Secret, message: &SignedMessage<'_>, timestamp: &str) -> String {
    format!(
        "sha256={}",
        hex::encode(&hub_mac(secret, timestamp, message.body()))
    )
}

/// HMAC-SHA256 of `id.timestamp.body` under the secret's decoded bytes.
pub(crate) fn standard_mac(
    secret: &Secret,
    message: &SignedMessage<'_>,
    timestamp: &str,
) -> [u8; 32] {
    let id = message.id().as_bytes();
    let parts = [id, b".", timestamp.as_bytes(), b".", message.body()];
    hmac_sha256(secret.key(), &parts)
}

/// `id.timestamp.body` in one piece, which Ed25519 needs as it reads the text twice.
pub(crate) fn standard_text(message: &SignedMessage<'_>, timestamp: &str) -> Vec<u8> {
    let id = message.id().as_bytes();
    [id, b".", timestamp.as_bytes(), b".", message.body()].concat()
}

/// HMAC-SHA256 of the timestamp and the body under the secret's text.
///
/// Nothing separates the two, as receivers of this scheme expect. A digit moved from the body
/// into the timestamp changes it tenfold, so whoever checks the timestamp's age refuses it.
pub(crate) fn hub_mac(secret: &Secret, timestamp: &str, body: &[u8]) -> [u8; 32] {
    hmac_sha256(secret.reveal().as_bytes(), &[timestamp.as_bytes(), body])
}

#[cfg(test)]
mod tests;

//! The receiver's side: is this request ours, and is it fresh?
//!
//! Every header comes from whoever sent the request, so lengths and counts are bounded before
//! anything is computed, and digests are compared in constant time with all live secrets.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::{Choice, ConstantTimeEq};

use crate::message::check_id;
use crate::sign::{hub_mac, standard_mac, standard_text};
use crate::{IdError, PublicKey, Secret, SignedMessage, hex};

/// How far the timestamp may lie from now, in either direction, where nothing else is said.
pub const DEFAULT_TOLERANCE: Duration = Duration::from_secs(300);

/// How many signatures of one header are looked at. What follows them is ignored.
pub const MAX_SIGNATURES: usize = 32;

/// Room for [`MAX_SIGNATURES`] of the longest kind, and some.
const MAX_HEADER_BYTES: usize = 8 * 1024;

/// Digits of the largest timestamp: `i64::MAX`.
const MAX_TIMESTAMP_BYTES: usize = 19;

/// Why a request is not to be trusted. Holds nothing of the request but lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The verifier knows no key of the kind that this check needs.
    #[error("there is no key to verify with")]
    NoKeys,
    /// The id is not one that is ever signed.
    #[error("the id header is not valid")]
    Id(#[source] IdError),
    /// The timestamp is not a plain decimal number of seconds.
    #[error("the timestamp header is not a number of unix seconds")]
    Timestamp,
    /// The timestamp is older than the tolerance: a replay, or a clock that is wrong.
    #[error("the timestamp is too old")]
    TooOld,
    /// The timestamp is further ahead than the tolerance.
    #[error("the timestamp is too far in the future")]
    TooNew,
    /// The header of signatures is longer than 8 KiB.
    #[error("the signature header is too long")]
    HeaderTooLong,
    /// No signature in the header is ours of this message.
    #[error("no signature matches")]
    NoMatch,
}

/// Checks deliveries with several secrets and public keys at once.
///
/// A good signature does not say that the delivery is new: deduplicate by its id as well.
#[derive(Clone, Debug)]
pub struct Verifier {
    secrets: Vec<Secret>,
    public_keys: Vec<PublicKey>,
    tolerance: Duration,
}

impl Verifier {
    /// Accepts what any of the secrets signed. During a rotation give the old and the new one;
    /// for `v1a` alone give none.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        Self {
            secrets: secrets.into_iter().collect(),
            public_keys: Vec::new(),
            tolerance: DEFAULT_TOLERANCE,
        }
    }

    /// Accepts `v1a` signatures of these keys as well.
    #[must_use]
    pub fn with_public_keys(mut self, keys: impl IntoIterator<Item = PublicKey>) -> Self {
        self.public_keys = keys.into_iter().collect();
        self
    }

    /// Replaces [`DEFAULT_TOLERANCE`]. Whole seconds count; a fraction is dropped.
    #[must_use]
    pub const fn with_tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Checks `v1` and `v1a` signatures, under the `webhook-` names or the `svix-` ones: the
    /// values of the id, timestamp and signature headers, the body's bytes as they came, and the
    /// receiver's time in unix seconds. One matching signature suffices; of other versions none
    /// is looked into.
    ///
    /// # Errors
    ///
    /// [`VerifyError`] says which check failed.
    pub fn verify(
        &self,
        id: &str,
        timestamp: &str,
        signatures: &str,
        body: &[u8],
        now: i64,
    ) -> Result<(), VerifyError> {
        if self.secrets.is_empty() && self.public_keys.is_empty() {
            return Err(VerifyError::NoKeys);
        }
        check_id(id).map_err(VerifyError::Id)?;
        let seconds = self.check_timestamp(timestamp, now)?;
        if signatures.len() > MAX_HEADER_BYTES {
            return Err(VerifyError::HeaderTooLong);
        }
        let message = SignedMessage::try_new(id, seconds, body)
            .expect("the id and the sign of the timestamp were checked");
        let entries = || signatures.split(' ').take(MAX_SIGNATURES);
        if self.matches_v1(&message, timestamp, entries())
            || self.matches_v1a(&message, timestamp, entries())
        {
            return Ok(());
        }
        Err(VerifyError::NoMatch)
    }

    /// Checks the `hub` scheme: the values of `x-webhook-timestamp` and `x-hub-signature-256`,
    /// the body's bytes as they came, and the receiver's time in unix seconds.
    ///
    /// # Errors
    ///
    /// [`VerifyError`] says which check failed.
    pub fn verify_hub(
        &self,
        timestamp: &str,
        signature: &str,
        body: &[u8],
        now: i64,
    ) -> Result<(), VerifyError> {
        if self.secrets.is_empty() {
            return Err(VerifyError::NoKeys);
        }
        self.check_timestamp(timestamp, now)?;
        let digest = signature
            .strip_prefix("sha256=")
            .and_then(hex::decode)
            .ok_or(VerifyError::NoMatch)?;
        let mut matched = Choice::from(0);
        for secret in &self.secrets {
            matched |= hub_mac(secret, timestamp, body).ct_eq(&digest);
        }
        if matched.into() {
            return Ok(());
        }
        Err(VerifyError::NoMatch)
    }

    /// Never stops at the first match, so that time says nothing of which secret is the live one.
    fn matches_v1<'a>(
        &self,
        message: &SignedMessage<'_>,
        timestamp: &str,
        entries: impl Iterator<Item = &'a str>,
    ) -> bool {
        let digests: Vec<[u8; 32]> = entries.filter_map(|entry| decode("v1,", entry)).collect();
        if digests.is_empty() {
            return false;
        }
        let mut matched = Choice::from(0);
        for secret in &self.secrets {
            let expected = standard_mac(secret, message, timestamp);
            for digest in &digests {
                matched |= expected.ct_eq(digest);
            }
        }
        matched.into()
    }

    fn matches_v1a<'a>(
        &self,
        message: &SignedMessage<'_>,
        timestamp: &str,
        entries: impl Iterator<Item = &'a str>,
    ) -> bool {
        if self.public_keys.is_empty() {
            return false;
        }
        let text = standard_text(message, timestamp);
        entries
            .filter_map(|entry| decode::<64>("v1a,", entry))
            .any(|signature| {
                self.public_keys
                    .iter()
                    .any(|key| key.verify(&text, &signature))
            })
    }

    fn check_timestamp(&self, timestamp: &str, now: i64) -> Result<i64, VerifyError> {
        let seconds = parse_timestamp(timestamp).ok_or(VerifyError::Timestamp)?;
        if seconds.abs_diff(now) <= self.tolerance.as_secs() {
            return Ok(seconds);
        }
        Err(if seconds < now {
            VerifyError::TooOld
        } else {
            VerifyError::TooNew
        })
    }
}

/// Only the spelling that a sender writes: digits without a sign or a leading zero. The header's
/// own text is what was signed, so a number with two spellings would move a boundary.
fn parse_timestamp(text: &str) -> Option<i64> {
    let digits = text.len() <= MAX_TIMESTAMP_BYTES && text.bytes().all(|b| b.is_ascii_digit());
    if !digits || (text.len() > 1 && text.starts_with('0')) {
        return None;
    }
    text.parse().ok()
}

/// The bytes of one entry of the header, if it is of this version and has this length.
fn decode<const BYTES: usize>(version: &str, entry: &str) -> Option<[u8; BYTES]> {
    let encoded = entry.strip_prefix(version)?;
    if encoded.len() != BYTES.div_ceil(3) * 4 {
        return None;
    }
    STANDARD.decode(encoded).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests;

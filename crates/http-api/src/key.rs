//! The text of an API key: `phk_`, its id of 16 hexadecimal digits, `_`, its secret of 64.
//!
//! The id is no secret: it finds the key in the bucket, names it in lists and in the audit log.
//! The secret is 256 random bits, of which only the SHA-256 is kept. A slow hash would protect
//! passwords that people choose, against guessing; 2^256 cannot be guessed, and a slow hash in
//! front of every request would be a lever for whoever wants the service busy. The fixed form
//! lets scanners of source code find a key that was checked in.

use posthorn_broker::codec::ApiKey;
use posthorn_delivery::UnixMillis;
use posthorn_runtime::SecretString;
use rand::{CryptoRng, RngExt};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use subtle::ConstantTimeEq;

const PREFIX: &str = "phk_";
const ID: usize = 16;
const SECRET: usize = 64;

/// A key that has just been made: the only time that its text is known.
#[derive(Debug)]
pub struct MintedKey {
    /// Its id.
    pub id: String,
    /// The whole key, to be shown once.
    pub text: SecretString,
    /// What is kept of its secret.
    pub secret_sha256: [u8; 32],
}

impl MintedKey {
    /// A new key. Ids sort by the millisecond in which their keys were made.
    #[must_use]
    pub fn new(now: UnixMillis, rng: &mut impl CryptoRng) -> MintedKey {
        let millis = u64::try_from(now.0).unwrap_or(0) & 0xffff_ffff_ffff;
        let chance: u16 = rng.random();
        let id = format!("{:016x}", (millis << 16) | u64::from(chance));
        let secret = hex(&rng.random::<[u8; 32]>());
        MintedKey {
            secret_sha256: sha256(&secret),
            text: SecretString::from(format!("{PREFIX}{id}_{secret}")),
            id,
        }
    }
}

/// A text that has the form of a key.
#[derive(Clone, Copy)]
pub struct PresentedKey<'a> {
    id: &'a str,
    secret: &'a str,
}

impl<'a> PresentedKey<'a> {
    /// Reads a key; `None` where the text has not the form of one.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<PresentedKey<'a>> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        (is_key_id(id) && secret.len() == SECRET && is_hex(secret))
            .then_some(PresentedKey { id, secret })
    }

    /// The id that it claims.
    #[must_use]
    pub fn id(&self) -> &'a str {
        self.id
    }

    /// `known`, where this is its secret and it is good at `now`. Takes as long for a key that
    /// is not known as for one whose secret is wrong.
    #[must_use]
    pub fn opens<'k>(&self, known: Option<&'k ApiKey>, now: UnixMillis) -> Option<&'k ApiKey> {
        let kept = known.map_or([0; 32], |key| key.secret_sha256);
        let same = bool::from(sha256(self.secret).ct_eq(&kept));
        let expired = |key: &ApiKey| key.expires_at.is_some_and(|end| end <= now);
        known.filter(|key| same && !expired(key))
    }
}

/// Whether a text may be the id of a key.
#[must_use]
pub fn is_key_id(text: &str) -> bool {
    text.len() == ID && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn sha256(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // A String takes whatever is written to it.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

    fn mint(seed: u64) -> MintedKey {
        MintedKey::new(NOW, &mut StdRng::seed_from_u64(seed))
    }

    fn kept(minted: &MintedKey) -> ApiKey {
        ApiKey {
            id: minted.id.clone(),
            name: String::new(),
            secret_sha256: minted.secret_sha256,
            tenant: None,
            scopes: Vec::new(),
            rate_per_second: None,
            created_at: NOW,
            created_by: String::new(),
            expires_at: None,
        }
    }

    #[test]
    fn a_new_key_opens_what_is_kept_of_it_and_nothing_else_does() {
        let (minted, other) = (mint(1), mint(2));
        let text = minted.text.expose().to_owned();
        assert_eq!(text.len(), 4 + 16 + 1 + 64);
        let presented = PresentedKey::parse(&text).unwrap();
        assert_eq!(presented.id(), minted.id);
        assert!(presented.opens(Some(&kept(&minted)), NOW).is_some());
        assert!(presented.opens(Some(&kept(&other)), NOW).is_none());
        assert!(presented.opens(None, NOW).is_none());
        // Every single digit of the secret counts.
        for place in 21..text.len() {
            let digit = if text.as_bytes()[place] == b'0' {
                "1"
            } else {
                "0"
            };
            let mut wrong = text.clone();
            wrong.replace_range(place..=place, digit);
            let wrong = PresentedKey::parse(&wrong).unwrap();
            assert!(wrong.opens(Some(&kept(&minted)), NOW).is_none(), "{place}");
        }
    }

    #[test]
    fn a_key_ends_at_the_millisecond_that_it_says() {
        let minted = mint(1);
        let key = ApiKey {
            expires_at: Some(UnixMillis(NOW.0 + 1)),
            ..kept(&minted)
        };
        let presented = PresentedKey::parse(minted.text.expose()).unwrap();
        assert!(presented.opens(Some(&key), NOW).is_some());
        assert!(presented.opens(Some(&key), UnixMillis(NOW.0 + 1)).is_none());
    }

    #[test]
    fn hdr_05_what_goes_into_a_key_of_the_bucket_is_hexadecimal() {
        let secret = "0".repeat(64);
        for bad in [
            String::new(),
            "phk_".to_owned(),
            format!("phk_{}", "0".repeat(81)),
            format!("phk_000000000000000>_{secret}"),
            format!("phk_000000000000000A_{secret}"),
            format!("phk_00000000000000000_{secret}"),
            format!("phk_0000000000000000_{secret}0"),
            format!("phk_0000000000000000_{}", "g".repeat(64)),
            format!("PHK_0000000000000000_{secret}"),
        ] {
            assert!(PresentedKey::parse(&bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn ids_sort_by_time_and_secrets_do_not_repeat() {
        let later = MintedKey::new(UnixMillis(NOW.0 + 1), &mut StdRng::seed_from_u64(1));
        assert!(mint(9).id < later.id);
        assert_ne!(mint(1).text.expose(), mint(2).text.expose());
    }

    #[test]
    fn dlq_06_a_new_key_is_not_in_its_debug_form() {
        let minted = mint(1);
        let secret = minted.text.expose().split_once('_').unwrap().1;
        let secret = secret.split_once('_').unwrap().1;
        assert!(!format!("{minted:?}").contains(secret));
    }
}

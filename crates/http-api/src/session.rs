//! A key in a browser: typed once, then carried by a cookie that only the service can read.
//!
//! The cookie is the key itself and its end, sealed under a key derived from the admin key. No
//! copy of the service therefore keeps anything about sessions, every copy opens every cookie,
//! and a key that is revoked is refused through a cookie as soon as without one, because it is
//! looked up for each request. A new admin key ends all sessions. What cannot be had without
//! state is one session's end before its time: signing out makes the browser forget the cookie,
//! and who took a copy of it before has it until it ends, or until the key is revoked.
//!
//! A browser sends a cookie along with requests that another site makes it send. `SameSite`
//! keeps it from those of other sites; a header of our own, which a page of another origin cannot
//! set without being permitted to, keeps it from those of other ports of the same host.

use crate::problem::Problem;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::pbkdf2::{PBKDF2_HMAC_SHA256, derive};
use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use posthorn_delivery::UnixMillis;
use posthorn_runtime::SecretString;
use rand::CryptoRng;
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a session lasts: a shift, and the commute.
pub const LIFE: Duration = Duration::from_secs(12 * 3_600);
/// The header that a request by cookie needs to change anything.
pub const REQUEST: HeaderName = HeaderName::from_static("x-posthorn-request");
/// The cookie where the browser speaks TLS: the prefix keeps it from other hosts and from HTTP.
pub const SECURE_COOKIE: &str = "__Host-posthorn";
/// The cookie on the loopback, where there is no TLS.
pub const LOOPBACK_COOKIE: &str = "posthorn";

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const CONTEXT: &[u8] = b"posthorn session 1";
/// The admin key may be a text that a person chose, and whoever holds a cookie can try guesses
/// at it in private. Done once in a process, a slow derivation costs nothing but the guesser.
const ROUNDS: NonZeroU32 = NonZeroU32::new(200_000).expect("it is not zero");
/// The longest cookie that is looked at, in bytes.
const MAX_COOKIE: usize = 2_048;
const END: usize = size_of::<i64>();

/// Seals and opens cookies; clones are the same.
#[derive(Clone)]
pub struct Sessions {
    admin: SecretString,
    key: Arc<OnceLock<LessSafeKey>>,
}

impl Sessions {
    /// Sessions of the services that have this admin key.
    #[must_use]
    pub fn new(admin: SecretString) -> Sessions {
        Sessions {
            admin,
            key: Arc::default(),
        }
    }

    /// A cookie's value that stands for `key` until `end`.
    #[must_use]
    pub fn seal(&self, key: &str, end: UnixMillis, rng: &mut impl CryptoRng) -> String {
        let mut nonce = [0; NONCE_LEN];
        rng.fill_bytes(&mut nonce);
        let mut bytes = [end.0.to_be_bytes().as_slice(), key.as_bytes()].concat();
        let fresh = Nonce::assume_unique_for_key(nonce);
        self.key()
            .seal_in_place_append_tag(fresh, Aad::from(CONTEXT), &mut bytes)
            .expect("a key is far shorter than the cipher's 64 GiB");
        URL_SAFE_NO_PAD.encode([nonce.as_slice(), &bytes].concat())
    }

    /// The key that a cookie stands for; `None` where it is none of ours or has ended at `now`.
    #[must_use]
    pub fn open(&self, cookie: &str, now: UnixMillis) -> Option<SecretString> {
        if cookie.len() > MAX_COOKIE {
            return None;
        }
        let mut bytes = URL_SAFE_NO_PAD.decode(cookie).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk_mut::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.key().open_in_place(nonce, Aad::from(CONTEXT), sealed);
        let (end, key) = opened.ok()?.split_first_chunk::<END>()?;
        if now.0 >= i64::from_be_bytes(*end) {
            return None;
        }
        let key = std::str::from_utf8(key).ok()?;
        Some(SecretString::from(key.to_owned()))
    }

    fn key(&self) -> &LessSafeKey {
        self.key.get_or_init(|| {
            let mut derived = [0; 32];
            let admin = self.admin.expose().as_bytes();
            derive(PBKDF2_HMAC_SHA256, ROUNDS, CONTEXT, admin, &mut derived);
            let key = UnboundKey::new(&AES_256_GCM, &derived);
            LessSafeKey::new(key.expect("the cipher's key has 32 bytes"))
        })
    }
}

/// The session's cookie of a request.
#[must_use]
pub fn cookie_of(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(COOKIE).into_iter();
    let pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let mut ours = pairs.filter(|(name, _)| [SECURE_COOKIE, LOOPBACK_COOKIE].contains(name));
    ours.next().map(|(_, value)| value)
}

/// Refuses what a browser may have been made to send by another page.
///
/// # Errors
/// 403 for a method that changes something, without [`REQUEST`] or from another origin.
pub fn from_our_page(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if method.is_safe() {
        return Ok(());
    }
    let site = headers.get(FETCH_SITE);
    let ours = site.is_none_or(|site| site == "same-origin");
    if ours && headers.contains_key(REQUEST) {
        return Ok(());
    }
    let detail = format!("a request by cookie that changes something has the header {REQUEST}");
    Err(Problem::new(StatusCode::FORBIDDEN, "cross-site", detail).about(REQUEST.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    const NOW: UnixMillis = UnixMillis(1_700_000_000_000);
    const KEY: &str = "phk_0123456789abcdef_secret";

    fn sessions(admin: &str) -> Sessions {
        Sessions::new(admin.parse().unwrap())
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_cookie_opens_until_its_end_and_with_the_same_admin_key_only() {
        let (mine, rng) = (sessions("a"), &mut StdRng::seed_from_u64(1));
        let cookie = mine.seal(KEY, NOW + LIFE, rng);
        let opened = |sessions: &Sessions, now| {
            let found = sessions.open(&cookie, now);
            found.map(|key| key.expose().to_owned())
        };
        assert_eq!(opened(&mine, NOW).as_deref(), Some(KEY));
        assert_eq!(opened(&sessions("a"), NOW).as_deref(), Some(KEY));
        assert_eq!(opened(&mine, NOW + LIFE), None);
        assert_eq!(opened(&sessions("b"), NOW), None);
    }

    #[test]
    fn no_byte_of_a_cookie_can_be_changed_and_it_does_not_show_its_key() {
        let (mine, rng) = (sessions("a"), &mut StdRng::seed_from_u64(1));
        let cookie = mine.seal(KEY, NOW + LIFE, rng);
        let bytes = URL_SAFE_NO_PAD.decode(&cookie).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("secret"));
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert!(mine.open(&URL_SAFE_NO_PAD.encode(changed), NOW).is_none());
        }
        for bad in ["", "!", "AAAA", &"A".repeat(4_000)] {
            assert!(mine.open(bad, NOW).is_none());
        }
        let again = mine.seal(KEY, NOW + LIFE, rng);
        assert_ne!(cookie, again);
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let found = |pairs| cookie_of(&headers(pairs)).map(str::to_owned);
        assert_eq!(found(&[("cookie", "a=1; posthorn=x; b=2")]).unwrap(), "x");
        assert_eq!(found(&[("cookie", "__Host-posthorn=y")]).unwrap(), "y");
        assert_eq!(
            found(&[("cookie", "a=1"), ("cookie", "posthorn=z")]).unwrap(),
            "z"
        );
        assert_eq!(found(&[("cookie", "notposthorn=x; posthorn2=x")]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn what_changes_something_comes_from_our_page() {
        let ours = ("x-posthorn-request", "1");
        let judge = |method, pairs: &[_]| from_our_page(&method, &headers(pairs)).is_ok();
        assert!(judge(Method::GET, &[]));
        assert!(judge(Method::POST, &[ours]));
        assert!(judge(
            Method::DELETE,
            &[ours, ("sec-fetch-site", "same-origin")]
        ));
        assert!(!judge(Method::POST, &[]));
        assert!(!judge(Method::DELETE, &[("sec-fetch-site", "same-origin")]));
        for site in ["cross-site", "same-site", "none"] {
            assert!(
                !judge(Method::POST, &[ours, ("sec-fetch-site", site)]),
                "{site}"
            );
        }
    }
}

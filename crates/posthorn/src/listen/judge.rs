//! Whether a request is ours and fresh.

use crate::failure::Failure;
use axum::http::HeaderMap;
use posthorn_runtime::SecretString;
use posthorn_signing::{
    DEFAULT_TOLERANCE, HUB_SIGNATURE, HUB_TIMESTAMP, PublicKey, SVIX_ID, SVIX_SIGNATURE,
    SVIX_TIMESTAMP, Secret, Verifier, VerifyError, WEBHOOK_ID, WEBHOOK_SIGNATURE,
    WEBHOOK_TIMESTAMP,
};

/// What a request is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Signed with a secret of ours, and fresh.
    Verified,
    /// Fresh, and there is no secret to check it with.
    Unchecked,
    /// It carries no signature.
    Unsigned,
    /// It is not to be trusted.
    Bad(VerifyError),
}

impl Verdict {
    /// In a word or a few.
    pub fn words(self) -> String {
        match self {
            Verdict::Verified => "verified".to_owned(),
            Verdict::Unchecked => "unchecked".to_owned(),
            Verdict::Unsigned => "unsigned".to_owned(),
            Verdict::Bad(why) => format!("bad: {why}"),
        }
    }
}

/// The keys of this receiver.
pub(crate) struct Judge {
    verifier: Option<Verifier>,
}

impl Judge {
    /// A judge with these keys; without any it looks at the age alone.
    ///
    /// # Errors
    /// [`Failure::Usage`] for one that cannot be read.
    pub fn new(secrets: &[SecretString], public_keys: &[String]) -> Result<Judge, Failure> {
        let unusable = |error: &dyn std::error::Error| {
            Failure::usage(format!("a secret or key cannot be used: {error}"))
        };
        let secrets: Vec<Secret> = secrets
            .iter()
            .map(|secret| Secret::parse(secret.expose()).map_err(|error| unusable(&error)))
            .collect::<Result<_, _>>()?;
        let keys: Vec<PublicKey> = public_keys
            .iter()
            .map(|key| PublicKey::parse(key).map_err(|error| unusable(&error)))
            .collect::<Result<_, _>>()?;
        let any = !secrets.is_empty() || !keys.is_empty();
        let verifier = any.then(|| Verifier::new(secrets).with_public_keys(keys));
        Ok(Judge { verifier })
    }

    /// Whether there is a key to check with.
    pub fn has_keys(&self) -> bool {
        self.verifier.is_some()
    }

    /// Judges a request at `now`, in unix seconds.
    pub fn judge(&self, headers: &HeaderMap, body: &[u8], now: i64) -> Verdict {
        let Some(verifier) = &self.verifier else {
            return unchecked(headers, now);
        };
        let get = |name: &str| text(headers, name);
        let result = if let Some(signatures) = get(WEBHOOK_SIGNATURE) {
            let (id, at) = (get(WEBHOOK_ID), get(WEBHOOK_TIMESTAMP));
            verifier.verify(
                id.unwrap_or_default(),
                at.unwrap_or_default(),
                signatures,
                body,
                now,
            )
        } else if let Some(signatures) = get(SVIX_SIGNATURE) {
            let (id, at) = (get(SVIX_ID), get(SVIX_TIMESTAMP));
            verifier.verify(
                id.unwrap_or_default(),
                at.unwrap_or_default(),
                signatures,
                body,
                now,
            )
        } else if let Some(signature) = get(HUB_SIGNATURE) {
            let at = get(HUB_TIMESTAMP).unwrap_or_default();
            verifier.verify_hub(at, signature, body, now)
        } else {
            return Verdict::Unsigned;
        };
        result.map_or_else(Verdict::Bad, |()| Verdict::Verified)
    }
}

/// Without a key only the age can be looked at.
fn unchecked(headers: &HeaderMap, now: i64) -> Verdict {
    let names = [WEBHOOK_TIMESTAMP, SVIX_TIMESTAMP, HUB_TIMESTAMP];
    let Some(at) = names.into_iter().find_map(|name| text(headers, name)) else {
        return Verdict::Unsigned;
    };
    match at.parse::<i64>() {
        Err(_) => Verdict::Bad(VerifyError::Timestamp),
        Ok(at) if at.abs_diff(now) <= DEFAULT_TOLERANCE.as_secs() => Verdict::Unchecked,
        Ok(at) if at < now => Verdict::Bad(VerifyError::TooOld),
        Ok(_) => Verdict::Bad(VerifyError::TooNew),
    }
}

/// A header's text, empty where it is not text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let value = headers.get(name)?;
    Some(value.to_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};
    use posthorn_signing::{Keys, Scheme, SignedMessage, sign};

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const NOW: i64 = 1_700_000_000;

    fn judge(secrets: &[&str]) -> Judge {
        let secrets: Vec<SecretString> = secrets.iter().map(|s| s.parse().unwrap()).collect();
        Judge::new(&secrets, &[]).unwrap()
    }

    fn signed(scheme: Scheme, at: i64) -> HeaderMap {
        let secret = Secret::parse(SECRET).unwrap();
        let message = SignedMessage::try_new("evt_1", at, b"body").unwrap();
        let keys = Keys {
            secrets: std::slice::from_ref(&secret),
            pairs: &[],
        };
        let headers = sign(&[scheme], &keys, &message).unwrap().into_iter();
        let parse = |(name, value): (&str, String)| {
            let name = HeaderName::try_from(name).unwrap();
            (name, HeaderValue::try_from(value).unwrap())
        };
        headers.map(parse).collect()
    }

    #[test]
    fn every_scheme_with_a_shared_secret_is_understood() {
        for scheme in [Scheme::V1, Scheme::Svix, Scheme::Hub] {
            let verdict = judge(&[SECRET]).judge(&signed(scheme, NOW), b"body", NOW + 299);
            assert_eq!(verdict, Verdict::Verified, "{scheme:?}");
        }
    }

    #[test]
    fn a_changed_body_and_an_old_request_are_bad() {
        let headers = signed(Scheme::V1, NOW);
        let judge = judge(&[SECRET]);
        let verdict = judge.judge(&headers, b"bodx", NOW);
        assert_eq!(verdict, Verdict::Bad(VerifyError::NoMatch));
        let verdict = judge.judge(&headers, b"body", NOW + 301);
        assert_eq!(verdict, Verdict::Bad(VerifyError::TooOld));
        let verdict = judge.judge(&HeaderMap::new(), b"body", NOW);
        assert_eq!(verdict, Verdict::Unsigned);
    }

    #[test]
    fn without_a_secret_the_age_alone_is_checked() {
        let headers = signed(Scheme::V1, NOW);
        let judge = judge(&[]);
        assert_eq!(judge.judge(&headers, b"x", NOW), Verdict::Unchecked);
        let verdict = judge.judge(&headers, b"x", NOW - 301);
        assert_eq!(verdict, Verdict::Bad(VerifyError::TooNew));
    }

    #[test]
    fn sig_03_a_secret_that_cannot_be_read_is_refused_without_being_shown() {
        let secrets = ["whsec_!!!not-base64".parse().unwrap()];
        let Err(Failure::Usage(text)) = Judge::new(&secrets, &[]) else {
            panic!("it was taken");
        };
        assert!(!text.contains("not-base64"));
    }
}

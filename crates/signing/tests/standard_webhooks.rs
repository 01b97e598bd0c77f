//! Both directions against the implementation that the authors of Standard Webhooks publish.
#![allow(clippy::unwrap_used)]

use std::time::SystemTime;

use http::HeaderMap;
use posthorn_signing::{Keys, Scheme, Secret, SignedMessage, Verifier, sign};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

/// The other implementation reads the system's clock when it verifies, so this test must, too.
fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    since.as_secs().try_into().unwrap()
}

fn secret(seed: u64) -> Secret {
    Secret::generate(&mut StdRng::seed_from_u64(seed))
}

fn oracle(secret: &Secret) -> standardwebhooks::Webhook {
    standardwebhooks::Webhook::new(secret.reveal()).unwrap()
}

proptest! {
    /// It can sign text only; bodies of other bytes are covered by the tests of the crate itself.
    #[test]
    fn their_signature_is_ours(
        seed: u64, id in "[A-Za-z0-9_-]{1,64}", at in 0..=i64::MAX, body in ".{0,200}",
    ) {
        let secret = secret(seed);
        let theirs = oracle(&secret).sign(&id, at, body.as_bytes()).unwrap();
        let message = SignedMessage::try_new(&id, at, body.as_bytes()).unwrap();
        let keys = Keys { secrets: std::slice::from_ref(&secret), pairs: &[] };
        let headers = sign(&[Scheme::V1], &keys, &message).unwrap();
        prop_assert_eq!(headers.last(), Some(&("webhook-signature", theirs.clone())));
        let verifier = Verifier::new([secret]);
        prop_assert_eq!(verifier.verify(&id, &at.to_string(), &theirs, body.as_bytes(), at), Ok(()));
    }

    #[test]
    fn they_verify_what_we_sign_and_only_that(
        seed: u64, id in "[A-Za-z0-9_-]{1,64}", body in ".{0,200}", drift in -200_i64..200,
    ) {
        let secrets = [secret(seed), secret(seed ^ 1)];
        let message = SignedMessage::try_new(&id, now() + drift, body.as_bytes()).unwrap();
        let keys = Keys { secrets: &secrets, pairs: &[] };
        let mut headers = HeaderMap::new();
        for (name, value) in sign(&[Scheme::V1, Scheme::Svix], &keys, &message).unwrap() {
            headers.insert(name, value.parse().unwrap());
        }
        for secret in &secrets {
            prop_assert!(oracle(secret).verify(body.as_bytes(), &headers).is_ok());
        }
        prop_assert!(oracle(&secret(seed ^ 2)).verify(body.as_bytes(), &headers).is_err());
        let altered = format!("{body}x");
        prop_assert!(oracle(&secrets[0]).verify(altered.as_bytes(), &headers).is_err());
    }
}

//! The headers of a delivery, as a receiver gets them from anybody.
//!
//! The input is id, timestamp and signatures, each a line, and the body.

use super::split_at;
use posthorn_signing::{KeyPair, Keys, Scheme, Secret, SignedMessage, Verifier, sign};
use std::sync::LazyLock;

const NOW: i64 = 1_700_000_000;

static SECRETS: LazyLock<[Secret; 2]> = LazyLock::new(|| {
    [
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
    ]
    .map(|text| Secret::parse(text).expect("it is a secret"))
});
static PAIR: LazyLock<KeyPair> = LazyLock::new(|| {
    let text = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    KeyPair::parse(text).expect("it is a key")
});

/// What is believed is what we sign, of exactly this id, time and body.
pub(crate) fn run(data: &[u8]) {
    let (id, rest) = split_at(data, b'\n');
    let (timestamp, rest) = split_at(rest, b'\n');
    let (signatures, body) = split_at(rest, b'\n');
    let [Ok(id), Ok(timestamp), Ok(given)] = [id, timestamp, signatures].map(std::str::from_utf8)
    else {
        return;
    };
    let verifier = Verifier::new(SECRETS.clone()).with_public_keys([PAIR.public()]);
    if verifier.verify(id, timestamp, given, body, NOW).is_ok() {
        let ours = ours(&[Scheme::V1, Scheme::V1a], id, timestamp, body);
        let believed = |entry: &str| ours.iter().any(|text| text.split(' ').any(|x| x == entry));
        assert!(given.split(' ').any(believed), "a forgery is believed");
    }
    if verifier.verify_hub(timestamp, given, body, NOW).is_ok() {
        let ours = ours(&[Scheme::Hub], "evt_1", timestamp, body);
        assert!(
            ours.iter().any(|text| text.eq_ignore_ascii_case(given)),
            "a forgery is believed"
        );
    }
}

/// Every value that a delivery of this would have in a header of signatures.
fn ours(schemes: &[Scheme], id: &str, timestamp: &str, body: &[u8]) -> Vec<String> {
    let seconds = timestamp.parse().expect("what is believed has a time");
    let message = SignedMessage::try_new(id, seconds, body).expect("what is believed has an id");
    let each = SECRETS.iter().map(|secret| Keys {
        secrets: std::slice::from_ref(secret),
        pairs: std::slice::from_ref(&*PAIR),
    });
    each.flat_map(|keys| sign(schemes, &keys, &message).expect("it was signed"))
        .map(|(_, value)| value)
        .collect()
}

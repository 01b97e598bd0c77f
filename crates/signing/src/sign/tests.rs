use super::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

const VECTOR_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const VECTOR_ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const VECTOR_BODY: &[u8] = br#"{"test": 2432232314}"#;
const VECTOR_SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

fn vector() -> SignedMessage<'static> {
    SignedMessage::try_new(VECTOR_ID, 1_614_265_330, VECTOR_BODY).unwrap()
}

fn secrets(count: usize) -> Vec<Secret> {
    let mut rng = StdRng::seed_from_u64(11);
    (0..count).map(|_| Secret::generate(&mut rng)).collect()
}

fn pairs(count: usize) -> Vec<KeyPair> {
    let mut rng = StdRng::seed_from_u64(12);
    (0..count).map(|_| KeyPair::generate(&mut rng)).collect()
}

fn header<'a>(headers: &'a [(&'static str, String)], name: &str) -> Option<&'a str> {
    let mut found = headers.iter().filter(|(header, _)| *header == name);
    let value = found.next().map(|(_, value)| value.as_str());
    assert_eq!(found.next(), None, "{name} twice");
    value
}

#[test]
fn the_published_vector_is_signed() {
    let secrets = [Secret::parse(VECTOR_SECRET).unwrap()];
    let keys = Keys {
        secrets: &secrets,
        pairs: &[],
    };
    let headers = sign(&[Scheme::V1, Scheme::Svix], &keys, &vector()).unwrap();
    for (name, value) in [
        ("webhook-id", VECTOR_ID),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", VECTOR_SIGNATURE),
        ("svix-id", VECTOR_ID),
        ("svix-timestamp", "1614265330"),
        ("svix-signature", VECTOR_SIGNATURE),
    ] {
        assert_eq!(header(&headers, name), Some(value), "{name}");
    }
    assert_eq!(headers.len(), 6);
}

/// The digest was made by another implementation:
/// `printf '1614265330{"test": 2432232314}' | openssl dgst -sha256 -hmac whsec_MfKQ…`.
#[test]
fn hub_signs_timestamp_and_body_with_the_text_of_the_newest_secret() {
    let secrets = [Secret::parse(VECTOR_SECRET).unwrap(), secrets(1).remove(0)];
    let keys = Keys {
        secrets: &secrets,
        pairs: &[],
    };
    let headers = sign(&[Scheme::Hub], &keys, &vector()).unwrap();
    assert_eq!(
        header(&headers, "x-hub-signature-256"),
        Some("sha256=97c1ca77285a0e4bc3f1de9c2a92c7dfc2d9235df94fa6f861821062d88b958f")
    );
    assert_eq!(header(&headers, "x-webhook-timestamp"), Some("1614265330"));
}

#[test]
fn id_and_timestamp_go_with_every_scheme() {
    let (secrets, pairs) = (secrets(1), pairs(1));
    let keys = Keys {
        secrets: &secrets,
        pairs: &pairs,
    };
    for scheme in Scheme::ALL {
        let headers = sign(&[scheme, scheme], &keys, &vector()).unwrap();
        assert_eq!(header(&headers, "webhook-id"), Some(VECTOR_ID));
        assert_eq!(header(&headers, "webhook-timestamp"), Some("1614265330"));
        let standard = matches!(scheme, Scheme::V1 | Scheme::V1a);
        assert_eq!(header(&headers, "webhook-signature").is_some(), standard);
        assert_eq!(
            header(&headers, "svix-signature").is_some(),
            scheme == Scheme::Svix
        );
        assert_eq!(
            header(&headers, "x-hub-signature-256").is_some(),
            scheme == Scheme::Hub
        );
        for (name, value) in headers {
            assert_eq!(name, name.to_lowercase());
            assert!(
                value.bytes().all(|b| b.is_ascii_graphic() || b == b' '),
                "{name}"
            );
        }
    }
}

#[test]
fn sig_02_a_retry_is_signed_anew_under_the_same_id() {
    let secrets = secrets(1);
    let keys = Keys {
        secrets: &secrets,
        pairs: &[],
    };
    let all = |at| {
        let message = SignedMessage::try_new("evt_1", at, b"{}").unwrap();
        sign(&[Scheme::V1, Scheme::Hub], &keys, &message).unwrap()
    };
    let (first, retry) = (all(1_700_000_000), all(1_700_000_600));
    assert_eq!(header(&first, "webhook-id"), header(&retry, "webhook-id"));
    for name in [
        "webhook-timestamp",
        "webhook-signature",
        "x-hub-signature-256",
    ] {
        assert_ne!(header(&first, name), header(&retry, name), "{name}");
    }
    assert_eq!(first, all(1_700_000_000));
}

#[test]
fn sig_04_every_live_secret_and_pair_signs_in_order() {
    let (secrets, pairs) = (secrets(3), pairs(2));
    let keys = Keys {
        secrets: &secrets,
        pairs: &pairs,
    };
    let headers = sign(&[Scheme::V1a, Scheme::V1, Scheme::Svix], &keys, &vector()).unwrap();
    let alone = |secrets: &[Secret]| {
        let keys = Keys {
            secrets,
            pairs: &[],
        };
        let headers = sign(&[Scheme::V1], &keys, &vector()).unwrap();
        header(&headers, "webhook-signature").unwrap().to_owned()
    };
    let entries: Vec<&str> = header(&headers, "webhook-signature")
        .unwrap()
        .split(' ')
        .collect();
    assert_eq!(entries.len(), 5);
    for (entry, secret) in entries.iter().zip(&secrets) {
        assert_eq!(*entry, alone(std::slice::from_ref(secret)));
    }
    for (entry, pair) in entries[3..].iter().zip(&pairs) {
        let signature = STANDARD
            .decode(entry.strip_prefix("v1a,").unwrap())
            .unwrap();
        let text = standard_text(&vector(), "1614265330");
        assert!(pair.public().verify(&text, &signature.try_into().unwrap()));
    }
    assert_eq!(
        header(&headers, "svix-signature"),
        Some(entries[..3].join(" ").as_str())
    );
}

#[test]
fn nothing_goes_out_unsigned() {
    let secrets = secrets(1);
    let none = Keys {
        secrets: &[],
        pairs: &[],
    };
    let only_secrets = Keys {
        secrets: &secrets,
        pairs: &[],
    };
    assert_eq!(
        sign(&[], &only_secrets, &vector()),
        Err(SignError::NoScheme)
    );
    for scheme in [Scheme::V1, Scheme::Hub, Scheme::Svix] {
        let error = SignError::NoSecret { scheme };
        assert_eq!(sign(&[scheme], &none, &vector()), Err(error));
    }
    let error = SignError::NoKeyPair {
        scheme: Scheme::V1a,
    };
    assert_eq!(
        sign(&[Scheme::V1, Scheme::V1a], &only_secrets, &vector()),
        Err(error)
    );
}

#[test]
fn sig_07_any_bytes_are_signed_as_they_are() {
    let secrets = secrets(1);
    let keys = Keys {
        secrets: &secrets,
        pairs: &[],
    };
    let bodies: [&[u8]; 6] = [
        "\u{1f4ef}".as_bytes(),
        b"\xef\xbb\xbf{}",
        b"\xe9",
        b"\x00\xff",
        "\u{fffd}".as_bytes(),
        b"",
    ];
    let mut seen = std::collections::HashSet::new();
    for body in bodies {
        let message = SignedMessage::try_new("evt_1", 1, body).unwrap();
        let headers = sign(&[Scheme::V1], &keys, &message).unwrap();
        assert!(seen.insert(header(&headers, "webhook-signature").unwrap().to_owned()));
    }
}

#[test]
fn debug_of_keys_shows_no_key() {
    let (secrets, pairs) = (secrets(2), pairs(2));
    let shown = format!(
        "{:?}",
        Keys {
            secrets: &secrets,
            pairs: &pairs
        }
    );
    for secret in &secrets {
        assert!(!shown.contains(&secret.reveal()[6..]));
    }
    for pair in &pairs {
        assert!(!shown.contains(&pair.reveal()[5..]));
    }
}

use super::*;
use crate::{KeyPair, Keys, Scheme, sign};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

const NOW: i64 = 1_700_000_000;
const BODY: &[u8] = b"\x00\xff not UTF-8 \xe9";

fn secret(seed: u64) -> Secret {
    Secret::generate(&mut StdRng::seed_from_u64(seed))
}

fn pair(seed: u64) -> KeyPair {
    KeyPair::generate(&mut StdRng::seed_from_u64(seed))
}

fn signature(scheme: Scheme, secrets: &[Secret], pairs: &[KeyPair], at: i64) -> String {
    let message = SignedMessage::try_new("evt_1", at, BODY).unwrap();
    let keys = Keys { secrets, pairs };
    let name = match scheme {
        Scheme::V1 | Scheme::V1a => "webhook-signature",
        Scheme::Hub => "x-hub-signature-256",
        Scheme::Svix => "svix-signature",
    };
    let headers = sign(&[scheme], &keys, &message).unwrap();
    headers
        .into_iter()
        .find(|(header, _)| *header == name)
        .unwrap()
        .1
}

fn v1(secrets: &[Secret]) -> String {
    signature(Scheme::V1, secrets, &[], NOW)
}

fn check(verifier: &Verifier, signatures: &str) -> Result<(), VerifyError> {
    verifier.verify("evt_1", &NOW.to_string(), signatures, BODY, NOW)
}

#[test]
fn the_published_vector_verifies() {
    let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let result = Verifier::new([secret]).verify(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        br#"{"test": 2432232314}"#,
        1_614_265_331,
    );
    assert_eq!(result, Ok(()));
}

#[test]
fn a_change_of_any_part_is_no_match() {
    let verifier = Verifier::new([secret(1)]);
    let good = v1(&[secret(1)]);
    assert_eq!(check(&verifier, &good), Ok(()));
    let now = NOW.to_string();
    let later = (NOW + 1).to_string();
    for (id, timestamp, body) in [
        ("evt_2", &now, BODY),
        ("evt_1", &later, BODY),
        ("evt_1", &now, &BODY[1..]),
        ("evt_1", &now, b"".as_slice()),
    ] {
        let result = verifier.verify(id, timestamp, &good, body, NOW);
        assert_eq!(result, Err(VerifyError::NoMatch), "{id} {timestamp}");
    }
    assert_eq!(
        check(&Verifier::new([secret(2)]), &good),
        Err(VerifyError::NoMatch)
    );
}

#[test]
fn sig_04_old_and_new_receivers_verify_during_the_overlap_and_not_after() {
    let (old, new) = (secret(1), secret(2));
    let only_old = Verifier::new([old.clone()]);
    let only_new = Verifier::new([new.clone()]);
    let overlap = v1(&[new.clone(), old.clone()]);
    assert_eq!(check(&only_old, &overlap), Ok(()));
    assert_eq!(check(&only_new, &overlap), Ok(()));
    let after = v1(std::slice::from_ref(&new));
    assert_eq!(check(&only_old, &after), Err(VerifyError::NoMatch));
    assert_eq!(check(&only_new, &after), Ok(()));
    // A receiver that knows both takes a sender on either side of the rotation.
    let both = Verifier::new([new, old.clone()]);
    assert_eq!(check(&both, &v1(&[old])), Ok(()));
    assert_eq!(check(&both, &after), Ok(()));
}

#[test]
fn sig_04_rotated_twice_within_the_grace() {
    let all = [secret(3), secret(2), secret(1)];
    let header = v1(&all);
    for secret in all {
        assert_eq!(check(&Verifier::new([secret]), &header), Ok(()));
    }
}

#[test]
fn sig_02_the_replay_window_is_closed_on_both_sides() {
    let verifier = Verifier::new([secret(1)]);
    let strict = verifier.clone().with_tolerance(Duration::from_secs(1));
    let at = |verifier: &Verifier, now| {
        verifier.verify("evt_1", &NOW.to_string(), &v1(&[secret(1)]), BODY, now)
    };
    assert_eq!(at(&verifier, NOW + 300), Ok(()));
    assert_eq!(at(&verifier, NOW - 300), Ok(()));
    assert_eq!(at(&verifier, NOW + 301), Err(VerifyError::TooOld));
    assert_eq!(at(&verifier, NOW - 301), Err(VerifyError::TooNew));
    assert_eq!(at(&verifier, i64::MAX), Err(VerifyError::TooOld));
    assert_eq!(at(&verifier, i64::MIN), Err(VerifyError::TooNew));
    assert_eq!(at(&strict, NOW + 1), Ok(()));
    assert_eq!(at(&strict, NOW + 2), Err(VerifyError::TooOld));
}

#[test]
fn timestamps_have_one_spelling() {
    let verifier = Verifier::new([secret(1)]);
    let many = "1".repeat(1000);
    for text in [
        "",
        " ",
        "+1700000000",
        "-1",
        "01700000000",
        "1700000000 ",
        "1700000000.0",
        "1.7e9",
        "0x6553f100",
        "１７",
        "99999999999999999999",
        "9999999999999999999",
        &many,
    ] {
        let result = verifier.verify("evt_1", text, &v1(&[secret(1)]), BODY, NOW);
        assert_eq!(result, Err(VerifyError::Timestamp), "{text:?}");
        let result = verifier.verify_hub(text, "sha256=", BODY, NOW);
        assert_eq!(result, Err(VerifyError::Timestamp), "{text:?}");
    }
}

#[test]
fn other_entries_beside_the_good_one_do_no_harm() {
    let verifier = Verifier::new([secret(1)]);
    let good = v1(&[secret(1)]);
    let digest = good.strip_prefix("v1,").unwrap();
    for header in [
        format!("{good} v1,AAAA"),
        format!("v1,!!!! v2,{digest} v1 , {good}"),
        format!("  {good}  "),
        format!("v1a,{digest} {good}"),
    ] {
        assert_eq!(check(&verifier, &header), Ok(()), "{header:?}");
    }
    let url_safe = digest.replace(['+', '/'], "-");
    for header in [
        String::new(),
        " ".to_owned(),
        digest.to_owned(),
        format!("v1={digest}"),
        format!("V1,{digest}"),
        format!("v2,{digest}"),
        format!("v1a,{digest}"),
        format!("v1,{}", digest.trim_end_matches('=')),
        format!("v1,{digest}="),
        format!("v1,{}", &digest[..40]),
        format!("v1,{url_safe}x"),
        format!("v1,{}=", "A".repeat(43)),
    ] {
        assert_eq!(
            check(&verifier, &header),
            Err(VerifyError::NoMatch),
            "{header:?}"
        );
    }
}

#[test]
fn the_header_is_bounded() {
    let verifier = Verifier::new([secret(1)]).with_public_keys([pair(1).public()]);
    let good = v1(&[secret(1)]);
    let other = v1(&[secret(2)]);
    let with_others = |count: usize| {
        [vec![other.as_str(); count], vec![&good]]
            .concat()
            .join(" ")
    };
    assert_eq!(check(&verifier, &with_others(MAX_SIGNATURES - 1)), Ok(()));
    assert_eq!(
        check(&verifier, &with_others(MAX_SIGNATURES)),
        Err(VerifyError::NoMatch)
    );
    assert_eq!(
        check(&verifier, &with_others(1000)),
        Err(VerifyError::HeaderTooLong)
    );
    let long = format!("{good} {}", "x".repeat(MAX_HEADER_BYTES));
    assert_eq!(check(&verifier, &long), Err(VerifyError::HeaderTooLong));
    let longest = signature(Scheme::V1a, &[], &vec![pair(1); MAX_SIGNATURES], NOW);
    assert!(longest.len() <= MAX_HEADER_BYTES);
    assert_eq!(check(&verifier, &longest), Ok(()));
}

#[test]
fn public_keys_verify_v1a_and_nothing_else() {
    let header = signature(Scheme::V1a, &[], &[pair(2), pair(1)], NOW);
    let by = |seed| Verifier::new([]).with_public_keys([pair(9).public(), pair(seed).public()]);
    assert_eq!(check(&by(1), &header), Ok(()));
    assert_eq!(check(&by(2), &header), Ok(()));
    assert_eq!(check(&by(3), &header), Err(VerifyError::NoMatch));
    assert_eq!(
        check(&by(1), &header.replace("v1a,", "v1,")),
        Err(VerifyError::NoMatch)
    );
    assert_eq!(
        check(&Verifier::new([secret(1)]), &header),
        Err(VerifyError::NoMatch)
    );
    let mixed = format!("{} {header}", v1(&[secret(1)]));
    assert_eq!(check(&by(1), &mixed), Ok(()));
    assert_eq!(check(&Verifier::new([secret(1)]), &mixed), Ok(()));
    let result = by(1).verify("evt_1", &NOW.to_string(), &header, b"other", NOW);
    assert_eq!(result, Err(VerifyError::NoMatch));
}

#[test]
fn hub_verifies_with_any_live_secret() {
    let header = signature(Scheme::Hub, &[secret(2), secret(1)], &[], NOW);
    let at = |secrets: &[Secret], header: &str, body: &[u8], now| {
        Verifier::new(secrets.to_vec()).verify_hub(&NOW.to_string(), header, body, now)
    };
    let both = [secret(1), secret(2)];
    assert_eq!(at(&both, &header, BODY, NOW), Ok(()));
    assert_eq!(
        at(
            &both,
            &header.to_uppercase().replace("SHA", "sha"),
            BODY,
            NOW
        ),
        Ok(())
    );
    // Only the newest secret signs this scheme.
    assert_eq!(
        at(&both[..1], &header, BODY, NOW),
        Err(VerifyError::NoMatch)
    );
    assert_eq!(at(&both, &header, b"", NOW), Err(VerifyError::NoMatch));
    assert_eq!(
        at(&both, &header, BODY, NOW + 301),
        Err(VerifyError::TooOld)
    );
    assert_eq!(at(&[], &header, BODY, NOW), Err(VerifyError::NoKeys));
    for bad in [
        "",
        "sha256=",
        &header[7..],
        &header[..70],
        &header.replace("256", "1"),
    ] {
        assert_eq!(
            at(&both, bad, BODY, NOW),
            Err(VerifyError::NoMatch),
            "{bad:?}"
        );
    }
}

/// The scheme joins timestamp and body without a separator: the age check is what keeps a digit
/// from moving across.
#[test]
fn sig_06_hub_refuses_a_digit_moved_into_the_timestamp() {
    let secrets = [secret(1)];
    let message = SignedMessage::try_new("evt_1", NOW, b"123").unwrap();
    let keys = Keys {
        secrets: &secrets,
        pairs: &[],
    };
    let headers = sign(&[Scheme::Hub], &keys, &message).unwrap();
    let signature = &headers
        .iter()
        .find(|(name, _)| *name == "x-hub-signature-256")
        .unwrap()
        .1;
    let verifier = Verifier::new(secrets.clone());
    assert_eq!(
        verifier.verify_hub(&NOW.to_string(), signature, b"123", NOW),
        Ok(())
    );
    let moved = format!("{NOW}1");
    let result = verifier.verify_hub(&moved, signature, b"23", NOW);
    assert_eq!(result, Err(VerifyError::TooNew));
    let moved = NOW.to_string();
    let (head, tail) = moved.split_at(9);
    let body = format!("{tail}123");
    let result = verifier.verify_hub(head, signature, body.as_bytes(), NOW);
    assert_eq!(result, Err(VerifyError::TooOld));
}

#[test]
fn sig_06_an_id_that_is_never_signed_is_never_verified() {
    let verifier = Verifier::new([secret(1)]);
    for id in ["", "evt.1", "evt 1", "evt\n1"] {
        let result = verifier.verify(id, &NOW.to_string(), &v1(&[secret(1)]), BODY, NOW);
        assert!(matches!(result, Err(VerifyError::Id(_))), "{id:?}");
    }
}

#[test]
fn without_a_key_nothing_verifies() {
    assert_eq!(
        check(&Verifier::new([]), &v1(&[secret(1)])),
        Err(VerifyError::NoKeys)
    );
}

#[test]
fn debug_shows_no_secret() {
    let shown = format!("{:#?}", Verifier::new([secret(1)]));
    assert!(shown.contains("[redacted]") && !shown.contains(&secret(1).reveal()[6..]));
}

proptest! {
    #[test]
    fn headers_of_any_text_are_refused_and_never_panic(
        id in ".{0,300}", timestamp in ".{0,30}", signatures in ".{0,200}", body: Vec<u8>, now: i64,
    ) {
        let verifier = Verifier::new([secret(1)]).with_public_keys([pair(1).public()]);
        prop_assert!(verifier.verify(&id, &timestamp, &signatures, &body, now).is_err());
        prop_assert!(verifier.verify_hub(&timestamp, &signatures, &body, now).is_err());
    }

    #[test]
    fn sig_07_every_body_verifies_under_every_scheme(body: Vec<u8>, at in 0..i64::MAX) {
        let secrets = [secret(1)];
        let pairs = [pair(1)];
        let message = SignedMessage::try_new("evt_1", at, &body).unwrap();
        let headers = sign(&Scheme::ALL, &Keys { secrets: &secrets, pairs: &pairs }, &message).unwrap();
        let get = |name| &headers.iter().find(|(header, _)| *header == name).unwrap().1;
        let by_secret = Verifier::new(secrets.clone());
        let by_key = Verifier::new([]).with_public_keys([pairs[0].public()]);
        let (id, timestamp) = (get("webhook-id"), get("webhook-timestamp"));
        for verifier in [&by_secret, &by_key] {
            prop_assert_eq!(verifier.verify(id, timestamp, get("webhook-signature"), &body, at), Ok(()));
        }
        prop_assert_eq!(by_secret.verify(get("svix-id"), get("svix-timestamp"), get("svix-signature"), &body, at), Ok(()));
        prop_assert_eq!(by_secret.verify_hub(get("x-webhook-timestamp"), get("x-hub-signature-256"), &body, at), Ok(()));
    }
}

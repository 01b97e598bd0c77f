//! Hexadecimal digests, for the one scheme that does not speak base64.

/// Writes the digest in lower case.
pub(crate) fn encode(digest: &[u8; 32]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(64);
    for byte in digest {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 0x0f)]));
    }
    text
}

/// Reads exactly 64 digits of either case; anything else is `None`.
pub(crate) fn decode(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(digest)
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(digest: [u8; 32]) {
            let text = encode(&digest);
            prop_assert_eq!(decode(&text), Some(digest));
            prop_assert_eq!(decode(&text.to_uppercase()), Some(digest));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let digest = "0".repeat(64);
        assert!(decode(&digest).is_some());
        assert_eq!(decode(&digest[1..]), None);
        assert_eq!(decode(&format!("{digest}0")), None);
        assert_eq!(decode(&digest.replacen('0', "g", 1)), None);
        assert_eq!(decode(&digest.replacen("00", "é", 1)), None);
    }
}

//! What a test send shows: the request as it went out and the answer's head.
//!
//! It is stored in the clear with the record of the attempt, so whoever makes one leaves out
//! what is secret: values of the endpoint's own headers are masked, signatures cut short, and
//! the URL is not in it at all, because that is sealed where it is stored.

/// Headers of one answer that are kept.
pub const MAX_HEADERS: usize = 100;
/// Bytes of one header value that are kept.
pub const MAX_VALUE: usize = 1_024;
/// What stands in place of a value that is not to be shown.
pub const MASK: &str = "***";
/// Characters of a signature that are shown: enough to tell two apart, too few to use one.
const SHOWN: usize = 8;
/// Headers that hold signatures.
const SIGNATURES: [&str; 3] = ["webhook-signature", "svix-signature", "x-hub-signature-256"];
/// Headers of an answer with which somebody could go on in the receiver's name.
const COOKIES: [&str; 2] = ["set-cookie", "set-cookie2"];

/// The request and the answer's head of a test send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Names in lower case and values, in no particular order. Empty where no request was made.
    pub request_headers: Vec<(String, String)>,
    /// The same of the answer, at most [`MAX_HEADERS`]. Empty where none came.
    pub response_headers: Vec<(String, String)>,
    /// The rule that kept the request from being made; empty where none did.
    pub detail: String,
    /// From the beginning to the end of what was read of the answer's body, milliseconds.
    pub total_ms: u32,
}

/// How a request header is shown. `own` are the values that the endpoint's owner has set: they
/// are how his receiver knows him.
#[must_use]
pub fn request_header(name: &str, value: &[u8], own: bool) -> (String, String) {
    let shown = match own {
        true => MASK.to_owned(),
        false if SIGNATURES.contains(&name) => shortened(&text(value)),
        false => text(value),
    };
    (name.to_owned(), shown)
}

/// How a header of an answer is shown.
#[must_use]
pub fn response_header(name: &str, value: &[u8]) -> (String, String) {
    let shown = match COOKIES.contains(&name) {
        true => MASK.to_owned(),
        false => text(value),
    };
    (name.to_owned(), shown)
}

/// Each signature of a list with its scheme and its beginning.
fn shortened(signatures: &str) -> String {
    let one = |signature: &str| {
        let scheme = signature.find([',', '=']).map_or(0, |at| at + 1);
        let (scheme, rest) = signature.split_at(scheme);
        let begins: String = rest.chars().take(SHOWN).collect();
        format!("{scheme}{begins}…")
    };
    let all: Vec<String> = signatures.split(' ').map(one).collect();
    all.join(" ")
}

/// A value as text, cut to [`MAX_VALUE`] bytes; what is no UTF-8 in it is replaced.
fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(&value[..value.len().min(MAX_VALUE)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str, value: &str, own: bool) -> String {
        request_header(name, value.as_bytes(), own).1
    }

    #[test]
    fn dlq_06_what_is_secret_of_a_request_is_not_shown() {
        assert_eq!(shown("x-token", "hunter2", true), "***");
        assert_eq!(shown("content-type", "text/plain", false), "text/plain");
        let two = "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9 v1a,hnO3f9T8Ytu9HwrXslvumlUp";
        assert_eq!(
            shown("webhook-signature", two, false),
            "v1,K5oZfzN9… v1a,hnO3f9T8…"
        );
        let hub = "sha256=0123456789abcdef";
        assert_eq!(shown("x-hub-signature-256", hub, false), "sha256=01234567…");
    }

    #[test]
    fn an_answer_is_shown_without_its_cookies_and_bounded() {
        let (_, cookie) = response_header("set-cookie", b"session=1");
        assert_eq!(cookie, "***");
        let (name, value) = response_header("x-request-id", &[b'a'; 5_000]);
        assert_eq!((name.as_str(), value.len()), ("x-request-id", MAX_VALUE));
        assert_eq!(response_header("x", b"caf\xe9").1, "caf\u{fffd}");
    }
}

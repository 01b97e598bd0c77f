//! Endpoints as customers write them, in JSON.

use posthorn_egress::{EgressPolicy, TargetUrl};
use posthorn_ingest::fuzzing::endpoint;

/// A document is refused as the caller's mistake, or is an endpoint whose URL may be called and
/// whose headers can be sent and are not ours.
pub(crate) fn run(data: &[u8]) {
    let policy = EgressPolicy::locked_down();
    let Ok((url, headers)) = endpoint(data, &policy).map_err(|status| {
        assert!(matches!(status, 400 | 422), "{status}");
    }) else {
        return;
    };
    assert!(
        TargetUrl::parse(&url, &policy).is_ok(),
        "a URL that may not be called"
    );
    for (name, value) in headers {
        let lower = name.to_ascii_lowercase();
        let ours = [
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "content-type",
        ];
        assert!(!ours.contains(&lower.as_str()), "{lower} can be replaced");
        assert!(!lower.starts_with("webhook-") && !lower.starts_with("svix-"));
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()));
        let plain = |byte: u8| byte == b'\t' || (0x20..0x7f).contains(&byte);
        assert!(value.bytes().all(plain), "a header that ends early");
    }
}

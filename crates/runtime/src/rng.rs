//! The one place that reads randomness.
//!
//! Jitter, ids and secrets are drawn from a generator passed as an argument, so that a test can
//! seed it. Services take theirs from here.

/// The thread's cryptographically secure generator, seeded by the operating system.
///
/// It is neither `Send` nor to be kept: take it for one decision and drop it before an `.await`.
#[must_use]
pub fn rng() -> impl rand::CryptoRng {
    rand::rng()
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn two_draws_differ() {
        let (mut a, mut b) = ([0u8; 32], [0u8; 32]);
        rng().fill_bytes(&mut a);
        rng().fill_bytes(&mut b);
        assert_ne!(a, b);
        assert_ne!(a, [0u8; 32]);
    }
}

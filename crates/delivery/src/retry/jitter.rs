//! Jitter: what keeps deliveries that failed together from coming back together.
//!
//! `full` is uniform over `[0, ceiling]`, the variant that Marc Brooker's "Exponential Backoff
//! And Jitter" (AWS Architecture Blog, 2015) found to finish with the least work and the
//! flattest load; `equal` keeps half of the delay and draws the other half.

use crate::time::millis;
use rand::{Rng, RngExt};
use std::time::Duration;

/// How a delay is drawn from its ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Uniform over `[0, ceiling]`.
    Full,
    /// Uniform over `[ceiling / 2, ceiling]`.
    Equal,
    /// The ceiling itself.
    None,
    /// Uniform over `[ceiling, ceiling * (1 + percent / 100)]`, percent 1 to 100: for ladders
    /// whose rungs are a promise that may be kept late but not early.
    Upward {
        /// The proportion, in percent.
        percent: u8,
    },
}

impl Jitter {
    /// Draws a delay. Only [`Jitter::Upward`] goes above `ceiling`, by at most its proportion.
    pub fn draw(self, ceiling: Duration, rng: &mut impl Rng) -> Duration {
        let top = millis(ceiling);
        let drawn = match self {
            Jitter::Full => rng.random_range(0..=top),
            Jitter::Equal => rng.random_range(top / 2..=top),
            Jitter::None => top,
            Jitter::Upward { percent } => {
                let more = top.saturating_mul(u64::from(percent)) / 100;
                rng.random_range(top..=top.saturating_add(more))
            }
        };
        Duration::from_millis(drawn)
    }

    /// The stable name: `full`, `equal`, `none`, `up:{percent}`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Jitter::Full => "full".to_owned(),
            Jitter::Equal => "equal".to_owned(),
            Jitter::None => "none".to_owned(),
            Jitter::Upward { percent } => format!("up:{percent}"),
        }
    }

    /// From the stable name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Jitter> {
        match text {
            "full" => Some(Jitter::Full),
            "equal" => Some(Jitter::Equal),
            "none" => Some(Jitter::None),
            _ => {
                let percent: u8 = text.strip_prefix("up:")?.parse().ok()?;
                (1..=100)
                    .contains(&percent)
                    .then_some(Jitter::Upward { percent })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand_pcg::Pcg64;

    /// An RNG at either end of its range: the draws that a uniform sample rarely shows.
    struct Constant(u64);

    impl rand::TryRng for Constant {
        type Error = std::convert::Infallible;
        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            Ok((self.0 >> 32) as u32)
        }
        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            Ok(self.0)
        }
        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
            bytes.fill(self.0 as u8);
            Ok(())
        }
    }

    fn within(jitter: Jitter, ceiling: Duration, drawn: Duration) -> bool {
        match jitter {
            Jitter::Full => drawn <= ceiling,
            Jitter::Equal => {
                drawn >= Duration::from_millis(millis(ceiling) / 2) && drawn <= ceiling
            }
            Jitter::None => drawn == ceiling,
            Jitter::Upward { percent } => {
                drawn >= ceiling && drawn <= ceiling + ceiling * u32::from(percent) / 100
            }
        }
    }

    fn any_jitter() -> impl Strategy<Value = Jitter> {
        prop_oneof![
            Just(Jitter::Full),
            Just(Jitter::Equal),
            Just(Jitter::None),
            (1_u8..=100).prop_map(|percent| Jitter::Upward { percent }),
        ]
    }

    proptest! {
        #[test]
        fn a_draw_never_leaves_its_range(
            jitter in any_jitter(), ms in 0_u64..=604_800_000, seed in any::<u64>(),
        ) {
            let ceiling = Duration::from_millis(ms);
            prop_assert!(within(jitter, ceiling, jitter.draw(ceiling, &mut Pcg64::seed_from_u64(seed))));
            prop_assert!(within(jitter, ceiling, jitter.draw(ceiling, &mut Constant(0))));
        }

        #[test]
        fn names_round_trip(jitter in any_jitter()) {
            prop_assert_eq!(Jitter::parse(&jitter.name()), Some(jitter));
        }
    }
}

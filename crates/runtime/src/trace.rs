//! `traceparent`: the thread through an event's whole walk, with or without a trace collector.
//!
//! The header is parsed, continued and written here without OpenTelemetry, because a receiver is
//! owed it also where no collector is configured. [`link`] and [`of`] tie it to the spans of this
//! process when one is.

use std::fmt;
use std::str::FromStr;

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use rand::Rng;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Length of the header's text in bytes: `00-`, 32, `-`, 16, `-`, 2.
pub const TRACEPARENT_LEN: usize = 55;

const SAMPLED: u8 = 0x01;

/// A W3C Trace Context `traceparent` of version 00. Neither id is all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Traceparent {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
}

impl Traceparent {
    /// Parses the header's value. `None` for anything but version 00 in lower-case hex with
    /// non-zero ids: the specification says to start a new trace then, not to repair the old one.
    ///
    /// Source: W3C Trace Context, section 3.2.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: &[u8; TRACEPARENT_LEN] = text.as_bytes().try_into().ok()?;
        let dashes = [bytes[2], bytes[35], bytes[52]];
        if &bytes[..2] != b"00" || dashes != [b'-'; 3] {
            return None;
        }
        let trace_id = hex(&bytes[3..35])?;
        let span_id = hex(&bytes[36..52])?;
        let [flags] = hex(&bytes[53..])?;
        if trace_id == [0; 16] || span_id == [0; 8] {
            return None;
        }
        Some(Self {
            trace_id,
            span_id,
            flags,
        })
    }

    /// The start of a new trace.
    ///
    /// It is marked as sampled: unmarked, a receiver whose sampler follows its parent would stop
    /// recording its own side of every delivery.
    #[must_use]
    pub fn generate(rng: &mut impl Rng) -> Self {
        Self {
            trace_id: random_id(rng),
            span_id: random_id(rng),
            flags: SAMPLED,
        }
    }

    /// The next step of the same trace: same trace id and flags, a new span id.
    #[must_use]
    pub fn child(&self, rng: &mut impl Rng) -> Self {
        Self {
            span_id: random_id(rng),
            ..*self
        }
    }

    /// The trace id, never all zero.
    #[must_use]
    pub const fn trace_id(&self) -> [u8; 16] {
        self.trace_id
    }

    /// The span id, never all zero.
    #[must_use]
    pub const fn span_id(&self) -> [u8; 8] {
        self.span_id
    }

    /// Whether the caller may have recorded its side.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    fn to_context(self) -> SpanContext {
        SpanContext::new(
            TraceId::from_bytes(self.trace_id),
            SpanId::from_bytes(self.span_id),
            TraceFlags::new(self.flags),
            true,
            TraceState::default(),
        )
    }

    fn from_context(context: &SpanContext) -> Option<Self> {
        context.is_valid().then(|| Self {
            trace_id: context.trace_id().to_bytes(),
            span_id: context.span_id().to_bytes(),
            flags: context.trace_flags().to_u8(),
        })
    }
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace_id
            .iter()
            .try_for_each(|b| write!(f, "{b:02x}"))?;
        f.write_str("-")?;
        self.span_id.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        write!(f, "-{:02x}", self.flags)
    }
}

/// The text is not a `traceparent` of version 00.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent of version 00")]
pub struct NotATraceparent;

impl FromStr for Traceparent {
    type Err = NotATraceparent;

    fn from_str(text: &str) -> Result<Self, NotATraceparent> {
        Self::parse(text).ok_or(NotATraceparent)
    }
}

/// Makes `parent` the remote parent of `span`, before the span is first entered. Without a
/// collector it does nothing.
pub fn link(span: &tracing::Span, parent: &Traceparent) {
    let context = Context::new().with_remote_span_context(parent.to_context());
    // Refused when there is no collector, which is the no-op promised above, or when the span has
    // started, where its place in the trace is settled.
    let _ = span.set_parent(context);
}

/// The `traceparent` of `span` itself: what a call made inside it should carry. `None` without a
/// collector.
#[must_use]
pub fn of(span: &tracing::Span) -> Option<Traceparent> {
    Traceparent::from_context(span.context().span().span_context())
}

fn random_id<const N: usize>(rng: &mut impl Rng) -> [u8; N] {
    let mut id = [0; N];
    // All zero means "no id", so such a draw, however unlikely, does not count.
    while id == [0; N] {
        rng.fill_bytes(&mut id);
    }
    id
}

fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut out = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        *byte = (nibble(pair[0])? << 4) | nibble(pair[1])?;
    }
    Some(out)
}

const fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn rng() -> impl Rng {
        rand_pcg::Pcg64::new(7, 11)
    }

    #[test]
    fn the_specification_s_example_is_read_and_written_back() {
        let parsed = Traceparent::parse(EXAMPLE).unwrap();
        assert_eq!(parsed.to_string(), EXAMPLE);
        assert_eq!(parsed.trace_id()[..2], [0x4b, 0xf9]);
        assert_eq!(parsed.span_id()[7], 0xb7);
        assert!(parsed.is_sampled());
        assert_eq!(EXAMPLE.parse(), Ok(parsed));
    }

    #[test]
    fn whatever_is_not_version_00_in_full_is_refused() {
        let good = EXAMPLE;
        let bad = [
            String::new(),
            format!("{good} "),
            good[..54].to_owned(),
            good.replacen("00-", "01-", 1),
            good.replacen("00-", "ff-", 1),
            good.replace('-', "_"),
            good.to_uppercase(),
            good.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            good.replace("00f067aa0ba902b7", &"0".repeat(16)),
            good.replace("4bf9", "4bg9"),
            good.replace("4bf9", "4\u{e9}9"),
        ];
        for text in bad {
            assert_eq!(Traceparent::parse(&text), None, "{text:?}");
        }
    }

    #[test]
    fn a_child_keeps_the_trace_and_changes_the_span() {
        let parent = Traceparent::parse(EXAMPLE).unwrap();
        let child = parent.child(&mut rng());
        assert_eq!(child.trace_id(), parent.trace_id());
        assert_ne!(child.span_id(), parent.span_id());
        assert_eq!(child.is_sampled(), parent.is_sampled());
    }

    #[test]
    fn a_new_trace_reads_back_and_differs_from_the_next() {
        let mut rng = rng();
        let (a, b) = (
            Traceparent::generate(&mut rng),
            Traceparent::generate(&mut rng),
        );
        assert_eq!(Traceparent::parse(&a.to_string()), Some(a));
        assert_ne!(a.trace_id(), b.trace_id());
        assert!(a.is_sampled());
    }

    #[test]
    fn without_a_collector_links_do_nothing() {
        let span = tracing::info_span!("attempt");
        link(&span, &Traceparent::parse(EXAMPLE).unwrap());
        assert_eq!(of(&span), None);
    }
}

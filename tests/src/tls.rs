//! Receivers behind TLS: a private authority, a front for any HTTP/1.1 receiver, and an HTTP/2
//! receiver that can refuse streams and shut connections down.

mod authority;
mod front;
mod http2;

pub use authority::{Authority, Validity, self_signed};
pub use front::TlsFront;
pub use http2::{Http2Receiver, Http2Reply, Http2Request};

//! Between the wire and the domain.
//!
//! What comes off the wire may be anything; what a service gets is valid. Every decoder is
//! total: it returns a value or says which field breaks which rule, and never panics.

mod api_key;
mod attempt;
mod audit;
mod breaker;
mod delivery;
mod endpoint;
mod event;
mod intake;
mod lane;
mod letter;
mod mark;
mod register;
mod replay;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use posthorn_delivery::UnixMillis;
use posthorn_proto::v1;
use prost::Message;

pub use api_key::{ApiKey, Scope};
pub use audit::{AuditEntry, AuditResult};
pub use intake::{Intake, IntakeError, read_event};
pub use lane::Parked;
pub use mark::{DispatcherBeat, IdempotencyMark};

/// Why bytes are not a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not the encoding at all.
    #[error("not a {0} message")]
    Malformed(&'static str),
    /// A field that breaks its rule.
    #[error("{message}.{field} is not valid")]
    Field {
        /// Which message.
        message: &'static str,
        /// Which field.
        field: &'static str,
    },
}

/// A value with one encoding.
pub trait Wire: Sized {
    /// Encodes it.
    fn to_wire(&self) -> Bytes;

    /// Decodes and checks it.
    ///
    /// # Errors
    /// [`DecodeError`] names what is wrong.
    fn from_wire(bytes: Bytes) -> Result<Self, DecodeError>;
}

fn encode(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn decode<M: Message + Default>(bytes: Bytes, name: &'static str) -> Result<M, DecodeError> {
    M::decode(bytes).map_err(|_| DecodeError::Malformed(name))
}

fn field(message: &'static str, field: &'static str) -> DecodeError {
    DecodeError::Field { message, field }
}

/// Turns a parse failure into the field that it is about.
macro_rules! check {
    ($message:literal, $field:literal, $result:expr) => {
        $result.map_err(|_| $crate::codec::field($message, $field))?
    };
}
pub(crate) use check;

fn headers_out(headers: &[(String, String)]) -> Vec<v1::Header> {
    let header = |(name, value): &(String, String)| v1::Header {
        name: name.clone(),
        value: value.clone(),
    };
    headers.iter().map(header).collect()
}

fn headers_in(headers: Vec<v1::Header>) -> Vec<(String, String)> {
    headers
        .into_iter()
        .map(|header| (header.name, header.value))
        .collect()
}

fn optional_text(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn optional_time(millis: i64) -> Option<UnixMillis> {
    (millis != 0).then_some(UnixMillis(millis))
}

fn time_out(time: Option<UnixMillis>) -> i64 {
    time.map_or(0, |time| time.0)
}

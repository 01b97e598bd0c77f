//! One file each.

pub(crate) mod address;
pub(crate) mod batch;
pub(crate) mod document;
pub(crate) mod envelope;
pub(crate) mod filter;
pub(crate) mod pattern;
pub(crate) mod retry_after;
pub(crate) mod signature;
pub(crate) mod url;
pub(crate) mod wire;

/// The bytes before the first `separator`, and those after it.
fn split_at(data: &[u8], separator: u8) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == separator) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}

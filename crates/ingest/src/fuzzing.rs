//! What reads a caller's bytes, as the fuzzer feeds it. No part of the API of this crate.

use crate::endpoints::read_document;
use crate::events::{Form, read_batch};
use bytes::Bytes;
use posthorn_egress::EgressPolicy;

/// A status that a caller is refused with.
pub type Refused = u16;
/// An item of a batch: its type and its payload.
pub type Item = (String, Bytes);

/// Reads a batch, a JSON array or else lines of JSON: each item as its type and payload, or the
/// status that it is refused with.
///
/// # Errors
/// The status that the whole is refused with.
pub fn batch(
    body: &Bytes,
    is_array: bool,
    max_payload: usize,
) -> Result<Vec<Result<Item, Refused>>, Refused> {
    let form = if is_array { Form::Array } else { Form::Lines };
    let items = read_batch(body, form, max_payload).map_err(|problem| problem.status().as_u16())?;
    let items = items.into_iter().map(|item| {
        item.map(|item| (item.event_type.to_string(), item.payload))
            .map_err(|problem| problem.status().as_u16())
    });
    Ok(items.collect())
}

/// Reads a new endpoint, and gives its URL and its headers in plain.
///
/// # Errors
/// The status that it is refused with.
pub fn endpoint(
    body: &[u8],
    egress: &EgressPolicy,
) -> Result<(String, Vec<(String, String)>), Refused> {
    let object = serde_json::from_slice(body).map_err(|_| 400_u16)?;
    let draft = read_document(object, None, egress).map_err(|problem| problem.status().as_u16())?;
    let headers = draft.headers.iter();
    let headers = headers.map(|(name, value)| (name.clone(), value.reveal().to_owned()));
    Ok((draft.url.reveal().to_owned(), headers.collect()))
}

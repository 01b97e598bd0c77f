//! Batches of events. The first byte says which form; the rest is the body.

use bytes::Bytes;
use posthorn_delivery::EventType;
use posthorn_ingest::fuzzing::batch;

const MAX_PAYLOAD: usize = 256;
const MAX_ITEMS: usize = 1_000;

/// A batch is refused with a status of the caller's, or each of its items is: and what is
/// accepted is the very bytes that stand in the body.
pub(crate) fn run(data: &[u8]) {
    let Some((form, body)) = data.split_first() else {
        return;
    };
    let body = Bytes::copy_from_slice(body);
    let items = match batch(&body, form.is_multiple_of(2), MAX_PAYLOAD) {
        Ok(items) => items,
        Err(status) => return assert!(matches!(status, 400 | 422), "{status}"),
    };
    assert!((1..=MAX_ITEMS).contains(&items.len()));
    for item in items {
        let Ok((event_type, payload)) = item.map_err(|status| {
            assert!(matches!(status, 400 | 413), "{status}");
        }) else {
            continue;
        };
        assert!(EventType::parse(&event_type).is_ok());
        assert!((1..=MAX_PAYLOAD).contains(&payload.len()));
        let (start, end) = (body.as_ptr_range().start, body.as_ptr_range().end);
        let place = payload.as_ptr_range();
        assert!(start <= place.start && place.end <= end, "a copy");
    }
}

//! What is signed: an id, the time of the attempt and the body's bytes.
//!
//! The signed text is `id.timestamp.body`. Its fields are joined by full stops and nothing marks
//! where one ends, so an id with a full stop in it would let two different messages share one
//! signature. Such an id never becomes a [`SignedMessage`].

use crate::sign::SignError;

/// The longest id that is signed, in bytes.
pub const MAX_ID_BYTES: usize = 256;

/// Why an id cannot be part of a signed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// There is no id.
    #[error("the id is empty")]
    Empty,
    /// The id is longer than [`MAX_ID_BYTES`].
    #[error("the id has {bytes} bytes, more than {MAX_ID_BYTES}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The id holds a full stop, which separates the fields of the signed text.
    #[error("the id holds a full stop")]
    FullStop,
    /// The id holds something that a header value cannot carry unchanged: white space, a control
    /// character or anything outside ASCII.
    #[error("the id holds a character that is not visible ASCII")]
    NotVisibleAscii,
}

/// A message that can be signed without ambiguity.
#[derive(Clone, Copy)]
pub struct SignedMessage<'a> {
    id: &'a str,
    timestamp: i64,
    body: &'a [u8],
}

impl<'a> SignedMessage<'a> {
    /// Takes the event's id, the time of *this attempt* in unix seconds, and the body exactly as
    /// it is sent: any bytes, also such as are not UTF-8.
    ///
    /// # Errors
    ///
    /// [`SignError::Id`] for an id that could shift a boundary or break a header, and
    /// [`SignError::Timestamp`] for a time before 1970.
    pub fn try_new(id: &'a str, timestamp: i64, body: &'a [u8]) -> Result<Self, SignError> {
        check_id(id).map_err(SignError::Id)?;
        if timestamp < 0 {
            return Err(SignError::Timestamp);
        }
        Ok(Self {
            id,
            timestamp,
            body,
        })
    }

    /// The id, as it goes into the header.
    #[must_use]
    pub const fn id(&self) -> &'a str {
        self.id
    }

    /// Unix seconds, never negative.
    #[must_use]
    pub const fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// The body's bytes.
    #[must_use]
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }
}

/// Not derived: the body belongs to a customer and never to a log.
impl std::fmt::Debug for SignedMessage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignedMessage")
            .field("id", &self.id)
            .field("timestamp", &self.timestamp)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

pub(crate) fn check_id(id: &str) -> Result<(), IdError> {
    if id.is_empty() {
        return Err(IdError::Empty);
    }
    if id.len() > MAX_ID_BYTES {
        return Err(IdError::TooLong { bytes: id.len() });
    }
    if !id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(IdError::NotVisibleAscii);
    }
    if id.contains('.') {
        return Err(IdError::FullStop);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(id: &str) -> IdError {
        match SignedMessage::try_new(id, 1, b"") {
            Err(SignError::Id(error)) => error,
            other => panic!("{id:?} gave {other:?}"),
        }
    }

    #[test]
    fn sig_06_an_id_that_shifts_a_boundary_is_refused() {
        assert_eq!(refused("evt.1700000000.{}"), IdError::FullStop);
        assert_eq!(refused("."), IdError::FullStop);
        assert_eq!(refused(""), IdError::Empty);
        let long = "x".repeat(10 * 1024);
        assert_eq!(refused(&long), IdError::TooLong { bytes: 10 * 1024 });
        for id in [
            "a\r\nb",
            "a b",
            "a\tb",
            "a\0b",
            "a\u{7f}",
            "é",
            "a\u{2028}b",
            "\u{feff}a",
        ] {
            assert_eq!(refused(id), IdError::NotVisibleAscii, "{id:?}");
        }
    }

    #[test]
    fn sig_06_the_longest_id_passes() {
        assert!(SignedMessage::try_new(&"x".repeat(MAX_ID_BYTES), 1, b"").is_ok());
        let over = MAX_ID_BYTES + 1;
        assert_eq!(refused(&"x".repeat(over)), IdError::TooLong { bytes: over });
    }

    #[test]
    fn a_time_before_the_epoch_is_refused() {
        assert!(matches!(
            SignedMessage::try_new("evt_1", -1, b""),
            Err(SignError::Timestamp)
        ));
        assert!(SignedMessage::try_new("evt_1", 0, b"").is_ok());
    }

    #[test]
    fn debug_shows_the_length_of_the_body_only() {
        let message = SignedMessage::try_new("evt_1", 1, b"private").unwrap();
        let text = format!("{message:?}");
        assert!(text.contains("body_bytes: 7") && !text.contains("private"));
    }

    proptest! {
        /// Whatever the body, two messages with different fields never share a signed text.
        #[test]
        fn sig_06_fields_can_be_read_back_from_the_signed_text(
            id in "[!-~]{1,20}",
            timestamp in 0..i64::MAX,
            body in "[0-9.a-z]{0,20}",
        ) {
            let Ok(message) = SignedMessage::try_new(&id, timestamp, body.as_bytes()) else {
                prop_assert!(id.contains('.'));
                return Ok(());
            };
            let text = format!("{}.{}.{body}", message.id(), message.timestamp());
            let fields: Vec<&str> = text.splitn(3, '.').collect();
            let timestamp = timestamp.to_string();
            prop_assert_eq!(fields, vec![id.as_str(), timestamp.as_str(), body.as_str()]);
        }
    }
}

//! Names and identifiers.
//!
//! Tenant and event type become NATS subject tokens, so they are parsed here into types that
//! cannot hold a dot, a wildcard or a line break in the wrong place: otherwise a caller could
//! publish as another tenant, or break the connection that everybody shares.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};
use std::fmt;

/// Why a name or an identifier was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// A tenant that breaks its rule.
    #[error("a tenant is 1 to 63 of a-z, 0-9, '_' and '-', and begins with a letter or digit")]
    Tenant,
    /// An event type that breaks its rule.
    #[error(
        "an event type is 1 to 16 tokens of A-Z, a-z, 0-9, '_' and '-', separated by single \
         dots, and at most 128 characters"
    )]
    EventType,
    /// An event id that is not `evt_` and 32 hex digits.
    #[error("an event id is evt_ and 32 lower-case hex digits")]
    EventId,
    /// An endpoint id that is not `ep_` and 32 hex digits.
    #[error("an endpoint id is ep_ and 32 lower-case hex digits")]
    EndpointId,
    /// A dead letter id that is not `dl_` and 32 hex digits.
    #[error("a dead letter id is dl_ and 32 lower-case hex digits")]
    LetterId,
}

/// The reserved tenant of Posthorn's own operational events.
pub const SYSTEM_TENANT: &str = "_posthorn";

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

string_id!(
    /// Who an event and an endpoint belong to: one NATS subject token.
    Tenant
);
string_id!(
    /// What an event is about, for example `invoice.paid`: up to 16 NATS subject tokens.
    EventType
);
string_id!(
    /// The id of an event, which receivers see as `webhook-id`.
    EventId
);
string_id!(
    /// The id of an endpoint.
    EndpointId
);
string_id!(
    /// The id of a dead letter: the same however often its delivery dies.
    LetterId
);

impl Tenant {
    /// Reads an ordinary tenant.
    ///
    /// # Errors
    /// [`IdError::Tenant`] when it is not `[a-z0-9][a-z0-9_-]{0,62}`.
    pub fn parse(text: &str) -> Result<Tenant, IdError> {
        let starts_well = text.bytes().next().is_some_and(|b| b != b'_' && b != b'-');
        let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
        if !starts_well || text.len() > 63 || !text.bytes().all(lower) {
            return Err(IdError::Tenant);
        }
        Ok(Tenant(text.into()))
    }

    /// Reads an ordinary tenant or the reserved one.
    ///
    /// # Errors
    /// As [`Tenant::parse`].
    pub fn parse_any(text: &str) -> Result<Tenant, IdError> {
        if text == SYSTEM_TENANT {
            return Ok(Tenant(text.into()));
        }
        Tenant::parse(text)
    }

    /// Whether this is the reserved tenant.
    #[must_use]
    pub fn is_system(&self) -> bool {
        self.as_str() == SYSTEM_TENANT
    }
}

impl EventType {
    /// Reads an event type.
    ///
    /// # Errors
    /// [`IdError::EventType`] when a token is empty or holds another character, or when it is
    /// over 16 tokens or 128 characters.
    pub fn parse(text: &str) -> Result<EventType, IdError> {
        let well_formed = text.len() <= 128
            && text.split('.').count() <= 16
            && text.split('.').all(is_type_token);
        if !well_formed {
            return Err(IdError::EventType);
        }
        Ok(EventType(text.into()))
    }
}

/// Whether `token` may be one token of an event type.
#[must_use]
pub fn is_type_token(token: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    !token.is_empty() && token.bytes().all(allowed)
}

impl EventId {
    /// From 128 bits, for example a uuid v7.
    #[must_use]
    pub fn from_bits(bits: u128) -> EventId {
        EventId(format!("evt_{bits:032x}").into())
    }

    /// The 128 bits that it is made of: what a table of very many ids is kept by.
    #[must_use]
    pub fn bits(&self) -> u128 {
        // What is stored here has passed `parse` or comes from bits.
        u128::from_str_radix(&self.0[4..], 16).unwrap_or(0)
    }

    /// The id that an idempotency key stands for: the same however late it is repeated.
    #[must_use]
    pub fn from_key(tenant: &Tenant, key: &str) -> EventId {
        EventId::from_bits(hash128(
            "event-key",
            &[tenant.as_str().as_bytes(), key.as_bytes()],
        ))
    }

    /// The id of an event that came without any key: where the stream stored it.
    #[must_use]
    pub fn from_position(stream_created_nanos: i128, sequence: u64) -> EventId {
        let parts: [&[u8]; 2] = [&stream_created_nanos.to_be_bytes(), &sequence.to_be_bytes()];
        EventId::from_bits(hash128("event-position", &parts))
    }

    /// Reads an event id.
    ///
    /// # Errors
    /// [`IdError::EventId`].
    pub fn parse(text: &str) -> Result<EventId, IdError> {
        prefixed_hex(text, "evt_")
            .map(EventId)
            .ok_or(IdError::EventId)
    }
}

impl EndpointId {
    /// From 128 bits, for example a uuid v7.
    #[must_use]
    pub fn from_bits(bits: u128) -> EndpointId {
        EndpointId(format!("ep_{bits:032x}").into())
    }

    /// Reads an endpoint id.
    ///
    /// # Errors
    /// [`IdError::EndpointId`].
    pub fn parse(text: &str) -> Result<EndpointId, IdError> {
        prefixed_hex(text, "ep_")
            .map(EndpointId)
            .ok_or(IdError::EndpointId)
    }
}

impl LetterId {
    /// The letter of a delivery.
    #[must_use]
    pub fn of(tenant: &Tenant, event: &EventId, endpoint: &EndpointId) -> LetterId {
        let parts = [
            tenant.as_str().as_bytes(),
            event.as_str().as_bytes(),
            endpoint.as_str().as_bytes(),
        ];
        LetterId(format!("dl_{:032x}", hash128("letter", &parts)).into())
    }

    /// The letter of a message that could not be read, by where it was stored.
    #[must_use]
    pub fn of_unreadable(stream: &str, stream_created_nanos: i128, sequence: u64) -> LetterId {
        let created = stream_created_nanos.to_be_bytes();
        let parts: [&[u8]; 3] = [stream.as_bytes(), &created, &sequence.to_be_bytes()];
        LetterId(format!("dl_{:032x}", hash128("unreadable", &parts)).into())
    }

    /// Reads a letter id.
    ///
    /// # Errors
    /// [`IdError::LetterId`].
    pub fn parse(text: &str) -> Result<LetterId, IdError> {
        prefixed_hex(text, "dl_")
            .map(LetterId)
            .ok_or(IdError::LetterId)
    }
}

fn prefixed_hex(text: &str, prefix: &str) -> Option<Box<str>> {
    let hex = text.strip_prefix(prefix)?;
    let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    (hex.len() == 32 && hex.bytes().all(digit)).then(|| text.into())
}

/// The deduplication id of an internal message: 16 bytes in base64, because a broker keeps
/// every id in memory for the whole window.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(Box<str>);

impl MessageId {
    /// Of the message that carries a delivery at `hop`.
    #[must_use]
    pub fn of_delivery(
        tenant: &Tenant,
        event: &EventId,
        endpoint: &EndpointId,
        replay_generation: u64,
        hop: u32,
    ) -> MessageId {
        let parts: [&[u8]; 5] = [
            tenant.as_str().as_bytes(),
            event.as_str().as_bytes(),
            endpoint.as_str().as_bytes(),
            &replay_generation.to_be_bytes(),
            &hop.to_be_bytes(),
        ];
        MessageId::from_bits(hash128("delivery", &parts))
    }

    /// Of anything else, by its parts; `domain` keeps kinds apart.
    #[must_use]
    pub fn of(domain: &str, parts: &[&[u8]]) -> MessageId {
        MessageId::from_bits(hash128(domain, parts))
    }

    fn from_bits(bits: u128) -> MessageId {
        MessageId(STANDARD_NO_PAD.encode(bits.to_be_bytes()).into())
    }

    /// The text that goes into `Nats-Msg-Id`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The first 128 bits of SHA-256 over length-prefixed parts: no two lists of parts give the
/// same input, so `("ab","c")` and `("a","bc")` stay apart.
#[must_use]
pub fn hash128(domain: &str, parts: &[&[u8]]) -> u128 {
    let mut hasher = Sha256::new();
    for part in std::iter::once(domain.as_bytes()).chain(parts.iter().copied()) {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let digest = hasher.finalize();
    let mut bits = [0_u8; 16];
    bits.copy_from_slice(&digest[..16]);
    u128::from_be_bytes(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hdr_05_names_that_would_change_a_subject_are_refused() {
        for bad in [
            "",
            "t1.other",
            "*",
            ">",
            "a b",
            "A",
            "_x",
            "-x",
            "x\r\nPUB y 1",
            "é",
        ] {
            assert_eq!(Tenant::parse(bad), Err(IdError::Tenant), "{bad:?}");
        }
        let long = "x".repeat(129);
        let many = vec!["a"; 17].join(".");
        for bad in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a.",
            "a b",
            "*",
            ">",
            "a.*",
            "x.\r\nPUB y 1",
            "🎺",
        ]
        .into_iter()
        .chain([long.as_str(), many.as_str()])
        {
            assert_eq!(EventType::parse(bad), Err(IdError::EventType), "{bad:?}");
        }
        assert!(Tenant::parse(&"a".repeat(63)).is_ok());
        assert!(Tenant::parse(&"a".repeat(64)).is_err());
        assert!(EventType::parse("invoice.paid_v2.EU-west").is_ok());
        assert!(Tenant::parse(SYSTEM_TENANT).is_err());
        assert!(Tenant::parse_any(SYSTEM_TENANT).unwrap().is_system());
    }

    #[test]
    fn js_10_ids_are_scoped_to_tenant_and_endpoint() {
        let (a, b) = (Tenant::parse("a").unwrap(), Tenant::parse("b").unwrap());
        assert_ne!(
            EventId::from_key(&a, "order-1"),
            EventId::from_key(&b, "order-1")
        );
        let event = EventId::from_key(&a, "order-1");
        let (e1, e2) = (EndpointId::from_bits(1), EndpointId::from_bits(2));
        let id = |t: &Tenant, e: &EndpointId, hop| MessageId::of_delivery(t, &event, e, 0, hop);
        assert_ne!(id(&a, &e1, 0), id(&a, &e2, 0));
        assert_ne!(id(&a, &e1, 0), id(&b, &e1, 0));
        assert_ne!(id(&a, &e1, 0), id(&a, &e1, 1));
        assert_eq!(id(&a, &e1, 3), id(&a, &e1, 3));
        assert_eq!(id(&a, &e1, 0).as_str().len(), 22);
    }

    #[test]
    fn sig_06_an_event_id_never_holds_a_dot() {
        for bad in [
            "evt.1700000000.{}",
            "",
            "evt_",
            "evt_XYZ",
            "evt_00000000000000000000000000000000\n",
        ] {
            assert!(EventId::parse(bad).is_err(), "{bad:?}");
        }
        let id = EventId::from_bits(u128::MAX - 7);
        assert_eq!(EventId::parse(id.as_str()).unwrap(), id);
        assert_eq!(id.bits(), u128::MAX - 7);
    }

    proptest! {
        #[test]
        fn parts_never_run_together(a in ".{0,8}", b in ".{0,8}", c in ".{0,8}", d in ".{0,8}") {
            prop_assume!((&a, &b) != (&c, &d));
            let left = hash128("x", &[a.as_bytes(), b.as_bytes()]);
            let right = hash128("x", &[c.as_bytes(), d.as_bytes()]);
            prop_assert_ne!(left, right);
        }
    }
}

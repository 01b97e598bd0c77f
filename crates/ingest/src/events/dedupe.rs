//! Under which ids events go into EVENTS.
//!
//! NATS compares `Nats-Msg-Id` over the whole stream, and a publisher over NATS chooses his
//! freely. If ours were made of tenant and idempotency key alone, whoever guessed both could use
//! the id first, and the event that was published by HTTP would be acknowledged as a duplicate of
//! his: accepted, and lost. So they are a keyed hash, which only copies of this service can make.
//!
//! A change of the key changes them, which the mark of an idempotency key does not notice: it is
//! found by the event's own id, for 24 hours as before. What remains is a repeat, within the
//! window of EVENTS, of a publish that was stored and whose mark was not: it is stored once more,
//! under the same `webhook-id`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use posthorn_delivery::{EventId, Tenant};
use posthorn_runtime::SecretString;
use posthorn_vault::{Marker, Vault};

/// What the key is for: it must not be another's.
const PURPOSE: &str = "posthorn: ids of events in EVENTS, v1";

/// Makes the ids.
pub(crate) struct DedupeIds(Marker);

impl DedupeIds {
    /// By the first of the secret keys, or where secrets are stored in plain, by the admin key:
    /// what every copy has.
    pub(crate) fn new(vault: &Vault, admin: &SecretString) -> DedupeIds {
        DedupeIds(Marker::new(vault, PURPOSE, admin.expose()))
    }

    /// The id of an event, which begins with its tenant as every publisher's should.
    pub(crate) fn of(&self, tenant: &Tenant, event: &EventId) -> String {
        let parts = [tenant.as_str().as_bytes(), event.as_str().as_bytes()];
        let mark = URL_SAFE_NO_PAD.encode(self.0.mark(&parts));
        format!("{tenant}:{mark}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn js_10_an_id_is_of_its_event_and_of_the_key_and_holds_neither() {
        let admin = SecretString::from("admin-key".to_owned());
        let other = SecretString::from("another".to_owned());
        let plain = DedupeIds::new(&Vault::plain(), &admin);
        let tenant = |text| Tenant::parse(text).unwrap();
        let event = EventId::from_bits(7);
        let id = plain.of(&tenant("acme"), &event);
        assert_eq!(
            id,
            DedupeIds::new(&Vault::plain(), &admin).of(&tenant("acme"), &event)
        );
        assert_eq!(id.len(), "acme:".len() + 22);
        assert!(id.starts_with("acme:"));
        assert!(!id.contains("evt_") && !id.contains("admin"));
        for another in [
            plain.of(&tenant("globex"), &event),
            plain.of(&tenant("acme"), &EventId::from_bits(8)),
            DedupeIds::new(&Vault::plain(), &other).of(&tenant("acme"), &event),
        ] {
            assert_ne!(
                id.split_once(':').unwrap().1,
                another.split_once(':').unwrap().1
            );
        }
    }
}

//! Entries of the audit log.

use super::{DecodeError, Wire, check, decode, encode};
use bytes::Bytes;
use posthorn_delivery::{EventType, Tenant, UnixMillis};
use posthorn_proto::v1;

/// What is known of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditResult {
    /// It was asked for by whoever may. Written before it was done.
    Asked,
    /// It was asked for under the same id, and was not done, or not wholly.
    Failed,
}

impl AuditResult {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            AuditResult::Asked => "asked",
            AuditResult::Failed => "failed",
        }
    }
}

/// Who asked for which administrative act. It holds no secret, no URL and no payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Of the act: the same in the entry that says that it failed.
    pub id: String,
    /// When.
    pub at: UnixMillis,
    /// The id of the key that asked, or `admin`.
    pub key_id: String,
    /// The key's name.
    pub key_name: String,
    /// Like `endpoint.create`. It is a part of the entry's subject, as an event's type is.
    pub action: EventType,
    /// Whose thing it is done to; `None` where that is nobody's in particular.
    pub tenant: Option<Tenant>,
    /// What it is done to: an id, or a filter.
    pub object: String,
    /// What became of it.
    pub result: AuditResult,
    /// The HTTP status of what failed.
    pub status: Option<u16>,
}

impl Wire for AuditEntry {
    fn to_wire(&self) -> Bytes {
        let tenant = self.tenant.as_ref().map(Tenant::to_string);
        encode(&v1::AuditEntry {
            id: self.id.clone(),
            at_ms: self.at.0,
            key_id: self.key_id.clone(),
            key_name: self.key_name.clone(),
            action: self.action.to_string(),
            tenant: tenant.unwrap_or_default(),
            object: self.object.clone(),
            result: result_out(self.result).into(),
            status: self.status.map_or(0, u32::from),
        })
    }

    fn from_wire(bytes: Bytes) -> Result<AuditEntry, DecodeError> {
        let message = decode::<v1::AuditEntry>(bytes, "AuditEntry")?;
        let result = result_in(message.result());
        let tenant = match message.tenant.as_str() {
            "" => None,
            name => Some(check!("AuditEntry", "tenant", Tenant::parse_any(name))),
        };
        let status: u16 = check!("AuditEntry", "status", message.status.try_into());
        Ok(AuditEntry {
            action: check!("AuditEntry", "action", EventType::parse(&message.action)),
            id: message.id,
            at: UnixMillis(message.at_ms),
            key_id: message.key_id,
            key_name: message.key_name,
            tenant,
            object: message.object,
            result,
            status: (status != 0).then_some(status),
        })
    }
}

fn result_out(result: AuditResult) -> v1::AuditResult {
    match result {
        AuditResult::Asked => v1::AuditResult::Asked,
        AuditResult::Failed => v1::AuditResult::Failed,
    }
}

fn result_in(result: v1::AuditResult) -> AuditResult {
    match result {
        v1::AuditResult::Asked => AuditResult::Asked,
        v1::AuditResult::Failed => AuditResult::Failed,
    }
}

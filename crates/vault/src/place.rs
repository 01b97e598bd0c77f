//! Where a sealed text belongs: it opens nowhere else.

use posthorn_delivery::{Endpoint, EndpointId, Tenant};

/// Says which construction the associated data belongs to, so that no other use of the same key
/// can ever mean the same bytes.
const DOMAIN: &str = "posthorn endpoint v1";

/// A field of an endpoint that is kept sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// Where deliveries go: user, password, path and query may all be credentials.
    Url,
    /// The value of the custom header of this name, in whatever case.
    Header(&'a str),
    /// A symmetric secret. All of an endpoint's are one field, as a rotation moves them.
    Secret,
    /// The private half of a key pair.
    KeyPair,
}

/// A field of one endpoint of one tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    tenant: &'a Tenant,
    endpoint: &'a EndpointId,
    field: Field<'a>,
}

impl<'a> Place<'a> {
    /// A field of `endpoint`.
    #[must_use]
    pub fn of(endpoint: &'a Endpoint, field: Field<'a>) -> Place<'a> {
        Place {
            tenant: &endpoint.tenant,
            endpoint: &endpoint.id,
            field,
        }
    }

    /// The associated data: the parts with a zero byte between them, which none of them can hold.
    pub(crate) fn associated_data(&self) -> Vec<u8> {
        let (kind, name) = match self.field {
            Field::Url => ("url", String::new()),
            Field::Header(name) => ("header", name.to_ascii_lowercase()),
            Field::Secret => ("secret", String::new()),
            Field::KeyPair => ("key_pair", String::new()),
        };
        let parts = [
            DOMAIN,
            self.tenant.as_str(),
            self.endpoint.as_str(),
            kind,
            &name,
        ];
        parts.join("\0").into_bytes()
    }
}

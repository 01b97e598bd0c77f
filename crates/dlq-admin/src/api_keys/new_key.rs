//! What may be said of a new key, field by field.

use super::view::KeyRate;
use posthorn_broker::codec::{ApiKey, Scope};
use posthorn_delivery::{Tenant, UnixMillis};
use posthorn_http_api::time::parse_rfc3339;
use posthorn_http_api::{FieldError, MintedKey, Problem};
use serde::Deserialize;
use std::num::NonZeroU32;
use utoipa::ToSchema;

/// The longest name, in characters.
const MAX_NAME: usize = 64;
/// The most requests a second that a key may be given.
const MAX_RATE: u32 = 100_000;

/// A key to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// For people and the audit log: 1 to 64 characters, none of them a control character.
    #[schema(example = "billing")]
    name: String,
    /// The one tenant that it shall see; left out or `null` is all.
    tenant: Option<String>,
    /// At least one of `publish`, `endpoints`, `operate`.
    #[schema(example = json!(["publish"]))]
    scopes: Vec<String>,
    /// RFC 3339, in the future; left out or `null` is never.
    expires_at: Option<String>,
    /// Left out or `null` is what the services are configured with.
    rate_limit: Option<KeyRate>,
}

impl NewKey {
    /// The key that `minted` becomes.
    ///
    /// # Errors
    /// 422 with every field that breaks its rule.
    pub(super) fn read(
        self,
        minted: &MintedKey,
        created_by: &str,
        now: UnixMillis,
    ) -> Result<ApiKey, Problem> {
        let mut errors = Vec::new();
        let mut broken = |field: &str, rule: String| errors.push(FieldError::new(field, rule));
        if !is_name(&self.name) {
            let rule = format!("is 1 to {MAX_NAME} characters, none of them a control character");
            broken("name", rule);
        }
        let tenant = self.tenant.as_deref().map(Tenant::parse).transpose();
        let tenant = tenant.unwrap_or_else(|rule| {
            broken("tenant", rule.to_string());
            None
        });
        let scopes = scopes(&self.scopes).unwrap_or_else(|rule| {
            broken("scopes", rule);
            Vec::new()
        });
        let expires_at = expiry(self.expires_at.as_deref(), now).unwrap_or_else(|rule| {
            broken("expires_at", rule);
            None
        });
        let rate = rate(self.rate_limit).unwrap_or_else(|rule| {
            broken("rate_limit.per_second", rule);
            None
        });
        if !errors.is_empty() {
            return Err(Problem::invalid(errors));
        }
        Ok(ApiKey {
            id: minted.id.clone(),
            name: self.name,
            secret_sha256: minted.secret_sha256,
            tenant,
            scopes,
            rate_per_second: rate,
            created_at: now,
            created_by: created_by.to_owned(),
            expires_at,
        })
    }
}

fn is_name(name: &str) -> bool {
    let length = name.chars().count();
    (1..=MAX_NAME).contains(&length) && !name.chars().any(char::is_control)
}

/// Each scope once, in the order of [`Scope::ALL`].
fn scopes(names: &[String]) -> Result<Vec<Scope>, String> {
    let known = Scope::ALL.map(Scope::as_str).join(", ");
    if names.is_empty() || names.iter().any(|name| Scope::parse(name).is_none()) {
        return Err(format!("is at least one of {known}"));
    }
    let named = |scope: &Scope| names.iter().any(|name| name == scope.as_str());
    Ok(Scope::ALL.into_iter().filter(named).collect())
}

fn expiry(text: Option<&str>, now: UnixMillis) -> Result<Option<UnixMillis>, String> {
    let Some(text) = text else {
        return Ok(None);
    };
    let at = parse_rfc3339(text).map_err(|rule| rule.to_string())?;
    match at > now {
        true => Ok(Some(at)),
        false => Err("lies in the past".to_owned()),
    }
}

fn rate(asked: Option<KeyRate>) -> Result<Option<NonZeroU32>, String> {
    let Some(asked) = asked else {
        return Ok(None);
    };
    let rate = NonZeroU32::new(asked.per_second).filter(|rate| rate.get() <= MAX_RATE);
    rate.map(Some)
        .ok_or_else(|| format!("is from 1 to {MAX_RATE}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use serde_json::{Value, json};

    const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

    fn read(document: Value) -> Result<ApiKey, Problem> {
        let minted = MintedKey::new(NOW, &mut rand::rngs::StdRng::seed_from_u64(1));
        let new: NewKey = serde_json::from_value(document).unwrap();
        new.read(&minted, "admin", NOW)
    }

    #[test]
    fn what_is_left_out_is_all_tenants_no_end_and_the_configured_rate() {
        let key = read(json!({"name": "ops", "scopes": ["operate", "publish", "operate"]}));
        let key = key.unwrap();
        assert_eq!(key.scopes, [Scope::Publish, Scope::Operate]);
        assert_eq!((key.tenant, key.expires_at), (None, None));
        assert_eq!((key.rate_per_second, key.created_at), (None, NOW));
        assert_eq!(key.created_by, "admin");
    }

    #[test]
    fn every_field_that_breaks_its_rule_is_named() {
        let refused = read(json!({
            "name": "a\nb", "tenant": "a.b", "scopes": [], "expires_at": "2020-01-01T00:00:00Z",
            "rate_limit": {"per_second": 0},
        }));
        let refused = refused.unwrap_err();
        let named: Vec<&str> = refused.errors().iter().map(|e| e.field.as_str()).collect();
        let all = [
            "name",
            "tenant",
            "scopes",
            "expires_at",
            "rate_limit.per_second",
        ];
        assert_eq!(named, all);
        for (field, value) in [
            ("name", json!("")),
            ("name", json!("x".repeat(65))),
            ("tenant", json!("_posthorn")),
            ("tenant", json!("")),
            ("scopes", json!(["admin"])),
            ("scopes", json!(["publish", ""])),
            ("expires_at", json!("tomorrow")),
            ("expires_at", json!("2023-11-14T22:13:20Z")),
            ("rate_limit.per_second", json!({"per_second": 100_001})),
        ] {
            let mut document = json!({"name": "ops", "scopes": ["publish"]});
            document[field.split('.').next().unwrap()] = value;
            assert_eq!(read(document).unwrap_err().field(), Some(field));
        }
    }

    #[test]
    fn a_field_that_is_not_known_is_refused() {
        for document in [
            json!({"name": "x", "scopes": ["publish"], "scope": "operate"}),
            json!({"name": "x", "scopes": ["publish"], "rate_limit": {"per_second": 1, "burst": 9}}),
            json!({"name": "x", "scopes": ["publish"], "id": "0000000000000000"}),
        ] {
            assert!(serde_json::from_value::<NewKey>(document).is_err());
        }
    }
}

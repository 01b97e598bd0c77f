//! What stands in an answer in place of a credential, and what it means when it comes back.
//!
//! Whoever may see an endpoint need not see what it authenticates with. So the value of a header
//! and the password of a URL are shown as `***`. A patch, and a whole representation that is sent
//! back, may hold the mask again: it means that the stored value stays.

use super::fields::{Errors, Object};
use posthorn_delivery::Endpoint;
use serde_json::Value;
use url::Url;

/// What is shown in place of a credential.
pub(crate) const MASK: &str = "***";

/// A URL with its password masked; where there is a user and no password, the user is taken for
/// a token. A text that is no URL is masked as a whole.
pub(crate) fn masked_url(text: &str) -> String {
    let Some(mut url) = Url::parse(text).ok().filter(Url::has_host) else {
        return MASK.to_owned();
    };
    let masked = match (url.username(), url.password()) {
        ("", None) => Ok(()),
        (_, None) => url.set_username(MASK),
        (_, Some(_)) => url.set_password(Some(MASK)),
    };
    match masked {
        Ok(()) => url.into(),
        Err(()) => MASK.to_owned(),
    }
}

/// Puts the stored credentials back where `document` holds the mask. `stored` is the endpoint in
/// plain; there is none when one is created.
///
/// A mask for which nothing is stored is an error, so that none is ever stored itself. A URL
/// keeps its credential only at the same server and user: a password is not to be sent elsewhere
/// by somebody who does not know it.
pub(crate) fn restore(document: &mut Object, stored: Option<&Endpoint>, errors: &mut Errors) {
    if let Some(Value::Object(headers)) = document.get_mut("headers") {
        for (name, value) in headers {
            if value == MASK {
                restore_header(name, value, stored, errors);
            }
        }
    }
    let Some(Value::String(written)) = document.get_mut("url") else {
        return;
    };
    if let Some(mut url) = Url::parse(written).ok().filter(is_masked) {
        let stored = stored.and_then(|stored| Url::parse(stored.url.reveal()).ok());
        match stored.and_then(|stored| unmask(&mut url, &stored)) {
            Some(()) => *written = url.into(),
            None => errors.add(
                "url",
                "holds *** for a credential, which stands for the stored one at the same scheme, \
                 host, port and user only; write the credential out",
            ),
        }
    }
}

fn restore_header(name: &str, value: &mut Value, stored: Option<&Endpoint>, errors: &mut Errors) {
    let headers = stored.map(|stored| stored.headers.as_slice());
    let mut same = headers.unwrap_or_default().iter();
    match same.find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((_, stored)) => *value = Value::from(stored.reveal()),
        None => errors.add(
            format!("headers.{name}"),
            "is ***, which stands for a stored value, and there is none",
        ),
    }
}

fn is_masked(url: &Url) -> bool {
    url.password() == Some(MASK) || (url.password().is_none() && url.username() == MASK)
}

fn unmask(url: &mut Url, stored: &Url) -> Option<()> {
    let server = |url: &Url| {
        let host = url
            .host_str()
            .map(|host| host.trim_end_matches('.').to_owned());
        (url.scheme().to_owned(), host, url.port_or_known_default())
    };
    if server(url) != server(stored) {
        return None;
    }
    match (url.password(), stored.password()) {
        (Some(_), Some(password)) if url.username() == stored.username() => {
            set_encoded(url, stored.username(), Some(password))
        }
        (None, None) if !stored.username().is_empty() => set_encoded(url, stored.username(), None),
        _ => None,
    }
}

/// User and password as they stand in another URL. They are percent-encoded already, and what is
/// encoded is not encoded again.
fn set_encoded(url: &mut Url, user: &str, password: Option<&str>) -> Option<()> {
    url.set_username(user).ok()?;
    url.set_password(password).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::{change, document};
    use posthorn_delivery::{EndpointId, Tenant, UnixMillis};
    use posthorn_egress::EgressPolicy;
    use serde_json::json;

    fn endpoint(url: &str) -> Endpoint {
        let written = json!({"url": url, "headers": {"X-Token": "token", "X-Env": "prod"}});
        let egress = EgressPolicy::locked_down();
        let written = written.as_object().unwrap().clone();
        let draft = document::read(written, None, &egress).unwrap();
        let (tenant, id) = (Tenant::parse("acme").unwrap(), EndpointId::from_bits(1));
        let rng = &mut posthorn_runtime::rng::rng();
        change::created(tenant, id, draft, UnixMillis(0), rng)
    }

    /// What becomes of a document, or the fields that are wrong with it.
    fn restored(written: &Value, stored: Option<&Endpoint>) -> Result<Value, Vec<String>> {
        let mut document = written.as_object().unwrap().clone();
        let mut errors = Errors::default();
        restore(&mut document, stored, &mut errors);
        if errors.is_empty() {
            return Ok(Value::Object(document));
        }
        let problem = errors.into_problem();
        Err(problem.errors().iter().map(|e| e.field.clone()).collect())
    }

    #[test]
    fn dlq_06_a_password_or_a_lone_user_is_masked_and_nothing_else() {
        for (url, shown) in [
            ("https://example.com/a?b=c", "https://example.com/a?b=c"),
            ("https://u:p@example.com/", "https://u:***@example.com/"),
            ("https://:p@example.com/", "https://:***@example.com/"),
            ("https://token@example.com/", "https://***@example.com/"),
            ("https://u:p%40%2F@h:8443/", "https://u:***@h:8443/"),
            ("sealed:v1:k1:AAAA", MASK),
            ("", MASK),
        ] {
            assert_eq!(masked_url(url), shown, "{url}");
        }
    }

    #[test]
    fn what_was_shown_can_come_back_and_changes_nothing() {
        for url in [
            "https://example.com/a?b=c",
            "https://u:p%40%2F%25%3A@example.com/hook",
            "https://u:p'()*!~@example.com/hook",
            "https://:p@example.com/",
            "https://token%3A@example.com/",
        ] {
            let stored = endpoint(url);
            let shown =
                json!({"url": masked_url(url), "headers": {"X-Token": MASK, "x-env": MASK}});
            let document = restored(&shown, Some(&stored)).unwrap();
            assert_eq!(document["url"], stored.url.reveal());
            assert_eq!(
                document["headers"],
                json!({"X-Token": "token", "x-env": "prod"})
            );
        }
    }

    #[test]
    fn a_credential_stays_with_its_server_and_user() {
        let stored = endpoint("https://u:p@example.com/hook");
        let other = json!({"url": "https://u:***@example.com:443/other?x=1"});
        let document = restored(&other, Some(&stored)).unwrap();
        assert_eq!(document["url"], "https://u:p@example.com/other?x=1");
        for url in [
            "https://u:***@example.org/hook",
            "http://u:***@example.com/hook",
            "https://u:***@example.com:8443/hook",
            "https://v:***@example.com/hook",
            "https://***@example.com/hook",
        ] {
            let refused = restored(&json!({"url": url}), Some(&stored));
            assert_eq!(refused.unwrap_err(), ["url"], "{url}");
        }
        let written = json!({"url": "https://u:new@example.org/"});
        assert_eq!(restored(&written, Some(&stored)).unwrap(), written);
    }

    #[test]
    fn a_mask_for_which_nothing_is_stored_is_refused() {
        let written = json!({"url": "https://u:***@example.com/", "headers": {"X-New": MASK}});
        for stored in [None, Some(&endpoint("https://example.com/"))] {
            assert_eq!(
                restored(&written, stored).unwrap_err(),
                ["headers.X-New", "url"]
            );
        }
    }
}

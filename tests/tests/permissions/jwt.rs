//! An operator, an account and a user as NATS signs them, and the credentials of the user.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};

/// One operator with one account that has JetStream.
pub struct Operator {
    operator: KeyPair,
    account: KeyPair,
    /// Where the server itself is at home.
    system: KeyPair,
}

impl Operator {
    pub fn new() -> Operator {
        Operator {
            operator: KeyPair::new_operator(),
            account: KeyPair::new_account(),
            system: KeyPair::new_account(),
        }
    }

    /// The lines that make a server trust this operator and know its account.
    pub fn server_lines(&self) -> String {
        let operator = self.operator.public_key();
        let account = self.account.public_key();
        let system = self.system.public_key();
        let nats = json!({"type": "operator", "version": 2});
        let trusted = sign(&self.operator, &operator, "operator", &nats);
        let known = self.sign_account(&account, true);
        let home = self.sign_account(&system, false);
        format!(
            "operator: {trusted}\nsystem_account: {system}\nresolver: MEMORY\n\
             resolver_preload: {{ {account}: {known}, {system}: {home} }}\n"
        )
    }

    fn sign_account(&self, account: &str, has_jetstream: bool) -> String {
        let mut limits = json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
            "conn": -1, "leaf": -1,
        });
        if has_jetstream {
            for name in ["mem_storage", "disk_storage", "streams", "consumer"] {
                limits[name] = (-1).into();
            }
        }
        let nats = json!({"type": "account", "version": 2, "limits": limits});
        sign(&self.operator, account, "account", &nats)
    }

    /// A credentials file of a user of the account.
    pub fn credentials(&self) -> String {
        let user = KeyPair::new_user();
        let nats = json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1});
        let jwt = sign(&self.account, &user.public_key(), "user", &nats);
        let seed = user.seed().unwrap();
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    }
}

fn sign(issuer: &KeyPair, subject: &str, name: &str, nats: &Value) -> String {
    let head = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let claims = json!({
        "jti": format!("{name}-{subject}"), "iat": 1_700_000_000, "iss": issuer.public_key(),
        "name": name, "sub": subject, "nats": nats,
    });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&head), part(&claims));
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

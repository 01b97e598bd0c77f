//! A certificate authority of the test's own.

use std::io::Write as _;
use std::sync::Arc;

use anyhow::Result;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tempfile::NamedTempFile;
use time::{Duration, OffsetDateTime};

/// When a certificate is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// Now.
    Now,
    /// Until yesterday.
    Expired,
    /// From tomorrow on.
    NotYet,
}

/// A private authority. Nobody trusts it who was not told to.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a new one.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "test authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self { issuer })
    }

    /// Its certificate in a file, for whoever is to trust it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn file(&self) -> Result<NamedTempFile> {
        let mut file = NamedTempFile::new()?;
        file.write_all(self.issuer.pem().as_bytes())?;
        Ok(file)
    }

    /// A server that shows a certificate for `name` and speaks these protocols.
    ///
    /// # Errors
    /// When the certificate cannot be made.
    pub fn server(
        &self,
        name: &str,
        validity: Validity,
        protocols: &[&str],
    ) -> Result<Arc<ServerConfig>> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        let now = OffsetDateTime::now_utc();
        let (from, until) = match validity {
            Validity::Now => (-30, 30),
            Validity::Expired => (-30, -1),
            Validity::NotYet => (1, 30),
        };
        params.not_before = now + Duration::days(from);
        params.not_after = now + Duration::days(until);
        let certificate = params.signed_by(&key, &self.issuer)?;
        server_with(&certificate, &key, protocols)
    }
}

/// A server that shows a certificate for `name` that nobody signed but itself.
///
/// # Errors
/// When the certificate cannot be made.
pub fn self_signed(name: &str) -> Result<Arc<ServerConfig>> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec![name.to_owned()])?.self_signed(&key)?;
    server_with(&certificate, &key, &[])
}

fn server_with(
    certificate: &Certificate,
    key: &KeyPair,
    protocols: &[&str],
) -> Result<Arc<ServerConfig>> {
    let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)?;
    config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}

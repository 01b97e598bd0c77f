//! Whose certificates are believed.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    #[error("egress-ca cannot be read")]
    Unreadable(#[source] rustls::pki_types::pem::Error),
    #[error("egress-ca holds a certificate that cannot be used")]
    Unusable(#[source] rustls::Error),
    #[error("egress-ca holds no certificate")]
    Empty,
    #[error(
        "this machine has no trusted root certificates: install them (ca-certificates), name a \
         file of them in SSL_CERT_FILE, or set egress-ca"
    )]
    NoRoots,
    #[error("the TLS provider cannot be used")]
    Provider(#[source] rustls::Error),
}

/// TLS as a client that believes the system's roots and those in the file `extra`. Without any
/// root every delivery would fail one by one, so that is an error here.
pub(crate) fn client_config(extra: Option<&Path>) -> Result<ClientConfig, TrustError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = extra {
        for certificate in read(file)? {
            roots.add(certificate).map_err(TrustError::Unusable)?;
        }
    }
    if roots.is_empty() {
        return Err(TrustError::NoRoots);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TrustError::Provider)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Whether the file of a setting can be used.
pub(crate) fn check(extra: Option<&Path>) -> Result<(), String> {
    let Some(file) = extra else { return Ok(()) };
    read(file).map(drop).map_err(|error| error.to_string())
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(TrustError::Unreadable)?;
    if certificates.is_empty() {
        return Err(TrustError::Empty);
    }
    Ok(certificates)
}

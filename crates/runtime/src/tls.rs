//! The process-wide cryptography provider of rustls.
//!
//! When feature unification leaves rustls with two providers, or none, the first TLS handshake
//! panics, and often in one binary only. Installing one by name before any handshake makes that
//! impossible.

/// Makes aws-lc-rs the provider of this process. A provider that is already installed stays, so
/// calling it again is harmless.
pub fn install_crypto_provider() {
    // The error only says that a provider is installed, which is what is wanted.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_14_a_provider_is_installed_and_twice_is_harmless() {
        install_crypto_provider();
        install_crypto_provider();
        assert!(rustls::crypto::CryptoProvider::get_default().is_some());
    }
}

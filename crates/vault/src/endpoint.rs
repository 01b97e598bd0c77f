//! All of an endpoint at once: here alone stands which of its fields are kept sealed.

use crate::place::{Field, Place};
use crate::text::is_sealed;
use crate::vault::{OpenError, Vault};
use posthorn_delivery::Endpoint;
use posthorn_delivery::endpoint::{Hidden, StoredSecret};
use rand::CryptoRng;
use std::convert::Infallible;

impl Vault {
    /// An endpoint as it is to be stored: what is in plain is sealed, what is sealed stays.
    pub fn sealed(&self, endpoint: &Endpoint, rng: &mut (impl CryptoRng + ?Sized)) -> Endpoint {
        let Ok(sealed) = each::<Infallible>(endpoint, |place, stored| {
            Ok(match is_sealed(stored.reveal()) {
                true => stored.clone(),
                false => self.seal(place, stored, rng),
            })
        });
        sealed
    }

    /// An endpoint with everything in plain.
    ///
    /// # Errors
    /// [`OpenError`] of the first field that cannot be opened.
    pub fn opened(&self, endpoint: &Endpoint) -> Result<Endpoint, OpenError> {
        each(endpoint, |place, stored| self.open(place, stored))
    }

    /// Whether every field is stored as this vault would store it now.
    #[must_use]
    pub fn holds(&self, endpoint: &Endpoint) -> bool {
        let headers = endpoint.headers.iter().map(|(_, value)| value);
        let secrets = endpoint.secrets.iter().chain(&endpoint.key_pairs);
        std::iter::once(&endpoint.url)
            .chain(headers)
            .chain(secrets.map(|secret| &secret.text))
            .all(|stored| self.is_current(stored))
    }
}

/// Changes every field that is kept sealed.
fn each<E>(
    endpoint: &Endpoint,
    mut change: impl FnMut(&Place<'_>, &Hidden) -> Result<Hidden, E>,
) -> Result<Endpoint, E> {
    let mut next = endpoint.clone();
    let place = |field| Place::of(endpoint, field);
    next.url = change(&place(Field::Url), &endpoint.url)?;
    for (name, value) in &mut next.headers {
        *value = change(&place(Field::Header(name)), value)?;
    }
    let mut all = |secrets: &mut [StoredSecret], field| {
        secrets.iter_mut().try_for_each(|secret| {
            secret.text = change(&place(field), &secret.text)?;
            Ok(())
        })
    };
    all(&mut next.secrets, Field::Secret)?;
    all(&mut next.key_pairs, Field::KeyPair)?;
    Ok(next)
}

//! Sealing and opening one text.

use crate::key::{KeyId, KeysError, NamedKey, parse_keys};
use crate::mark;
use crate::place::Place;
use crate::text;
use aws_lc_rs::aead::{Aad, NONCE_LEN, Nonce};
use posthorn_delivery::endpoint::Hidden;
use rand::CryptoRng;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The setting that asks for no keys at all.
const NONE: &str = "none";

/// Why a stored text cannot be opened. None of these is cured by trying again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It was sealed with a key that is not known here.
    #[error("it is sealed with key `{key}`, which is not among the secret keys")]
    MissingKey {
        /// The key's id.
        key: KeyId,
    },
    /// The key does not open it: it was altered or moved, or the key is another one of this name.
    #[error("key `{key}` does not open it: it was altered or moved, or the key is another one")]
    Refused {
        /// The key's id.
        key: KeyId,
    },
    /// It begins like a sealed text and is none.
    #[error("it has not the form of a sealed text")]
    Malformed,
}

impl OpenError {
    /// The id of the key that is needed, where the text names one.
    #[must_use]
    pub fn key(&self) -> Option<&KeyId> {
        match self {
            OpenError::MissingKey { key } | OpenError::Refused { key } => Some(key),
            OpenError::Malformed => None,
        }
    }
}

/// The keys: the first seals, all open. Clones are the same. Printed, it is the keys' ids.
#[derive(Clone, Debug)]
pub struct Vault {
    keys: Arc<[NamedKey]>,
}

impl Vault {
    /// Reads a setting: `id:key,id:key` with keys of 32 bytes in padded standard base64, or
    /// `none`, which stores what it is given as it is.
    ///
    /// # Errors
    /// [`KeysError`], also where nothing is set: secrets must not end up in plain because
    /// something was left out.
    pub fn from_setting(setting: Option<&str>) -> Result<Vault, KeysError> {
        let setting = setting.unwrap_or_default();
        if setting.trim() == NONE {
            return Ok(Vault::plain());
        }
        let keys = parse_keys(setting)?.into();
        Ok(Vault { keys })
    }

    /// Without keys: it stores in plain, and opens only what is.
    #[must_use]
    pub fn plain() -> Vault {
        Vault { keys: Arc::new([]) }
    }

    /// The id of the key that seals; `None` where there are no keys.
    #[must_use]
    pub fn sealing_key(&self) -> Option<&KeyId> {
        self.keys.first().map(|key| &key.id)
    }

    /// A key for another purpose, made of the first one; `None` where there are no keys.
    pub(crate) fn derived(&self, purpose: &str) -> Option<Zeroizing<[u8; 32]>> {
        let first = self.keys.first()?;
        Some(mark::derive(&first.root, purpose))
    }

    /// Seals a text for its place. Without keys it stays as it is.
    pub fn seal(
        &self,
        place: &Place<'_>,
        plain: &Hidden,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Hidden {
        let Some(NamedKey { id, key, .. }) = self.keys.first() else {
            return plain.clone();
        };
        let mut nonce = [0; NONCE_LEN];
        rng.fill_bytes(&mut nonce);
        let mut bytes = plain.reveal().as_bytes().to_vec();
        let associated = Aad::from(place.associated_data());
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), associated, &mut bytes)
            .expect("a text of an endpoint is far shorter than the cipher's 64 GiB");
        let sealed = [nonce.as_slice(), &bytes].concat();
        Hidden::new(text::write(id, &sealed))
    }

    /// Opens a stored text at its place. One that is in plain, because it was stored before
    /// there were keys, is what it is.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&self, place: &Place<'_>, stored: &Hidden) -> Result<Hidden, OpenError> {
        if !text::is_sealed(stored.reveal()) {
            return Ok(stored.clone());
        }
        let (id, mut bytes) = text::read(stored.reveal()).ok_or(OpenError::Malformed)?;
        let Some(named) = self.keys.iter().find(|named| named.id == id) else {
            return Err(OpenError::MissingKey { key: id });
        };
        let (nonce, sealed) = bytes
            .split_first_chunk_mut::<NONCE_LEN>()
            .ok_or(OpenError::Malformed)?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let associated = Aad::from(place.associated_data());
        let opened = named.key.open_in_place(nonce, associated, sealed);
        let refused = || OpenError::Refused { key: id.clone() };
        let plain = opened.map_err(|_| refused())?;
        let plain = std::str::from_utf8(plain).map_err(|_| refused())?;
        Ok(Hidden::new(plain.to_owned()))
    }

    /// Whether a stored text is as this vault would store it now: sealed with the first key, or
    /// in plain where there are no keys.
    #[must_use]
    pub fn is_current(&self, stored: &Hidden) -> bool {
        match self.sealing_key() {
            Some(key) => text::key_of(stored.reveal()).as_ref() == Some(key),
            None => !text::is_sealed(stored.reveal()),
        }
    }
}

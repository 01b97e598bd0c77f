//! A key-value bucket of one type, changed by compare-and-swap.

use crate::codec::Wire;
use crate::error::BrokerError;
use crate::metric::kv_operation;
use crate::names::BucketName;
use async_nats::jetstream::kv::{Operation, Store};
use async_nats::jetstream::stream::Info;
use futures_util::TryStreamExt;
use std::marker::PhantomData;

/// A value and the revision that a change must name.
#[derive(Clone, Debug, PartialEq)]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// Its revision: the sequence in the bucket.
    pub revision: u64,
}

/// A bucket whose values are of one type.
pub struct Bucket<T> {
    store: Store,
    name: BucketName,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Bucket<T> {
    fn clone(&self) -> Bucket<T> {
        Bucket {
            store: self.store.clone(),
            name: self.name,
            kind: PhantomData,
        }
    }
}

impl<T: Wire> Bucket<T> {
    pub(crate) fn new(store: Store, name: BucketName) -> Bucket<T> {
        Bucket {
            store,
            name,
            kind: PhantomData,
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The value of a key; `None` when there is none or it was deleted.
    ///
    /// # Errors
    /// When the server does not answer, or the value cannot be read.
    pub async fn get(&self, key: &str) -> Result<Option<Versioned<T>>, BrokerError> {
        kv_operation(self.name.token(), "get");
        let entry = self.store.entry(key).await.map_err(BrokerError::refused)?;
        let Some(entry) = entry.filter(|e| e.operation == Operation::Put && !e.value.is_empty())
        else {
            return Ok(None);
        };
        let value = T::from_wire(entry.value).map_err(BrokerError::Undecodable)?;
        Ok(Some(Versioned {
            value,
            revision: entry.revision,
        }))
    }

    /// Writes a key that must not exist yet.
    ///
    /// # Errors
    /// [`BrokerError::Conflict`] when it does.
    pub async fn create(&self, key: &str, value: &T) -> Result<u64, BrokerError> {
        kv_operation(self.name.token(), "create");
        self.store
            .create(key, value.to_wire())
            .await
            .map_err(|error| {
                use async_nats::jetstream::kv::CreateErrorKind;
                match error.kind() {
                    CreateErrorKind::AlreadyExists => BrokerError::Conflict,
                    _ => BrokerError::refused(error),
                }
            })
    }

    /// Writes over the revision that was read; 0 when nothing was there.
    ///
    /// # Errors
    /// [`BrokerError::Conflict`] when somebody else wrote first.
    pub async fn swap(&self, key: &str, value: &T, revision: u64) -> Result<u64, BrokerError> {
        if revision == 0 {
            return self.create(key, value).await;
        }
        kv_operation(self.name.token(), "update");
        self.store
            .update(key, value.to_wire(), revision)
            .await
            .map_err(|error| {
                use async_nats::jetstream::kv::UpdateErrorKind;
                match error.kind() {
                    UpdateErrorKind::WrongLastRevision => BrokerError::Conflict,
                    UpdateErrorKind::TimedOut => BrokerError::TimedOut,
                    _ => BrokerError::refused(error),
                }
            })
    }

    /// Writes whatever was there.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn put(&self, key: &str, value: &T) -> Result<u64, BrokerError> {
        kv_operation(self.name.token(), "put");
        self.store
            .put(key, value.to_wire())
            .await
            .map_err(BrokerError::refused)
    }

    /// Deletes a key at the revision that was read.
    ///
    /// # Errors
    /// [`BrokerError::Conflict`] when somebody else wrote first.
    pub async fn delete(&self, key: &str, revision: u64) -> Result<(), BrokerError> {
        kv_operation(self.name.token(), "delete");
        let deleted = self.store.delete_expect_revision(key, Some(revision)).await;
        deleted.map_err(BrokerError::refused)
    }

    /// Deletes a key whatever it holds.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn remove(&self, key: &str) -> Result<(), BrokerError> {
        kv_operation(self.name.token(), "delete");
        self.store.delete(key).await.map_err(BrokerError::refused)
    }

    /// All keys that have a value.
    ///
    /// # Errors
    /// When the bucket cannot be read.
    pub async fn keys(&self) -> Result<Vec<String>, BrokerError> {
        kv_operation(self.name.token(), "keys");
        let keys = self.store.keys().await.map_err(BrokerError::refused)?;
        keys.try_collect().await.map_err(BrokerError::refused)
    }

    /// The sequence of the bucket's last change, from the leader of its stream.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn last_revision(&self) -> Result<u64, BrokerError> {
        Ok(self.info().await?.state.last_sequence)
    }

    pub(crate) async fn info(&self) -> Result<Info, BrokerError> {
        let info = self.store.stream.get_info().await;
        info.map_err(BrokerError::refused)
    }

    /// How many keys there are, those that were deleted a moment ago included.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn count(&self) -> Result<u64, BrokerError> {
        let info = self
            .store
            .stream
            .get_info()
            .await
            .map_err(BrokerError::refused)?;
        Ok(info.state.subjects_count)
    }

    /// Removes a key with everything that was remembered of it.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn purge(&self, key: &str) -> Result<(), BrokerError> {
        kv_operation(self.name.token(), "purge");
        self.store.purge(key).await.map_err(BrokerError::refused)
    }
}

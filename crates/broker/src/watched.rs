//! A bucket's contents in memory, kept current by a watch.
//!
//! The hot path looks here and never asks the broker. What makes that safe is the revision:
//! a reader that must not be behind compares it with the bucket's last one, once per batch,
//! and waits for the millisecond that the watch lags.

use crate::codec::Wire;
use crate::error::BrokerError;
use crate::kv::{Bucket, Versioned};
use async_nats::jetstream::kv::{Entry, Operation, Watch};
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

type Contents<T> = BTreeMap<String, Arc<Versioned<T>>>;

/// The watched contents of a bucket.
pub struct Watched<T> {
    bucket: Bucket<T>,
    refresh: Duration,
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    contents: RwLock<Contents<T>>,
    revision: watch::Sender<Option<u64>>,
}

impl<T> Clone for Watched<T> {
    fn clone(&self) -> Watched<T> {
        Watched {
            bucket: self.bucket.clone(),
            refresh: self.refresh,
            shared: self.shared.clone(),
        }
    }
}

/// How often a quiet watch is checked against the bucket where nothing else is said.
const REFRESH: Duration = Duration::from_secs(15);
const RESTART: Duration = Duration::from_millis(200);

impl<T: Wire + Send + Sync + 'static> Watched<T> {
    /// Starts to watch; the contents are there once [`Watched::loaded`] returns.
    #[must_use]
    pub fn start(bucket: Bucket<T>, stop: CancellationToken) -> Watched<T> {
        Watched::checked(bucket, REFRESH, stop)
    }

    /// The same, and a watch that has been quiet for `refresh` is checked against the bucket:
    /// for what must not be missed for longer, whatever became of the watch. It costs one
    /// request for each `refresh`.
    #[must_use]
    pub fn checked(bucket: Bucket<T>, refresh: Duration, stop: CancellationToken) -> Watched<T> {
        let shared = Arc::new(Shared {
            contents: RwLock::default(),
            revision: watch::Sender::new(None),
        });
        let watched = Watched {
            bucket,
            refresh,
            shared,
        };
        let worker = watched.clone();
        tokio::spawn(async move {
            let work = worker.follow();
            tokio::select! { () = stop.cancelled() => {}, () = work => {} }
        });
        watched
    }

    /// The bucket itself.
    #[must_use]
    pub fn bucket(&self) -> &Bucket<T> {
        &self.bucket
    }

    /// The value of a key, as far as the watch has come.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<Versioned<T>>> {
        self.read(|contents| contents.get(key).cloned())
    }

    /// Every entry whose key begins with `prefix`, in the order of the keys.
    #[must_use]
    pub fn with_prefix(&self, prefix: &str) -> Vec<Arc<Versioned<T>>> {
        self.read(|contents| {
            contents
                .range(prefix.to_owned()..)
                .take_while(|(key, _)| key.starts_with(prefix))
                .map(|(_, value)| value.clone())
                .collect()
        })
    }

    /// Every entry with its key.
    #[must_use]
    pub fn all(&self) -> Vec<(String, Arc<Versioned<T>>)> {
        self.read(|contents| {
            contents
                .iter()
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect()
        })
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(BTreeMap::len)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The revision that the contents have reached; 0 before they are loaded.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.shared.revision.borrow().unwrap_or(0)
    }

    /// Whether the contents have been loaded.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.shared.revision.borrow().is_some()
    }

    /// Waits until the contents have been loaded for the first time.
    pub async fn loaded(&self) {
        let mut revision = self.shared.revision.subscribe();
        // The sender lives in `self`, so this cannot fail.
        let _ = revision.wait_for(Option::is_some).await;
    }

    /// Waits until the contents have reached `revision`.
    pub async fn reach(&self, revision: u64) {
        let mut reached = self.shared.revision.subscribe();
        let _ = reached
            .wait_for(|now| now.is_some_and(|now| now >= revision))
            .await;
    }

    /// Waits until the contents hold everything that was written before the call, and returns
    /// their revision.
    ///
    /// # Errors
    /// When the server does not say how far the bucket is.
    pub async fn catch_up(&self) -> Result<u64, BrokerError> {
        let last = self.bucket.last_revision().await?;
        self.reach(last).await;
        Ok(self.revision().max(last))
    }

    /// Told of every change from now on, whichever key it is about.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Option<u64>> {
        self.shared.revision.subscribe()
    }

    /// Puts a value that this process has just written, so that it does not act on the old
    /// one until the watch brings the news.
    pub fn learn(&self, key: &str, value: T, revision: u64) {
        let mut contents = self.shared.contents.write().expect("no reader panics");
        let newer = contents
            .get(key)
            .is_none_or(|have| have.revision < revision);
        if newer {
            contents.insert(key.to_owned(), Arc::new(Versioned { value, revision }));
        }
    }

    fn read<R>(&self, look: impl FnOnce(&Contents<T>) -> R) -> R {
        look(&self.shared.contents.read().expect("no writer panics"))
    }

    async fn follow(&self) {
        let mut failures = 0_u32;
        loop {
            match self.follow_once().await {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures = failures.saturating_add(1);
                    // Once at its beginning, and about once a minute while it lasts.
                    if failures == 1 || failures.is_multiple_of(20) {
                        tracing::warn!(%error, failures, "a watch ended; reading the bucket again");
                    }
                }
            }
            tokio::time::sleep(RESTART * (1 << failures.min(4))).await;
        }
    }

    /// Loads everything, then follows until the watch ends or is found to be behind.
    async fn follow_once(&self) -> Result<(), BrokerError> {
        let info = self.bucket.info().await?;
        let mut watch = self
            .bucket
            .store()
            .watch_with_history(">")
            .await
            .map_err(BrokerError::refused)?;
        let loaded = self.load(&mut watch, info.state.messages > 0).await?;
        let reached = loaded.revision.max(info.state.last_sequence);
        *self.shared.contents.write().expect("no reader panics") = loaded.contents;
        self.shared.revision.send_replace(Some(reached));
        let mut looked = Instant::now();
        loop {
            match tokio::time::timeout(self.refresh, watch.next()).await {
                Ok(Some(Ok(entry))) => self.apply(entry),
                Ok(Some(Err(error))) => return Err(BrokerError::refused(error)),
                Ok(None) => return Ok(()),
                Err(_) if self.is_behind(info.created).await? => return Ok(()),
                Err(_) => looked = Instant::now(),
            }
            if looked.elapsed() > REFRESH {
                if self.is_another(info.created).await? {
                    return Ok(());
                }
                looked = Instant::now();
            }
        }
    }

    /// Whether the bucket has more than the watch has brought, or is not the one that was read.
    async fn is_behind(&self, created: OffsetDateTime) -> Result<bool, BrokerError> {
        let info = self.bucket.info().await?;
        Ok(info.created != created || info.state.last_sequence > self.revision())
    }

    /// Whether the bucket was made anew since it was read: after a server lost its disk the watch
    /// goes on in the new one from where it was in the old one, and no revision tells it.
    async fn is_another(&self, created: OffsetDateTime) -> Result<bool, BrokerError> {
        Ok(self.bucket.info().await?.created != created)
    }

    async fn load(&self, watch: &mut Watch, expect_any: bool) -> Result<Loaded<T>, BrokerError> {
        let mut loaded = Loaded {
            contents: BTreeMap::new(),
            revision: 0,
        };
        if !expect_any {
            return Ok(loaded);
        }
        loop {
            let next = tokio::time::timeout(Duration::from_secs(10), watch.next()).await;
            let entry = match next {
                Ok(Some(entry)) => entry.map_err(BrokerError::refused)?,
                Ok(None) | Err(_) => return Err(BrokerError::TimedOut),
            };
            let last = entry.delta == 0;
            loaded.revision = loaded.revision.max(entry.revision);
            match read_entry(&entry) {
                Change::Set(value) => drop(loaded.contents.insert(entry.key, Arc::new(value))),
                Change::Gone => drop(loaded.contents.remove(&entry.key)),
                Change::Keep => self.keep(&mut loaded.contents, &entry.key),
            }
            if last {
                return Ok(loaded);
            }
        }
    }

    /// A value that this version cannot read must not look like a deletion: what was known of
    /// it stays.
    fn keep(&self, contents: &mut Contents<T>, key: &str) {
        if let Some(known) = self.get(key) {
            contents.insert(key.to_owned(), known);
        }
    }

    fn apply(&self, entry: Entry) {
        let change = read_entry(&entry);
        let mut contents = self.shared.contents.write().expect("no reader panics");
        let newer = contents
            .get(&entry.key)
            .is_none_or(|have| have.revision < entry.revision);
        match change {
            Change::Set(value) if newer => drop(contents.insert(entry.key, Arc::new(value))),
            Change::Gone if newer => drop(contents.remove(&entry.key)),
            _ => {}
        }
        drop(contents);
        self.shared
            .revision
            .send_modify(|now| *now = Some(now.unwrap_or(0).max(entry.revision)));
    }
}

struct Loaded<T> {
    contents: Contents<T>,
    revision: u64,
}

enum Change<T> {
    Set(Versioned<T>),
    Gone,
    Keep,
}

/// An expiry reaches some clients as a put of nothing: an empty value means gone.
fn read_entry<T: Wire>(entry: &Entry) -> Change<T> {
    if entry.operation != Operation::Put || entry.value.is_empty() {
        return Change::Gone;
    }
    match T::from_wire(entry.value.clone()) {
        Ok(value) => Change::Set(Versioned {
            value,
            revision: entry.revision,
        }),
        Err(error) => {
            tracing::error!(bucket = entry.bucket, key = entry.key, %error, "a stored value cannot be read");
            Change::Keep
        }
    }
}

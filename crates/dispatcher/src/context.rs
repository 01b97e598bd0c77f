//! What the attempts of a dispatcher share.

use crate::breakers::Breakers;
use crate::client::Client;
use crate::config::Settings;
use crate::peers::Peers;
use crate::prepared::PreparedCache;
use crate::slots::SlotTable;
use crate::tenants::{TenantTable, default_cap};
use posthorn_broker::{Broker, BrokerError, BucketName, LogReader, StreamName, Versioned, Watched};
use posthorn_delivery::time::millis;
use posthorn_delivery::{Attempt, Endpoint};
use posthorn_egress::EgressPolicy;
use posthorn_lanes::Lanes;
use posthorn_notices::Notices;
use posthorn_runtime::ExitError;
use posthorn_vault::Vault;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub(crate) struct Context {
    pub broker: Broker,
    pub endpoints: Watched<Endpoint>,
    pub breakers: Breakers,
    pub lanes: Lanes,
    pub attempts: LogReader<Attempt>,
    pub client: Client,
    pub egress: EgressPolicy,
    pub prepared: PreparedCache,
    pub slots: SlotTable,
    pub tenants: TenantTable,
    pub peers: Peers,
    pub notices: Notices,
    pub disable_after: Duration,
    near_ms: AtomicU64,
}

impl Context {
    pub async fn open(broker: &Broker, settings: &Settings) -> Result<Arc<Context>, ExitError> {
        let egress = settings
            .egress()
            .map_err(|rule| ExitError::config(anyhow::anyhow!(rule)))?;
        let vault = settings.vault().map_err(ExitError::config)?;
        if vault.sealing_key().is_none() {
            tracing::warn!(
                "POSTHORN_SECRET_KEYS is none or not set: endpoints' secrets are read in plain"
            );
        }
        let client = Client::new(settings, &egress).map_err(ExitError::config)?;
        Context::assemble(broker, settings, egress, client, vault)
            .await
            .map_err(posthorn_wiring::exit_error)
    }

    async fn assemble(
        broker: &Broker,
        settings: &Settings,
        egress: EgressPolicy,
        client: Client,
        vault: Vault,
    ) -> Result<Arc<Context>, BrokerError> {
        // The watches outlive the stop signal: what is in flight still needs them.
        let forever = CancellationToken::new;
        let breakers = broker.bucket(BucketName::Breakers).await?;
        Ok(Arc::new(Context {
            broker: broker.clone(),
            endpoints: Watched::start(broker.bucket(BucketName::Endpoints).await?, forever()),
            breakers: Breakers::new(Watched::start(breakers, forever())),
            lanes: Lanes::open(broker, forever()).await?,
            attempts: broker.log(StreamName::Attempts).await?,
            client,
            egress,
            prepared: PreparedCache::new(vault),
            slots: SlotTable::new(),
            tenants: TenantTable::new(
                settings
                    .tenant_concurrency
                    .unwrap_or_else(|| default_cap(settings.dispatch_concurrency)),
            ),
            peers: Peers::new(broker.bucket(BucketName::Dispatchers).await?),
            notices: Notices::new(broker),
            disable_after: settings.breaker_disable_after,
            near_ms: AtomicU64::new(millis(Broker::near())),
        }))
    }

    pub async fn loaded(&self) {
        tokio::join!(
            self.endpoints.loaded(),
            self.breakers.loaded(),
            self.lanes.watched().loaded(),
        );
    }

    /// Without any key, what is sealed could not be signed, and every delivery would be given up.
    pub fn check_keys(&self) -> Result<(), ExitError> {
        let has_no_keys = self.prepared.vault().sealing_key().is_none();
        let opens = |known: &Versioned<Endpoint>| self.prepared.vault().holds(&known.value);
        if has_no_keys && !self.endpoints.all().iter().all(|(_, known)| opens(known)) {
            return Err(ExitError::config(anyhow::anyhow!(
                "endpoints' secrets are sealed: secret-keys (POSTHORN_SECRET_KEYS) must hold \
                 the keys that ingest has"
            )));
        }
        Ok(())
    }

    /// How soon a retry must be due to wait on the durable.
    pub fn near(&self) -> Duration {
        Duration::from_millis(self.near_ms.load(Ordering::Relaxed))
    }

    pub fn set_near(&self, near: Duration) {
        self.near_ms.store(millis(near), Ordering::Relaxed);
    }
}

//! An installation of processes: a nats-server, the four services, and what steers them.

use super::api::{Api, KEY};
use super::child::{Child, free_address};
use super::until;
use super::usage::Usage;
use crate::bench::failed;
use crate::bench::load::Load;
use crate::bench::stamp::Clock;
use crate::failure::{Failure, chain};
use posthorn_broker::{Broker, ConnectSettings, StreamName, Topology};
use posthorn_nats_server::NatsServer;
use std::net::SocketAddr;
use std::time::Duration;
use tempfile::TempDir;

const ALLOW: &str = "--egress-allow=127.0.0.0/8";
const HTTP: &str = "--egress-allow-http=true";
/// The data goes with the run.
const PLAIN: &str = "--secret-keys=none";
/// Publishes in flight while a backlog is made.
const PIPELINED: usize = 256;
/// A backlog of any size is taken in within so long.
const TAKEN_IN: Duration = Duration::from_secs(300);

/// The installation.
pub(crate) struct Rig {
    pub server: NatsServer,
    pub broker: Broker,
    pub api: Api,
    pub clock: Clock,
    services: Vec<Child>,
    dispatchers: u32,
    addresses: (SocketAddr, SocketAddr),
    payload: u32,
    folder: TempDir,
}

impl Rig {
    /// Starts one with so many dispatchers and one of each other service; payloads have so many
    /// bytes. Returns when all are ready.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn start(dispatchers: u32, payload: u32) -> Result<Rig, Failure> {
        let folder = tempfile::tempdir()
            .map_err(|error| Failure::internal("no folder for the broker's data", &error))?;
        let monitor = free_address()?;
        let server = NatsServer::builder()
            .data_dir(folder.path().join("nats"))
            .config_extra(&format!("http: \"{monitor}\""))
            .start()
            .await
            .map_err(|error| Failure::usage(chain(&error)))?;
        let settings = ConnectSettings::plain(server.client_url(), "posthorn-bench-load");
        let broker = Broker::connect(&settings, Topology::new("posthorn")).await;
        let broker = broker.map_err(failed("connecting to the broker"))?;
        let addresses = (free_address()?, free_address()?);
        let mut rig = Rig {
            api: Api::new(addresses.0, addresses.1, monitor)?,
            server,
            broker,
            clock: Clock::start(),
            services: Vec::new(),
            dispatchers,
            addresses,
            payload,
            folder,
        };
        rig.start_services().await?;
        Ok(rig)
    }

    /// Starts the services.
    ///
    /// # Errors
    /// When one does not become ready.
    pub async fn start_services(&mut self) -> Result<(), Failure> {
        let key = format!("--admin-key={KEY}");
        let listen = |address| format!("--listen={address}");
        let (ingest, admin) = self.addresses;
        let mut plan = vec![
            (
                "ingest",
                vec![
                    listen(ingest),
                    key.clone(),
                    ALLOW.to_owned(),
                    HTTP.to_owned(),
                    PLAIN.to_owned(),
                ],
            ),
            ("scheduler", Vec::new()),
            ("dlq-admin", vec![listen(admin), key]),
        ];
        plan.extend((0..self.dispatchers).map(|_| {
            (
                "dispatcher",
                [ALLOW, HTTP, PLAIN].map(str::to_owned).to_vec(),
            )
        }));
        for (name, flags) in plan {
            let url = self.server.client_url();
            let child = Child::spawn(name, &flags, url, self.folder.path())?;
            self.services.push(child);
        }
        for service in &mut self.services {
            service.ready(self.api.client()).await?;
        }
        Ok(())
    }

    /// Ends the services; what they had to do lies in the broker.
    ///
    /// # Errors
    /// When one does not end.
    pub async fn stop_services(&mut self) -> Result<(), Failure> {
        let ends = std::mem::take(&mut self.services)
            .into_iter()
            .map(Child::stop);
        futures_util::future::try_join_all(ends).await.map(drop)
    }

    /// Ends everything.
    ///
    /// # Errors
    /// When something does not end.
    pub async fn stop(mut self) -> Result<(), Failure> {
        self.stop_services().await?;
        // The folder goes with it anyway; an orderly end only keeps the log quiet.
        let _ = self.server.stop().await;
        Ok(())
    }

    /// A load of one tenant.
    ///
    /// # Errors
    /// When the name cannot be a tenant's.
    pub fn load(&self, tenant: &str) -> Result<Load, Failure> {
        let shape = (self.payload, PIPELINED);
        Load::new(&self.broker, self.clock, tenant, shape)
    }

    /// What all services use together.
    pub fn services(&self) -> Usage {
        Usage::of(self.services.iter().map(Child::pid))
    }

    /// What nats-server uses.
    pub fn nats_server(&self) -> Usage {
        Usage::of([self.server.pid()])
    }

    /// How many messages lie in a stream.
    ///
    /// # Errors
    /// When the broker cannot be asked.
    pub async fn messages(&self, stream: StreamName) -> Result<u64, Failure> {
        let count = self.broker.stream_messages(stream).await;
        count.map_err(failed("looking at a stream"))
    }

    /// Waits until every event that was published has become deliveries.
    ///
    /// # Errors
    /// When that takes minutes.
    pub async fn taken_in(&self) -> Result<(), Failure> {
        until(TAKEN_IN, "all events are fanned out", async || {
            Ok(self.messages(StreamName::Events).await? == 0)
        })
        .await
    }
}

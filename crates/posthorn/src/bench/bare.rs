//! The bare parts: what broker, client and receiver can do without the product between them.

use super::args::BenchArgs;
use super::client::Client;
use super::cpu::Cpu;
use super::failed;
use super::fill::fill;
use super::receiver::Receiver;
use super::report::{Bare, Measured, to_f64};
use crate::failure::Failure;
use futures_util::StreamExt;
use http::Uri;
use posthorn_broker::{Broker, ConnectSettings, Incoming, Topology, Wire};
use posthorn_delivery::Delivery;
use posthorn_nats_server::NatsServer;
use posthorn_runtime::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore};

/// An installation of its own beside the product's, on the same broker.
const PREFIX: &str = "bench-bare";
/// As the dispatcher has it.
const PUMPS: usize = 2;
const STALL: Duration = Duration::from_secs(60);
const DRAIN: Duration = Duration::from_secs(10);

/// What one message is put through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    PostAndAck,
    Ack,
}

/// Measures the bare parts.
///
/// # Errors
/// When the broker refuses, or posts do not arrive.
pub(crate) async fn measure(
    args: &BenchArgs,
    server: &NatsServer,
    receiver: &Receiver,
) -> Result<Bare, Failure> {
    let settings = ConnectSettings::plain(server.client_url(), "posthorn-bench-bare");
    let broker = Broker::connect(&settings, Topology::new(PREFIX)).await;
    let broker = broker.map_err(failed("connecting to the broker"))?;
    let client = Client::new();
    let bench = Bench {
        args,
        server,
        receiver,
        broker,
        client,
    };
    Ok(Bare {
        pull_post_ack: bench.pull(0, Work::PostAndAck).await?,
        fetch_and_ack: bench.pull(1, Work::Ack).await?,
        post: bench.post().await?,
    })
}

struct Bench<'a> {
    args: &'a BenchArgs,
    server: &'a NatsServer,
    receiver: &'a Receiver,
    broker: Broker,
    client: Client,
}

impl Bench<'_> {
    /// Puts every delivery in first, and then measures how they are taken out.
    async fn pull(&self, round: u64, work: Work) -> Result<Measured, Failure> {
        fill(&self.broker, self.args, self.receiver, round).await?;
        self.receiver.reset();
        let uri = self.uri()?;
        let total = self.args.deliveries();
        let progress = Arc::new(Progress::new(total));
        let permits = Arc::new(Semaphore::new(self.args.permits()));
        let shutdown = Shutdown::new();
        let before = Cpu::now(self.server.pid());
        let pumps: Vec<_> = (0..PUMPS)
            .map(|_| {
                let batch = self.args.permits().div_ceil(PUMPS);
                let pump = self
                    .broker
                    .pump_deliveries(permits.clone(), batch, shutdown.token());
                let (tasks, progress) = (shutdown.clone(), progress.clone());
                let (client, uri) = (self.client.clone(), uri.clone());
                tokio::spawn(pump.run(move |pumped| {
                    let (message, permit) = pumped.split();
                    let (client, uri, progress) = (client.clone(), uri.clone(), progress.clone());
                    drop(tasks.spawn(async move {
                        let done = handle(&message, work, &client, &uri).await;
                        progress.one(done);
                        drop(permit);
                    }));
                }))
            })
            .collect();
        progress.wait().await?;
        let cpu = Cpu::now(self.server.pid()).per_ten_thousand(before, total);
        shutdown.trigger();
        shutdown.drain(DRAIN).await;
        for pump in pumps {
            // It ends with the token; a panic of it would have been seen by the count.
            let _ = pump.await;
        }
        progress.check()?;
        let took = progress.took();
        Ok(Measured::new(total, took, cpu))
    }

    fn uri(&self) -> Result<Uri, Failure> {
        let url = self.receiver.url(0);
        url.parse()
            .map_err(|error| Failure::internal("the receiver's URL", &error))
    }

    /// Posts alone, as many at a time.
    async fn post(&self) -> Result<Measured, Failure> {
        self.receiver.reset();
        let total = self.args.deliveries();
        let uri = self.uri()?;
        let before = Cpu::now(self.server.pid());
        let posts = (0..total).map(|_| {
            let (client, uri) = (self.client.clone(), uri.clone());
            let body = self.receiver.payload(self.args.payload);
            tokio::spawn(async move { client.post(&uri, body).await })
        });
        let failed = futures_util::stream::iter(posts)
            .buffer_unordered(self.args.permits())
            .filter(|done| std::future::ready(!matches!(done, Ok(true))))
            .count()
            .await;
        let arrivals = self
            .receiver
            .wait_for(total.saturating_sub(to_u64(failed)))
            .await?;
        let cpu = Cpu::now(self.server.pid()).per_ten_thousand(before, total);
        if failed > 0 {
            return Err(Failure::Internal(format!("{failed} posts failed")));
        }
        Ok(Measured::new(arrivals.count, arrivals.took, cpu))
    }
}

async fn handle(message: &Incoming, work: Work, client: &Client, uri: &Uri) -> bool {
    if work == Work::PostAndAck {
        let Ok(delivery) = Delivery::from_wire(message.payload()) else {
            return false;
        };
        if !client.post(uri, delivery.payload).await {
            return false;
        }
    }
    message.ack().await.is_ok()
}

/// How many messages are done, and when the first and the last were.
struct Progress {
    total: u64,
    begin: Instant,
    done: AtomicU64,
    failed: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    finished: Notify,
}

impl Progress {
    fn new(total: u64) -> Progress {
        Progress {
            total,
            begin: Instant::now(),
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            first: AtomicU64::new(u64::MAX),
            last: AtomicU64::new(0),
            finished: Notify::new(),
        }
    }

    fn one(&self, good: bool) {
        if !good {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        let now = u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.first.fetch_min(now, Ordering::Relaxed);
        self.last.fetch_max(now, Ordering::Relaxed);
        if self.done.fetch_add(1, Ordering::Relaxed) + 1 == self.total {
            self.finished.notify_one();
        }
    }

    /// Waits for the last one, for longer than any machine should take.
    async fn wait(&self) -> Result<(), Failure> {
        let limit = STALL + Duration::from_millis(self.total.saturating_mul(10));
        let waited = tokio::time::timeout(limit, self.finished.notified()).await;
        waited.map_err(|_| {
            let done = self.done.load(Ordering::Relaxed);
            Failure::Internal(format!("only {done} of {} messages came", self.total))
        })
    }

    fn took(&self) -> Duration {
        let (first, last) = (&self.first, &self.last);
        let last = last.load(Ordering::Relaxed);
        Duration::from_nanos(last.saturating_sub(first.load(Ordering::Relaxed)))
    }

    fn check(&self) -> Result<(), Failure> {
        let failed = self.failed.load(Ordering::Relaxed);
        let share = to_f64(failed) / to_f64(self.total).max(1.0);
        match failed {
            0 => Ok(()),
            _ => Err(Failure::Internal(format!(
                "{failed} messages ({:.1} %) could not be handled",
                share * 100.0
            ))),
        }
    }
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

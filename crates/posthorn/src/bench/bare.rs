//! The bare parts: what broker, client and receiver can do without the product between them.

use super::args::BenchArgs;
use super::cpu::Cpu;
use super::failed;
use super::load::{TENANT, TYPE};
use super::receiver::Receiver;
use super::report::{Bare, Measured, to_f64};
use crate::failure::Failure;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::{Broker, ConnectSettings, Incoming, Topology, Wire};
use posthorn_delivery::{
    Delivery, EndpointId, EventId, EventType, Tenant, UnixMillis, delivery::ReleaseMark,
};
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
const PUBLISHED_AT_ONCE: usize = 256;
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
    let client = client()?;
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
    client: reqwest::Client,
}

impl Bench<'_> {
    /// Puts every delivery in first, and then measures how they are taken out.
    async fn pull(&self, round: u64, work: Work) -> Result<Measured, Failure> {
        self.fill(round).await?;
        self.receiver.reset();
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
                let (client, url) = (self.client.clone(), self.receiver.url(0));
                tokio::spawn(pump.run(move |pumped| {
                    let (message, permit) = pumped.split();
                    let (client, url, progress) = (client.clone(), url.clone(), progress.clone());
                    drop(tasks.spawn(async move {
                        let done = handle(&message, work, &client, &url).await;
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

    async fn fill(&self, round: u64) -> Result<(), Failure> {
        let publishes = (0..self.args.deliveries()).map(|n| async move {
            let delivery = self.delivery(round, n);
            let stored = self.broker.publish_delivery(&delivery).await;
            stored.map(drop).map_err(failed("publishing a delivery"))
        });
        futures_util::stream::iter(publishes)
            .buffer_unordered(PUBLISHED_AT_ONCE)
            .try_collect()
            .await
    }

    fn delivery(&self, round: u64, n: u64) -> Delivery {
        let endpoint = n % u64::from(self.args.endpoints);
        let bits = (u128::from(round) << 64) | u128::from(n);
        let now = posthorn_wiring::now();
        Delivery {
            tenant: Tenant::parse(TENANT).expect("the name follows its rule"),
            event_id: EventId::from_bits(bits),
            event_type: EventType::parse(TYPE).expect("the name follows its rule"),
            endpoint_id: EndpointId::from_bits(u128::from(endpoint)),
            payload: self.receiver.payload(self.args.payload),
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
            traceparent: None,
            accepted_at: now,
            event_seq: n,
            config_revision: 0,
            attempt: 1,
            hop: 0,
            stale_retries: 0,
            release: ReleaseMark::default(),
            not_before: now,
            expires_at: UnixMillis(now.0.saturating_add(86_400_000)),
            held: Duration::ZERO,
            replay: None,
            history: Vec::new(),
        }
    }

    /// Posts alone, as many at a time.
    async fn post(&self) -> Result<Measured, Failure> {
        self.receiver.reset();
        let total = self.args.deliveries();
        let url = self.receiver.url(0);
        let before = Cpu::now(self.server.pid());
        let posts = (0..total).map(|_| {
            let (client, url) = (self.client.clone(), url.clone());
            let body = self.receiver.payload(self.args.payload);
            tokio::spawn(async move { post(&client, &url, body).await })
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

async fn handle(message: &Incoming, work: Work, client: &reqwest::Client, url: &str) -> bool {
    if work == Work::PostAndAck {
        let Ok(delivery) = Delivery::from_wire(message.payload()) else {
            return false;
        };
        if !post(client, url, delivery.payload).await {
            return false;
        }
    }
    message.ack().await.is_ok()
}

async fn post(client: &reqwest::Client, url: &str, body: bytes::Bytes) -> bool {
    let request = client
        .post(url)
        .header("content-type", "application/json")
        .body(body);
    let Ok(response) = request.send().await else {
        return false;
    };
    let good = response.status().is_success();
    // Read to its end, or the connection cannot be used again.
    good && response.bytes().await.is_ok()
}

/// The client as the dispatcher has it.
fn client() -> Result<reqwest::Client, Failure> {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .retry(reqwest::retry::never())
        .connect_timeout(Duration::from_secs(10))
        .pool_idle_timeout(Duration::from_secs(4))
        .pool_max_idle_per_host(256)
        .tcp_nodelay(true)
        .build()
        .map_err(|error| Failure::internal("no HTTP client", &error))
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

//! The dispatcher alone, on deliveries that are there already: what policy, signature, record
//! and breaker cost beside the bare loop that pulls, posts and acknowledges the same.

use super::args::BenchArgs;
use super::cpu::Cpu;
use super::failed;
use super::fill::{endpoint_id, fill};
use super::load::TENANT;
use super::receiver::Receiver;
use super::report::Measured;
use crate::failure::Failure;
use posthorn_broker::{Broker, BucketName, ConnectSettings, StreamName, Topology};
use posthorn_delivery::endpoint::{Hidden, StoredSecret};
use posthorn_delivery::{BreakerPolicy, Endpoint, Pattern, RetryPolicy, Tenant, UnixMillis};
use posthorn_nats_server::NatsServer;
use posthorn_runtime::config::SecretsArgs;
use posthorn_runtime::{Readiness, Shutdown};
use std::time::Duration;

/// An installation of its own beside the product's, on the same broker.
const PREFIX: &str = "bench-stage";
const DRAIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// Measures a dispatcher.
///
/// # Errors
/// When it does not start, or deliveries do not arrive.
pub(crate) async fn measure(
    args: &BenchArgs,
    server: &NatsServer,
    receiver: &Receiver,
) -> Result<Measured, Failure> {
    let settings = ConnectSettings::plain(server.client_url(), "posthorn-bench-stage");
    let broker = Broker::connect(&settings, Topology::new(PREFIX)).await;
    let broker = broker.map_err(failed("connecting to the broker"))?;
    put_endpoints(args, receiver, &broker).await?;
    fill(&broker, args, receiver, 2).await?;
    receiver.reset();
    let shutdown = Shutdown::new();
    let before = Cpu::now(server.pid());
    let dispatcher = tokio::spawn(posthorn_dispatcher::serve(
        settings_of(args),
        posthorn_dispatcher::Deps {
            broker: broker.clone(),
            readiness: Readiness::new(),
            drain_timeout: DRAIN,
        },
        shutdown.clone(),
    ));
    let arrivals = receiver.wait_for(args.deliveries()).await?;
    settled(&broker).await?;
    let cpu = Cpu::now(server.pid()).per_ten_thousand(before, arrivals.count);
    shutdown.trigger();
    shutdown.drain(DRAIN).await;
    // Its result is that the arrivals were counted.
    let _ = dispatcher.await;
    Ok(Measured::new(arrivals.count, arrivals.took, cpu))
}

/// The last acknowledgements belong to the cost.
async fn settled(broker: &Broker) -> Result<(), Failure> {
    let mut every = tokio::time::interval(LOOK);
    loop {
        every.tick().await;
        let left = broker.stream_messages(StreamName::Deliveries).await;
        if left.map_err(failed("looking at the stream"))? == 0 {
            return Ok(());
        }
    }
}

fn settings_of(args: &BenchArgs) -> posthorn_dispatcher::Settings {
    posthorn_dispatcher::Settings {
        dispatch_concurrency: args.concurrency,
        // There is but one tenant, and no scheduler to let go what would wait for its seats.
        tenant_concurrency: Some(args.concurrency),
        egress_allow: Some("127.0.0.0/8".to_owned()),
        egress_allow_http: Some(true),
        secrets: SecretsArgs::plain(),
        ..posthorn_dispatcher::Settings::default()
    }
}

async fn put_endpoints(
    args: &BenchArgs,
    receiver: &Receiver,
    broker: &Broker,
) -> Result<(), Failure> {
    let bucket = broker.bucket::<Endpoint>(BucketName::Endpoints).await;
    let bucket = bucket.map_err(failed("opening the endpoints"))?;
    for n in 0..args.endpoints {
        let endpoint = endpoint(args, receiver, n);
        let key = format!("{TENANT}.{}", endpoint.id);
        let put = bucket.put(&key, &endpoint).await;
        put.map_err(failed("storing an endpoint"))?;
    }
    Ok(())
}

fn endpoint(args: &BenchArgs, receiver: &Receiver, n: u32) -> Endpoint {
    let secret = posthorn_signing::Secret::generate(&mut posthorn_runtime::rng::rng());
    Endpoint {
        id: endpoint_id(u64::from(n)),
        tenant: Tenant::parse(TENANT).expect("the name follows its rule"),
        url: Hidden::new(receiver.url(n)),
        event_types: vec![Pattern::all()],
        description: String::new(),
        headers: Vec::new(),
        signatures: vec!["v1".to_owned()],
        secrets: vec![StoredSecret {
            text: Hidden::new(secret.reveal().to_owned()),
            expires_at: None,
        }],
        key_pairs: Vec::new(),
        disabled: None,
        disabled_before: std::time::Duration::ZERO,
        ordering: posthorn_delivery::Ordering::None,
        rate_limit: None,
        max_backlog: posthorn_delivery::endpoint::limits::MAX_BACKLOG,
        retry: RetryPolicy::default(),
        timeout: Duration::from_secs(15),
        max_in_flight: args.concurrency,
        breaker: Some(BreakerPolicy::default()),
        target_epoch: 0,
        created_at: UnixMillis(0),
        updated_at: UnixMillis(0),
    }
}

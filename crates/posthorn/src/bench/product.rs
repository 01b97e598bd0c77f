//! The whole product: four services in this process, events published over NATS.

use super::args::BenchArgs;
use super::cpu::Cpu;
use super::failed;
use super::load::{Load, TENANT};
use super::receiver::Receiver;
use super::report::{Measured, Product};
use crate::dev::{Health, Listeners, Settings, System, ready};
use crate::failure::Failure;
use posthorn_broker::{Broker, ConnectSettings, Topology};
use posthorn_nats_server::NatsServer;
use posthorn_runtime::config::SecretsArgs;
use posthorn_runtime::{ExitError, SecretString, Shutdown};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpListener;

const DRAIN: Duration = Duration::from_secs(10);
const KEY: &str = "bench";
/// Events before the measurement: connections are made, code is paged in.
const WARM_UP: u32 = 200;

/// Measures the product.
///
/// # Errors
/// When a part does not start, or deliveries do not arrive.
pub(crate) async fn measure(
    args: &BenchArgs,
    server: &NatsServer,
    receiver: &Receiver,
) -> Result<Product, Failure> {
    let shutdown = Shutdown::new();
    let own = broker(server, "posthorn-bench-services").await?;
    let listeners = Listeners {
        ingest: free_port().await?,
        admin: free_port().await?,
    };
    let ingest = listeners
        .ingest
        .local_addr()
        .map_err(|error| Failure::internal("a listener has no address", &error))?;
    let system = System::start(settings(args), &own, listeners, Health::new(), &shutdown);
    if !ready(&system.readiness(), &shutdown).await {
        system.ended().await.map_err(|error| stopped(&error))?;
        return Err(Failure::Internal("the services did not start".to_owned()));
    }
    create_endpoints(args, ingest, receiver).await?;
    let publisher = broker(server, "posthorn-bench-load").await?;
    let shape = (args.payload, args.pipelined());
    let mut load = Load::new(&publisher, receiver.clock(), TENANT, shape)?;
    let result = run(args, server, receiver, &mut load).await;
    shutdown.trigger();
    system.ended().await.map_err(|error| stopped(&error))?;
    shutdown.drain(DRAIN).await;
    result
}

async fn run(
    args: &BenchArgs,
    server: &NatsServer,
    receiver: &Receiver,
    load: &mut Load,
) -> Result<Product, Failure> {
    let each = u64::from(args.endpoints);
    receiver.reset();
    let warm_up = WARM_UP.min(args.events);
    load.burst(warm_up).await?;
    receiver.wait_for(u64::from(warm_up) * each).await?;

    receiver.reset();
    let before = Cpu::now(server.pid());
    let (published, arrived) = tokio::join!(
        load.burst(args.events),
        receiver.wait_for(args.deliveries()),
    );
    published?;
    let arrivals = arrived?;
    let cpu = Cpu::now(server.pid()).per_ten_thousand(before, arrivals.count);
    let throughput = Measured::new(arrivals.count, arrivals.took, cpu);

    receiver.reset();
    let sent = args.rate * args.seconds;
    load.steady(args.rate, sent).await?;
    let arrivals = receiver.wait_for(u64::from(sent) * each).await?;
    Ok(Product::new(throughput, args.rate, &arrivals.latencies))
}

fn settings(args: &BenchArgs) -> Settings {
    let key = Some(SecretString::from(KEY.to_owned()));
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let allow = "127.0.0.0/8";
    Settings {
        ingest: posthorn_ingest::Settings {
            listen,
            admin_key: key.clone(),
            egress_allow: allow.to_owned(),
            egress_deny: String::new(),
            egress_allow_http: Some(true),
            egress_ports: "1024-65535".to_owned(),
            max_payload: 256 * 1024,
            key_rate_limit: 0,
            secrets: SecretsArgs::plain(),
        },
        scheduler: posthorn_scheduler::Settings::default(),
        dispatcher: posthorn_dispatcher::Settings {
            dispatch_concurrency: args.concurrency,
            // There is but one tenant.
            tenant_concurrency: Some(args.concurrency),
            egress_allow: Some(allow.to_owned()),
            egress_allow_http: Some(true),
            secrets: SecretsArgs::plain(),
            ..posthorn_dispatcher::Settings::default()
        },
        dlq_admin: posthorn_dlq_admin::Settings {
            listen,
            admin_key: key,
            key_rate_limit: 0,
            ingest_url: None,
        },
        drain_timeout: DRAIN,
    }
}

async fn create_endpoints(
    args: &BenchArgs,
    ingest: SocketAddr,
    receiver: &Receiver,
) -> Result<(), Failure> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(30))
        .build()
        .map_err(|error| Failure::internal("no HTTP client", &error))?;
    for n in 0..args.endpoints {
        // No share of one endpoint is to be the limit: what is measured is the line.
        let endpoint = json!({ "url": receiver.url(n), "max_in_flight": args.concurrency });
        let response = client
            .post(format!("http://{ingest}/v1/tenants/{TENANT}/endpoints"))
            .bearer_auth(KEY)
            .header("content-type", "application/json")
            .body(endpoint.to_string())
            .send()
            .await
            .map_err(|error| Failure::internal("creating an endpoint", &error))?;
        if !response.status().is_success() {
            let status = response.status().as_u16();
            return Err(Failure::Internal(format!(
                "creating an endpoint was answered with {status}"
            )));
        }
    }
    Ok(())
}

async fn broker(server: &NatsServer, name: &str) -> Result<Broker, Failure> {
    let settings = ConnectSettings::plain(server.client_url(), name);
    let connected = Broker::connect(&settings, Topology::new("posthorn")).await;
    connected.map_err(failed("connecting to the broker"))
}

async fn free_port() -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    bound.map_err(|error| Failure::internal("no free port", &error))
}

fn stopped(error: &ExitError) -> Failure {
    Failure::Internal(error.chain())
}

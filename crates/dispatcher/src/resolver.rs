//! Names, resolved and judged in one step: what is returned here is what is dialled, on every
//! connection. A name with any forbidden address is refused as a whole, and so is everything
//! when no answer comes.

use crate::failure::Failed;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hyper_util::client::legacy::connect::dns::Name;
use posthorn_delivery::Failure;
use posthorn_egress::{EgressDenied, EgressPolicy};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower_service::Service;

const LOOKUP: Duration = Duration::from_secs(5);

/// So many addresses of an answer are tried at most. All of them are judged before.
const MAX_DIALLED: usize = 8;

/// Why a name gave no address. The text does not hold the name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResolveError {
    #[error("the name does not resolve")]
    NoAnswer,
    #[error("the name may not be called")]
    Denied(#[source] EgressDenied),
    #[error("there is no socket to ask for the name with")]
    Local,
}

impl ResolveError {
    /// What the record says of it.
    pub fn failed(&self) -> Failed {
        match self {
            ResolveError::NoAnswer => Failure::Dns.into(),
            ResolveError::Denied(rule) => Failed::denied(&rule.of_name()),
            ResolveError::Local => Failure::Local.into(),
        }
    }
}

/// Resolves names and judges the answers.
pub(crate) struct Guard {
    resolver: TokioResolver,
    policy: EgressPolicy,
}

impl Guard {
    pub fn new(servers: &[SocketAddr], policy: EgressPolicy) -> Result<Guard, anyhow::Error> {
        let mut builder = if servers.is_empty() {
            TokioResolver::builder_tokio()?
        } else {
            let servers = servers.iter().map(|server| name_server(*server)).collect();
            let config = ResolverConfig::from_parts(None, Vec::new(), servers);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        };
        builder.options_mut().timeout = Duration::from_secs(2);
        builder.options_mut().attempts = 2;
        // Both kinds are judged: which one connects first is not known beforehand.
        builder.options_mut().ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        Ok(Guard {
            resolver: builder.build()?,
            policy,
        })
    }

    /// Every address of a name, all of them allowed.
    pub async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        let mut addresses = self.lookup(host).await?;
        self.policy
            .check_answer(host, &addresses)
            .map_err(ResolveError::Denied)?;
        addresses.truncate(MAX_DIALLED);
        Ok(addresses)
    }

    async fn lookup(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        if let Ok(literal) = host.trim_matches(['[', ']']).parse() {
            return Ok(vec![literal]);
        }
        // The dot at the end keeps search domains out: what is looked up is what was written.
        let absolute = format!("{}.", host.trim_end_matches('.'));
        let answer = tokio::time::timeout(LOOKUP, self.resolver.lookup_ip(absolute.as_str())).await;
        let found = answer
            .map_err(|_| ResolveError::NoAnswer)?
            .map_err(|error| no_answer(&error))?;
        let addresses: Vec<IpAddr> = found.iter().collect();
        if addresses.is_empty() {
            return Err(ResolveError::NoAnswer);
        }
        Ok(addresses)
    }
}

/// A resolver that could ask nobody for want of a socket says nothing about the name. The
/// library keeps no more of a socket that cannot be had than that there was no connection.
fn no_answer(error: &NetError) -> ResolveError {
    match error {
        NetError::NoConnections => ResolveError::Local,
        NetError::Io(io) if crate::failure::is_local(io) => ResolveError::Local,
        _ => ResolveError::NoAnswer,
    }
}

fn name_server(server: SocketAddr) -> NameServerConfig {
    let mut config = NameServerConfig::udp_and_tcp(server.ip());
    for connection in &mut config.connections {
        connection.port = server.port();
    }
    config
}

/// The guard as the HTTP client calls it.
#[derive(Clone)]
pub(crate) struct GuardedResolver {
    guard: Arc<Guard>,
    /// The operator's own proxy may have a private address.
    proxy_host: Option<String>,
}

type Resolving =
    Pin<Box<dyn Future<Output = Result<std::vec::IntoIter<SocketAddr>, ResolveError>> + Send>>;

impl GuardedResolver {
    pub fn new(guard: Arc<Guard>, proxy_host: Option<String>) -> GuardedResolver {
        GuardedResolver { guard, proxy_host }
    }
}

impl Service<Name> for GuardedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = ResolveError;
    type Future = Resolving;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ResolveError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Resolving {
        let guard = self.guard.clone();
        let trusted = self.proxy_host.as_deref() == Some(name.as_str());
        Box::pin(async move {
            let found = if trusted {
                guard.lookup(name.as_str()).await
            } else {
                guard.resolve(name.as_str()).await
            };
            // The port is the URL's.
            let addresses = found?.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(addresses.collect::<Vec<_>>().into_iter())
        })
    }
}

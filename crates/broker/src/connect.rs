//! The connection, and the check of what answers.

use crate::error::BrokerError;
use async_nats::{ConnectError, ConnectErrorKind, ConnectOptions, rustls};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The oldest nats-server that Posthorn runs on.
pub const MINIMUM_SERVER: (u32, u32, u32) = (2, 12, 0);

/// How to reach NATS.
#[derive(Clone, Debug)]
pub struct ConnectSettings {
    /// Servers of one cluster.
    pub urls: Vec<String>,
    /// A credentials file.
    pub creds: Option<PathBuf>,
    /// A file with an nkey seed.
    pub nkey: Option<PathBuf>,
    /// A certificate authority to trust.
    pub tls_ca: Option<PathBuf>,
    /// A client certificate and its key.
    pub tls_cert: Option<PathBuf>,
    /// The key of the client certificate.
    pub tls_key: Option<PathBuf>,
    /// How long the first connection may take.
    pub timeout: Duration,
    /// What the server lists the connection as. Its first word is also what the connection's
    /// inboxes begin with: `_INBOX_<word>.>` is all that it hears answers on, so that a server
    /// can keep one service from another's.
    pub client_name: String,
}

impl ConnectSettings {
    /// Plain settings for one URL.
    #[must_use]
    pub fn plain(url: &str, client_name: &str) -> ConnectSettings {
        ConnectSettings {
            urls: vec![url.to_owned()],
            creds: None,
            nkey: None,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            timeout: Duration::from_secs(10),
            client_name: client_name.to_owned(),
        }
    }
}

/// How often the connection has been made: whoever waits for an answer over it must ask again
/// when this changes, because what was under way when it broke will not be answered.
#[derive(Clone)]
pub(crate) struct Connections(watch::Receiver<u64>);

impl Connections {
    /// Waits until the connection has been made anew after this call.
    pub async fn renewed(&self) {
        let mut seen = self.0.clone();
        seen.mark_unchanged();
        if seen.changed().await.is_err() {
            // The connection has been closed for good; the caller's own timeout decides.
            std::future::pending::<()>().await;
        }
    }
}

/// How often an idle connection is asked whether it lives.
const PING: Duration = Duration::from_secs(5);

/// Connects, tries again until the timeout, and checks the server's version.
pub(crate) async fn connect(
    settings: &ConnectSettings,
) -> Result<(async_nats::Client, Connections), BrokerError> {
    check_urls(&settings.urls)?;
    let (made, seen) = watch::channel(0);
    let made = Arc::new(made);
    let give_up = tokio::time::Instant::now() + settings.timeout;
    let mut attempt = 0;
    loop {
        let options = options(settings, made.clone()).await?;
        let connected = options.connect(settings.urls.clone()).await;
        let error = match connected {
            Ok(client) => return check_version(client).map(|client| (client, Connections(seen))),
            Err(error) => error,
        };
        if let Some(detail) = refusal(&error) {
            return Err(BrokerError::Settings(detail));
        }
        attempt += 1;
        let wait = reconnect_delay(attempt);
        if tokio::time::Instant::now() + wait >= give_up {
            return Err(BrokerError::Unreachable(error.into()));
        }
        tokio::time::sleep(wait).await;
    }
}

/// Why a server that is there will not take these settings, whenever it is asked. Everything else
/// may pass: a server that starts, a name that is not known yet.
fn refusal(error: &ConnectError) -> Option<String> {
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation => Some("NATS refused the credentials".to_owned()),
        ConnectErrorKind::Authentication => {
            Some("the nkey or the key of the credentials cannot sign".to_owned())
        }
        // The files: one that cannot be read or is no PEM, a key that is not the certificate's.
        ConnectErrorKind::Tls => causes(error).last().map(|cause| format!("TLS: {cause}")),
        _ => tls_alert(error).map(|alert| format!("TLS: {alert}")),
    }
}

/// What the handshake failed with, on either side.
fn tls_alert(error: &ConnectError) -> Option<&rustls::Error> {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>()?.get_ref())
        .find_map(|inner| inner.downcast_ref())
}

fn causes(error: &ConnectError) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let outermost: &(dyn Error + 'static) = error;
    std::iter::successors(Some(outermost), |error| Error::source(*error))
}

/// What the inboxes of a connection of that name begin with: one subject token.
fn inbox_prefix(client_name: &str) -> String {
    let word = client_name.split_whitespace().next().unwrap_or("posthorn");
    let token = word.replace(['.', '*', '>'], "_");
    format!("_INBOX_{token}")
}

/// An address that nobody can connect to is bad configuration and not a server that is away.
/// The text does not repeat it, because it may hold a password.
fn check_urls(urls: &[String]) -> Result<(), BrokerError> {
    for (at, url) in urls.iter().enumerate() {
        let read = url.trim().parse::<async_nats::ServerAddr>();
        if !read.is_ok_and(|address| !address.host().is_empty()) {
            let detail = format!("URL {} is not like nats://host:4222", at + 1);
            return Err(BrokerError::Settings(detail));
        }
    }
    Ok(())
}

async fn options(
    settings: &ConnectSettings,
    made: Arc<watch::Sender<u64>>,
) -> Result<ConnectOptions, BrokerError> {
    let mut options = ConnectOptions::new()
        .name(&settings.client_name)
        .custom_inbox_prefix(inbox_prefix(&settings.client_name))
        .connection_timeout(Duration::from_secs(5))
        // A connection whose other side went away without a word is found out by the third
        // ping without an answer: in a quarter of a minute, not in the default's four minutes.
        .ping_interval(PING)
        // The default doubles to 4 s, which turned a 3 s outage into an 8 s gap.
        .reconnect_delay_callback(reconnect_delay)
        .request_timeout(Some(Duration::from_secs(5)))
        .client_capacity(8192)
        .subscription_capacity(65_536)
        .event_callback(move |event| {
            let made = made.clone();
            async move {
                log_event(&event);
                if matches!(event, async_nats::Event::Connected) {
                    made.send_modify(|times| *times += 1);
                }
            }
        });
    if let Some(in_url) = settings.urls.iter().find_map(|url| UserInfo::of(url)) {
        options = match in_url {
            UserInfo::Token(token) => options.token(token),
            UserInfo::Password(user, password) => options.user_and_password(user, password),
        };
    }
    if let Some(path) = &settings.creds {
        options = options
            .credentials_file(path)
            .await
            .map_err(|error| unusable("creds", &error))?;
    }
    if let Some(path) = &settings.nkey {
        let seed = tokio::fs::read_to_string(path)
            .await
            .map_err(|error| unusable("nkey", &error))?;
        options = options.nkey(seed.trim().to_owned());
    }
    if let Some(path) = &settings.tls_ca {
        options = options
            .add_root_certificates(path.clone())
            .require_tls(true);
    }
    if let (Some(cert), Some(key)) = (&settings.tls_cert, &settings.tls_key) {
        options = options
            .add_client_certificate(cert.clone(), key.clone())
            .require_tls(true);
    }
    Ok(options)
}

/// What a URL says before its host. The client library connects without it.
enum UserInfo {
    Token(String),
    Password(String, String),
}

impl UserInfo {
    fn of(url: &str) -> Option<UserInfo> {
        let address = url.trim().parse::<async_nats::ServerAddr>().ok()?;
        let user = decoded(address.username()?);
        Some(match address.password() {
            Some(password) => UserInfo::Password(user, decoded(password)),
            None => UserInfo::Token(user),
        })
    }
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8_lossy()
        .into_owned()
}

fn unusable(what: &str, error: &std::io::Error) -> BrokerError {
    BrokerError::Settings(format!("{what} file: {error}"))
}

/// Quick at first, half a second to a second after that, never synchronised.
fn reconnect_delay(attempt: usize) -> Duration {
    let base = 50_u64.saturating_mul(1 << attempt.min(4)).min(600);
    let spread = jitter_seed(attempt) % 400;
    Duration::from_millis(base + spread)
}

/// A cheap spread that differs between processes and attempts; it decides nothing but when
/// a client knocks again.
fn jitter_seed(attempt: usize) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_usize(attempt);
    hasher.finish()
}

fn log_event(event: &async_nats::Event) {
    match event {
        async_nats::Event::Connected => tracing::info!("connected to NATS"),
        async_nats::Event::Disconnected => tracing::warn!("disconnected from NATS"),
        async_nats::Event::SlowConsumer(_) => {
            tracing::error!("NATS dropped messages for a slow subscription");
        }
        other => tracing::debug!(event = %other, "NATS connection event"),
    }
}

fn check_version(client: async_nats::Client) -> Result<async_nats::Client, BrokerError> {
    let found = client.server_info().version;
    if parse_version(&found).is_some_and(|version| version >= MINIMUM_SERVER) {
        return Ok(client);
    }
    let (major, minor, patch) = MINIMUM_SERVER;
    Err(BrokerError::TooOld {
        found,
        minimum: format!("{major}.{minor}.{patch}"),
    })
}

fn parse_version(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text.split(['.', '-', '+']).map(str::parse::<u32>);
    Some((
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert_eq!(parse_version("2.15.1"), Some((2, 15, 1)));
        assert_eq!(parse_version("2.12.0-RC.1"), Some((2, 12, 0)));
        assert!(parse_version("2.9.10").unwrap() < MINIMUM_SERVER);
        assert_eq!(parse_version("dev"), None);
    }

    #[test]
    fn a_password_or_a_token_is_read_from_the_url() {
        let Some(UserInfo::Password(user, password)) = UserInfo::of("nats://us%40er:p%2Fw@host")
        else {
            panic!("a user and a password");
        };
        assert_eq!((user.as_str(), password.as_str()), ("us@er", "p/w"));
        let Some(UserInfo::Token(token)) = UserInfo::of(" tls://t0ken@host:4222") else {
            panic!("a token");
        };
        assert_eq!(token, "t0ken");
        assert!(UserInfo::of("nats://host:4222").is_none());
    }

    #[test]
    fn both_connections_of_a_service_have_inboxes_of_its_own() {
        for name in ["posthorn-scheduler", "posthorn-scheduler intake"] {
            assert_eq!(inbox_prefix(name), "_INBOX_posthorn-scheduler");
        }
        assert_eq!(inbox_prefix("a.b*>"), "_INBOX_a_b__");
        assert_eq!(inbox_prefix(""), "_INBOX_posthorn");
    }

    #[test]
    fn reconnects_stay_within_a_second() {
        for attempt in 0..100 {
            assert!(reconnect_delay(attempt) <= Duration::from_secs(1));
        }
    }
}

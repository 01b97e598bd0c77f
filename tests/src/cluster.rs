//! The whole system as processes of its own, in any number of copies, on one nats-server.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::api::Api;
use crate::nats::TestNats;
use crate::process::{Recipe, Service, free_port};

/// The key that may do everything.
pub const ADMIN_KEY: &str = "test-admin-key-0123456789abcdef";
/// The keys that endpoints' secrets are stored under where a test has no others.
pub const SECRET_KEYS: &str = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// How long a service may take until it is ready, on a loaded machine.
const READY: Duration = Duration::from_secs(60);

/// What a process of the system is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The public API.
    Ingest,
    /// Fan-out, timed retries, lanes.
    Scheduler,
    /// Attempts.
    Dispatcher,
    /// Dead letters and the operator's API.
    DlqAdmin,
}

impl Role {
    fn binary(self) -> &'static str {
        match self {
            Self::Ingest => "posthorn-ingest",
            Self::Scheduler => "posthorn-scheduler",
            Self::Dispatcher => "posthorn-dispatcher",
            Self::DlqAdmin => "posthorn-dlq-admin",
        }
    }

    fn listens(self) -> bool {
        matches!(self, Self::Ingest | Self::DlqAdmin)
    }
}

/// Describes a [`Cluster`].
#[derive(Debug, Clone)]
pub struct Builder {
    copies: Vec<(Role, usize)>,
    env: Vec<(String, String)>,
    is_bare: bool,
    nats_config: String,
}

impl Builder {
    /// How many copies of a role there shall be; one of each where nothing is said. With none
    /// of ingest or dlq-admin, that half of the API cannot be used.
    #[must_use]
    pub fn copies(mut self, role: Role, count: usize) -> Self {
        self.copies.retain(|(other, _)| *other != role);
        self.copies.push((role, count));
        self
    }

    /// An environment variable of every process, over the harness's own.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Leaves out what only tests set: how to keep secrets, and that `http` may be called.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.is_bare = true;
        self
    }

    /// Lines added to the configuration of nats-server.
    #[must_use]
    pub fn nats_config(mut self, lines: &str) -> Self {
        self.nats_config.push_str(lines);
        self.nats_config.push('\n');
        self
    }

    /// Starts nats-server and every process, and waits until all are ready.
    ///
    /// # Errors
    /// When one does not become ready; with the end of its output.
    pub async fn start(self) -> Result<Cluster> {
        let nats = TestNats::start_with(&self.nats_config, "").await?;
        let mut cluster = Cluster {
            members: Vec::new(),
            folder: TempDir::with_prefix("posthorn-test-").context("making a folder")?,
            env: self.env,
            is_bare: self.is_bare,
            nats,
        };
        for (role, count) in self.copies {
            for _ in 0..count {
                cluster.spawn(role, &[]).await?;
            }
        }
        for member in &mut cluster.members {
            member.service.wait_ready(READY).await?;
        }
        Ok(cluster)
    }
}

#[derive(Debug)]
struct Member {
    role: Role,
    /// Where it serves its API, if it has one.
    port: Option<u16>,
    service: Service,
}

/// A running system. Dropping it kills every process.
#[derive(Debug)]
pub struct Cluster {
    // Processes before the folder they write into and the broker they use.
    members: Vec<Member>,
    folder: TempDir,
    env: Vec<(String, String)>,
    is_bare: bool,
    /// The broker of all of them.
    pub nats: TestNats,
}

impl Cluster {
    /// One copy of each role, unless told otherwise.
    #[must_use]
    pub fn builder() -> Builder {
        let roles = [
            Role::Ingest,
            Role::Scheduler,
            Role::Dispatcher,
            Role::DlqAdmin,
        ];
        Builder {
            copies: roles.into_iter().map(|role| (role, 1)).collect(),
            env: Vec::new(),
            is_bare: false,
            nats_config: String::new(),
        }
    }

    /// One copy of each role.
    ///
    /// # Errors
    /// When one does not become ready.
    pub async fn start() -> Result<Self> {
        Self::builder().start().await
    }

    /// Adds a copy of a role, with environment variables of its own, and waits until it is
    /// ready. Returns its index among the copies of the role.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn add(&mut self, role: Role, env: &[(&str, &str)]) -> Result<usize> {
        let index = self.spawn(role, env).await?;
        self.service(role, index)?.wait_ready(READY).await?;
        Ok(index)
    }

    /// A copy of a role, by its index in the order of starting.
    ///
    /// # Errors
    /// When there are not so many.
    pub fn service(&mut self, role: Role, index: usize) -> Result<&mut Service> {
        self.members
            .iter_mut()
            .filter(|member| member.role == role)
            .nth(index)
            .map(|member| &mut member.service)
            .with_context(|| format!("there is no {role:?} number {index}"))
    }

    /// How many copies of a role there are, ended ones included.
    #[must_use]
    pub fn count(&self, role: Role) -> usize {
        self.members.iter().filter(|m| m.role == role).count()
    }

    /// Starts a copy again in the same way, killing it if it still runs, and waits until it is
    /// ready.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn restart(&mut self, role: Role, index: usize) -> Result<()> {
        let service = self.service(role, index)?;
        service.restart().await?;
        service.wait_ready(READY).await
    }

    /// A client with the key that may do everything. It knows the copies there are now.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub fn api(&self) -> Result<Api> {
        let admin = self.urls(Role::DlqAdmin).into_iter().next();
        Api::new(
            self.urls(Role::Ingest),
            admin.unwrap_or_default(),
            ADMIN_KEY,
        )
    }

    /// The base URLs of the copies of ingest or dlq-admin.
    #[must_use]
    pub fn urls(&self, role: Role) -> Vec<String> {
        self.members
            .iter()
            .filter(|member| member.role == role)
            .filter_map(|member| member.port)
            .map(|port| format!("http://127.0.0.1:{port}"))
            .collect()
    }

    /// The folder of the processes' output.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What every process wrote so far, for a test that looks for what must not be there.
    #[must_use]
    pub fn output(&self) -> String {
        self.members.iter().map(|m| m.service.output()).collect()
    }

    async fn spawn(&mut self, role: Role, env: &[(&str, &str)]) -> Result<usize> {
        let index = self.count(role);
        let port = role.listens().then(free_port).transpose()?;
        let log = format!("{}-{index}.log", role.binary());
        let mut recipe = Recipe::new(role.binary(), self.folder.path())
            .log(self.folder.path().join(log))
            .ops_port(free_port()?)
            .env("POSTHORN_NATS_URL", self.nats.url())
            .env("POSTHORN_ADMIN_KEY", ADMIN_KEY)
            .env("POSTHORN_EGRESS_ALLOW", "127.0.0.0/8,::1/128");
        if !self.is_bare {
            recipe = recipe
                .env("POSTHORN_SECRET_KEYS", SECRET_KEYS)
                .env("POSTHORN_EGRESS_ALLOW_HTTP", "true");
        }
        if let Some(port) = port {
            recipe = recipe.env("POSTHORN_LISTEN", format!("127.0.0.1:{port}"));
        }
        for (name, value) in &self.env {
            recipe = recipe.env(name, value);
        }
        for (name, value) in env {
            recipe = recipe.env(name, value);
        }
        self.members.push(Member {
            role,
            port,
            service: recipe.spawn().await?,
        });
        Ok(index)
    }
}

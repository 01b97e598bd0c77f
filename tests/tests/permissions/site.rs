//! The whole system on the sample configuration, every process with its own user.

use crate::sample::Sample;
use posthorn_tests::api::Api;
use posthorn_tests::process::{Recipe, Service, free_port};
use std::time::Duration;

pub const SOON: Duration = Duration::from_secs(60);
const KEY: &str = "test-admin-key-0123456789abcdef";
/// What endpoints' secrets are stored under.
const SECRETS: &str = "k1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// The services with the names of their users.
const SERVICES: [(&str, &str); 4] = [
    ("posthorn-ingest", "INGEST"),
    ("posthorn-scheduler", "SCHEDULER"),
    ("posthorn-dispatcher", "DISPATCHER"),
    ("posthorn-dlq-admin", "DLQ_ADMIN"),
];

pub struct Site {
    services: Vec<Service>,
    pub api: Api,
    // After the processes that use it.
    pub sample: Sample,
}

impl Site {
    /// Sets an installation up and starts one of each service.
    pub async fn start() -> Site {
        let sample = Sample::start().await;
        set_up(&sample).await;
        let (ingest, admin) = (free_port().unwrap(), free_port().unwrap());
        let mut services = Vec::new();
        for (binary, user) in SERVICES {
            let recipe = recipe(&sample, binary, user).env("POSTHORN_MANAGE_STREAMS", "false");
            let recipe = match binary {
                "posthorn-ingest" => recipe.env("POSTHORN_LISTEN", format!("127.0.0.1:{ingest}")),
                "posthorn-dlq-admin" => recipe.env("POSTHORN_LISTEN", format!("127.0.0.1:{admin}")),
                _ => recipe,
            };
            services.push(recipe.spawn().await.unwrap());
        }
        for service in &mut services {
            let ready = service.wait_ready(SOON).await;
            ready.unwrap_or_else(|error| panic!("{error:?}\n{:#?}", sample.violations()));
        }
        let url = |port| format!("http://127.0.0.1:{port}");
        Site {
            services,
            api: Api::new(vec![url(ingest)], url(admin), KEY).unwrap(),
            sample,
        }
    }

    /// Ends every service in order, as an operator does.
    pub async fn stop(&mut self) {
        for service in &mut self.services {
            let ended = service.terminate(SOON).await.unwrap();
            assert!(ended.success(), "{}: {}", service.name(), service.output());
        }
    }
}

/// Runs `posthorn setup` as the user that may.
pub async fn set_up(sample: &Sample) {
    let mut setup = recipe(sample, "posthorn", "SETUP")
        .arg("setup")
        .spawn()
        .await
        .unwrap();
    let status = setup.wait_exit(SOON).await.unwrap();
    assert!(status.success(), "{}", setup.output());
}

/// A process of this user.
pub fn recipe(sample: &Sample, binary: &str, user: &str) -> Recipe {
    Recipe::new(binary, sample.folder())
        .ops_port(free_port().unwrap())
        .env("POSTHORN_NATS_URL", sample.url())
        .env("POSTHORN_NATS_NKEY", sample.seed_file(user))
        .env("POSTHORN_ADMIN_KEY", KEY)
        .env("POSTHORN_SECRET_KEYS", SECRETS)
        .env("POSTHORN_EGRESS_ALLOW", "127.0.0.0/8")
        .env("POSTHORN_EGRESS_ALLOW_HTTP", "true")
        .env("POSTHORN_CONNECT_TIMEOUT", "10s")
}

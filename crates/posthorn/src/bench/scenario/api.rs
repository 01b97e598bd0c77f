//! The two HTTP interfaces, as far as a scenario needs them, and the broker's own page of
//! figures.

use crate::failure::Failure;
use reqwest::Method;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// The key that may do everything.
pub(crate) const KEY: &str = "bench";

/// A client of all.
pub(crate) struct Api {
    client: reqwest::Client,
    ingest: SocketAddr,
    admin: SocketAddr,
    monitor: SocketAddr,
}

impl Api {
    /// Of the services at these addresses.
    ///
    /// # Errors
    /// When no HTTP client can be built.
    pub fn new(ingest: SocketAddr, admin: SocketAddr, monitor: SocketAddr) -> Result<Api, Failure> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(180))
            .build()
            .map_err(|error| Failure::internal("no HTTP client", &error))?;
        Ok(Api {
            client,
            ingest,
            admin,
            monitor,
        })
    }

    /// The client itself.
    pub fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// Creates an endpoint; its id.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn endpoint(&self, tenant: &str, document: Value) -> Result<String, Failure> {
        let path = format!("/v1/tenants/{tenant}/endpoints");
        let made = self.ingest(Method::POST, &path, document).await?;
        let id = made["id"].as_str();
        let id = id.ok_or_else(|| Failure::Internal("an endpoint without an id".to_owned()))?;
        Ok(id.to_owned())
    }

    /// Changes an endpoint.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn patch(&self, tenant: &str, id: &str, change: Value) -> Result<(), Failure> {
        let path = format!("/v1/tenants/{tenant}/endpoints/{id}");
        self.ingest(Method::PATCH, &path, change).await.map(drop)
    }

    /// `pause` or `resume`.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn switch(&self, tenant: &str, id: &str, verb: &str) -> Result<(), Failure> {
        let path = format!("/v1/tenants/{tenant}/endpoints/{id}/{verb}");
        self.ingest(Method::POST, &path, json!({})).await.map(drop)
    }

    /// Starts a job that replays the dead letters of a tenant; its id.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn replay(&self, tenant: &str, per_second: u32) -> Result<String, Failure> {
        let asked = json!({ "filter": { "tenant": tenant }, "rate_per_second": per_second });
        let url = format!("http://{}/v1/replays", self.admin);
        let job = self.call(Method::POST, &url, Some(asked)).await?;
        let id = job["id"].as_str();
        let id = id.ok_or_else(|| Failure::Internal("a job without an id".to_owned()))?;
        Ok(id.to_owned())
    }

    /// What dlq-admin answers to a GET.
    ///
    /// # Errors
    /// When it refuses.
    pub async fn admin(&self, path: &str) -> Result<Value, Failure> {
        let url = format!("http://{}{path}", self.admin);
        self.call(Method::GET, &url, None).await
    }

    /// How many letters a purge by this filter would remove.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn purge_counts(&self, filter: Value) -> Result<u64, Failure> {
        let url = format!("http://{}/v1/dead-letters/purge", self.admin);
        let asked = json!({ "filter": filter, "dry_run": true });
        let counted = self.call(Method::POST, &url, Some(asked)).await?;
        Ok(counted["matched"].as_u64().unwrap_or(0))
    }

    /// Messages that clients and nats-server have sent each other since its start.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn broker_messages(&self) -> Result<u64, Failure> {
        let url = format!("http://{}/varz", self.monitor);
        let figures = self.call(Method::GET, &url, None).await?;
        let count = |name: &str| figures[name].as_u64().unwrap_or(0);
        Ok(count("in_msgs") + count("out_msgs"))
    }

    async fn ingest(&self, method: Method, path: &str, body: Value) -> Result<Value, Failure> {
        let url = format!("http://{}{path}", self.ingest);
        self.call(method, &url, Some(body)).await
    }

    async fn call(&self, method: Method, url: &str, body: Option<Value>) -> Result<Value, Failure> {
        let fail = |error: reqwest::Error| Failure::internal("calling a service", &error);
        let mut request = self.client.request(method, url).bearer_auth(KEY);
        if let Some(body) = body {
            let json = "application/json";
            request = request.header("content-type", json).body(body.to_string());
        }
        let answer = request.send().await.map_err(fail)?;
        let status = answer.status();
        let text = answer.text().await.map_err(fail)?;
        if !status.is_success() {
            let text = format!("a service answered with {}: {text}", status.as_u16());
            return Err(Failure::Internal(text));
        }
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }
}

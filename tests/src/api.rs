//! A client of the two HTTP interfaces, for one key.
//!
//! It retries nothing and hides nothing: a test sees the status that came. Bodies are read
//! whole, and as JSON where they are JSON.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use reqwest::{Method, RequestBuilder};
use serde_json::Value;

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body's bytes.
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON, or null.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body as JSON, if the status is 2xx.
    ///
    /// # Errors
    /// With the status and the body, if it is not.
    pub fn success(self) -> Result<Value> {
        ensure!(
            (200..300).contains(&self.status),
            "status {}: {}",
            self.status,
            String::from_utf8_lossy(&self.body)
        );
        Ok(self.json())
    }
}

/// What was answered to an accepted event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The event's id, which is the `webhook-id`.
    pub id: String,
    /// Whether it was already there.
    pub duplicate: bool,
}

/// A client of ingest (any number of copies, asked in turn) and of dlq-admin.
#[derive(Debug)]
pub struct Api {
    client: reqwest::Client,
    ingest: Vec<String>,
    admin: String,
    key: String,
    turn: AtomicUsize,
}

impl Api {
    /// A client of these base URLs, such as `http://127.0.0.1:8080`, with a key.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub fn new(ingest: Vec<String>, admin: String, key: &str) -> Result<Self> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .retry(reqwest::retry::never())
            .timeout(Duration::from_secs(30))
            .build()
            .context("making an HTTP client")?;
        Ok(Self {
            client,
            ingest,
            admin,
            key: key.to_owned(),
            turn: AtomicUsize::new(0),
        })
    }

    /// The same interfaces with another key.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self {
            client: self.client.clone(),
            ingest: self.ingest.clone(),
            admin: self.admin.clone(),
            key: key.to_owned(),
            turn: AtomicUsize::new(0),
        }
    }

    /// A request to ingest, with the key, to be completed and sent by [`send`].
    pub fn ingest(&self, method: Method, path: &str) -> RequestBuilder {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.ingest.len().max(1);
        let base = self.ingest.get(turn).map_or("", String::as_str);
        self.request(method, base, path)
    }

    /// A request to dlq-admin, with the key, to be completed and sent by [`send`].
    pub fn admin(&self, method: Method, path: &str) -> RequestBuilder {
        self.request(method, &self.admin, path)
    }

    fn request(&self, method: Method, base: &str, path: &str) -> RequestBuilder {
        self.client
            .request(method, format!("{base}{path}"))
            .bearer_auth(&self.key)
    }

    /// `GET` of ingest.
    ///
    /// # Errors
    /// When no answer comes.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        send(self.ingest(Method::GET, path)).await
    }

    /// `POST` of JSON to ingest.
    ///
    /// # Errors
    /// When no answer comes.
    pub async fn post(&self, path: &str, json: &Value) -> Result<Answer> {
        send(with_json(self.ingest(Method::POST, path), json)).await
    }

    /// `PATCH` of JSON to ingest.
    ///
    /// # Errors
    /// When no answer comes.
    pub async fn patch(&self, path: &str, json: &Value) -> Result<Answer> {
        send(with_json(self.ingest(Method::PATCH, path), json)).await
    }

    /// `DELETE` of ingest.
    ///
    /// # Errors
    /// When no answer comes.
    pub async fn delete(&self, path: &str) -> Result<Answer> {
        send(self.ingest(Method::DELETE, path)).await
    }

    /// `GET` of dlq-admin.
    ///
    /// # Errors
    /// When no answer comes.
    pub async fn admin_get(&self, path: &str) -> Result<Answer> {
        send(self.admin(Method::GET, path)).await
    }

    /// `POST` of JSON to dlq-admin.
    ///
    /// # Errors
    /// When no answer comes.
    pub async fn admin_post(&self, path: &str, json: &Value) -> Result<Answer> {
        send(with_json(self.admin(Method::POST, path), json)).await
    }

    /// `DELETE` of dlq-admin.
    ///
    /// # Errors
    /// When no answer comes.
    pub async fn admin_delete(&self, path: &str) -> Result<Answer> {
        send(self.admin(Method::DELETE, path)).await
    }

    /// Creates an endpoint of a tenant; returns it as it was answered, with its `id` and, once
    /// only, its `secret`.
    ///
    /// # Errors
    /// When it is not created.
    pub async fn create_endpoint(&self, tenant: &str, endpoint: &Value) -> Result<Value> {
        let path = format!("/v1/tenants/{tenant}/endpoints");
        let answer = self.post(&path, endpoint).await?;
        answer.success().context("creating an endpoint")
    }

    /// Publishes an event whose payload is JSON.
    ///
    /// # Errors
    /// When it is not accepted.
    pub async fn publish(
        &self,
        tenant: &str,
        event_type: &str,
        body: impl Into<Bytes>,
    ) -> Result<Published> {
        accepted(send(self.publishing(tenant, event_type, body)).await?)
    }

    /// Publishes an event with an `Idempotency-Key`.
    ///
    /// # Errors
    /// When it is not accepted.
    pub async fn publish_with_key(
        &self,
        tenant: &str,
        event_type: &str,
        key: &str,
        body: impl Into<Bytes>,
    ) -> Result<Published> {
        let request = self.publishing(tenant, event_type, body);
        accepted(send(request.header("idempotency-key", key)).await?)
    }

    /// The request that publishes an event, for a test that adds to it or looks at refusals.
    pub fn publishing(
        &self,
        tenant: &str,
        event_type: &str,
        body: impl Into<Bytes>,
    ) -> RequestBuilder {
        let path = format!("/v1/tenants/{tenant}/events/{event_type}");
        self.ingest(Method::POST, &path)
            .header("content-type", "application/json")
            .body(body.into())
    }

    /// Every item of a list of dlq-admin, over all its pages. `path` may hold a query.
    ///
    /// # Errors
    /// When a page is not answered, or is not a list.
    pub async fn admin_list(&self, path: &str) -> Result<Vec<Value>> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut request = self.admin(Method::GET, path);
            if let Some(cursor) = &cursor {
                let joint = if path.contains('?') { '&' } else { '?' };
                request = self.admin(Method::GET, &format!("{path}{joint}cursor={cursor}"));
            }
            let page = send(request).await?.success()?;
            let more = page["items"].as_array().context("a list has items")?;
            items.extend(more.iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return Ok(items),
            }
        }
    }
}

/// Sends a request and reads the answer to its end.
///
/// # Errors
/// When no answer comes.
pub async fn send(request: RequestBuilder) -> Result<Answer> {
    let response = request.send().await.context("no answer")?;
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body = response.bytes().await.context("the answer broke off")?;
    Ok(Answer {
        status,
        headers,
        body,
    })
}

fn with_json(request: RequestBuilder, json: &Value) -> RequestBuilder {
    request
        .header("content-type", "application/json")
        .body(json.to_string())
}

fn accepted(answer: Answer) -> Result<Published> {
    let status = answer.status;
    let json = answer.success()?;
    ensure!(status == 202, "an accepted event is 202, not {status}");
    Ok(Published {
        id: json["id"]
            .as_str()
            .context("an event has an id")?
            .to_owned(),
        duplicate: json["duplicate"].as_bool().unwrap_or(false),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Receiver, Reply};

    async fn api_of(receiver: &Receiver) -> Api {
        Api::new(vec![receiver.url("")], receiver.url(""), "key").unwrap()
    }

    #[tokio::test]
    async fn publishing_sends_the_bytes_and_the_key() {
        let receiver = Receiver::start().await.unwrap();
        let path = "/v1/tenants/acme/events/invoice.paid";
        receiver.answer(
            path,
            Reply::status(202).body(r#"{"id":"evt_1","duplicate":true}"#),
        );
        let api = api_of(&receiver).await;
        let published = api
            .publish_with_key("acme", "invoice.paid", "k", "{ \"a\":1}")
            .await
            .unwrap();
        assert_eq!(published.id, "evt_1");
        assert!(published.duplicate);
        let request = &receiver.requests()[0];
        assert_eq!(request.path(), path);
        assert_eq!(request.body().as_ref(), b"{ \"a\":1}");
        assert_eq!(request.header("authorization"), Some("Bearer key"));
        assert_eq!(request.header("idempotency-key"), Some("k"));
    }

    #[tokio::test]
    async fn a_refusal_is_an_error_with_its_status() {
        let receiver = Receiver::start().await.unwrap();
        for status in [200, 403, 503] {
            let path = "/v1/tenants/t/events/x";
            receiver.answer(path, Reply::status(status).body(r#"{"id":"evt_1"}"#));
            let error = api_of(&receiver).await.publish("t", "x", "{}").await;
            assert!(error.unwrap_err().to_string().contains(&status.to_string()));
        }
    }

    #[tokio::test]
    async fn a_list_is_read_over_its_pages() {
        let receiver = Receiver::start().await.unwrap();
        receiver.answer_by("/v1/dead-letters", |request| {
            Reply::ok().body(match request.target() {
                "/v1/dead-letters?tenant=t" => r#"{"items":[1,2],"next_cursor":"c"}"#,
                "/v1/dead-letters?tenant=t&cursor=c" => r#"{"items":[3],"next_cursor":null}"#,
                _ => "{}",
            })
        });
        let api = api_of(&receiver).await;
        let items = api.admin_list("/v1/dead-letters?tenant=t").await.unwrap();
        assert_eq!(items, [json!(1), json!(2), json!(3)]);
        assert!(api.admin_list("/v1/dead-letters").await.is_err());
    }
}

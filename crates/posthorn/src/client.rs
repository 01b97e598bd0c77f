//! One request to one of the services, and what its refusal means for the exit code.

use crate::address::{ConnectArgs, Service};
use crate::failure::{Failure, chain};
use crate::output::{self, Output};
use crate::refusal::refusal;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use serde_json::Value;
use std::time::Duration;
use url::Url;

const CONNECT: Duration = Duration::from_secs(5);
/// A page of the dead letters may walk many, a batch may wait for a broker: longer than either.
const EXCHANGE: Duration = Duration::from_secs(60);
/// The longest answer is a page of 500 letters with their payloads.
const MAX_ANSWER: usize = 512 * 1024 * 1024;

/// A client of the two services.
pub(crate) struct Client {
    http: reqwest::Client,
    connect: ConnectArgs,
    authorization: HeaderValue,
}

/// A request to be made.
#[derive(Clone)]
pub(crate) struct Call {
    service: Service,
    method: Method,
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

/// An answer in the 200s.
pub(crate) struct Reply {
    text: String,
}

impl Call {
    /// A call of `method` on the path that `segments` make; each is one segment, whatever is in
    /// it.
    pub fn new(service: Service, method: Method, segments: &[&str]) -> Call {
        Call {
            service,
            method,
            path: segments.iter().map(|&segment| segment.to_owned()).collect(),
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
        }
    }

    /// With a query parameter, where there is a value for it.
    pub fn query(mut self, name: &'static str, value: Option<impl Into<String>>) -> Call {
        self.query.extend(value.map(|value| (name, value.into())));
        self
    }

    /// With a header.
    pub fn header(mut self, name: &str, value: &str) -> Call {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a body of `content_type`.
    pub fn body(self, content_type: &str, bytes: Vec<u8>) -> Call {
        let mut call = self.header("content-type", content_type);
        call.body = Some(bytes);
        call
    }

    /// With a body in JSON.
    pub fn json(self, value: &Value) -> Call {
        self.body("application/json", value.to_string().into_bytes())
    }

    fn url(&self, base: &Url) -> Result<Url, Failure> {
        let mut url = base.clone();
        let cannot = || Failure::usage("the address of a service must be an http or https URL");
        if !matches!(base.scheme(), "http" | "https") {
            return Err(cannot());
        }
        url.path_segments_mut()
            .map_err(|()| cannot())?
            .pop_if_empty()
            .extend(&self.path);
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        Ok(url)
    }

    fn headers(&self) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let parsed = HeaderName::try_from(name).ok();
            let parsed = parsed.zip(HeaderValue::try_from(value).ok());
            let (name, value) = parsed
                .ok_or_else(|| Failure::usage(format!("{name:?} cannot be sent as a header")))?;
            headers.append(name, value);
        }
        Ok(headers)
    }
}

impl Client {
    /// A client with the key that `connect` names.
    ///
    /// # Errors
    /// [`Failure::Usage`] when there is no key, or one that cannot be sent.
    pub fn new(connect: &ConnectArgs) -> Result<Client, Failure> {
        let key = connect.key()?;
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", key.expose()))
            .map_err(|_| Failure::usage("the API key holds a character that a key cannot"))?;
        authorization.set_sensitive(true);
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT)
            .timeout(EXCHANGE)
            .build()
            .map_err(|error| Failure::internal("no HTTP client", &error))?;
        Ok(Client {
            http,
            connect: connect.clone(),
            authorization,
        })
    }

    /// Makes a call.
    ///
    /// # Errors
    /// [`Failure::Unreachable`] when nobody answers, [`Failure::Refused`] or [`Failure::NotNow`]
    /// with the service's own words when it refuses.
    pub async fn call(&self, call: Call) -> Result<Reply, Failure> {
        let base = self.connect.url(call.service)?;
        let url = call.url(&base)?;
        let mut request = self
            .http
            .request(call.method.clone(), url)
            .headers(call.headers()?)
            .header(reqwest::header::AUTHORIZATION, self.authorization.clone());
        if let Some(body) = call.body {
            request = request.body(body);
        }
        let response = request.send().await.map_err(|e| unreachable(&base, e))?;
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER).cloned();
        let text = read(response).await.map_err(|e| unreachable(&base, e))?;
        if status.is_success() {
            return Ok(Reply { text });
        }
        let after = after.as_ref().and_then(|value| value.to_str().ok());
        Err(refusal(status, after, &text))
    }

    /// Makes a call and prints its answer: as it came, or as `view` shows it.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn show(
        &self,
        call: Call,
        output: Output,
        view: impl FnOnce(&Value) -> String,
    ) -> Result<(), Failure> {
        self.call(call).await?.show(output, view)
    }
}

impl Reply {
    /// The answer as it came.
    pub fn text(&self) -> &str {
        self.text.trim_end()
    }

    /// The answer as one line, for a program that reads line by line.
    pub fn line(&self) -> String {
        match self.text().contains('\n') {
            true => self.json().to_string(),
            false => self.text().to_owned(),
        }
    }

    /// The answer as JSON; null where there was none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// Prints it: as it came, or as `view` shows it.
    ///
    /// # Errors
    /// [`Failure::Closed`].
    pub fn show(&self, output: Output, view: impl FnOnce(&Value) -> String) -> Result<(), Failure> {
        match output {
            Output::Json if self.text().is_empty() => Ok(()),
            Output::Json => output::line(self.text()),
            Output::Table => output::line(&view(&self.json())),
        }
    }
}

async fn read(mut response: reqwest::Response) -> Result<String, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > MAX_ANSWER {
            break;
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn unreachable(base: &Url, error: reqwest::Error) -> Failure {
    let host = base.host_str().unwrap_or_default();
    let port = base.port_or_known_default().unwrap_or_default();
    Failure::Unreachable(format!(
        "{host}:{port} does not answer; is the service running, and is this its address? ({})",
        chain(&error.without_url())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_segment_stays_one_segment() {
        let call = Call::new(
            Service::Ingest,
            Method::GET,
            &["v1", "tenants", "../a?b#c/d"],
        );
        let url = call.url(&base("http://h:1")).unwrap();
        assert_eq!(url.as_str(), "http://h:1/v1/tenants/..%2Fa%3Fb%23c%2Fd");
    }

    #[test]
    fn a_service_may_live_under_a_path() {
        let call = Call::new(Service::Admin, Method::GET, &["v1", "breakers"]);
        let call = call.query("a", Some("x y")).query("b", None::<String>);
        let url = call.url(&base("https://h/posthorn/")).unwrap();
        assert_eq!(url.as_str(), "https://h/posthorn/v1/breakers?a=x+y");
        assert!(call.url(&base("ftp://h/")).is_err());
    }

    #[test]
    fn hdr_01_a_header_that_cannot_be_sent_is_wrong_usage() {
        let call = |value| Call::new(Service::Ingest, Method::POST, &[]).header("x-a", value);
        assert!(call("b").headers().is_ok());
        let refused = call("b\r\nx-c: d").headers();
        assert!(matches!(refused, Err(Failure::Usage(_))));
    }
}

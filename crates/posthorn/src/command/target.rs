//! One endpoint that a command is about.
//!
//! Its tenant is part of its path at the public API. Whoever has an id from a list of the
//! operator's, in the middle of the night, need not know it: the operator's API does.

use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::view::cell;
use clap::Args;
use reqwest::Method;

/// Which endpoint.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The endpoint's id.
    id: String,

    /// Whose it is; looked up at the operator's API where nothing is said.
    #[arg(long, env = "POSTHORN_TENANT")]
    tenant: Option<String>,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// The endpoint, and the way to it.
pub(crate) struct Target {
    /// The client.
    pub client: Client,
    /// The endpoint's id.
    pub id: String,
    tenant: String,
}

impl Target {
    /// The endpoint that is meant.
    ///
    /// # Errors
    /// As [`Client::call`], where its tenant has to be looked up.
    pub async fn of(one: &One) -> Result<Target, Failure> {
        let client = Client::new(&one.connect)?;
        let tenant = match &one.tenant {
            Some(tenant) => tenant.clone(),
            None => owner(&client, &one.id).await?,
        };
        Ok(Target {
            client,
            id: one.id.clone(),
            tenant,
        })
    }

    /// A call of `method` on the endpoint itself, or on what is below it.
    pub fn call(&self, method: Method, below: &[&str]) -> Call {
        let path = [
            &["v1", "tenants", &self.tenant, "endpoints", &self.id],
            below,
        ]
        .concat();
        Call::new(Service::Ingest, method, &path)
    }
}

async fn owner(client: &Client, id: &str) -> Result<String, Failure> {
    let call = Call::new(Service::Admin, Method::GET, &["v1", "endpoints", id]);
    Ok(cell(&client.call(call).await?.json(), "/tenant"))
}

//! `posthorn listen`: a receiver for development.
//!
//! It does what an application should: check the signature and the age, answer quickly, and
//! take each id once. And it can be made to fail, because what happens then is what one wants
//! to see before it happens in production.

mod args;
mod fail;
mod judge;
mod receiver;
mod seen;

pub(crate) use args::ListenArgs;

use crate::failure::{Failure, chain};
use crate::output::{self, Output};
use posthorn_runtime::shutdown::Shutdown;
use receiver::Receiver;
use serde_json::json;
use tokio::net::TcpListener;

/// Receives until interrupted.
pub(crate) async fn run(args: ListenArgs, output: Output) -> Result<(), Failure> {
    let shutdown = Shutdown::on_signals()
        .map_err(|error| Failure::internal("signals cannot be listened for", &error))?;
    let bound = TcpListener::bind(args.listen).await;
    let listener = bound.map_err(|error| {
        let why = chain(&error);
        Failure::usage(format!("cannot listen on {}: {why}", args.listen))
    })?;
    let address = listener
        .local_addr()
        .map_err(|error| Failure::internal("the address is not known", &error))?;
    let url = format!("http://{address}{}", args.path());
    match output {
        Output::Json => output::line(&json!({ "listening": url }).to_string())?,
        Output::Table => output::line(&format!("listening on {url}"))?,
    }
    let receiver = Receiver::new(args, output, shutdown.clone())?;
    let closed = receiver.closed();
    let server = axum::serve(listener, receiver.router())
        .with_graceful_shutdown(async move { shutdown.triggered().await });
    server
        .await
        .map_err(|error| Failure::internal("the receiver stopped", &error))?;
    match closed.load(std::sync::atomic::Ordering::Relaxed) {
        true => Err(Failure::Closed),
        false => Ok(()),
    }
}

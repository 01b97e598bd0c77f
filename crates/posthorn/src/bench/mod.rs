//! `posthorn bench`: what this machine can do, and what the product takes of it.
//!
//! A rate alone says little: it is the machine's as much as the product's. So the bare parts are
//! measured beside it in the same run, on the same broker, receiver and client: a loop that
//! pulls the same messages, posts the same bodies and acknowledges them, with no policy; the
//! fetching and acknowledging alone; the posting alone. What the product costs is the ratio.
//!
//! Load generator and receiver are in this process and share its processor time, in the
//! product's measurement as in the bare ones. [`scenario`] measures something else: properties,
//! each against its bar.

mod args;
mod bare;
mod client;
mod cpu;
mod fill;
mod load;
mod product;
mod receiver;
mod report;
mod scenario;
mod service;
mod stage;
mod stamp;

pub(crate) use args::BenchArgs;
pub(crate) use service::{ServiceArgs, main as service};

use crate::failure::{Failure, chain};
use crate::output::{self, Output};
use posthorn_nats_server::NatsServer;
use posthorn_runtime::config::LogFormat;
use receiver::Receiver;
use report::Report;

/// Measures and prints.
pub(crate) fn main(args: &BenchArgs, output: Output) -> Result<(), Failure> {
    posthorn_runtime::tls::install_crypto_provider();
    let guard = posthorn_runtime::telemetry::init("bench", "error", LogFormat::Text)
        .map_err(|error| Failure::usage(chain(&error)))?;
    posthorn_runtime::metrics::install();
    if cfg!(debug_assertions) {
        output::remark("this is a debug build: the figures say nothing; build with --release");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal("the runtime could not be started", &error))?;
    let shown = match args.scenario.scenario {
        Some(scenario) => {
            let verdict = runtime.block_on(scenario::run(scenario, args));
            verdict.and_then(|verdict| verdict.show(output))
        }
        None => {
            let report = runtime.block_on(measure(args));
            report.and_then(|report| report::show(&report, output))
        }
    };
    runtime.shutdown_background();
    guard.flush(std::time::Duration::from_secs(1));
    shown
}

async fn measure(args: &BenchArgs) -> Result<Report, Failure> {
    let folder = tempfile::tempdir()
        .map_err(|error| Failure::internal("no folder for the broker's data", &error))?;
    let server = NatsServer::builder().data_dir(folder.path()).start().await;
    let mut server = server.map_err(|error| Failure::usage(chain(&error)))?;
    let receiver = Receiver::start()?;
    let product = product::measure(args, &server, &receiver).await?;
    let dispatcher = stage::measure(args, &server, &receiver).await?;
    let bare = bare::measure(args, &server, &receiver).await?;
    // The folder goes with the process anyway; an orderly end only keeps the log quiet.
    let _ = server.stop().await;
    Ok(Report {
        args: args.clone(),
        product,
        dispatcher,
        bare,
    })
}

/// An error from a part that is measured.
fn failed(what: &str) -> impl Fn(posthorn_broker::BrokerError) -> Failure {
    let what = what.to_owned();
    move |error| Failure::internal(&what, &error)
}

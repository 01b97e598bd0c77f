//! The services as processes of their own, out of this one binary.
//!
//! What a bar says of several dispatchers, or of the memory of the services, is only shown by
//! processes that share nothing but NATS. `bench` starts itself again with a verb that nobody
//! types.

use clap::{Args, Subcommand};
use posthorn_runtime::{Shutdown, process};
use std::process::ExitCode;

/// Which service to be.
#[derive(Debug, Args)]
pub(crate) struct ServiceArgs {
    #[command(subcommand)]
    service: Service,
}

#[derive(Debug, Subcommand)]
enum Service {
    Ingest(Box<posthorn_ingest::Config>),
    Scheduler(Box<posthorn_scheduler::Config>),
    Dispatcher(Box<posthorn_dispatcher::Config>),
    DlqAdmin(Box<posthorn_dlq_admin::Config>),
}

/// Is a service, until it is asked to end or whoever started it is gone.
pub(crate) fn main(args: ServiceArgs) -> ExitCode {
    match args.service {
        Service::Ingest(config) => process::run_config("ingest", *config, |config, stop| {
            end_with_parent(&stop);
            posthorn_ingest::run(config, stop)
        }),
        Service::Scheduler(config) => process::run_config("scheduler", *config, |config, stop| {
            end_with_parent(&stop);
            posthorn_scheduler::run(config, stop)
        }),
        Service::Dispatcher(config) => {
            process::run_config("dispatcher", *config, |config, stop| {
                end_with_parent(&stop);
                posthorn_dispatcher::run(config, stop)
            })
        }
        Service::DlqAdmin(config) => process::run_config("dlq-admin", *config, |config, stop| {
            end_with_parent(&stop);
            posthorn_dlq_admin::run(config, stop)
        }),
    }
}

/// The other end of stdin is the parent's: it closes when the parent says so, and also when the
/// parent is killed.
fn end_with_parent(stop: &Shutdown) {
    let stop = stop.clone();
    // The thread is not waited for: it ends with the process at the latest.
    drop(std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        stop.trigger();
    }));
}

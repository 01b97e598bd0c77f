//! Explores what the gate explores, and says how much that was.
#![allow(
    clippy::print_stdout,
    reason = "a command line program reports on its standard output"
)]

use mimalloc::MiMalloc;
use posthorn_model::settings::Settings;
use posthorn_model::{arguments, explore, suite};
use std::process::ExitCode;

/// States are made by one thread and dropped by another, which the system's allocator locks for.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const USAGE: &str = "usage: posthorn-model                      what the gate explores
       posthorn-model <name> [what=n ...]  one of it, with other bounds

  names   closing, settling, ordered-settling, sweeping, takeover, ordered-takeover,
          ordered, unordered
  bounds  schedulers, dispatchers, events, cap, attempts, breaker, each_write,
          sweep (0 never, 1 at rest, 2 always), settles, crashes, failures, lags, expiries, forgets";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.is_empty() {
        return run(&suite::gate());
    }
    match arguments::read(&arguments) {
        Some(settings) => run(&[settings]),
        None => {
            println!("{USAGE}");
            ExitCode::from(64)
        }
    }
}

fn run(explorations: &[Settings]) -> ExitCode {
    let mut whole = true;
    for settings in explorations {
        let report = explore::explore(*settings, 2);
        whole &= report.broken.is_empty();
        println!("{report}");
    }
    match whole {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

//! `posthorn-scheduler`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    posthorn_runtime::process::main_of("scheduler", posthorn_scheduler::run)
}

//! The public API as a process of its own.

use std::process::ExitCode;

// 1.2 times the rate of the system's allocator, measured on the whole line.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    posthorn_runtime::process::main_of("posthorn-ingest", posthorn_ingest::run)
}

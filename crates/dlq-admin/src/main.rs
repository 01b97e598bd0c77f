//! The operator's room as a process.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    posthorn_runtime::process::main_of("dlq-admin", posthorn_dlq_admin::run)
}

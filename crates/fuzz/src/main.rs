//! The engine's program: one for all targets, so that it is linked once. Which target it feeds
//! is said by `POSTHORN_FUZZ_TARGET`.
#![no_main]

use posthorn_fuzz::{Target, find};
use std::sync::LazyLock;

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("POSTHORN_FUZZ_TARGET").unwrap_or_default();
    find(&name).expect("POSTHORN_FUZZ_TARGET names a target of the list")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));

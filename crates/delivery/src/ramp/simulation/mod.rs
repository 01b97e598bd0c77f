//! The ramp before simulated receivers: held to its bars, and beside other laws.
//!
//! `cargo test -p posthorn-delivery ramp::simulation -- --nocapture` prints the figures that
//! `docs/adr/0012-ramp-after-recovery.md` quotes.

mod bars_test;
mod receiver;
mod rival;
mod rival_test;
mod robust_test;
mod world;

//! The public API: it takes events in and manages endpoints.
//!
//! An event is answered with 202 only after the broker has acknowledged it, under an id that a
//! repeat of the same request finds again. An endpoint is checked in every field before it is
//! stored, because whatever is stored is met by a dispatcher that can only fail: a header that
//! cannot be sent, an address that may not be called, a secret that does not decode.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::needless_pass_by_value))]

mod app;
mod config;
mod endpoints;
mod events;
#[doc(hidden)]
pub mod fuzzing;
mod openapi;
mod path;
mod router;
mod run;

pub use app::App;
pub use config::{Config, Settings};
pub use router::{description, router};
pub use run::{Deps, run, serve};

//! The words around the product, held against the product.
//!
//! A document that was true when it was written misleads a year later, and nobody notices. So
//! what can be checked is: the README's commands are run, generated tables are generated again
//! and compared, and names in manifests, alerts and prose are looked up where they are defined.
//!
//! `POSTHORN_BLESS=1 cargo test -p posthorn-tests --test docs` writes the generated parts anew.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "docs/alerts.rs"]
mod alerts;
#[path = "docs/architecture.rs"]
mod architecture;
#[path = "docs/cli.rs"]
mod cli;
#[path = "docs/configuration.rs"]
mod configuration;
#[path = "docs/desk.rs"]
mod desk;
#[path = "docs/evidence.rs"]
mod evidence;
#[path = "docs/help.rs"]
mod help;
#[path = "docs/links.rs"]
mod links;
#[path = "docs/manifests.rs"]
mod manifests;
#[path = "docs/markdown.rs"]
mod markdown;
#[path = "docs/metrics.rs"]
mod metrics;
#[path = "docs/readme.rs"]
mod readme;
#[path = "docs/receivers.rs"]
mod receivers;
#[path = "docs/runbook.rs"]
mod runbook;
#[path = "docs/terminal.rs"]
mod terminal;

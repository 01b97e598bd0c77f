//! Both HTTP interfaces called with whatever their own OpenAPI document permits, and with what
//! it does not: no 5xx, no status and no body that the document does not know, nothing without
//! a key. The calls are schemathesis', on a real `posthorn dev`.
//!
//! `POSTHORN_SURFACE_SECONDS` says how long each interface is called; 40 where it is not set.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "surface/dev.rs"]
mod dev;
#[path = "surface/tool.rs"]
mod tool;

use dev::Dev;

#[tokio::test(flavor = "multi_thread")]
async fn the_public_interface_does_what_its_document_says() {
    let dev = Dev::start().await;
    tool::call(&dev, dev.ingest(), "ingest").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_interface_does_what_its_document_says() {
    let dev = Dev::start().await;
    tool::call(&dev, dev.admin(), "dlq-admin").await;
}

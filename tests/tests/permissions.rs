//! NATS with least privilege: the sample configuration runs as it is, every service works with a
//! user of its own, and nobody can do what is another's. And the ways to connect: TLS, a client
//! certificate, nkeys, credentials of an operator, a password; and what a wrong one leads to.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "permissions/connecting.rs"]
mod connecting;
#[path = "permissions/jwt.rs"]
mod jwt;
#[path = "permissions/line.rs"]
mod line;
#[path = "permissions/publishers.rs"]
mod publishers;
#[path = "permissions/raw.rs"]
mod raw;
#[path = "permissions/sample.rs"]
mod sample;
#[path = "permissions/services.rs"]
mod services;
#[path = "permissions/shutting_out.rs"]
mod shutting_out;
#[path = "permissions/site.rs"]
mod site;

//! The whole system as its users meet it: the real binaries on a real nats-server, driven over
//! HTTP and NATS, judged by what receivers got and what operators are shown.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "system/callers.rs"]
mod callers;
#[path = "system/crashes.rs"]
mod crashes;
#[path = "system/crossing.rs"]
mod crossing;
#[path = "system/dead_letters.rs"]
mod dead_letters;
#[path = "system/egress.rs"]
mod egress;
#[path = "system/endpoints.rs"]
mod endpoints;
#[path = "system/freshness.rs"]
mod freshness;
#[path = "system/health.rs"]
mod health;
#[path = "system/idempotency.rs"]
mod idempotency;
#[path = "system/isolation.rs"]
mod isolation;
#[path = "system/leaks.rs"]
mod leaks;
#[path = "system/limits.rs"]
mod limits;
#[path = "system/lookup.rs"]
mod lookup;
#[path = "system/operational.rs"]
mod operational;
#[path = "system/processes.rs"]
mod processes;
#[path = "system/publishing.rs"]
mod publishing;
#[path = "system/recover.rs"]
mod recover;
#[path = "system/register.rs"]
mod register;
#[path = "system/replays.rs"]
mod replays;
#[path = "system/retention.rs"]
mod retention;
#[path = "system/sealing.rs"]
mod sealing;
#[path = "system/secrecy.rs"]
mod secrecy;
#[path = "system/secrets.rs"]
mod secrets;
#[path = "system/support.rs"]
mod support;
#[path = "system/test_sends.rs"]
mod test_sends;
#[path = "system/traces.rs"]
mod traces;

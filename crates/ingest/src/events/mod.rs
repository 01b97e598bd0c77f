//! Taking events in.

mod accept;
mod batch;
mod batch_call;
mod dedupe;
mod headers;
mod publish_call;

pub(crate) use accept::{Submission, accept, uuid_v7};
pub(crate) use batch::{Form, read as read_batch};
pub(crate) use batch_call::{__path_publish_batch, publish_batch};
pub(crate) use dedupe::DedupeIds;
pub(crate) use headers::traceparent;
pub(crate) use publish_call::{__path_publish, publish};

//! The wire types, generated from `proto/posthorn/v1`.
//!
//! Only `broker::codec` reads or writes them: services work on the domain types of
//! `posthorn-delivery`, which are valid once they exist, whereas a message off the wire may
//! hold anything.

/// Version 1 of the messages.
pub mod v1 {
    #![allow(missing_docs, clippy::all, clippy::pedantic)]
    include!(concat!(env!("OUT_DIR"), "/posthorn.v1.rs"));
}

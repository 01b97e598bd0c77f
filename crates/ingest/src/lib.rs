//! The public API.

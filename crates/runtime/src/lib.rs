//! The scaffolding of a process.

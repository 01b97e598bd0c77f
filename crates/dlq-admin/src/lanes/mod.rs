//! Lanes: seeing them, waking their owners, and putting into them what is sent again.

pub mod list;
pub mod replayed;
pub mod view;
pub mod wake;

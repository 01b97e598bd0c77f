//! The rules, one file for each kind.

pub mod clock;
pub mod edges;
pub mod providers;
pub mod sizes;
pub mod words;
pub mod zones;

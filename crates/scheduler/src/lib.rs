//! Decides when and to whom.

//! Egress policy.

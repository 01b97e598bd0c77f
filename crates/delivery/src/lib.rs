//! Delivery policy: the pure decisions.

//! Counters of what is asked of the broker.

use metrics::counter;

/// A publish that had to be repeated or was refused.
pub(crate) fn publish_failure() {
    counter!("posthorn_broker_publish_failures_total").increment(1);
}

/// A key-value operation; a healthy delivery makes none, and a test counts.
pub(crate) fn kv_operation(bucket: &'static str, operation: &'static str) {
    counter!("posthorn_kv_operations_total", "bucket" => bucket, "op" => operation).increment(1);
}

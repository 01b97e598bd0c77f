//! Message ids that two tenants could both choose.
//!
//! NATS compares `Nats-Msg-Id` over all tenants, so an id that does not begin with its tenant may
//! shut out another tenant's event, which nobody then sees. Each is counted; the log has one line
//! a minute about all of them, because a publisher that does it does it with every event.

use metrics::counter;
use posthorn_delivery::Tenant;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

const QUIET: Duration = Duration::from_secs(60);

/// What has been met, and when it was last said.
#[derive(Debug, Default)]
pub(crate) struct Unscoped(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    at: Option<Instant>,
    since: u64,
}

impl Unscoped {
    /// Counts `id` where it does not begin with its tenant, and warns where it is time to.
    pub fn look(&self, tenant: &Tenant, id: &str) {
        if is_scoped(tenant, id) {
            return;
        }
        counter!("posthorn_unscoped_message_ids_total").increment(1);
        let mut told = self.0.lock().expect("no holder panics");
        if let Some(ids) = told.meet(Instant::now()) {
            tracing::warn!(
                %tenant,
                ids,
                "a Nats-Msg-Id does not begin with its tenant and a colon: NATS compares ids over \
                 all tenants, so another tenant's event may be taken for a repeat of this one"
            );
        }
    }
}

impl Told {
    /// How many there were since the last line, where another line is due.
    fn meet(&mut self, now: Instant) -> Option<u64> {
        self.since += 1;
        if self.at.is_some_and(|at| now.duration_since(at) < QUIET) {
            return None;
        }
        self.at = Some(now);
        Some(std::mem::take(&mut self.since))
    }
}

fn is_scoped(tenant: &Tenant, id: &str) -> bool {
    id.strip_prefix(tenant.as_str())
        .is_some_and(|rest| rest.starts_with(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn js_10_an_id_is_scoped_by_its_whole_tenant_and_a_colon() {
        let tenant = Tenant::parse("acme").unwrap();
        for scoped in ["acme:1", "acme:", "acme:a:b"] {
            assert!(is_scoped(&tenant, scoped), "{scoped}");
        }
        for other in ["1", "acme", "acme-1", "acmes:1", "Acme:1", ":acme", ""] {
            assert!(!is_scoped(&tenant, other), "{other}");
        }
    }

    #[test]
    fn one_line_a_minute_tells_how_many_there_were() {
        let start = Instant::now();
        let mut told = Told::default();
        assert_eq!(told.meet(start), Some(1));
        for second in 1..60 {
            assert_eq!(told.meet(start + Duration::from_secs(second)), None);
        }
        assert_eq!(told.meet(start + QUIET), Some(60));
        assert_eq!(told.meet(start + QUIET), None);
    }
}

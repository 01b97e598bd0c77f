//! Names of streams, subjects, buckets and consumers, derived from the installation's prefix.

use posthorn_delivery::ids::hash128;
use posthorn_delivery::{EndpointId, EventId, EventType, LaneId, LetterId, Reason, Tenant};

/// The streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamName {
    /// Intake: what is not yet fanned out.
    Events,
    /// The republished copy of EVENTS.
    Archive,
    /// What may be attempted now.
    Deliveries,
    /// What waits for a time.
    Retries,
    /// The log of every attempt.
    Attempts,
    /// What was given up.
    Dlq,
    /// One small entry for each death, by which letters are found.
    Register,
    /// What waits for an endpoint that may not be sent to freely.
    Lanes,
    /// One token for each active lane.
    Tokens,
    /// Who asked for which administrative act.
    Audit,
}

impl StreamName {
    /// All of them.
    pub const ALL: [StreamName; 10] = [
        StreamName::Events,
        StreamName::Archive,
        StreamName::Deliveries,
        StreamName::Retries,
        StreamName::Attempts,
        StreamName::Dlq,
        StreamName::Register,
        StreamName::Lanes,
        StreamName::Tokens,
        StreamName::Audit,
    ];

    /// As a subject token.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            StreamName::Events => "events",
            StreamName::Archive => "archive",
            StreamName::Deliveries => "deliveries",
            StreamName::Retries => "retries",
            StreamName::Attempts => "attempts",
            StreamName::Dlq => "dlq",
            StreamName::Register => "register",
            StreamName::Lanes => "lanes",
            StreamName::Tokens => "tokens",
            StreamName::Audit => "audit",
        }
    }
}

/// The key-value buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BucketName {
    /// Endpoint configurations.
    Endpoints,
    /// Circuit breakers.
    Breakers,
    /// Live dispatchers.
    Dispatchers,
    /// Idempotency keys of the last 24 hours.
    Idempotency,
    /// Replay jobs.
    Replays,
    /// Active lanes.
    Lanes,
    /// API keys.
    Keys,
}

impl BucketName {
    /// All of them.
    pub const ALL: [BucketName; 7] = [
        BucketName::Endpoints,
        BucketName::Breakers,
        BucketName::Dispatchers,
        BucketName::Idempotency,
        BucketName::Replays,
        BucketName::Lanes,
        BucketName::Keys,
    ];

    /// In lower case.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            BucketName::Endpoints => "endpoints",
            BucketName::Breakers => "breakers",
            BucketName::Dispatchers => "dispatchers",
            BucketName::Idempotency => "idempotency",
            BucketName::Replays => "replays",
            BucketName::Lanes => "lanes",
            BucketName::Keys => "keys",
        }
    }
}

/// The durable that fans events out.
pub const FANOUT: &str = "fanout";
/// The durable that attempts deliveries.
pub const DISPATCH: &str = "dispatch";
/// The durable that waits for what is due soon.
pub const RETRY_NEAR: &str = "retry-near";
/// The durable over TOKENS.
pub const TOKENS: &str = "tokens";
/// How many shards the attempts of one endpoint are spread over: the attempts of one event are
/// found by reading one shard of each endpoint, at a bounded number of subjects.
pub const ATTEMPT_SHARDS: u32 = 64;

/// Derives every name from the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    prefix: String,
}

impl Names {
    /// Names under `prefix`, which the configuration has checked.
    #[must_use]
    pub fn new(prefix: &str) -> Names {
        Names {
            prefix: prefix.to_owned(),
        }
    }

    /// The prefix.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A stream's name.
    #[must_use]
    pub fn stream(&self, stream: StreamName) -> String {
        format!("{}_{}", self.prefix, stream.token()).to_uppercase()
    }

    /// A bucket's name.
    #[must_use]
    pub fn bucket(&self, bucket: BucketName) -> String {
        format!("{}_{}", self.prefix, bucket.token()).to_uppercase()
    }

    /// Everything that a stream stores.
    #[must_use]
    pub fn all_of(&self, stream: StreamName) -> String {
        format!("{}.{}.>", self.prefix, stream.token())
    }

    /// Where an event is published.
    #[must_use]
    pub fn event(&self, tenant: &Tenant, event_type: &EventType) -> String {
        format!("{}.events.{tenant}.{event_type}", self.prefix)
    }

    /// The archived events of a tenant whose type matches `pattern`.
    #[must_use]
    pub fn archived(&self, tenant: &Tenant, pattern: &str) -> String {
        format!("{}.archive.{tenant}.{pattern}", self.prefix)
    }

    /// The filter of all events.
    #[must_use]
    pub fn events_all(&self) -> String {
        format!("{}.events.>", self.prefix)
    }

    /// The tenant and type of an event's subject, in EVENTS or ARCHIVE, as they stand there.
    #[must_use]
    pub fn parse_event<'a>(&self, subject: &'a str) -> Option<(&'a str, &'a str)> {
        let rest = subject
            .strip_prefix(self.prefix.as_str())?
            .strip_prefix('.')?;
        let rest = rest
            .strip_prefix("events.")
            .or_else(|| rest.strip_prefix("archive."))?;
        rest.split_once('.')
    }

    /// Where a delivery is published.
    #[must_use]
    pub fn delivery(&self, endpoint: &EndpointId) -> String {
        format!("{}.deliveries.{endpoint}", self.prefix)
    }

    /// What is due within minutes.
    #[must_use]
    pub fn retry_near(&self) -> String {
        format!("{}.retries.near", self.prefix)
    }

    /// What is due in an hour of the calendar, counted from the Unix epoch.
    #[must_use]
    pub fn retry_far(&self, hour: i64) -> String {
        format!("{}.retries.far.{hour}", self.prefix)
    }

    /// All of the calendar.
    #[must_use]
    pub fn retry_far_all(&self) -> String {
        format!("{}.retries.far.*", self.prefix)
    }

    /// The hour of a calendar subject.
    #[must_use]
    pub fn parse_far_hour(&self, subject: &str) -> Option<i64> {
        subject
            .strip_prefix(self.prefix.as_str())?
            .strip_prefix(".retries.far.")?
            .parse()
            .ok()
    }

    /// The durable of an hour of the calendar.
    #[must_use]
    pub fn far_consumer(hour: i64) -> String {
        format!("retry-far-{hour}")
    }

    /// Where the attempts of an event for an endpoint are logged.
    #[must_use]
    pub fn attempt(&self, tenant: &Tenant, endpoint: &EndpointId, event: &EventId) -> String {
        format!(
            "{}.attempts.{tenant}.{endpoint}.{}",
            self.prefix,
            shard(event)
        )
    }

    /// The attempts for an endpoint.
    #[must_use]
    pub fn attempts_of_endpoint(&self, tenant: &str, endpoint: &str) -> String {
        format!("{}.attempts.{tenant}.{endpoint}.*", self.prefix)
    }

    /// Where to look for the attempts of an event; `*` for any tenant.
    #[must_use]
    pub fn attempts_of_event(&self, tenant: &str, event: &EventId) -> String {
        format!("{}.attempts.{tenant}.*.{}", self.prefix, shard(event))
    }

    /// The attempts of a tenant; `*` for any.
    #[must_use]
    pub fn attempts_of_tenant(&self, tenant: &str) -> String {
        format!("{}.attempts.{tenant}.>", self.prefix)
    }

    /// The subject of what waits in a lane.
    #[must_use]
    pub fn lane(&self, lane: &LaneId) -> String {
        format!("{}.lanes.{lane}", self.prefix)
    }

    /// The subject of a lane's token.
    #[must_use]
    pub fn token(&self, lane: &LaneId) -> String {
        format!("{}.tokens.{lane}", self.prefix)
    }

    /// The lane of a subject of LANES or TOKENS.
    #[must_use]
    pub fn parse_lane(&self, subject: &str) -> Option<LaneId> {
        let rest = subject
            .strip_prefix(self.prefix.as_str())?
            .strip_prefix('.')?;
        let key = rest
            .strip_prefix("lanes.")
            .or_else(|| rest.strip_prefix("tokens."))?;
        LaneId::parse(key)
    }

    /// Where an act is logged. What is of no tenant in particular has `_` in its place, which
    /// no tenant can be called.
    #[must_use]
    pub fn audit(&self, tenant: Option<&Tenant>, action: &EventType) -> String {
        let tenant = tenant.map_or("_", Tenant::as_str);
        format!("{}.audit.{tenant}.{action}", self.prefix)
    }

    /// The acts of a tenant; `None` for those of all.
    #[must_use]
    pub fn audit_of(&self, tenant: Option<&Tenant>) -> String {
        let tenant = tenant.map_or("*", Tenant::as_str);
        format!("{}.audit.{tenant}.>", self.prefix)
    }

    /// Where a letter is kept. What never came to an endpoint has `_` in its place, and so
    /// has a tenant that is none.
    #[must_use]
    pub fn letter(&self, tenant: &str, endpoint: Option<&EndpointId>, letter: &LetterId) -> String {
        let tenant = if Tenant::parse_any(tenant).is_ok() {
            tenant
        } else {
            "_"
        };
        let endpoint = endpoint.map_or("_", EndpointId::as_str);
        format!("{}.dlq.{tenant}.{endpoint}.{letter}", self.prefix)
    }

    /// The letters of a tenant and an endpoint; `*` for any.
    #[must_use]
    pub fn letters(&self, tenant: &str, endpoint: &str) -> String {
        format!("{}.dlq.{tenant}.{endpoint}.*", self.prefix)
    }

    /// Where the deaths for an endpoint of one reason are registered; as in [`Names::letter`].
    #[must_use]
    pub fn entry(&self, tenant: &str, endpoint: Option<&EndpointId>, reason: Reason) -> String {
        let tenant = if Tenant::parse_any(tenant).is_ok() {
            tenant
        } else {
            "_"
        };
        self.entries(
            tenant,
            endpoint.map_or("_", EndpointId::as_str),
            reason.as_str(),
        )
    }

    /// The deaths of a tenant, an endpoint and a reason; `*` for any.
    #[must_use]
    pub fn entries(&self, tenant: &str, endpoint: &str, reason: &str) -> String {
        format!("{}.register.{tenant}.{endpoint}.{reason}", self.prefix)
    }

    /// All letters of a tenant; `*` for any.
    #[must_use]
    pub fn letters_of(&self, tenant: &str) -> String {
        format!("{}.dlq.{tenant}.>", self.prefix)
    }

    /// The tenant of a letter's subject, as it stands there.
    #[must_use]
    pub fn parse_letter_tenant<'a>(&self, subject: &'a str) -> Option<&'a str> {
        let rest = subject.strip_prefix(self.prefix.as_str())?;
        let rest = rest.strip_prefix(".dlq.")?;
        rest.split('.').next()
    }

    /// Where to find a letter by its id.
    #[must_use]
    pub fn letter_by_id(&self, tenant: &str, letter: &LetterId) -> String {
        format!("{}.dlq.{tenant}.*.{letter}", self.prefix)
    }
}

fn shard(event: &EventId) -> u32 {
    let bits = hash128("attempt-shard", &[event.as_str().as_bytes()]);
    u32::try_from(bits % u128::from(ATTEMPT_SHARDS)).unwrap_or(0)
}

/// The hour of the calendar that a time falls into.
#[must_use]
pub fn hour_of(at: posthorn_delivery::UnixMillis) -> i64 {
    at.0.div_euclid(3_600_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_contract() {
        let names = Names::new("posthorn");
        let streams: Vec<String> = StreamName::ALL.iter().map(|s| names.stream(*s)).collect();
        assert_eq!(streams[0], "POSTHORN_EVENTS");
        assert_eq!(names.bucket(BucketName::Breakers), "POSTHORN_BREAKERS");
        let tenant = Tenant::parse("acme").unwrap();
        let subject = names.event(&tenant, &EventType::parse("invoice.paid").unwrap());
        assert_eq!(subject, "posthorn.events.acme.invoice.paid");
        assert_eq!(names.parse_event(&subject), Some(("acme", "invoice.paid")));
        assert_eq!(
            names.parse_event("posthorn.archive.acme.a.b"),
            Some(("acme", "a.b"))
        );
        assert_eq!(names.parse_event("posthornx.events.acme.a"), None);
        assert_eq!(
            names.parse_far_hour(&names.retry_far(477_000)),
            Some(477_000)
        );
    }

    #[test]
    fn dlq_05_the_acts_of_a_tenant_are_under_its_name_only() {
        let names = Names::new("p");
        let (acme, action) = (
            Tenant::parse("acme").unwrap(),
            EventType::parse("key.revoke"),
        );
        let action = action.unwrap();
        assert_eq!(names.audit(Some(&acme), &action), "p.audit.acme.key.revoke");
        assert_eq!(names.audit(None, &action), "p.audit._.key.revoke");
        assert_eq!(names.audit_of(Some(&acme)), "p.audit.acme.>");
        assert_eq!(names.audit_of(None), "p.audit.*.>");
        assert!(Tenant::parse_any("_").is_err());
    }

    #[test]
    fn hdr_05_a_letter_of_an_impossible_tenant_stays_one_token() {
        let names = Names::new("p");
        let letter = LetterId::of_unreadable("EVENTS", 1, 2);
        assert_eq!(
            names.letter("a.b", None, &letter),
            format!("p.dlq._._.{letter}")
        );
        assert_eq!(
            names.entry("a.b", None, Reason::InvalidEvent),
            "p.register._._.invalid_event"
        );
    }
}

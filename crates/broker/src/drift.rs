//! How far what is there differs from what should be.

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::stream::Config;
use std::fmt;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Which stream, bucket or consumer.
    pub object: String,
    /// Which of its settings.
    pub setting: &'static str,
    /// What it is.
    pub found: String,
    /// What it should be.
    pub wanted: String,
    /// Whether it has been set right.
    pub repaired: bool,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Drift {
            object,
            setting,
            found,
            wanted,
            ..
        } = self;
        write!(f, "{object}: {setting} is {found} and should be {wanted}")
    }
}

/// Settings that a stream keeps from its creation on. Where one of them differs, nothing is
/// changed.
pub(crate) const FIXED_SETTINGS: [&str; 2] = ["retention", "storage"];

/// Settings that a server takes back from no stream that was once given them.
pub(crate) const STAYING_SETTINGS: [&str; 3] =
    ["allow_msg_ttl", "allow_msg_schedules", "allow_msg_counter"];

pub(crate) fn stream_drifts(found: &Config, wanted: &Config) -> Vec<Drift> {
    let pairs = settings(found).into_iter().zip(settings(wanted));
    pairs
        .filter(|((_, found), (_, wanted))| found != wanted)
        .map(|((setting, found), (_, should_be))| Drift {
            object: wanted.name.clone(),
            setting,
            found,
            wanted: should_be,
            repaired: false,
        })
        .collect()
}

/// What we set, as text. The last five are what a message's headers may do to a stream: whoever
/// may publish one event could remove all others by a rollup, or have his own expire unseen,
/// where one of them is on.
fn settings(config: &Config) -> [(&'static str, String); 16] {
    let republish = config.republish.as_ref();
    let republish = republish.map(|to| format!("{} to {}", to.source, to.destination));
    [
        ("retention", format!("{:?}", config.retention)),
        ("storage", format!("{:?}", config.storage)),
        ("subjects", config.subjects.join(",")),
        ("discard", format!("{:?}", config.discard)),
        ("max_age", format!("{:?}", config.max_age)),
        ("max_bytes", config.max_bytes.to_string()),
        (
            "max_msgs_per_subject",
            config.max_messages_per_subject.to_string(),
        ),
        (
            "discard_new_per_subject",
            config.discard_new_per_subject.to_string(),
        ),
        ("duplicate_window", format!("{:?}", config.duplicate_window)),
        ("replicas", config.num_replicas.to_string()),
        ("republish", republish.unwrap_or_default()),
        ("allow_rollup_hdrs", config.allow_rollup.to_string()),
        ("allow_atomic", config.allow_atomic_publish.to_string()),
        ("allow_msg_ttl", config.allow_message_ttl.to_string()),
        (
            "allow_msg_schedules",
            config.allow_message_schedules.to_string(),
        ),
        (
            "allow_msg_counter",
            config.allow_message_counter.to_string(),
        ),
    ]
}

/// What is there, with our settings in it: an operator's placement or compression stays.
pub(crate) fn merged(found: Config, wanted: Config) -> Config {
    Config {
        subjects: wanted.subjects,
        discard: wanted.discard,
        max_age: wanted.max_age,
        max_bytes: wanted.max_bytes,
        max_messages_per_subject: wanted.max_messages_per_subject,
        discard_new_per_subject: wanted.discard_new_per_subject,
        duplicate_window: wanted.duplicate_window,
        num_replicas: wanted.num_replicas,
        republish: wanted.republish,
        allow_rollup: wanted.allow_rollup,
        allow_atomic_publish: wanted.allow_atomic_publish,
        allow_direct: true,
        ..found
    }
}

pub(crate) fn consumer_drifts(
    name: &str,
    found: &async_nats::jetstream::consumer::Config,
    wanted: &pull::Config,
) -> Vec<Drift> {
    let pairs = [
        (
            "ack_wait",
            format!("{:?}", found.ack_wait),
            format!("{:?}", wanted.ack_wait),
        ),
        (
            "max_deliver",
            found.max_deliver.to_string(),
            wanted.max_deliver.to_string(),
        ),
        (
            "max_ack_pending",
            found.max_ack_pending.to_string(),
            wanted.max_ack_pending.to_string(),
        ),
        (
            "filter_subject",
            found.filter_subject.clone(),
            wanted.filter_subject.clone(),
        ),
        ("backoff", format!("{:?}", found.backoff), "[]".to_owned()),
    ];
    pairs
        .into_iter()
        .filter(|(_, found, wanted)| found != wanted)
        .map(|(setting, found, wanted)| Drift {
            object: name.to_owned(),
            setting,
            found,
            wanted,
            repaired: false,
        })
        .collect()
}

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

/// Settings that a stream keeps from its creation on.
pub(crate) const FIXED_SETTINGS: [&str; 2] = ["retention", "storage"];

pub(crate) fn stream_drifts(found: &Config, wanted: &Config) -> Vec<Drift> {
    let mut drifts = Vec::new();
    let mut compare = |setting, found_value: String, wanted_value: String| {
        if found_value != wanted_value {
            let (found, wanted_text) = (found_value, wanted_value);
            let object = wanted.name.clone();
            drifts.push(Drift {
                object,
                setting,
                found,
                wanted: wanted_text,
                repaired: false,
            });
        }
    };
    let republish = |config: &Config| {
        config.republish.as_ref().map_or_else(String::new, |to| {
            format!("{} to {}", to.source, to.destination)
        })
    };
    compare(
        "retention",
        format!("{:?}", found.retention),
        format!("{:?}", wanted.retention),
    );
    compare(
        "storage",
        format!("{:?}", found.storage),
        format!("{:?}", wanted.storage),
    );
    compare(
        "subjects",
        found.subjects.join(","),
        wanted.subjects.join(","),
    );
    compare(
        "discard",
        format!("{:?}", found.discard),
        format!("{:?}", wanted.discard),
    );
    compare(
        "max_age",
        format!("{:?}", found.max_age),
        format!("{:?}", wanted.max_age),
    );
    compare(
        "max_bytes",
        found.max_bytes.to_string(),
        wanted.max_bytes.to_string(),
    );
    compare(
        "max_msgs_per_subject",
        found.max_messages_per_subject.to_string(),
        wanted.max_messages_per_subject.to_string(),
    );
    compare(
        "discard_new_per_subject",
        found.discard_new_per_subject.to_string(),
        wanted.discard_new_per_subject.to_string(),
    );
    compare(
        "duplicate_window",
        format!("{:?}", found.duplicate_window),
        format!("{:?}", wanted.duplicate_window),
    );
    compare(
        "replicas",
        found.num_replicas.to_string(),
        wanted.num_replicas.to_string(),
    );
    compare("republish", republish(found), republish(wanted));
    drifts
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

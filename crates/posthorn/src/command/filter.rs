//! Which dead letters are meant: the same flags for the list, the replay and the purge, so that
//! what was seen in the list is what the other two touch.

use crate::instant::Moment;
use clap::Args;
use posthorn_delivery::UnixMillis;
use serde_json::{Map, Value, json};

/// Which dead letters.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Filter")]
pub(crate) struct FilterArgs {
    /// Of this tenant.
    #[arg(long)]
    tenant: Option<String>,

    /// Of this endpoint.
    #[arg(long, value_name = "ID")]
    endpoint: Option<String>,

    /// Of this event type; NATS wildcards are understood.
    #[arg(long = "type", value_name = "PATTERN")]
    event_type: Option<String>,

    /// That died for this reason, such as exhausted.
    #[arg(long)]
    reason: Option<String>,

    /// Whose last attempt was answered with this HTTP status.
    #[arg(long)]
    status: Option<u16>,

    /// With this in an error, in the detail or in what the receiver answered; upper and lower
    /// case are the same.
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,

    /// That died at this time or later: RFC 3339, or how long ago, like 2h.
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    since: Option<Moment>,

    /// That died before this time.
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    until: Option<Moment>,
}

impl FilterArgs {
    /// What is said, by the names of the API.
    pub fn fields(&self, now: UnixMillis) -> Vec<(&'static str, String)> {
        let moment = |moment: Option<Moment>| moment.map(|at| at.to_rfc3339(now));
        let fields = [
            ("tenant", self.tenant.clone()),
            ("endpoint", self.endpoint.clone()),
            ("type", self.event_type.clone()),
            ("reason", self.reason.clone()),
            ("status", self.status.map(|status| status.to_string())),
            ("text", self.text.clone()),
            ("since", moment(self.since)),
            ("until", moment(self.until)),
        ];
        let said = fields.into_iter();
        said.filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    /// The same as JSON.
    pub fn to_json(&self, now: UnixMillis) -> Value {
        let mut object = Map::new();
        for (name, value) in self.fields(now) {
            object.insert(name.to_owned(), json!(value));
        }
        if let Some(status) = self.status {
            object.insert("status".to_owned(), json!(status));
        }
        Value::Object(object)
    }

    /// Whether every letter would be meant.
    pub fn is_empty(&self) -> bool {
        self.fields(UnixMillis(0)).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        filter: FilterArgs,
    }

    #[test]
    fn a_filter_has_the_names_and_types_of_the_api() {
        let args = [
            "x",
            "--tenant",
            "t",
            "--endpoint",
            "ep_1",
            "--type",
            "a.*",
            "--reason",
            "gone",
            "--status",
            "500",
            "--text",
            "Busy",
            "--since",
            "1h",
            "--until",
            "2030-01-01T00:00:00Z",
        ];
        let filter = Only::try_parse_from(args).unwrap().filter;
        let now = UnixMillis(1_700_000_000_000);
        let wanted = json!({
            "tenant": "t", "endpoint": "ep_1", "type": "a.*", "reason": "gone", "status": 500,
            "text": "Busy", "since": "2023-11-14T21:13:20.000Z", "until": "2030-01-01T00:00:00.000Z",
        });
        assert_eq!(filter.to_json(now), wanted);
        assert!(!filter.is_empty());
    }

    #[test]
    fn nothing_said_is_an_empty_filter() {
        assert!(FilterArgs::default().is_empty());
        assert_eq!(FilterArgs::default().to_json(UnixMillis(0)), json!({}));
    }
}

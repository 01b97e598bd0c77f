//! Jobs: how one is shown, and following it to its end, with a bar where somebody watches.
//!
//! The job runs in the service: whoever interrupts this command has only stopped watching.

use super::listing::Patience;
use crate::address::Service;
use crate::client::{Call, Client, Reply};
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::view::cell;
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Method;
use serde_json::Value;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(300);

/// Waits until the job has ended and prints what it came to.
///
/// # Errors
/// [`Failure::Refused`] when it ended otherwise than completed.
pub(crate) async fn follow(client: &Client, id: &str, output: Output) -> Result<(), Failure> {
    let bar = output::is_watched(output).then(|| {
        output::remark(&format!("{id}: Ctrl-C stops the watching and not the job"));
        bar()
    });
    let mut every = tokio::time::interval(EVERY);
    let mut patience = Patience::default();
    loop {
        every.tick().await;
        let reply = match client.call(show(id)).await {
            Ok(reply) => reply,
            Err(failure) => {
                patience.bear(failure)?;
                continue;
            }
        };
        patience.is_well();
        let job = reply.json();
        if let Some(bar) = &bar {
            bar.set_length(number(&job, "/matched"));
            bar.set_position(done(&job));
            bar.set_message(cell(&job, "/state"));
        }
        if is_over(&job) {
            if let Some(bar) = bar {
                bar.finish_and_clear();
            }
            return end(&reply, &cell(&job, "/state"), output);
        }
    }
}

/// The call that shows a job.
pub(crate) fn show(id: &str) -> Call {
    Call::new(Service::Admin, Method::GET, &["v1", "replays", id])
}

fn end(reply: &Reply, state: &str, output: Output) -> Result<(), Failure> {
    reply.show(output, |job| {
        let (replayed, matched) = (cell(job, "/replayed"), cell(job, "/matched"));
        let (id, skipped) = (cell(job, "/id"), cell(job, "/skipped"));
        if job.pointer("/recovery/dry_run") == Some(&Value::Bool(true)) {
            return format!("{matched} would be sent");
        }
        format!("{id} {state}: {replayed} of {matched} sent again, {skipped} skipped")
    })?;
    match state {
        "completed" => Ok(()),
        other => Err(Failure::refused(format!("the job is {other}"))),
    }
}

/// Whether nothing more will happen to a job.
pub(crate) fn is_over(job: &Value) -> bool {
    let state = job.get("state").and_then(Value::as_str).unwrap_or_default();
    matches!(state, "completed" | "cancelled" | "failed")
}

/// How far a job is: what is dealt with of what matched.
pub(crate) fn share(job: &Value) -> String {
    let (done, matched) = (done(job), number(job, "/matched"));
    if job.pointer("/recovery/counted") == Some(&Value::Bool(false)) {
        return format!("{done} so far, not counted yet");
    }
    match (done * 100).checked_div(matched) {
        Some(percent) => format!("{done} of {matched} ({percent} %)"),
        None => "0 of 0 (100 %)".to_owned(),
    }
}

fn done(job: &Value) -> u64 {
    number(job, "/replayed") + number(job, "/skipped")
}

fn number(job: &Value, pointer: &str) -> u64 {
    job.pointer(pointer)
        .and_then(Value::as_u64)
        .unwrap_or_default()
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {per_sec} eta {eta} {msg}");
    let bar = ProgressBar::no_length();
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn how_far_a_job_is_counts_what_was_skipped() {
        let job = json!({"matched": 200, "replayed": 40, "skipped": 10});
        assert_eq!(share(&job), "50 of 200 (25 %)");
        assert_eq!(share(&json!({"matched": 0})), "0 of 0 (100 %)");
        let uncounted = json!({"matched": 0, "recovery": {"counted": false}});
        assert_eq!(share(&uncounted), "0 so far, not counted yet");
    }

    #[test]
    fn only_an_ended_job_is_over() {
        for (state, over) in [
            ("running", false),
            ("paused", false),
            ("completed", true),
            ("cancelled", true),
        ] {
            assert_eq!(is_over(&json!({"state": state})), over, "{state}");
        }
    }
}

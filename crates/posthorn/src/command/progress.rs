//! Following a replay job to its end, with a bar where somebody watches.
//!
//! The job runs in the service: whoever interrupts this command has only stopped watching.

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
    let bar = output::is_watched(output).then(bar);
    let mut every = tokio::time::interval(EVERY);
    loop {
        every.tick().await;
        let path = ["v1", "replays", id];
        let reply = client
            .call(Call::new(Service::Admin, Method::GET, &path))
            .await?;
        let job = reply.json();
        if let Some(bar) = &bar {
            bar.set_length(number(&job, "/matched"));
            bar.set_position(done(&job));
            bar.set_message(cell(&job, "/state"));
        }
        match cell(&job, "/state").as_str() {
            "running" | "paused" => {}
            state => {
                if let Some(bar) = bar {
                    bar.finish_and_clear();
                }
                return end(&reply, state, output);
            }
        }
    }
}

fn end(reply: &Reply, state: &str, output: Output) -> Result<(), Failure> {
    reply.show(output, |job| {
        let (replayed, matched) = (cell(job, "/replayed"), cell(job, "/matched"));
        let (id, skipped) = (cell(job, "/id"), cell(job, "/skipped"));
        format!("{id} {state}: {replayed} of {matched} sent again, {skipped} skipped")
    })?;
    match state {
        "completed" => Ok(()),
        other => Err(Failure::refused(format!("the job is {other}"))),
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
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {per_sec} {msg}");
    let bar = ProgressBar::no_length();
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

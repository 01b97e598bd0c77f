//! What a page costs among a million dead letters and as many attempts, against the same page
//! among a thousand.
//!
//! The first thousand are special: a tenth of them, the oldest of all, are the only ones of their
//! endpoint and of their reason. So "the same page" is to be found under a thousand times as many
//! others, which is the hardest place for it. Everything is published as the services would
//! publish it, and asked for over HTTP.

mod fill;

use super::rig::Rig;
use super::stats::median;
use super::{Plan, Verdict, watch};
use crate::failure::Failure;
use fill::{COMMON, Fill, OLDEST};
use posthorn_delivery::UnixMillis;
use posthorn_http_api::time::to_rfc3339;
use serde_json::json;
use std::time::{Duration, Instant};

/// What is there when a page is measured for comparison.
const FEW: u32 = 1_000;
/// How much longer a page may take.
const BAR: f64 = 10.0;
/// Between the few and the many.
const NOTHING_COMES: Duration = Duration::from_secs(3);
/// Times that a page is asked for.
const SAMPLES: u32 = 31;
/// The same of one without a bar, which may take seconds.
const FEWER_SAMPLES: u32 = 5;

/// A page to ask for.
struct Page {
    what: &'static str,
    path: String,
    /// It has a bar; the others show what is bounded and not indexed.
    barred: bool,
}

/// What a page took.
#[derive(Clone, Copy)]
struct Took {
    /// The first time, with whatever the broker had to fetch from the disk.
    first: Duration,
    /// The median of the rest.
    then: Duration,
    items: u64,
    complete: bool,
}

/// Runs it.
///
/// # Errors
/// When a part does not start, or the broker refuses.
pub(crate) async fn run(plan: &Plan<'_>) -> Result<Verdict, Failure> {
    let letters = plan.queued(1_000_000).max(2 * FEW);
    let attempts = plan.args.attempts.unwrap_or(1_000_000).max(2 * FEW);
    let samples = plan.args.samples.unwrap_or(SAMPLES).max(2);
    let settings = vec![
        ("letters", letters.to_string()),
        ("attempts", attempts.to_string()),
        ("compared with", FEW.to_string()),
        ("times that each page is asked for", samples.to_string()),
        ("bytes of a payload", plan.payload.to_string()),
    ];
    let mut verdict = Verdict::begin(&plan.name, settings);
    let rig = plan.rig(1).await?;
    let fill = Fill::new(plan.payload, FEW / 10);
    fill.letters(&rig, 0..FEW).await?;
    fill.attempts(&rig, 0..FEW).await?;
    let pages = pages(&fill, posthorn_wiring::now());
    let mut few = Vec::new();
    for page in &pages {
        few.push(ask(&rig, page, samples).await?);
    }
    // What comes within this after the time that is asked for is looked at first.
    watch(NOTHING_COMES).await;
    let begun = Instant::now();
    fill.letters(&rig, FEW..letters).await?;
    fill.attempts(&rig, FEW..attempts).await?;
    verdict.figure("filling took, s", begun.elapsed().as_secs().to_string());
    for (page, few) in pages.iter().zip(few) {
        let many = ask(&rig, page, samples).await?;
        judge(&mut verdict, page, few, many);
    }
    for (what, filter) in [
        (
            "of the oldest endpoint",
            json!({ "endpoint": fill::endpoint(OLDEST).to_string() }),
        ),
        (
            "of one endpoint of nine",
            json!({ "endpoint": fill::endpoint(COMMON).to_string() }),
        ),
        ("of the tenant", json!({ "tenant": fill::TENANT })),
    ] {
        let begun = Instant::now();
        let count = rig.api.purge_counts(filter).await?;
        let took = begun.elapsed().as_secs_f64();
        verdict.figure(
            format!("purge of letters {what}, dry run"),
            format!("{took:.2} s for {count}"),
        );
    }
    rig.stop().await?;
    Ok(verdict)
}

fn pages(fill: &Fill, until: UnixMillis) -> Vec<Page> {
    let mut pages = of_letters(until);
    pages.extend(of_attempts(fill, until));
    pages
}

fn barred(what: &'static str, path: String) -> Page {
    Page {
        what,
        path,
        barred: true,
    }
}

fn shown(what: &'static str, path: String) -> Page {
    Page {
        what,
        path,
        barred: false,
    }
}

fn of_letters(until: UnixMillis) -> Vec<Page> {
    let (common, oldest) = (fill::endpoint(COMMON), fill::endpoint(OLDEST));
    let until = to_rfc3339(until);
    let page = |query: &str| format!("/v1/dead-letters?limit=100{query}");
    let count = |query: &str| format!("/v1/dead-letters/count?{query}");
    vec![
        barred("letters", page("")),
        barred(
            "letters, one endpoint of nine",
            page(&format!("&endpoint={common}")),
        ),
        barred(
            "letters, the oldest endpoint",
            page(&format!("&endpoint={oldest}")),
        ),
        barred(
            "letters, one reason of nine",
            page("&reason=permanent_status"),
        ),
        barred("letters, the oldest reason", page("&reason=gone")),
        barred("letters, before a time", page(&format!("&until={until}"))),
        barred(
            "letters, endpoint and time",
            page(&format!("&endpoint={common}&until={until}")),
        ),
        barred("letters, one type of nine", page("&type=invoice.paid.3")),
        shown(
            "letters, text of the oldest",
            page("&text=gone%20for%20good"),
        ),
        shown("letters, type of the oldest", page("&type=invoice.oldest")),
        barred(
            "letters of an endpoint counted",
            count(&format!("endpoint={common}")),
        ),
        shown("letters of a type counted", count("type=invoice.paid.3")),
    ]
}

fn of_attempts(fill: &Fill, until: UnixMillis) -> Vec<Page> {
    let (common, oldest) = (fill::endpoint(COMMON), fill::endpoint(OLDEST));
    let until = to_rfc3339(until);
    let page = |query: &str| format!("/v1/attempts?limit=100{query}");
    let event = |n: u32| format!("/v1/deliveries?event={}", fill.event(n));
    vec![
        barred("attempts", page("")),
        barred(
            "attempts, one endpoint of nine",
            page(&format!("&endpoint={common}")),
        ),
        barred(
            "attempts, the oldest endpoint",
            page(&format!("&endpoint={oldest}")),
        ),
        barred("attempts, before a time", page(&format!("&until={until}"))),
        barred("attempts, one status of nine", page("&status=404")),
        shown("attempts, status of the oldest", page("&status=410")),
        shown("deliveries of an event", event(FEW / 2)),
        shown(
            "deliveries of an event whose id is a hash",
            event(FEW / 2 + 1),
        ),
    ]
}

async fn ask(rig: &Rig, page: &Page, samples: u32) -> Result<Took, Failure> {
    let mut all = Vec::new();
    let mut last = serde_json::Value::Null;
    let samples = match page.barred {
        true => samples,
        false => samples.min(FEWER_SAMPLES),
    };
    for _ in 0..samples {
        let begun = Instant::now();
        last = rig.api.admin(&page.path).await?;
        all.push(begun.elapsed());
    }
    let rest = all[1..].iter().map(Duration::as_secs_f64);
    Ok(Took {
        first: all[0],
        then: Duration::from_secs_f64(median(rest)),
        items: last["count"].as_u64().unwrap_or(0),
        complete: last["complete"].as_bool().unwrap_or(true),
    })
}

fn judge(verdict: &mut Verdict, page: &Page, few: Took, many: Took) {
    let ratio = many.then.as_secs_f64() / few.then.as_secs_f64();
    let millis = |took: Duration| took.as_secs_f64() * 1_000.0;
    let cut = if many.complete { "" } else { ", cut off" };
    let seen = format!(
        "{:.1} -> {:.1} ms ({ratio:.1} times; first {:.1} -> {:.1} ms; {} items{cut})",
        millis(few.then),
        millis(many.then),
        millis(few.first),
        millis(many.first),
        many.items,
    );
    match page.barred {
        true => {
            // A count counts more.
            let same = many.items == few.items || !page.path.contains("limit=");
            let kept = ratio <= BAR && many.complete && same;
            verdict.check(page.what, format!("{BAR} times"), seen, kept);
        }
        false => verdict.figure(page.what, seen),
    }
}

use std::collections::HashSet;

use super::names::{ALL, Kind};
use super::*;

#[test]
fn names_follow_the_convention_and_are_unique() {
    let unique: HashSet<_> = ALL.iter().map(|metric| metric.name).collect();
    assert_eq!(unique.len(), ALL.len());
    for metric in ALL {
        assert!(metric.name.starts_with("posthorn_"), "{}", metric.name);
        let total = metric.name.ends_with("_total");
        assert_eq!(total, metric.kind == Kind::Counter, "{}", metric.name);
        if metric.kind == Kind::Histogram {
            assert!(metric.name.ends_with("_seconds"), "{}", metric.name);
        }
    }
}

#[test]
fn no_metric_has_a_label_that_customers_choose() {
    for label in ALL.iter().flat_map(|metric| metric.labels) {
        assert!(!["tenant", "endpoint", "event", "type"].contains(label));
    }
}

#[test]
fn histograms_have_buckets_that_fit_what_they_measure() {
    let recorder = recorder().unwrap();
    metrics::with_local_recorder(&recorder, || {
        metrics::histogram!(names::ATTEMPT_DURATION_SECONDS).record(0.3);
        metrics::histogram!(names::DELIVERY_LATENCY_SECONDS).record(5_000.0);
    });
    let text = recorder.handle().render();
    for line in [
        "posthorn_attempt_duration_seconds_bucket{le=\"0.25\"} 0",
        "posthorn_attempt_duration_seconds_bucket{le=\"0.5\"} 1",
        "posthorn_delivery_latency_seconds_bucket{le=\"1800\"} 0",
        "posthorn_delivery_latency_seconds_bucket{le=\"7200\"} 1",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
}

#[test]
fn what_begins_is_at_zero_before_anything_happens() {
    let recorder = recorder().unwrap();
    metrics::with_local_recorder(&recorder, || {
        metrics::counter!(names::LANE_RELEASES_TOTAL).increment(3);
        begin_at_zero(&[
            names::EVENTS_ACCEPTED_TOTAL,
            names::LANE_RELEASES_TOTAL,
            names::IN_FLIGHT,
            names::DELIVERY_LATENCY_SECONDS,
            names::DEAD_LETTERS_TOTAL,
        ]);
    });
    let text = recorder.handle().render();
    for line in [
        "posthorn_events_accepted_total 0",
        "posthorn_lane_releases_total 3",
        "posthorn_in_flight 0",
        "posthorn_delivery_latency_seconds_bucket{le=\"86400\"} 0",
        "posthorn_delivery_latency_seconds_count 0",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
    // A series without the labels that the others have would be counted beside them.
    assert!(!text.contains("posthorn_dead_letters_total"), "{text}");
}

#[test]
fn what_is_recorded_is_rendered_with_its_help_and_installing_twice_is_harmless() {
    install();
    metrics::counter!(names::DEAD_LETTERS_TOTAL, "reason" => "expired").increment(2);
    install();
    let text = render();
    let help = "# HELP posthorn_dead_letters_total Deliveries given up, by reason.";
    assert!(text.contains(help), "{text}");
    let sample = "posthorn_dead_letters_total{reason=\"expired\"} 2";
    assert!(text.contains(sample), "{text}");
}

#[tokio::test(start_paused = true)]
async fn upkeep_ends_with_the_drain() {
    let shutdown = Shutdown::new();
    let upkeep = spawn_upkeep(shutdown.clone());
    tokio::time::advance(UPKEEP_EVERY * 3).await;
    assert!(!upkeep.is_finished());
    shutdown.trigger();
    assert!(shutdown.drain(Duration::ZERO).await);
    upkeep.await.unwrap();
}

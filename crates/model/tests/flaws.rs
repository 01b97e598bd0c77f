//! A model that cannot fail proves nothing: each protocol that is broken on purpose has to be
//! found out, by the property that it breaks.

use posthorn_model::explore::explore;
use posthorn_model::properties::{LOST, ORDER, OWNERS, PROBES, STUCK};
use posthorn_model::settings::{Flaw, Mishaps, Settings, Sweep};
use posthorn_model::suite;

fn breaks(settings: Settings, flaw: Flaw, property: &str) {
    let whole = explore(settings, 2);
    assert!(whole.broken.is_empty(), "without the flaw: {whole}");
    let settings = Settings {
        flaw: Some(flaw),
        ..settings
    };
    let report = explore(settings, 2);
    assert!(report.breaks(property), "{flaw:?}: {report}");
}

fn unordered(mishaps: Mishaps) -> Settings {
    Settings {
        events: 2,
        sweep: Sweep::Never,
        mishaps,
        ..suite::unordered()
    }
}

fn ordered(mishaps: Mishaps) -> Settings {
    Settings {
        events: 2,
        mishaps,
        ..suite::ordered()
    }
}

const FAILURE: Mishaps = Mishaps {
    crashes: 0,
    failures: 1,
    lags: 0,
    expiries: 0,
    forgets: 0,
};

const LAG: Mishaps = Mishaps { lags: 1, ..FAILURE };

#[test]
fn an_ack_before_the_publish_loses_a_delivery() {
    breaks(unordered(FAILURE), Flaw::AckBeforePublish, LOST);
}

#[test]
fn a_token_before_its_delivery_strands_a_lane() {
    breaks(unordered(FAILURE), Flaw::TokenBeforeAppend, STUCK);
}

#[test]
fn closing_without_the_last_look_strands_a_lane() {
    breaks(unordered(FAILURE), Flaw::NoLookAfterAck, STUCK);
}

#[test]
fn an_idle_token_acked_without_a_look_strands_a_lane() {
    breaks(unordered(LAG), Flaw::NoLookAfterIdleToken, STUCK);
}

#[test]
fn cb_01_a_claim_by_plain_write_sends_two_probes() {
    breaks(unordered(LAG), Flaw::ClaimByPlainWrite, PROBES);
}

#[test]
fn a_probe_that_was_turned_away_leaves_a_lane_waiting_for_ever() {
    breaks(unordered(LAG), Flaw::ProbeUntilBreakerMoves, STUCK);
}

#[test]
fn an_owner_that_knows_only_its_number_is_two() {
    let late = Mishaps {
        expiries: 1,
        ..FAILURE
    };
    let settings = Settings {
        sweep: Sweep::AtRest,
        ..unordered(late)
    };
    breaks(settings, Flaw::OwnerByNumber, OWNERS);
}

#[test]
fn fan_07_what_is_parked_a_second_time_holds_up_its_lane() {
    breaks(ordered(LAG), Flaw::ParkInOrder, STUCK);
}

#[test]
fn fan_07_the_next_before_the_record_of_the_one_before_breaks_the_order() {
    breaks(ordered(FAILURE), Flaw::NextBeforeRecord, ORDER);
}

#[test]
fn fan_07_an_event_that_is_overtaken_at_fan_out_breaks_the_order() {
    breaks(ordered(FAILURE), Flaw::IgnoreAckFloor, ORDER);
}

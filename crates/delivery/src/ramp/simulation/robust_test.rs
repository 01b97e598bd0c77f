//! Receivers that are not limited to 500 a second, or not by load at all, and clocks that jump.

use super::super::{Answer, Ramp};
use super::receiver::{Reply, constant, failing, queue};
use super::world::{Setting, ramp, run};
use crate::time::UnixMillis;
use std::time::Duration;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

/// The millisecond of the run at which the ramp was first done, and the whole run.
fn done_at(setting: &Setting, latency: u64) -> (Option<u64>, super::world::Seen) {
    let mut done = None;
    let seen = run(setting, &mut ramp(), &mut constant(latency), |law, ms| {
        let now = UnixMillis(NOW.0 + i64::try_from(ms).unwrap());
        if done.is_none() && law.is_done(setting.cap, now) {
            done = Some(ms);
        }
    });
    (done, seen)
}

#[test]
fn a_fast_endpoint_without_limit_is_soon_given_all_that_the_cap_allows() {
    let (done, seen) = done_at(&Setting::default(), 2_000);
    println!("{} done at {done:?}", seen.row("2 ms, no limit"));
    assert!(seen.arrived_in(0, 1_000) <= 20);
    assert_eq!(seen.most_in_flight, 32);
    assert!(done < Some(12_000), "{done:?}");
    // 32 in flight, looked at every 5 ms, answered and heard of within one or two looks.
    let rate = seen.good_rate(9_500, 10_500);
    assert!(rate > 3_000.0, "{rate}");
}

#[test]
fn a_slow_endpoint_is_given_all_that_the_cap_allows() {
    let setting = Setting {
        held: 2_000,
        ..Setting::default()
    };
    let (done, seen) = done_at(&setting, 1_000_000);
    println!("{} done at {done:?}", seen.row("1 s, no limit"));
    assert!(done < Some(10_000), "{done:?}");
    let rate = seen.good_rate(10_000, 40_000);
    assert!(rate > 31.0, "{rate}");
}

#[test]
fn one_in_flight_is_a_ramp_too() {
    let setting = Setting {
        held: 2_000,
        cap: 1,
        ..Setting::default()
    };
    let (done, seen) = done_at(&setting, 20_000);
    assert!(done.is_some());
    assert!(seen.good_rate(10_000, 20_000) > 30.0);
}

#[test]
fn an_endpoint_that_fails_every_answer_gets_a_trickle() {
    for latency in [2_000, 1_000_000] {
        let setting = Setting {
            longest_ms: 120_000,
            ..Setting::default()
        };
        let seen = run(&setting, &mut ramp(), &mut failing(1.0, latency), |_, _| {});
        println!("all fail after {latency} µs: {} in 120 s", seen.failed);
        assert!(seen.arrived_in(0, 1_000) <= 10);
        assert!(seen.arrived_in(60_000, 120_000) <= 70);
        assert!(seen.arrived_in(60_000, 120_000) >= 30, "it is still tried");
    }
}

#[test]
fn one_that_dies_midway_gets_a_trickle_and_one_that_comes_back_is_ramped_up() {
    let mut receiver = |at: u64| Reply {
        at: at + 20_000,
        good: !(20_000_000..40_000_000).contains(&at),
    };
    let seen = run(&Setting::default(), &mut ramp(), &mut receiver, |_, _| {});
    println!("died at 20 s: {} failed", seen.failed);
    assert!(seen.good_rate(15_000, 20_000) > 900.0);
    assert!(seen.arrived_in(21_500, 40_000) <= 150);
    assert!(seen.arrived_in(40_000, 41_000) <= 30);
    assert!(seen.good_rate(55_000, 56_000) > 800.0);
}

/// What fails for what is in it fails at any rate; slowing down would never end.
#[test]
fn failures_that_load_does_not_cause_do_not_hold_an_endpoint_back() {
    for share in [0.01, 0.1, 0.3] {
        let setting = Setting::default();
        let mut done = false;
        let seen = run(
            &setting,
            &mut ramp(),
            &mut failing(share, 20_000),
            |law, ms| {
                done |= law.is_done(32, UnixMillis(NOW.0 + i64::try_from(ms).unwrap()));
            },
        );
        println!("{}", seen.row(&format!("{share} fail at any load")));
        assert!(done, "{share}");
        let rate = seen.good_rate(20_000, 25_000);
        assert!(rate > 900.0 * (1.0 - share), "{share}: {rate}");
    }
}

#[test]
fn one_that_has_become_slower_for_good_is_not_held_back_for_it() {
    for (before, after) in [(20_000, 100_000), (5_000, 500_000)] {
        let setting = Setting {
            held: 22_000,
            ..Setting::default()
        };
        let mut receiver = |at: u64| Reply {
            at: at + if at < 10_000_000 { before } else { after },
            good: true,
        };
        let seen = run(&setting, &mut ramp(), &mut receiver, |_, _| {});
        let rate = seen.good_rate(35_000, 40_000);
        println!("{before} µs, then {after} µs: {rate} a second");
        assert!(rate > 0.85 * 32.0 * 1e6 / after as f64, "{rate}");
    }
}

#[test]
fn a_long_drain_gathers_no_standing_queue() {
    let setting = Setting {
        held: 200_000,
        cap: 1_024,
        ..Setting::default()
    };
    let mut receiver = queue(50, |_| 100_000);
    let seen = run(&setting, &mut ramp(), &mut receiver, |_, _| {});
    println!("{}", seen.row("200,000 held, 50 × 100 ms"));
    assert!(seen.throughput() > 0.85);
    assert!(seen.p99_ms() < 300.0, "{}", seen.p99_ms());
}

#[test]
fn bo_04_a_clock_that_jumps_neither_stops_a_ramp_nor_makes_it_storm() {
    const HOUR: i64 = 3_600_000;
    for jump in [-HOUR, HOUR, i64::MIN / 2, i64::MAX / 4] {
        let mut ramp = Ramp::start(NOW);
        let mut wall = NOW.0;
        let mut each = [0_u32; 20];
        for ms in (0..20_000_u64).step_by(5) {
            wall = wall.saturating_add(5);
            if ms == 7_000 {
                wall = wall.saturating_add(jump);
            }
            let now = UnixMillis(wall);
            let n = ramp.permit(0, 32, now);
            assert!(n <= 32);
            ramp.released(n, now);
            each[usize::try_from(ms / 1_000).unwrap()] += n;
            for _ in 0..n {
                let latency = Duration::from_millis(5);
                ramp.observe(
                    Answer {
                        latency,
                        good: true,
                    },
                    now,
                );
            }
            let next = ramp.next_look(0, 32, now).unwrap();
            assert!(now.until(next) <= Duration::from_secs(1));
        }
        println!("jump {jump}: {each:?}");
        assert!(each[0] <= 20, "{each:?}");
        assert!(
            each.windows(2).all(|pair| pair[1] <= 2 * pair[0] + 20),
            "{each:?}"
        );
        assert!(each[12] > 3_000, "{each:?}");
    }
}

#[test]
fn the_next_look_is_when_something_is_allowed_and_not_before() {
    let mut ramp = Ramp::start(NOW);
    let mut now = NOW;
    for _ in 0..4 {
        assert_eq!(ramp.permit(0, 32, now), 1);
        ramp.released(1, now);
        let next = ramp.next_look(1, 32, now).unwrap();
        assert!(next > now);
        let before = UnixMillis(next.0 - 1);
        assert_eq!(ramp.permit(1, 32, before), 0, "it is not time yet");
        now = ramp.next_look(1, 32, before).unwrap();
        assert!(now.0.abs_diff(next.0) <= 1);
    }
    assert_eq!(ramp.next_look(4, 32, now), None, "the window is full");
    assert_eq!(ramp.next_look(2, 2, now), None, "the cap is reached");
    assert_eq!(ramp.permit(7, 2, now), 0);
    assert_eq!(ramp.window(), 2, "the cap bounds the window");
}

#[test]
fn what_is_heard_without_having_been_let_go_does_no_harm() {
    let mut ramp = Ramp::start(NOW);
    for n in 0..10_000 {
        let answer = Answer {
            latency: Duration::MAX,
            good: n % 3 != 0,
        };
        ramp.observe(answer, NOW);
    }
    assert!(ramp.permit(u32::MAX, u32::MAX, NOW) == 0);
    assert!(ramp.permit(0, u32::MAX, NOW) <= 1);
    assert!(ramp.permit(0, 0, NOW) == 0);
    assert!(ramp.rate_per_second().is_finite());
}

#[test]
fn a_ramp_is_small() {
    assert!(size_of::<Ramp>() <= 1_024, "{}", size_of::<Ramp>());
}

proptest::proptest! {
    #[test]
    fn whatever_happens_it_stays_within_the_cap_and_looks_again(
        steps in proptest::collection::vec(
            (-5_000_i64..5_000, 0_u32..40, 1_u32..64, 0_u64..40_000, 0_u8..4),
            1..400,
        ),
    ) {
        let mut ramp = Ramp::start(NOW);
        let mut now = NOW;
        for (millis, outstanding, cap, latency, kind) in steps {
            now = UnixMillis(now.0 + millis);
            let answer = Answer {
                latency: Duration::from_millis(latency),
                good: kind > 0,
            };
            for _ in 0..kind * 8 {
                ramp.observe(answer, now);
            }
            let n = ramp.permit(outstanding, cap, now);
            assert!(n <= cap.saturating_sub(outstanding));
            assert!((1..=cap).contains(&ramp.window()));
            ramp.released(n, now);
            match ramp.next_look(outstanding + n, cap, now) {
                None => assert!(outstanding + n >= ramp.window().min(cap)),
                Some(next) => assert!(now.until(next) <= Duration::from_secs(1)),
            }
        }
    }
}

//! The bars of a recovery: 40,000 held, a receiver that bears 500 a second.

use super::receiver::{Receiver, crumbling, jitter, noisy_way, queue, refusing, smooth, stalls};
use super::world::{Seen, Setting, ramp, run};

/// Room for receivers that need more than 32 in flight to give 500 a second.
fn wide() -> Setting {
    Setting {
        cap: 256,
        ..Setting::default()
    }
}

fn assert_bars(name: &str, setting: &Setting, receiver: &mut impl Receiver) -> Seen {
    let seen = run(setting, &mut ramp(), receiver, |_, _| {});
    let row = seen.row(name);
    println!("{row}");
    assert!(seen.arrived_in(0, 1_000) <= 20, "first second: {row}");
    assert!(seen.peak(200) <= 1.2, "over two seconds: {row}");
    assert!(seen.longest_excess() <= 2.0, "excess: {row}");
    assert!(seen.throughput() >= 0.8, "throughput: {row}");
    seen
}

#[test]
fn a_queue_of_few_fast_workers() {
    let setting = Setting::default();
    for (workers, millis) in [(1, 2), (3, 6), (10, 20)] {
        let name = format!("queue, workers × time: {workers} × {millis} ms");
        let mut receiver = queue(workers, |_| millis * 1_000);
        let seen = assert_bars(&name, &setting, &mut receiver);
        assert!(seen.p99_ms() < 70.0, "{name}");
    }
}

#[test]
fn a_queue_of_many_slow_workers() {
    for (workers, millis) in [(50, 100), (100, 200)] {
        let name = format!("queue, workers × time: {workers} × {millis} ms");
        let mut receiver = queue(workers, |_| millis * 1_000);
        assert_bars(&name, &wide(), &mut receiver);
    }
}

#[test]
fn latency_that_rises_smoothly() {
    for base in [5, 20, 100] {
        for steepness in [1, 2, 4, 8] {
            let name = format!("{base} ms × (1 + load^{steepness})");
            assert_bars(&name, &wide(), &mut smooth(base * 1_000, steepness));
        }
    }
}

#[test]
fn latency_with_jitter() {
    for (workers, sigma) in [(4, 0.5), (12, 0.5), (12, 1.0), (50, 0.5)] {
        let mean = f64::from(workers) * 2_000.0;
        let name = format!("service of {} ms, lognormal {sigma}", workers * 2);
        let mut receiver = queue(usize::try_from(workers).unwrap(), jitter(mean, sigma));
        assert_bars(&name, &wide(), &mut receiver);
    }
    for base in [5, 20, 100] {
        let name = format!("{base} ms × (1 + load²), and a noisy way of {base} ms");
        let mut receiver = noisy_way(smooth(base * 1_000, 2), base as f64 * 1_000.0);
        assert_bars(&name, &wide(), &mut receiver);
    }
}

/// Queues come and go here at four fifths of the capacity too, and the ramp gives way to them.
#[test]
fn workers_that_stall() {
    let name = "7 workers of 9 ms, one request in a hundred 500 ms longer";
    let seen = run(
        &wide(),
        &mut ramp(),
        &mut queue(7, stalls(9_000)),
        |_, _| {},
    );
    let row = seen.row(name);
    println!("{row}");
    assert!(seen.longest_excess() <= 2.0, "excess: {row}");
    assert!(seen.throughput() >= 0.6, "throughput: {row}");
}

#[test]
fn one_that_refuses_what_is_too_much() {
    for setting in [Setting::default(), wide()] {
        let name = format!("refuses above 500/s, cap {}", setting.cap);
        let seen = assert_bars(&name, &setting, &mut refusing(setting.capacity));
        assert!(seen.failed < 800, "one in fifty: {}", seen.failed);
    }
    let seen = assert_bars("fails everything above 500/s", &wide(), &mut crumbling());
    assert!(seen.failed < 1_200, "{}", seen.failed);
    let late = Setting {
        tick_ms: 20,
        heard_late: 100_000,
        ..wide()
    };
    let seen = run(&late, &mut ramp(), &mut crumbling(), |_, _| {});
    println!("{}", seen.row("the same, heard of after 100 ms"));
    assert!(seen.throughput() > 0.75, "{}", seen.throughput());
}

#[test]
fn the_capacity_halves_for_twenty_seconds() {
    let halved = |ms: u64| (30_000..50_000).contains(&ms);
    let setting = Setting {
        capacity: |ms| {
            if (30_000..50_000).contains(&ms) {
                250.0
            } else {
                500.0
            }
        },
        ..wide()
    };
    let mut slower = queue(10, |at| if halved(at / 1_000) { 40_000 } else { 20_000 });
    let seen = assert_bars("queue, halved for 20 s", &setting, &mut slower);
    assert!(seen.good_rate(58_000, 68_000) > 440.0, "it is back");
    let seen = assert_bars(
        "refuses, halved for 20 s",
        &setting,
        &mut refusing(setting.capacity),
    );
    assert!(seen.good_rate(58_000, 68_000) > 440.0, "it is back");
}

/// The owner of a lane looks every 1 to 20 ms, and hears of an answer when it is on record.
#[test]
fn an_owner_that_looks_often_or_seldom_and_hears_late() {
    for (tick_ms, heard_late) in [(1, 1_000), (20, 30_000), (20, 100_000)] {
        let setting = Setting {
            tick_ms,
            heard_late,
            ..wide()
        };
        let name = |receiver: &str| {
            let late = heard_late / 1_000;
            format!("tick {tick_ms} ms, heard {late} ms late: {receiver}")
        };
        let mut receiver = queue(3, |_| 6_000);
        assert_bars(&name("queue, 3 × 6 ms"), &setting, &mut receiver);
        let mut receiver = queue(50, |_| 100_000);
        assert_bars(&name("queue, 50 × 100 ms"), &setting, &mut receiver);
        for base in [5, 20, 100] {
            let receiver = &mut smooth(base * 1_000, 2);
            assert_bars(
                &name(&format!("{base} ms × (1 + load²)")),
                &setting,
                receiver,
            );
        }
        let mut receiver = refusing(setting.capacity);
        assert_bars(&name("refuses"), &setting, &mut receiver);
    }
}

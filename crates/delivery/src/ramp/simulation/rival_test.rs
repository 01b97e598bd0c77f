//! Why the ramp is not one of the laws that are commonly used: each of them misses a bar.

use super::receiver::{Receiver, jitter, queue, refusing, smooth};
use super::rival::{Aimd, Gradient, Vegas};
use super::world::{Law, Seen, Setting, ramp, run};

fn wide() -> Setting {
    Setting {
        cap: 256,
        ..Setting::default()
    }
}

fn with(name: &str, law: &mut impl Law, receiver: &mut impl Receiver) -> Seen {
    let seen = run(&wide(), law, receiver, |_, _| {});
    println!("{}", seen.row(name));
    seen
}

#[test]
fn without_a_pace_the_first_second_is_a_storm() {
    let first_second = |seen: &Seen| seen.arrived_in(0, 1_000);
    let aimd = with("aimd, 3 × 6 ms", &mut Aimd::new(), &mut queue(3, |_| 6_000));
    let vegas = with(
        "Vegas, 3 × 6 ms",
        &mut Vegas::new(),
        &mut queue(3, |_| 6_000),
    );
    let name = "gradient, 3 × 6 ms";
    let gradient = with(name, &mut Gradient::new(), &mut queue(3, |_| 6_000));
    for seen in [aimd, vegas, gradient] {
        assert!(first_second(&seen) > 200);
    }
    let ours = with("ramp, 3 × 6 ms", &mut ramp(), &mut queue(3, |_| 6_000));
    assert!(first_second(&ours) <= 20);
}

#[test]
fn a_law_that_heeds_failures_alone_fills_the_queue_up_to_the_cap() {
    let receiver = || smooth(20_000, 2);
    let name = "20 ms × (1 + load²)";
    let aimd = with(&format!("aimd, {name}"), &mut Aimd::new(), &mut receiver());
    let ours = with(&format!("ramp, {name}"), &mut ramp(), &mut receiver());
    with(
        &format!("Vegas, {name}"),
        &mut Vegas::new(),
        &mut receiver(),
    );
    with(
        &format!("gradient, {name}"),
        &mut Gradient::new(),
        &mut receiver(),
    );
    assert!(aimd.p99_ms() > 3.0 * ours.p99_ms());
}

#[test]
fn a_window_that_is_halved_refuses_more_and_gives_less() {
    let receiver = || refusing(|_| 500.0);
    let name = "refuses above 500/s";
    let aimd = with(&format!("aimd, {name}"), &mut Aimd::new(), &mut receiver());
    let vegas = with(
        &format!("Vegas, {name}"),
        &mut Vegas::new(),
        &mut receiver(),
    );
    let gradient = with(
        &format!("gradient, {name}"),
        &mut Gradient::new(),
        &mut receiver(),
    );
    let ours = with(&format!("ramp, {name}"), &mut ramp(), &mut receiver());
    for seen in [aimd, vegas, gradient] {
        assert!(seen.failed > 3 * ours.failed);
    }
}

#[test]
fn a_baseline_that_is_the_fastest_answer_takes_jitter_for_a_queue() {
    let receiver = || queue(50, jitter(100_000.0, 0.5));
    let name = "100 ms, lognormal 0.5";
    let vegas = with(
        &format!("Vegas, {name}"),
        &mut Vegas::new(),
        &mut receiver(),
    );
    let ours = with(&format!("ramp, {name}"), &mut ramp(), &mut receiver());
    with(&format!("aimd, {name}"), &mut Aimd::new(), &mut receiver());
    with(
        &format!("gradient, {name}"),
        &mut Gradient::new(),
        &mut receiver(),
    );
    assert!(vegas.throughput() < 0.5);
    assert!(ours.throughput() > 0.8);
}

//! The owner of a lane dies while it lets go, and whoever comes next lets go nothing twice.

use crate::site::{Lane, Site, at_random};
use crate::turn;
use nix::sys::signal::Signal;
use posthorn_broker::StreamName;
use posthorn_tests::receiver::Reply;
use posthorn_tests::wait::{eventually, eventually_some};
use posthorn_tests::{Cluster, DEADLINE, Role};
use rand::RngExt;
use serde_json::json;
use std::time::Duration;

const KILLS: usize = 20;
const CAP: usize = 6;
const EACH: usize = 800;
/// So many are let go by four owners in some seconds.
const FEW: u64 = 1_000;
const MORE: usize = 300;

/// Lanes that hold what is over the cap and drain at full speed, whose receivers are slow
/// enough that they do so for long.
async fn draining(lanes: usize, each: usize) -> Site {
    let builder = Cluster::builder()
        .copies(Role::Scheduler, 2)
        .copies(Role::Dispatcher, 3);
    let mut site = Site::start(builder).await;
    for n in 0..lanes {
        let path = format!("/lane/{n}");
        let slow = Reply::ok().delay(Duration::from_millis(60));
        site.receiver.answer(&path, slow);
        let more = json!({"max_in_flight": CAP});
        site.endpoint(&path, &more).await;
    }
    site.publish(0..each).await;
    let all = u64::try_from(lanes * each).unwrap();
    let parked =
        || async { site.stored(StreamName::Events).await == 0 && site.waiting().await > all / 2 };
    eventually(DEADLINE, "what is over the cap is parked", parked)
        .await
        .unwrap();
    site
}

/// A scheduler that has let go something since it was started, chosen at random. It owns a
/// lane still, because a lane that drains is not given back.
async fn an_owner(site: &mut Site) -> usize {
    let copies = site.cluster.count(Role::Scheduler);
    let ports: Vec<u16> = (0..copies)
        .map(|copy| {
            let service = site.cluster.service(Role::Scheduler, copy).unwrap();
            service.ops_port().unwrap()
        })
        .collect();
    let found = eventually_some(DEADLINE, "a scheduler owns a lane", || async {
        let first = rand::rng().random_range(0..copies);
        for copy in (first..copies).chain(0..first) {
            if releases(ports[copy]).await > 0.0 {
                return Some(copy);
            }
        }
        None
    });
    match found.await {
        Ok(copy) => copy,
        Err(error) => panic!("{error}: {}", site.whereabouts().await),
    }
}

/// How much the process behind this port has let go.
async fn releases(port: u16) -> f64 {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://127.0.0.1:{port}/metrics");
    let Ok(answer) = client.get(url).timeout(Duration::from_secs(2)).send().await else {
        return 0.0;
    };
    let text = answer.text().await.unwrap_or_default();
    let line = text
        .lines()
        .find(|line| line.starts_with("posthorn_lane_releases_total"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or_default()
}

/// How often each lane has been taken.
async fn takings(site: &Site) -> Vec<u64> {
    let mut all = Vec::new();
    for lane in site.lanes() {
        all.push(site.takings(&lane).await);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn ops_06_a_lane_whose_owner_is_killed_again_and_again_is_drained_by_one_at_a_time() {
    let _turn = turn::light().await;
    let mut site = draining(4, EACH).await;
    let before: u64 = takings(&site).await.iter().sum();
    let mut published = EACH;
    for _ in 0..KILLS {
        // On a machine that takes long to start a process, more than was thought has gone.
        if site.waiting().await < FEW {
            site.publish(published..published + MORE).await;
            published += MORE;
        }
        let owner = an_owner(&mut site).await;
        at_random(0..700).await;
        let service = site.cluster.service(Role::Scheduler, owner).unwrap();
        service.restart().await.unwrap();
    }
    let left = site.waiting().await;
    let owners = takings(&site).await.iter().sum::<u64>() - before;
    assert!(left > 0, "the lanes were empty before the last kill");
    println!("{KILLS} owners killed, {left} still to go, {owners} lanes taken over");
    drained_once_within_the_cap(&site).await;
}

/// One that was only asleep wakes up and finds that its lanes are somebody else's.
#[tokio::test(flavor = "multi_thread")]
async fn js_08_an_owner_that_was_asleep_lets_go_nothing_that_is_not_its_own_any_more() {
    let _turn = turn::light().await;
    let mut site = draining(2, 2 * EACH).await;
    let owner = an_owner(&mut site).await;
    let before = takings(&site).await;
    let asleep = site.cluster.service(Role::Scheduler, owner).unwrap();
    asleep.signal(Signal::SIGSTOP).unwrap();
    let taken = || async {
        let now = takings(&site).await;
        now.iter().zip(&before).any(|(now, before)| now > before)
    };
    let waited = eventually(DEADLINE, "the other one takes over", taken).await;
    if let Err(error) = waited {
        panic!("{error}: {before:?}, {}", site.whereabouts().await);
    }
    at_random(500..2_000).await;
    let left = site.waiting().await;
    let asleep = site.cluster.service(Role::Scheduler, owner).unwrap();
    asleep.signal(Signal::SIGCONT).unwrap();
    assert!(left > 0, "the lanes were empty before it woke up");
    println!("woken up with {left} still to go");
    drained_once_within_the_cap(&site).await;
}

async fn drained_once_within_the_cap(site: &Site) {
    let lanes = site.lanes();
    for lane in &lanes {
        site.receiver.answer(&lane.path, Reply::ok());
    }
    let verdict = site.verdict(Duration::from_secs(90)).await;
    let most = |lane: &Lane| site.receiver.most_at_once(&lane.path);
    let most: Vec<usize> = lanes.iter().map(most).collect();
    println!(
        "{} delivered, {} more than once, at most {most:?} in flight",
        verdict.delivered,
        verdict.duplicates.len()
    );
    assert!(most.iter().all(|most| *most <= CAP), "{most:?} over {CAP}");
    verdict.exactly_once().unwrap();
    site.all_closed(Duration::from_secs(45)).await;
    site.fresh_event_passes().await;
}

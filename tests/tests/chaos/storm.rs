//! Faults of every kind, of services and of the broker, in an order of chance.

use crate::site::at_random;
use nix::sys::signal::Signal;
use posthorn_tests::wait::eventually;
use posthorn_tests::{Cluster, Role};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use std::time::{Duration, Instant};

const ROLES: [Role; 4] = [
    Role::Ingest,
    Role::Scheduler,
    Role::Dispatcher,
    Role::DlqAdmin,
];
/// How long a service that has ended may take until it is up again.
const UP_AGAIN: Duration = Duration::from_secs(60);

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A copy of a service is killed and started again at once.
    Killed,
    /// One is killed and is away for a while.
    Away,
    /// One sleeps until the next fault but one.
    Asleep,
    /// Every copy of one service is killed at the same time.
    AllOfThem,
    /// The broker is killed.
    Broker,
    /// And again as soon as it is back.
    BrokerTwice,
    /// The broker, and a service in the same moment.
    BrokerAndOne,
    /// The broker is told to end.
    BrokerStopped,
}

/// One of a run's faults each; how often it stands here is how often it happens.
const DECK: [Fault; 16] = [
    Fault::Killed,
    Fault::Killed,
    Fault::Killed,
    Fault::Killed,
    Fault::Away,
    Fault::Away,
    Fault::Asleep,
    Fault::AllOfThem,
    Fault::Broker,
    Fault::Broker,
    Fault::Broker,
    Fault::BrokerTwice,
    Fault::BrokerTwice,
    Fault::BrokerAndOne,
    Fault::BrokerAndOne,
    Fault::BrokerStopped,
];

/// The faults of one run, and what became of them.
pub struct Storm {
    seed: u64,
    rng: StdRng,
    begun: Instant,
    told: Vec<String>,
    /// Who sleeps, and how many faults it sleeps on.
    asleep: Option<(Role, usize, u32)>,
}

impl Storm {
    /// Its order and its pauses follow from a seed, though not what they meet.
    pub fn new() -> Storm {
        let seed = rand::random();
        Storm {
            seed,
            rng: StdRng::seed_from_u64(seed),
            begun: Instant::now(),
            told: Vec::new(),
            asleep: None,
        }
    }

    /// What happened and when, for whoever has to understand a failure.
    pub fn told(&self) -> String {
        format!("storm {}: {}", self.seed, self.told.join(", "))
    }

    /// Lets every fault happen, one after the other.
    pub async fn rage(&mut self, cluster: &mut Cluster) {
        let mut faults = DECK;
        faults.shuffle(&mut self.rng);
        for fault in faults {
            self.pause(200..2_500).await;
            self.revive(cluster).await;
            self.happens(fault, cluster).await;
            self.sleep_on(cluster);
        }
    }

    /// Everything runs and is ready again.
    pub async fn calm(&mut self, cluster: &mut Cluster) {
        if let Some((role, copy, _)) = self.asleep.take() {
            signal(cluster, role, copy, Signal::SIGCONT);
        }
        self.revive(cluster).await;
        for role in ROLES {
            for copy in 0..cluster.count(role) {
                let service = cluster.service(role, copy).unwrap();
                service.wait_ready(UP_AGAIN).await.unwrap();
            }
        }
    }

    async fn happens(&mut self, fault: Fault, cluster: &mut Cluster) {
        let (role, copy) = self.any(cluster);
        let at = self.begun.elapsed().as_secs_f32();
        self.told
            .push(format!("{at:.1} {fault:?} ({role:?} {copy})"));
        match fault {
            Fault::Killed => again(cluster, role, copy).await,
            Fault::Away => {
                cluster.service(role, copy).unwrap().kill().unwrap();
                self.pause(500..3_000).await;
                again(cluster, role, copy).await;
            }
            Fault::Asleep => {
                signal(cluster, role, copy, Signal::SIGSTOP);
                self.asleep = Some((role, copy, 3));
            }
            Fault::AllOfThem => {
                for copy in 0..cluster.count(role) {
                    cluster.service(role, copy).unwrap().kill().unwrap();
                }
                for copy in 0..cluster.count(role) {
                    again(cluster, role, copy).await;
                }
            }
            Fault::Broker => self.outage(cluster).await,
            Fault::BrokerTwice => {
                self.outage(cluster).await;
                self.pause(0..1_000).await;
                self.outage(cluster).await;
            }
            Fault::BrokerAndOne => {
                cluster.service(role, copy).unwrap().kill().unwrap();
                self.outage(cluster).await;
                again(cluster, role, copy).await;
            }
            Fault::BrokerStopped => {
                cluster.nats.stop().await.unwrap();
                self.pause(0..1_500).await;
                cluster.nats.restart().await.unwrap();
            }
        }
    }

    async fn outage(&mut self, cluster: &mut Cluster) {
        cluster.nats.kill().await.unwrap();
        self.pause(0..1_500).await;
        cluster.nats.restart().await.unwrap();
    }

    /// Whoever starts while the broker is away may give up; a supervisor starts it again.
    async fn revive(&mut self, cluster: &mut Cluster) {
        for role in ROLES {
            for copy in 0..cluster.count(role) {
                let service = cluster.service(role, copy).unwrap();
                if !service.is_running() {
                    self.told.push(format!("{role:?} {copy} had ended"));
                    again(cluster, role, copy).await;
                }
            }
        }
    }

    fn sleep_on(&mut self, cluster: &mut Cluster) {
        self.asleep = match self.asleep.take() {
            Some((role, copy, 0)) => {
                signal(cluster, role, copy, Signal::SIGCONT);
                None
            }
            asleep => asleep.map(|(role, copy, left)| (role, copy, left - 1)),
        };
    }

    /// Most of what is owed passes through schedulers and dispatchers.
    fn any(&mut self, cluster: &Cluster) -> (Role, usize) {
        let weighed = [ROLES[1], ROLES[1], ROLES[2], ROLES[2], ROLES[0], ROLES[3]];
        let role = *weighed.choose(&mut self.rng).unwrap();
        (role, self.rng.random_range(0..cluster.count(role)))
    }

    async fn pause(&mut self, millis: std::ops::Range<u64>) {
        let pause = self.rng.random_range(millis);
        at_random(pause..pause + 1).await;
    }
}

async fn again(cluster: &mut Cluster, role: Role, copy: usize) {
    let service = cluster.service(role, copy).unwrap();
    service.restart().await.unwrap();
}

/// A signal for whoever has not ended.
fn signal(cluster: &mut Cluster, role: Role, copy: usize, signal: Signal) {
    let service = cluster.service(role, copy).unwrap();
    if service.is_running() {
        service.signal(signal).unwrap();
    }
}

/// Waits until something succeeds that may fail while services or the broker are away.
pub async fn insist<Fut: Future<Output = bool>>(what: &str, attempt: impl FnMut() -> Fut) {
    eventually(UP_AGAIN, what, attempt).await.unwrap();
}

//! Whether ten thousand answers of receivers who mean harm leave anything behind in a dispatcher.

use crate::support::settled;
use posthorn_broker::StreamName;
use posthorn_tests::cluster::SECRET_KEYS;
use posthorn_tests::process::{Recipe, Service, free_port};
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::rig::{Rig, endpoint, retry};
use posthorn_tests::wait::eventually;
use std::time::Duration;
use tempfile::TempDir;

const START: Duration = Duration::from_secs(60);
/// For ten thousand answers, on a loaded machine.
const LONG: Duration = Duration::from_secs(240);
const WARM: u64 = 2_000;
/// Between one middle look and the other are ten thousand answers.
const BETWEEN: u64 = 5_000;
const LOOKS: usize = 5;
const LOOK: u64 = 1_000;

/// Everything that needs no timeout to be over.
fn tricks() -> Vec<(&'static str, Reply)> {
    let line = |length| format!("x-{}: {}\r\n", "a".repeat(20), "b".repeat(length));
    let head = |rest: &str| format!("HTTP/1.1 200 OK\r\n{rest}");
    vec![
        ("endless-body", Reply::ok().endless()),
        ("big-body", Reply::status(500).body(vec![b'x'; 512 * 1024])),
        ("reset", Reply::reset()),
        ("close", Reply::close()),
        ("truncated", Reply::ok().body(vec![b'x'; 4_000]).truncate()),
        (
            "no-http",
            Reply::raw("220 mail.example.com ESMTP\r\n".repeat(50)),
        ),
        ("long-head", Reply::raw(head(&line(1_000).repeat(300)))),
        ("many-headers", Reply::raw(head(&line(1).repeat(3_000)))),
        (
            "early-hints",
            Reply::raw("HTTP/1.1 103 Early\r\n\r\n".repeat(2_000)),
        ),
        (
            "bad-chunk",
            Reply::raw(head(
                "transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
            )),
        ),
        (
            "two-lengths",
            Reply::raw(head("content-length: 1\r\ncontent-length: 2\r\n\r\nab")),
        ),
        (
            "bomb",
            Reply::ok().header("content-encoding", "gzip").body(bomb()),
        ),
    ]
}

/// Ten megabytes of zeros in gzip: one literal, then the longest match again and again.
fn bomb() -> Vec<u8> {
    let mut bits = vec![true, true, false];
    let mut put = |code: u32, length: u32| {
        bits.extend((0..length).rev().map(|at| code >> at & 1 == 1));
    };
    // The fixed code of the byte 0, then length 258 at distance 1, then the end.
    put(0b0011_0000, 8);
    for _ in 0..40_000 {
        put(0b1100_0101, 8);
        put(0, 5);
    }
    put(0, 7);
    let byte = |bits: &[bool]| {
        let set = bits.iter().enumerate().filter(|(_, bit)| **bit);
        set.fold(0_u8, |byte, (at, _)| byte | 1 << at)
    };
    let mut stream = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    stream.extend(bits.chunks(8).map(byte));
    stream.extend([0; 8]);
    stream
}

struct Hostile {
    rig: Rig,
    dispatcher: Service,
    receiver: Receiver,
    count: u64,
    _folder: TempDir,
}

impl Hostile {
    async fn start() -> Hostile {
        let mut rig = Rig::start().await.unwrap();
        let settings = posthorn_scheduler::Settings::default();
        rig.scheduler(settings).await.unwrap();
        let receiver = Receiver::start().await.unwrap();
        let tricks = tricks();
        let count = tricks.len() as u64;
        for (name, reply) in tricks {
            let path = format!("/{name}");
            receiver.answer(&path, reply);
            let mut target = endpoint("acme", &receiver.url(&path));
            target.retry = retry(Duration::from_millis(10), 1);
            rig.put(&target).await.unwrap();
        }
        let folder = TempDir::new().unwrap();
        let mut dispatcher = Recipe::new("posthorn-dispatcher", folder.path())
            .env("POSTHORN_NATS_URL", rig.nats.url())
            .env("POSTHORN_EGRESS_ALLOW", "127.0.0.0/8")
            .env("POSTHORN_EGRESS_ALLOW_HTTP", "true")
            .env("POSTHORN_SECRET_KEYS", SECRET_KEYS)
            // Few at a time, so that what is in use is what is left and not what is on its way.
            .env("POSTHORN_DISPATCH_CONCURRENCY", "16")
            .ops_port(free_port().unwrap())
            .spawn()
            .await
            .unwrap();
        dispatcher.wait_ready(START).await.unwrap();
        Hostile {
            rig,
            dispatcher,
            receiver,
            count,
            _folder: folder,
        }
    }

    /// Has so many answers given and recorded, and returns the memory that is then in use, in
    /// KiB.
    async fn answer(&self, answers: u64) -> u64 {
        let broker = self.rig.broker();
        let recorded = || async { broker.stream_messages(StreamName::Attempts).await.ok() };
        let events = answers.div_ceil(self.count);
        let wanted = recorded().await.unwrap() + events * self.count;
        let events = usize::try_from(events).unwrap();
        self.rig.publish("acme", "a", events).await.unwrap();
        // More where a shared connection was found closed: that is a record, and no answer.
        let done = || async { recorded().await >= Some(wanted) };
        eventually(LONG, "every answer is on record", done)
            .await
            .unwrap();
        settled(&self.rig).await;
        self.resident()
    }

    fn resident(&self) -> u64 {
        let pid = self.dispatcher.pid();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.unwrap().split_whitespace().next().unwrap();
        number.parse().unwrap()
    }
}

/// What is in use after each of some rounds, the middle one: an allocator gives back what is
/// free when it likes, so one look is higher or lower than the next.
async fn look(hostile: &Hostile) -> u64 {
    let mut found = Vec::new();
    for _ in 0..LOOKS {
        found.push(hostile.answer(LOOK).await);
    }
    found.sort_unstable();
    found[LOOKS / 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn http_09_ten_thousand_hostile_answers_leave_no_memory_behind() {
    let hostile = Hostile::start().await;
    hostile.answer(WARM).await;
    let before = look(&hostile).await;
    hostile.answer(BETWEEN).await;
    let after = look(&hostile).await;
    let asked = hostile.receiver.count() as u64;
    assert!(asked >= WARM + BETWEEN + 2 * LOOK * LOOKS as u64, "{asked}");
    assert!(
        after <= before + before / 10,
        "{before} KiB at first, {after} KiB after ten thousand answers"
    );
}

#[test]
fn the_bomb_is_one() {
    let bomb = bomb();
    assert!(bomb.len() < 80 * 1024, "{} bytes", bomb.len());
    let mut gunzip = std::process::Command::new("gzip")
        .arg("-dc")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut input = gunzip.stdin.take().unwrap();
    let writing = std::thread::spawn(move || std::io::Write::write_all(&mut input, &bomb));
    let output = gunzip.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    assert_eq!(output.stdout.len(), 1 + 40_000 * 258);
}

//! The life of a real nats-server: start, ends of every kind, restart, and who may use it.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use posthorn_nats_server::{NatsServer, SignalError, StartError};

const DEADLINE: Duration = Duration::from_secs(20);
/// Set for the process that only starts a server and waits to be killed.
const OWNER_FOLDER: &str = "POSTHORN_TEST_OWNER_FOLDER";

fn is_alive(pid: u32) -> bool {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), None).is_ok()
}

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
}

/// Waits for a condition; the pause between two looks is not what the test relies on.
async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < DEADLINE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The INFO line of the server on `port`.
fn info(port: u16) -> String {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

/// Sends a request by the bare protocol and returns what the server answers to it.
fn request(port: u16, subject: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(
        stream,
        "CONNECT {{\"verbose\":false}}\r\nSUB reply 1\r\nPUB {subject} reply {}\r\n{body}\r\nPING\r\n",
        body.len()
    )
    .unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while !line.starts_with("MSG ") {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "no answer");
    }
    let size: usize = line.trim().rsplit_once(' ').unwrap().1.parse().unwrap();
    let mut answer = vec![0; size];
    reader.read_exact(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

fn make_stream(port: u16) {
    let config = r#"{"name":"T","subjects":["t.>"],"storage":"file","num_replicas":1}"#;
    let answer = request(port, "$JS.API.STREAM.CREATE.T", config);
    assert!(answer.contains("\"created\""), "{answer}");
}

#[tokio::test]
async fn a_started_server_has_jetstream_and_its_own_process_id() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::builder()
        .data_dir(folder.path())
        .start()
        .await
        .unwrap();
    assert!(server.is_own());
    assert_eq!(
        server.client_url(),
        format!("nats://127.0.0.1:{}", server.port())
    );
    assert!(info(server.port()).contains("\"jetstream\":true"));
    let name = Command::new("ps")
        .args(["-o", "comm=", "-p", &server.pid().to_string()])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&name.stdout).contains("nats-server"));
}

#[tokio::test]
async fn additional_configuration_is_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::builder()
        .data_dir(folder.path())
        .server_name("mine")
        .config_extra("max_payload: 2MB")
        .jetstream_extra("max_file_store: 64MB")
        .start()
        .await
        .unwrap();
    let info = info(server.port());
    assert!(info.contains("\"max_payload\":2097152"), "{info}");
    assert!(info.contains("\"server_name\":\"mine\""), "{info}");
    let account = request(
        server.port(),
        "$JS.API.STREAM.CREATE.BIG",
        r#"{"name":"BIG","subjects":["b"],"storage":"file","max_bytes":134217728}"#,
    );
    assert!(account.contains("insufficient"), "{account}");
}

#[tokio::test]
async fn a_killed_server_comes_back_on_its_port_with_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = NatsServer::builder()
        .data_dir(folder.path())
        .start()
        .await
        .unwrap();
    make_stream(server.port());
    assert!(request(server.port(), "t.one", "1").contains("\"seq\":1"));
    let (port, first) = (server.port(), server.pid());

    server.kill().await.unwrap();
    assert!(!is_alive(first));
    server.restart_same_port().await.unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), first);
    assert!(request(port, "t.two", "2").contains("\"seq\":2"));

    server.stop().await.unwrap();
    server.restart_same_port().await.unwrap();
    assert!(request(port, "t.three", "3").contains("\"seq\":3"));
}

#[tokio::test]
async fn a_server_killed_by_another_hand_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = NatsServer::builder()
        .data_dir(folder.path())
        .start()
        .await
        .unwrap();
    assert!(matches!(
        server.restart_same_port().await,
        Err(SignalError::NotEnded)
    ));
    signal(server.pid(), Signal::SIGKILL);
    tokio::time::timeout(DEADLINE, server.ended())
        .await
        .unwrap();
    assert!(!is_alive(server.pid()));
    server.kill().await.unwrap();
    server.restart_same_port().await.unwrap();
    assert!(info(server.port()).contains("\"jetstream\":true"));
}

#[tokio::test]
async fn dropping_ends_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::builder()
        .data_dir(folder.path())
        .start()
        .await
        .unwrap();
    let pid = server.pid();
    drop(server);
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_wrong_configuration_is_an_error_and_not_a_wait() {
    let folder = tempfile::tempdir().unwrap();
    let begin = Instant::now();
    let result = NatsServer::builder()
        .data_dir(folder.path())
        .config_extra("no_such_key: 1")
        .start()
        .await;
    let Err(StartError::Ended { log }) = result else {
        panic!("{result:?}");
    };
    let said = std::fs::read_to_string(log).unwrap();
    assert!(said.contains("no_such_key"), "{said}");
    assert!(begin.elapsed() < DEADLINE);
}

#[tokio::test]
async fn a_taken_port_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let result = NatsServer::builder()
        .data_dir(folder.path())
        .port(taken.local_addr().unwrap().port())
        .start()
        .await;
    assert!(
        matches!(result, Err(StartError::Ended { .. })),
        "{result:?}"
    );
}

#[tokio::test]
async fn a_data_folder_is_required() {
    let result = NatsServer::builder().start().await;
    assert!(matches!(result, Err(StartError::NoDataFolder)));
}

#[tokio::test]
async fn a_second_server_on_the_folder_is_refused_and_one_that_attaches_uses_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let first = NatsServer::builder()
        .data_dir(folder.path())
        .start()
        .await
        .unwrap();
    let refused = NatsServer::builder().data_dir(folder.path()).start().await;
    assert!(matches!(refused, Err(StartError::InUse(_))), "{refused:?}");

    let mut second = NatsServer::builder()
        .data_dir(folder.path())
        .attach_or_start()
        .await
        .unwrap();
    assert!(!second.is_own());
    assert_eq!(second.pid(), first.pid());
    assert_eq!(second.client_url(), first.client_url());
    assert!(matches!(second.kill().await, Err(SignalError::NotOwned)));
    let pid = first.pid();
    drop(first);
    tokio::time::timeout(DEADLINE, second.ended())
        .await
        .unwrap();
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_foreign_server_on_the_remembered_port_is_not_attached_to() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let other = NatsServer::builder()
        .data_dir(one.path())
        .start()
        .await
        .unwrap();
    // The note of the first folder, as if its server had died and the port were taken over.
    let note = "nats-server.json";
    std::fs::copy(one.path().join(note), two.path().join(note)).unwrap();
    let server = NatsServer::builder()
        .data_dir(two.path())
        .attach_or_start()
        .await
        .unwrap();
    assert!(server.is_own());
    assert_ne!(server.port(), other.port());
}

#[tokio::test]
async fn many_that_attach_at_once_share_one_server() {
    let folder = tempfile::tempdir().unwrap();
    let starts: Vec<_> = (0..6)
        .map(|_| {
            let builder = NatsServer::builder().data_dir(folder.path());
            tokio::spawn(builder.attach_or_start())
        })
        .collect();
    let mut servers = Vec::new();
    for start in starts {
        servers.push(start.await.unwrap().unwrap());
    }
    assert_eq!(servers.iter().filter(|server| server.is_own()).count(), 1);
    let pid = servers[0].pid();
    assert!(servers.iter().all(|server| server.pid() == pid));
}

/// Starts this test binary as another process, whose one test then owns a server until it is
/// killed (see [`own_if_asked`]), and waits for that server.
async fn owner(folder: &Path) -> (Child, serde_json::Value) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_server_ends_when_its_owner_is_sigkilled"])
        .env(OWNER_FOLDER, folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let note = folder.join("nats-server.json");
    wait_until("the owner's server", || note.exists()).await;
    let state = serde_json::from_slice(&std::fs::read(note).unwrap()).unwrap();
    (child, state)
}

/// In the process that [`owner`] started: owns a server for as long as it runs.
async fn own_if_asked() {
    let Some(folder) = std::env::var_os(OWNER_FOLDER) else {
        return;
    };
    let server = NatsServer::builder()
        .data_dir(Path::new(&folder))
        .start()
        .await
        .unwrap();
    server.ended().await;
    unreachable!("the owner was to be killed before its server");
}

fn pid_of(state: &serde_json::Value) -> u32 {
    u32::try_from(state["pid"].as_u64().unwrap()).unwrap()
}

#[tokio::test]
async fn the_server_ends_when_its_owner_is_sigkilled() {
    own_if_asked().await;
    let folder = tempfile::tempdir().unwrap();
    let (mut owner, state) = owner(folder.path()).await;
    let pid = pid_of(&state);
    assert!(is_alive(pid));
    owner.kill().unwrap();
    owner.wait().unwrap();
    wait_until("the end of the server", || !is_alive(pid)).await;
}

#[tokio::test]
async fn a_start_right_after_the_owner_was_killed_gets_a_server_that_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (mut owner, state) = owner(folder.path()).await;
    owner.kill().unwrap();
    // Deliberately not collected yet: its process id still answers.
    let server = NatsServer::builder()
        .data_dir(folder.path())
        .attach_or_start()
        .await
        .unwrap();
    owner.wait().unwrap();
    assert!(server.is_own());
    assert_ne!(server.pid(), pid_of(&state));
    assert!(info(server.port()).contains("\"jetstream\":true"));
}

#[tokio::test]
async fn a_server_that_outlived_its_owner_and_supervisor_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let (mut owner, state) = owner(folder.path()).await;
    let pid = pid_of(&state);
    let parent = Command::new("ps")
        .args(["-o", "ppid=", "-p", &pid.to_string()])
        .output()
        .unwrap();
    let supervisor: u32 = String::from_utf8(parent.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    signal(supervisor, Signal::SIGKILL);
    owner.kill().unwrap();
    owner.wait().unwrap();
    let server = NatsServer::builder()
        .data_dir(folder.path())
        .attach_or_start()
        .await
        .unwrap();
    assert!(!server.is_own());
    assert_eq!(server.pid(), pid);
    signal(pid, Signal::SIGKILL);
}

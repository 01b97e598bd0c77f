//! The harness against a real nats-server: what the suites rely on must hold by itself.

#![allow(clippy::unwrap_used)]

use std::time::Instant;

use async_nats::jetstream;
use posthorn_tests::fault_proxy::FaultProxy;
use posthorn_tests::process::{Recipe, free_port};
use posthorn_tests::{DEADLINE, TestNats, bins, eventually};

async fn publish(jetstream: &jetstream::Context, subject: &'static str) -> Result<u64, String> {
    let ack = jetstream
        .publish(subject, "x".into())
        .await
        .map_err(|error| error.to_string())?;
    Ok(ack.await.map_err(|error| error.to_string())?.sequence)
}

async fn stream_on(nats: &TestNats) -> jetstream::Context {
    let jetstream = jetstream::new(nats.client().await.unwrap());
    let config = jetstream::stream::Config {
        name: "T".to_owned(),
        subjects: vec!["t.>".to_owned()],
        ..Default::default()
    };
    jetstream.create_stream(config).await.unwrap();
    jetstream
}

/// The checks of the repository are a binary as well, and one that ends at once with its usage.
#[tokio::test]
async fn the_binaries_are_built_and_one_that_ends_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = Recipe::new("xtask", folder.path()).ops_port(free_port().unwrap());
    let mut service = recipe.spawn().await.unwrap();
    let begin = Instant::now();
    let error = service.wait_ready(DEADLINE).await.unwrap_err().to_string();
    assert!(begin.elapsed() < DEADLINE / 2);
    assert!(error.contains("usage: cargo xtask"), "{error}");
    assert!(bins::bin("no-such-binary").await.is_err());
}

#[tokio::test]
async fn a_client_survives_the_kill_and_the_restart_of_its_server() {
    let mut nats = TestNats::start().await.unwrap();
    let jetstream = stream_on(&nats).await;
    assert_eq!(publish(&jetstream, "t.a").await, Ok(1));
    let url = nats.url().to_owned();
    nats.kill().await.unwrap();
    nats.restart().await.unwrap();
    assert_eq!(nats.url(), url);
    eventually(DEADLINE, "a publish after the restart", || async {
        publish(&jetstream, "t.a")
            .await
            .is_ok_and(|sequence| sequence > 1)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_server_that_lost_its_state_has_no_streams() {
    let mut nats = TestNats::start().await.unwrap();
    let jetstream = stream_on(&nats).await;
    nats.restart_empty().await.unwrap();
    let client = jetstream::new(nats.client().await.unwrap());
    assert!(client.get_stream("T").await.is_err());
    drop(jetstream);
}

#[tokio::test]
async fn two_servers_know_nothing_of_each_other() {
    let (one, two) = (
        TestNats::start().await.unwrap(),
        TestNats::start().await.unwrap(),
    );
    stream_on(&one).await;
    let other = jetstream::new(two.client().await.unwrap());
    assert!(other.get_stream("T").await.is_err());
}

#[tokio::test]
async fn a_client_behind_the_proxy_is_cut_off_and_comes_back() {
    let nats = TestNats::start().await.unwrap();
    stream_on(&nats).await;
    let proxy = FaultProxy::start(nats.port()).await.unwrap();
    let client = async_nats::ConnectOptions::new()
        .reconnect_delay_callback(|_| std::time::Duration::from_millis(20))
        .connect(proxy.nats_url())
        .await
        .unwrap();
    let jetstream = jetstream::new(client.clone());
    publish(&jetstream, "t.a").await.unwrap();
    proxy.refuse();
    eventually(DEADLINE, "the client notices", || async {
        client.connection_state() != async_nats::connection::State::Connected
    })
    .await
    .unwrap();
    proxy.resume();
    eventually(DEADLINE, "a publish after the cut", || async {
        publish(&jetstream, "t.a").await.is_ok()
    })
    .await
    .unwrap();
}

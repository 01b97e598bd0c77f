//! What a change of an endpoint does to the lanes that sleep: they get another token.

use super::harness::{Api, ENDPOINTS};
use posthorn_broker::codec::Parked;
use posthorn_broker::{BucketName, DecodeError, LaneStore, StreamName, Wire};
use posthorn_delivery::{EndpointId, LaneId, LaneReason, LaneState, Tenant, UnixMillis};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

fn path(endpoint: &Value) -> String {
    format!("{ENDPOINTS}/{}", endpoint["id"].as_str().unwrap())
}

fn id(endpoint: &Value) -> EndpointId {
    EndpointId::parse(endpoint["id"].as_str().unwrap()).unwrap()
}

/// Makes a lane active, as whoever parks the first delivery does.
async fn activate(api: &Api, lane: &LaneId) {
    let tenant = Tenant::parse("acme").unwrap();
    let (until, now) = (UnixMillis(0), UnixMillis(1_900_000_000_000));
    let state = LaneState::open(&tenant, LaneReason::Paused, until, now);
    let states = api.broker.bucket::<LaneState>(BucketName::Lanes).await;
    states.unwrap().create(&lane.key(), &state).await.unwrap();
    let store = LaneStore::open(&api.broker).await.unwrap();
    store.put_token(lane).await.unwrap();
}

/// Where a lane's token is in TOKENS, if it has one.
async fn token(api: &Api, lane: &LaneId) -> Option<u64> {
    let log = api.broker.log::<Parked>(StreamName::Tokens).await.unwrap();
    let subject = api.broker.names().token(lane);
    let page = log.read(&subject, 1, 10).await.unwrap();
    assert!(page.items.len() <= 1, "{page:?}");
    page.items.first().map(|item| item.sequence)
}

/// The sequence of the last token that was ever made.
async fn last_token(api: &Api) -> u64 {
    let log = api.broker.log::<Parked>(StreamName::Tokens).await.unwrap();
    log.bounds().await.unwrap().1
}

#[tokio::test]
async fn every_change_gives_an_active_lane_another_token() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let at = path(&endpoint);
    let lanes = [LaneId::live(&id(&endpoint)), LaneId::replay(&id(&endpoint))];
    for lane in &lanes {
        activate(&api, lane).await;
    }
    for (method, tail, body) in [
        ("POST", "/pause", None),
        ("POST", "/resume", None),
        ("PATCH", "", Some(json!({"url": "https://example.org/"}))),
        ("PATCH", "", Some(json!({"timeout": "3s"}))),
        ("PATCH", "", Some(json!({"max_in_flight": 64}))),
        ("PATCH", "", Some(json!({"breaker": null}))),
        ("PATCH", "", Some(json!({"enabled": false}))),
        ("POST", "/secret/rotate", None),
        ("DELETE", "", None),
    ] {
        let before = [token(&api, &lanes[0]).await, token(&api, &lanes[1]).await];
        let answer = api.call(method, &format!("{at}{tail}"), body).await;
        assert!(answer.status < 300, "{method} {tail}: {}", answer.json);
        for (lane, before) in lanes.iter().zip(before) {
            let after = token(&api, lane).await;
            assert!(after.is_some() && after > before, "{method} {tail} {lane}");
        }
    }
}

#[tokio::test]
async fn a_change_wakes_only_the_lane_that_is_active() {
    let api = Api::start().await;
    let (endpoint, other) = (api.endpoint(json!({})).await, api.endpoint(json!({})).await);
    let replay = LaneId::replay(&id(&endpoint));
    activate(&api, &replay).await;
    let before = token(&api, &replay).await;
    let resume = format!("{}/resume", path(&endpoint));
    assert_eq!(api.call("POST", &resume, None).await.status, 200);
    assert!(token(&api, &replay).await > before);
    assert_eq!(token(&api, &LaneId::live(&id(&endpoint))).await, None);
    assert_eq!(token(&api, &LaneId::live(&id(&other))).await, None);
}

#[tokio::test]
async fn a_change_of_an_endpoint_without_lanes_touches_nothing() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let at = path(&endpoint);
    let last = last_token(&api).await;
    for (method, tail, body) in [
        ("PATCH", "", Some(json!({"timeout": "3s"}))),
        ("POST", "/pause", None),
        ("POST", "/resume", None),
        ("POST", "/secret/rotate", None),
        ("DELETE", "", None),
    ] {
        let answer = api.call(method, &format!("{at}{tail}"), body).await;
        assert!(answer.status < 300, "{method} {tail}: {}", answer.json);
    }
    assert_eq!(last_token(&api).await, last);
}

#[tokio::test]
async fn an_endpoint_that_keeps_its_lane_or_did_is_always_woken() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let (at, live) = (path(&endpoint), LaneId::live(&id(&endpoint)));
    for patch in [
        json!({"ordering": "fifo"}),
        json!({"description": "still in order"}),
        json!({"ordering": null}),
        json!({"rate_limit": {"per_second": 5}}),
        json!({"rate_limit": {"per_second": 50}}),
        json!({"rate_limit": null}),
    ] {
        let before = token(&api, &live).await;
        let answer = api.call("PATCH", &at, Some(patch.clone())).await;
        assert_eq!(answer.status, 200, "{}", answer.json);
        assert!(token(&api, &live).await > before, "{patch}");
    }
    let before = token(&api, &live).await;
    let patch = json!({"description": "flows freely"});
    assert_eq!(api.call("PATCH", &at, Some(patch)).await.status, 200);
    assert_eq!(token(&api, &live).await, before);
    assert_eq!(token(&api, &LaneId::replay(&id(&endpoint))).await, None);
    let ordered = api.endpoint(json!({"ordering": "fifo"})).await;
    let deleted = api.call("DELETE", &path(&ordered), None).await;
    assert_eq!(deleted.status, 204);
    assert!(token(&api, &LaneId::live(&id(&ordered))).await.is_some());
}

#[tokio::test]
async fn a_lane_whose_state_cannot_be_read_is_woken() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let live = LaneId::live(&id(&endpoint));
    let unreadable = Parked::Unreadable(vec![0xff].into(), no_lane_state());
    let states = api.broker.bucket::<Parked>(BucketName::Lanes).await;
    let put = states.unwrap().put(&live.key(), &unreadable).await;
    put.unwrap();
    let resume = format!("{}/resume", path(&endpoint));
    assert_eq!(api.call("POST", &resume, None).await.status, 200);
    assert!(token(&api, &live).await.is_some());
}

fn no_lane_state() -> DecodeError {
    LaneState::from_wire(vec![0xff].into()).unwrap_err()
}

#[tokio::test]
async fn a_lane_that_cannot_be_woken_does_not_fail_the_change() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    activate(&api, &LaneId::live(&id(&endpoint))).await;
    delete_tokens(&api).await;
    let pause = format!("{}/pause", path(&endpoint));
    let answer = api.call("POST", &pause, None).await;
    assert_eq!(answer.status, 200, "{}", answer.json);
    assert_eq!(answer.json["disabled_reason"], "paused");
    let shown = api.get(&path(&endpoint)).await.json;
    assert_eq!(shown["disabled_reason"], "paused");
    let tokens = api.broker.stream_messages(StreamName::Tokens).await;
    assert!(tokens.is_err(), "there was nothing to wake it with");
}

/// Takes the whole stream away, in the protocol's own words.
async fn delete_tokens(api: &Api) {
    let address = api.nats.client_url().trim_start_matches("nats://");
    let stream = api.broker.names().stream(StreamName::Tokens);
    let mut server = BufReader::new(TcpStream::connect(address).await.unwrap());
    let say = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\n\
         PUB $JS.API.STREAM.DELETE.{stream} answer 0\r\n\r\n"
    );
    server.get_mut().write_all(say.as_bytes()).await.unwrap();
    let mut line = String::new();
    while !line.starts_with("MSG answer") {
        line.clear();
        assert_ne!(server.read_line(&mut line).await.unwrap(), 0);
    }
    line.clear();
    server.read_line(&mut line).await.unwrap();
    assert!(line.contains("\"success\":true"), "{line}");
}

use super::harness::{Answer, Api, request, settings};
use axum::body::Body;
use posthorn_broker::Topology;
use serde_json::{Value, json};

const PATH: &str = "/v1/tenants/acme/events";

async fn lines(api: &Api, body: impl Into<Body>) -> Answer {
    let headers = [("content-type", "application/x-ndjson")];
    let sent = request("POST", PATH, &headers).body(body.into()).unwrap();
    api.send(sent).await
}

fn results(answer: &Answer) -> &Vec<Value> {
    answer.json["results"].as_array().unwrap()
}

#[tokio::test]
async fn a_batch_is_stored_in_full_with_its_bytes_as_they_came() {
    let api = Api::start().await;
    let text = r#"[{"type":"a.b","payload": {"n": 1.0, "s":"\u00e9"}}, {"type":"c","id":"k","payload":[ ]}]"#;
    let sent = request("POST", PATH, &[]).body(Body::from(text)).unwrap();
    let answer = api.send(sent).await;
    assert_eq!(answer.status, 202, "{}", answer.json);
    let stored = api.events().await;
    let shown: Vec<(&str, &[u8])> = stored
        .iter()
        .map(|event| (event.event_type.as_str(), &event.payload[..]))
        .collect();
    assert!(shown.contains(&("a.b", br#"{"n": 1.0, "s":"\u00e9"}"#)));
    assert!(shown.contains(&("c", b"[ ]")));
    let again = lines(&api, r#"{"type":"c","id":"k","payload":[ ]}"#).await;
    assert_eq!(results(&again)[0]["duplicate"], true);
    assert_eq!(results(&again)[0]["id"], results(&answer)[1]["id"]);
}

#[tokio::test]
async fn ing_04_one_invalid_item_in_a_hundred_is_reported_in_its_place() {
    let api = Api::start().await;
    let item = |n: usize| match n {
        57 => json!({"type": "a..b", "payload": n}),
        n => json!({"type": "a.b", "id": format!("k{n}"), "payload": n}),
    };
    let items: Vec<Value> = (0..100).map(item).collect();
    let answer = api.post(PATH, Value::Array(items)).await;
    assert_eq!(answer.status, 207);
    let results = results(&answer);
    assert_eq!(results.len(), 100);
    for (index, result) in results.iter().enumerate() {
        assert_eq!(result["index"], index);
        if index == 57 {
            assert_eq!(result["status"], 400);
            assert_eq!(result["error"]["field"], "items[57].type");
        } else {
            assert_eq!(result["status"], 202, "{result}");
        }
    }
    assert_eq!(api.events().await.len(), 99);
}

#[tokio::test]
async fn sig_07_sig_08_lines_that_cannot_be_read_are_named_and_the_others_stored() {
    let api = Api::start().await;
    let deep = format!(r#"{{"type":"a","payload":{}"#, "[".repeat(10_000));
    let body = [
        &b"\xef\xbb\xbf{\"type\":\"a\",\"payload\":1}\n"[..],
        b"{\"type\":\"a\",\"payload\":\"\xe9\"}\n",
        deep.as_bytes(),
        b"\n{\"type\":\"a\",\"id\":\"\\ud800\",\"payload\":1}\n",
        b"{\"type\":\"a\",\"payload\":\"\\ud800\"}\n",
        b"{\"type\":\"a\",\"id\":\"a\\nb\",\"payload\":1}",
    ]
    .concat();
    let answer = lines(&api, body).await;
    assert_eq!(answer.status, 207, "{}", answer.json);
    let statuses: Vec<u64> = results(&answer)
        .iter()
        .map(|result| result["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [400, 400, 400, 400, 202, 400]);
    assert_eq!(results(&answer)[2]["error"]["field"], "items[2]");
    assert_eq!(api.events().await[0].payload, r#""\ud800""#);
}

#[tokio::test]
async fn limits_of_a_batch_are_said() {
    let mut small = settings();
    small.max_payload = 1_024;
    let api = Api::with(small, Topology::new("posthorn")).await;
    let many: Vec<Value> = (0..1_001)
        .map(|n| json!({"type": "a", "payload": n}))
        .collect();
    api.post(PATH, Value::Array(many))
        .await
        .refuses(422, "items");
    api.post(PATH, json!([])).await.refuses(422, "items");
    let large = vec![b' '; 1_024_001];
    let sent = request("POST", PATH, &[]).body(Body::from(large)).unwrap();
    let answer = api.send(sent).await;
    assert_eq!(answer.status, 413);
    assert!(answer.json["detail"].as_str().unwrap().contains("1024000"));
    let items = json!([{"type": "a", "payload": "x".repeat(1_023)}, {"type": "a", "payload": 1}]);
    let answer = api.post(PATH, items).await;
    assert_eq!(answer.status, 207);
    assert_eq!(results(&answer)[0]["status"], 413);
    assert_eq!(results(&answer)[1]["status"], 202);
    let wrong = request("POST", PATH, &[("content-type", "text/csv")]);
    let answer = api.send(wrong.body(Body::from("a,b")).unwrap()).await;
    answer.refuses(400, "content-type");
    assert_eq!(api.events().await.len(), 1);
}

#[tokio::test]
async fn a_thousand_items_are_stored() {
    let api = Api::start().await;
    let many: Vec<Value> = (0..1_000)
        .map(|n| json!({"type": "a", "payload": n}))
        .collect();
    let answer = api.post(PATH, Value::Array(many)).await;
    assert_eq!(answer.status, 202, "{}", answer.json);
    assert_eq!(results(&answer).len(), 1_000);
    assert_eq!(api.events().await.len(), 1_000);
}

#[tokio::test]
async fn ing_03_a_key_twice_in_one_batch_is_one_event() {
    let api = Api::start().await;
    let item = |payload| json!({"type": "a", "id": "k", "payload": payload});
    let answer = api.post(PATH, json!([item(1), item(1), item(2)])).await;
    assert_eq!(answer.status, 207);
    let results = results(&answer);
    assert_eq!(results[0]["duplicate"], false);
    assert_eq!(results[1]["duplicate"], true);
    assert_eq!(results[0]["id"], results[1]["id"]);
    assert_eq!(results[2]["status"], 422);
    assert_eq!(results[2]["error"]["field"], "items[2].id");
    assert_eq!(api.events().await.len(), 1);
    let other = api
        .post(PATH, json!([item(3), {"type": "b", "payload": 1}]))
        .await;
    let results = other.json["results"].as_array().unwrap();
    assert_eq!(results[0]["error"]["field"], "items[0].id");
}

#[tokio::test]
async fn what_a_batch_would_not_heed_is_refused() {
    let api = Api::start().await;
    for (name, value) in [
        ("idempotency-key", "k1"),
        ("deliver-at", "2030-01-31T08:00:00Z"),
        ("content-encoding", "gzip"),
    ] {
        let sent = request("POST", PATH, &[(name, value)]);
        let sent = sent.body(Body::from(r#"[{"type":"a","payload":1}]"#));
        let answer = api.send(sent.unwrap()).await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.json);
        assert_eq!(answer.json["field"], name);
    }
    assert!(api.events().await.is_empty());
}

use super::harness::{Api, ENDPOINTS};
use posthorn_delivery::{
    Attempt, AttemptResult, BreakerSignal, Disposition, EndpointId, EventId, EventType, Failure,
    Reason, Tenant, UnixMillis,
};
use serde_json::{Value, json};

fn attempt(endpoint: &str, number: u32) -> Attempt {
    Attempt {
        tenant: Tenant::parse("acme").unwrap(),
        event_id: EventId::from_bits(u128::from(number)),
        event_type: EventType::parse("invoice.paid").unwrap(),
        endpoint_id: EndpointId::parse(endpoint).unwrap(),
        number,
        hop: number,
        replay_generation: 0,
        at: UnixMillis(1_900_000_000_000 + i64::from(number)),
        latency_ms: 12,
        result: AttemptResult::Status(503),
        response_body: "busy".into(),
        disposition: Disposition::Retry {
            not_before: UnixMillis(1_900_000_060_000),
            same_attempt: false,
        },
        breaker_generation: 0,
        probe: false,
        breaker_signal: BreakerSignal::Failure,
        hold_until: None,
        disable_endpoint: false,
        in_order: false,
        detail: String::new(),
        exchange: None,
    }
}

#[tokio::test]
async fn attempts_are_shown_newest_first_however_they_lie_among_others() {
    let api = Api::start().await;
    let mine = api.endpoint(json!({})).await;
    let other = api.endpoint(json!({})).await;
    let (mine, other) = (mine["id"].as_str().unwrap(), other["id"].as_str().unwrap());
    let path = format!("{ENDPOINTS}/{mine}/attempts");
    let empty = api.get(&path).await;
    assert_eq!(empty.status, 200, "{}", empty.json);
    assert_eq!(
        (&empty.json["count"], &empty.json["total"]),
        (&json!(0), &json!(0))
    );
    // Seven of mine: some close together, some far apart among another's.
    for number in 1..=300 {
        let of = if [1, 2, 3, 150, 298, 299, 300].contains(&number) {
            mine
        } else {
            other
        };
        api.broker
            .publish_attempt(&attempt(of, number))
            .await
            .unwrap();
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = api
            .get(&format!("{path}?limit=2&cursor={cursor}"))
            .await
            .json;
        assert_eq!(page["total"], 7, "{page}");
        let items = page["items"].as_array().unwrap();
        seen.extend(items.iter().map(|item| item["number"].as_u64().unwrap()));
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    assert_eq!(seen, [300, 299, 298, 150, 3, 2, 1]);
    let all = api.get(&format!("{path}?limit=500")).await.json;
    assert_eq!(all["count"], 7);
}

#[tokio::test]
async fn an_attempt_says_what_happened_and_what_follows() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let id = endpoint["id"].as_str().unwrap();
    let mut failed = attempt(id, 2);
    failed.result = AttemptResult::Error(Failure::Timeout);
    failed.disposition = Disposition::Dead(Reason::Exhausted);
    failed.response_body = b"\x00\xff"[..].into();
    api.broker.publish_attempt(&attempt(id, 1)).await.unwrap();
    api.broker.publish_attempt(&failed).await.unwrap();
    let page = api.get(&format!("{ENDPOINTS}/{id}/attempts")).await.json;
    let expected = json!({
        "at": "2030-03-17T17:46:40.002Z", "number": 2, "error": "timeout", "latency_ms": 12,
        "event_id": EventId::from_bits(2).as_str(), "type": "invoice.paid",
        "disposition": "dead", "reason": "exhausted", "next_attempt_at": null,
        "response_body_base64": "AP8=",
    });
    assert_eq!(page["items"][0], expected);
    let first = &page["items"][1];
    assert_eq!(
        (&first["status"], &first["disposition"]),
        (&json!(503), &json!("retry"))
    );
    assert_eq!(first["response_body"], "busy");
    assert_eq!(first["next_attempt_at"], "2030-03-17T17:47:40.000Z");
    assert_eq!(first.get("reason"), None::<&Value>);
}

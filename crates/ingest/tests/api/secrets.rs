use super::harness::{Api, ENDPOINTS};
use serde_json::{Value, json};

const GOOD: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn path(endpoint: &Value, tail: &str) -> String {
    format!("{ENDPOINTS}/{}{tail}", endpoint["id"].as_str().unwrap())
}

#[tokio::test]
async fn sig_03_a_secret_has_one_spelling() {
    let api = Api::start().await;
    let unpadded = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDAA";
    let url_safe = GOOD.replace('+', "-");
    let newline = format!("{GOOD}\n");
    let versioned = format!("v1,{GOOD}");
    let bare = GOOD.trim_start_matches("whsec_");
    for bad in [
        bare,
        unpadded,
        &url_safe,
        &newline,
        &versioned,
        "whsec_",
        "whsec_!!!!",
        "whsec_AAAAAAAAAAA=",
    ] {
        let document = json!({"url": "https://example.com/", "secret": bad});
        let answer = api.post(ENDPOINTS, document).await;
        answer.refuses(422, "secret");
        let text = answer.json.to_string();
        assert!(bad.len() < 8 || !text.contains(bad.trim_end()), "{text}");
    }
    assert_eq!(api.endpoint_revision().await, 0);
    let endpoint = api.endpoint(json!({"secret": GOOD})).await;
    assert_eq!(endpoint["secret"], GOOD);
}

#[tokio::test]
async fn dlq_06_a_secret_is_shown_at_creation_and_where_it_is_asked_for() {
    let api = Api::start().await;
    let endpoint = api
        .endpoint(json!({"secret": GOOD, "signatures": ["v1", "v1a"]}))
        .await;
    let patch = json!({"description": "x"});
    for answer in [
        api.get(&path(&endpoint, "")).await,
        api.get(ENDPOINTS).await,
        api.call("PATCH", &path(&endpoint, ""), Some(patch)).await,
        api.call("POST", &path(&endpoint, "/pause"), None).await,
    ] {
        assert_eq!(answer.status, 200, "{}", answer.json);
        let text = answer.json.to_string();
        assert!(
            !text.contains("whsec_") && !text.contains("whsk_"),
            "{text}"
        );
        assert!(text.contains("whpk_"), "{text}");
    }
    let shown = api.get(&path(&endpoint, "/secret")).await.json;
    assert_eq!(shown["secret"], GOOD);
    assert_eq!(shown["secrets"].as_array().unwrap().len(), 1);
    assert!(!shown.to_string().contains("whsk_"));
}

#[tokio::test]
async fn sig_04_a_rotation_shows_the_new_secret_once_and_keeps_the_old_for_a_while() {
    let api = Api::start().await;
    let endpoint = api
        .endpoint(json!({"secret": GOOD, "signatures": ["v1", "v1a"]}))
        .await;
    let at = path(&endpoint, "/secret/rotate");
    let rotated = api.call("POST", &at, None).await;
    assert_eq!(rotated.status, 200, "{}", rotated.json);
    assert_ne!(rotated.json["secret"], GOOD);
    assert_eq!(rotated.json["public_keys"].as_array().unwrap().len(), 2);
    assert!(rotated.json["previous_expires_at"].is_string());
    let stored = api.opened_endpoint(&endpoint).await;
    assert_eq!(stored.secrets[0].text.reveal(), rotated.json["secret"]);
    assert_eq!(stored.secrets[1].text.reveal(), GOOD);
    let left = stored
        .updated_at
        .until(stored.secrets[1].expires_at.unwrap());
    assert_eq!(left.as_secs(), 24 * 3_600);
    assert_eq!(stored.target_epoch, 1);
    let alone = api.post(&at, json!({"overlap": "0s"})).await.json;
    assert_eq!(alone["previous_expires_at"], Value::Null);
    let shown = api.get(&path(&endpoint, "/secret")).await.json;
    assert_eq!(shown["secrets"].as_array().unwrap().len(), 1);
    assert_eq!(shown["secret"], alone["secret"]);
    for bad in ["8d", "-1s", "1"] {
        let answer = api.post(&at, json!({"overlap": bad})).await;
        answer.refuses(422, "overlap");
    }
    api.post(&at, json!({"overlapp": "1h"}))
        .await
        .refuses(422, "overlapp");
}

#[tokio::test]
async fn a_written_secret_replaces_the_old_one() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let patch = json!({"secret": GOOD});
    let answer = api.call("PATCH", &path(&endpoint, ""), Some(patch)).await;
    assert_eq!(answer.status, 200, "{}", answer.json);
    let stored = api.opened_endpoint(&endpoint).await;
    assert_eq!((stored.secrets.len(), stored.target_epoch), (1, 1));
    assert_eq!(stored.secrets[0].text.reveal(), GOOD);
}

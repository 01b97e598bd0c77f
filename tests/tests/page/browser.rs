//! What a person does with a browser: looks, clicks, types. Everything waits for what it needs.

use crate::driver::Driver;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthorn_tests::wait::{eventually, eventually_some};
use serde_json::{Value, json};
use std::time::Duration;

pub const SOON: Duration = Duration::from_secs(20);

pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";

pub struct Browser {
    pub driver: Driver,
    origin: String,
}

/// A text as an XPath literal; no text of the tests has both kinds of quotes.
fn literal(text: &str) -> String {
    match text.contains('\'') {
        true => format!("\"{text}\""),
        false => format!("'{text}'"),
    }
}

pub fn button(name: &str) -> String {
    format!(
        "//button[normalize-space()={} and not(@disabled)]",
        literal(name)
    )
}

/// A button of the open dialog.
pub fn answer(name: &str) -> String {
    format!("//dialog{}", button(name))
}

pub fn link(name: &str) -> String {
    format!("//a[normalize-space()={}]", literal(name))
}

/// The field whose label begins with a text.
pub fn field(label: &str) -> String {
    let label = literal(label);
    format!("//label[starts-with(normalize-space(), {label})]//*[self::input or self::select]")
}

impl Browser {
    pub async fn start(origin: &str) -> Browser {
        Browser {
            driver: Driver::start().await,
            origin: origin.to_owned(),
        }
    }

    pub async fn open(&self, path: &str) {
        let url = format!("{}{path}", self.origin);
        self.driver.post("/url", json!({"url": url})).await.unwrap();
    }

    pub async fn reload(&self) {
        self.driver.post("/refresh", json!({})).await.unwrap();
    }

    /// The path and query that the browser shows.
    pub async fn address(&self) -> String {
        let url = self.driver.get("/url").await.unwrap();
        url.as_str().unwrap().replace(&self.origin, "")
    }

    pub async fn address_is(&self, path: &str) {
        let what = format!("the address is {path}");
        let held = eventually(SOON, &what, || async { self.address().await == path }).await;
        if let Err(error) = held {
            panic!("{error}; it is {}", self.address().await);
        }
    }

    /// Everything that is to be read.
    pub async fn text(&self) -> String {
        let text = self
            .driver
            .script("return document.body.innerText", json!([]))
            .await;
        text.as_str().unwrap_or_default().to_owned()
    }

    pub async fn sees(&self, text: &str) {
        let what = format!("the page says {text:?}");
        let seen = eventually(SOON, &what, || async { self.text().await.contains(text) }).await;
        if let Err(error) = seen {
            panic!("{error}; it says:\n{}", self.text().await);
        }
    }

    pub async fn sees_not(&self, text: &str) {
        let what = format!("the page does not say {text:?}");
        let gone = eventually(SOON, &what, || async { !self.text().await.contains(text) }).await;
        if let Err(error) = gone {
            panic!("{error}; it says:\n{}", self.text().await);
        }
    }

    /// Waits for an element.
    pub async fn has(&self, xpath: &str) -> String {
        let what = format!("there is {xpath}");
        let found = eventually_some(SOON, &what, || async { self.driver.find(xpath).await.ok() });
        match found.await {
            Ok(element) => element,
            Err(error) => panic!("{error}; the page says:\n{}", self.text().await),
        }
    }

    /// Clicks as a person does, on what is visible and not covered; and again where the list was
    /// drawn anew under the finger.
    pub async fn click(&self, xpath: &str) {
        let what = format!("a click on {xpath}");
        let clicked = eventually_some(SOON, &what, || async {
            let element = self.driver.find(xpath).await.ok()?;
            let path = format!("/element/{element}/click");
            self.driver.post(&path, json!({})).await.ok()
        });
        if let Err(error) = clicked.await {
            panic!("{error}; the page says:\n{}", self.text().await);
        }
    }

    /// Replaces what a field holds.
    pub async fn fill(&self, label: &str, text: &str) {
        let element = self.has(&field(label)).await;
        let clear = format!("/element/{element}/clear");
        self.driver.post(&clear, json!({})).await.unwrap();
        let value = format!("/element/{element}/value");
        self.driver
            .post(&value, json!({"text": text}))
            .await
            .unwrap();
    }

    pub async fn choose(&self, label: &str, value: &str) {
        let option = format!("{}/option[@value={}]", field(label), literal(value));
        self.click(&option).await;
    }

    /// What a field holds.
    pub async fn value(&self, label: &str) -> String {
        let element = self.has(&field(label)).await;
        let path = format!("/element/{element}/property/value");
        let value = self.driver.get(&path).await.unwrap();
        value.as_str().unwrap_or_default().to_owned()
    }

    /// Presses and lets go keys, one after the other.
    pub async fn press(&self, keys: &[&str]) {
        let strokes = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key})));
        let strokes: Vec<Value> = strokes.collect();
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]});
        self.driver.post("/actions", actions).await.unwrap();
    }

    /// Presses Tab until the focus is on what has this name.
    pub async fn tab_to(&self, name: &str) {
        const FOCUSED: &str = "const e = document.activeElement; \
            return (e.getAttribute('aria-label') || e.innerText || e.name || '').trim()";
        let mut passed = Vec::new();
        for _ in 0..120 {
            self.press(&[TAB]).await;
            let focused = self.driver.script(FOCUSED, json!([])).await;
            let focused = focused.as_str().unwrap_or_default().to_owned();
            if focused == name {
                return;
            }
            passed.push(focused);
        }
        panic!("Tab does not lead to {name:?}, but to {passed:?}");
    }

    pub async fn dark(&self, dark: bool) {
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.driver
            .cdp("Emulation.setEmulatedMedia", json!({"features": features}))
            .await;
    }

    /// What is visible, as PNG.
    pub async fn picture(&self) -> Vec<u8> {
        let picture = self.driver.get("/screenshot").await.unwrap();
        STANDARD.decode(picture.as_str().unwrap()).unwrap()
    }

    /// The end of a test: nothing was logged but what is `permitted`, and nobody else was asked.
    pub async fn was_quiet(&self, permitted: &[&str]) {
        let log = self.log("browser").await;
        let bad = log.iter().filter(|entry| {
            if !matches!(entry["level"].as_str(), Some("SEVERE" | "WARNING")) {
                return false;
            }
            let message = entry["message"].as_str().unwrap_or_default();
            !permitted.iter().any(|known| message.contains(known))
        });
        let bad: Vec<&Value> = bad.collect();
        assert!(bad.is_empty(), "the console says {bad:#?}");
        let mut asked = 0;
        for entry in self.log("performance").await {
            let event: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            if event["message"]["method"] != "Network.requestWillBeSent" {
                continue;
            }
            let request = &event["message"]["params"];
            let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (document, url) = (of(&request["documentURL"]), of(&request["request"]["url"]));
            // What the browser shows before it is told where to go.
            if document.starts_with("chrome://") {
                continue;
            }
            assert!(
                url.starts_with(&self.origin) || url.starts_with("data:"),
                "{url}"
            );
            asked += 1;
        }
        assert!(asked > 10, "only {asked} requests were seen");
    }

    async fn log(&self, kind: &str) -> Vec<Value> {
        let log = self
            .driver
            .post("/se/log", json!({"type": kind}))
            .await
            .unwrap();
        log.as_array().unwrap().clone()
    }
}

//! The WebDriver protocol, as far as the tests need it: chromedriver as a process, and calls of it.

use posthorn_tests::wait::eventually_some;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

const START: Duration = Duration::from_secs(60);
/// Under this name the protocol hands out elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser and the driver that steers it. Dropping it ends both.
pub struct Driver {
    client: Client,
    port: u16,
    session: String,
    process: Child,
    _profile: TempDir,
}

fn program(setting: &str, names: &[&str]) -> PathBuf {
    if let Some(path) = std::env::var_os(setting) {
        return path.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path);
    let found = folders.find_map(|folder| {
        let files = names.iter().map(|name| folder.join(name));
        files.into_iter().find(|file| file.is_file())
    });
    found.unwrap_or_else(|| {
        panic!(
            "the page is tested in a real browser, and there is no {} in PATH: install Chromium \
             and its driver (Debian: apt-get install chromium chromium-driver), or say with \
             {setting} where it is",
            names.join(" or ")
        )
    })
}

impl Driver {
    pub async fn start() -> Driver {
        let driver = program("POSTHORN_CHROMEDRIVER", &["chromedriver"]);
        let browser = program(
            "POSTHORN_CHROMIUM",
            &["chromium", "chromium-browser", "google-chrome"],
        );
        let profile = TempDir::with_prefix("posthorn-browser-").unwrap();
        let mut process = Command::new(driver)
            .arg("--port=0")
            .env("TMPDIR", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let port = port_of(&mut process).await;
        let client = Client::builder().no_proxy().timeout(START).build().unwrap();
        let mut driver = Driver {
            client,
            port,
            session: String::new(),
            process,
            _profile: profile,
        };
        let asked = capabilities(&browser, driver._profile.path());
        let made = driver.ask(Method::POST, "/session", &asked).await.unwrap();
        driver.session = made["sessionId"].as_str().unwrap().to_owned();
        driver
    }

    /// A call of the session.
    pub async fn call(&self, method: Method, path: &str, body: Value) -> Result<Value, String> {
        let path = format!("/session/{}{path}", self.session);
        self.ask(method, &path, &body).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Result<Value, String> {
        self.call(Method::POST, path, body).await
    }

    pub async fn get(&self, path: &str) -> Result<Value, String> {
        self.call(Method::GET, path, Value::Null).await
    }

    /// A call of the browser's own protocol.
    pub async fn cdp(&self, command: &str, parameters: Value) -> Value {
        let body = json!({"cmd": command, "params": parameters});
        self.post("/goog/cdp/execute", body).await.unwrap()
    }

    /// The first element of an XPath.
    pub async fn find(&self, xpath: &str) -> Result<String, String> {
        let body = json!({"using": "xpath", "value": xpath});
        let found = self.post("/element", body).await?;
        Ok(found[ELEMENT].as_str().unwrap().to_owned())
    }

    /// What a function body returns.
    pub async fn script(&self, body: &str, arguments: Value) -> Value {
        let body = json!({"script": body, "args": arguments});
        self.post("/execute/sync", body).await.unwrap()
    }

    /// What a function body hands to its last argument, which is called with it.
    pub async fn script_later(&self, body: &str) -> Value {
        let body = json!({"script": body, "args": []});
        self.post("/execute/async", body).await.unwrap()
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> Result<Value, String> {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let mut request = self.client.request(method, url);
        if !body.is_null() {
            request = request.body(body.to_string());
        }
        let answer = request.send().await.map_err(|error| error.to_string())?;
        let good = answer.status().is_success();
        let text = answer.text().await.map_err(|error| error.to_string())?;
        let answer: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        match good {
            true => Ok(answer["value"].clone()),
            false => Err(format!(
                "{}: {}",
                answer["value"]["error"].as_str().unwrap_or_default(),
                answer["value"]["message"].as_str().unwrap_or_default()
            )),
        }
    }
}

/// Without a sandbox, because gates run as root; the browser sees nothing but our own page.
fn capabilities(browser: &std::path::Path, profile: &std::path::Path) -> Value {
    let arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--force-color-profile=srgb",
        "--lang=en",
        "--window-size=1280,960",
    ];
    let mut arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
    arguments.push(format!("--user-data-dir={}", profile.display()));
    json!({"capabilities": {"alwaysMatch": {
        "browserName": "chrome",
        "goog:chromeOptions": {
            "binary": browser,
            "args": arguments,
            "perfLoggingPrefs": {"enableNetwork": true, "enablePage": false},
        },
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    }}})
}

async fn port_of(process: &mut Child) -> u16 {
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let reading = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let port = line.split("started successfully on port ").nth(1);
            if let Some(port) = port {
                return port.trim_end_matches('.').parse().unwrap();
            }
        }
        panic!("chromedriver ended");
    };
    let port = tokio::time::timeout(START, reading).await.unwrap();
    // What it says later is nobody's: but a full pipe would stop it.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    eventually_some(START, "chromedriver answers", || async {
        tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .ok()
    })
    .await
    .unwrap();
    port
}

/// The driver ends the browser when its session is deleted; killed, it would leave it behind.
impl Drop for Driver {
    fn drop(&mut self) {
        let delete = format!(
            "DELETE /session/{} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n",
            self.session
        );
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            let _ = stream.write_all(delete.as_bytes());
            let _ = stream.read(&mut [0; 1]);
        }
        let _ = self.process.start_kill();
    }
}

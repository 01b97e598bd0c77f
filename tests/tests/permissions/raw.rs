//! NATS spoken by hand: what a client library would not send, and refusals in the order in which
//! they come.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// A connection.
pub struct Raw {
    stream: BufReader<TcpStream>,
}

/// What came before a PONG.
#[derive(Debug, Default)]
pub struct Heard {
    /// The server's errors.
    pub errors: Vec<String>,
    /// Payloads of messages.
    pub messages: Vec<String>,
}

impl Raw {
    pub async fn connect(port: u16, key: &KeyPair) -> Raw {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let mut raw = Raw {
            stream: BufReader::new(stream),
        };
        let info = raw.line().await;
        let info: Value = serde_json::from_str(info.strip_prefix("INFO ").unwrap()).unwrap();
        let nonce = info["nonce"].as_str().unwrap();
        let connect = json!({
            "nkey": key.public_key(),
            "sig": URL_SAFE_NO_PAD.encode(key.sign(nonce.as_bytes()).unwrap()),
            "verbose": false, "pedantic": false, "headers": true, "no_responders": true,
            "lang": "test", "version": "1", "protocol": 1,
        });
        raw.write(format!("CONNECT {connect}\r\n").as_bytes()).await;
        assert!(raw.settle().await.errors.is_empty());
        raw
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub async fn publish(&mut self, subject: &str) {
        self.write(format!("PUB {subject} 0\r\n\r\n").as_bytes())
            .await;
    }

    pub async fn subscribe(&mut self, subject: &str) {
        self.write(format!("SUB {subject} 1\r\n").as_bytes()).await;
    }

    /// Everything up to the answer to a PING: the server has worked off what was sent before.
    pub async fn settle(&mut self) -> Heard {
        self.write(b"PING\r\n").await;
        let mut heard = Heard::default();
        loop {
            let line = self.line().await;
            match line.split(' ').next().unwrap() {
                "PONG" => return heard,
                "PING" => self.write(b"PONG\r\n").await,
                "-ERR" => heard.errors.push(line),
                "MSG" | "HMSG" => heard.messages.push(self.body(&line).await),
                _ => {}
            }
        }
    }

    /// Sends a message with these header bytes, and the answer to it.
    pub async fn request(&mut self, subject: &str, inbox: &str, headers: &[u8]) -> Value {
        let body = b"{}";
        self.write(format!("SUB {inbox} 7\r\nUNSUB 7 1\r\n").as_bytes())
            .await;
        let (head, all) = (headers.len(), headers.len() + body.len());
        self.write(format!("HPUB {subject} {inbox} {head} {all}\r\n").as_bytes())
            .await;
        self.write(&[headers, &body[..], b"\r\n"].concat()).await;
        loop {
            let line = self.line().await;
            if line.starts_with("MSG ") || line.starts_with("HMSG ") {
                let answer = self.body(&line).await;
                return serde_json::from_str(&answer).unwrap_or(Value::String(answer));
            }
            assert!(!line.starts_with("-ERR"), "{line}");
        }
    }

    async fn body(&mut self, line: &str) -> String {
        let size: usize = line.rsplit(' ').next().unwrap().parse().unwrap();
        let mut body = vec![0; size + 2];
        self.stream.read_exact(&mut body).await.unwrap();
        String::from_utf8_lossy(&body[..size]).into_owned()
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await.unwrap();
        assert!(read > 0, "the server has closed the connection");
        line.trim_end().to_owned()
    }
}

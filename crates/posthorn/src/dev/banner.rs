//! What is printed when everything is ready: where it is, and what to type next.
//!
//! Each command works as it stands, pasted into another terminal.

use crate::devfile::DevFile;
use std::path::Path;

/// The port of `posthorn listen` when nothing is said.
const RECEIVER: &str = "http://127.0.0.1:9000/";

/// The text; `program` is how this one was called.
pub(crate) fn text(file: &DevFile, data_dir: &Path, prefix: &str, program: &str) -> String {
    let DevFile {
        ingest_url,
        admin_url,
        ops_url,
        nats_url,
        api_key,
        ..
    } = file;
    let data_dir = data_dir.display();
    format!(
        "\
Posthorn is ready. Ctrl-C stops it.

  public API      {ingest_url}
  operator's API  {admin_url}
  and page        {admin_url}/ (sign in with the key below)
  health          {ops_url}/readyz  {ops_url}/metrics
  NATS            {nats_url}
  API key         {api_key}
  data            {data_dir}

Receive, in another terminal:

  {program} listen

Create an endpoint for it, and publish:

  curl -sS {ingest_url}/v1/tenants/acme/endpoints \\
    -H 'Authorization: Bearer {api_key}' -H 'Content-Type: application/json' \\
    -d '{{\"url\":\"{RECEIVER}\",\"event_types\":[\"invoice.*\"]}}'

  curl -sS {ingest_url}/v1/tenants/acme/events/invoice.paid \\
    -H 'Authorization: Bearer {api_key}' -H 'Content-Type: application/json' \\
    -d '{{\"id\":\"in_1\"}}'

Or publish straight to NATS:

  nats pub --server {nats_url} {prefix}.events.acme.invoice.paid '{{\"id\":\"in_1\"}}'
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_complete() {
        let file = DevFile {
            ingest_url: "http://127.0.0.1:1".to_owned(),
            admin_url: "http://127.0.0.1:2".to_owned(),
            ops_url: "http://127.0.0.1:3".to_owned(),
            nats_url: "nats://127.0.0.1:4".to_owned(),
            api_key: "phdev_1".to_owned(),
            pid: 1,
        };
        let text = text(&file, Path::new("data"), "own", "./posthorn");
        let commands: Vec<&str> = text.split("  curl ").skip(1).collect();
        assert_eq!(commands.len(), 2);
        for command in commands {
            assert!(command.contains("http://127.0.0.1:1/v1/tenants/acme/"));
            assert!(command.contains("Bearer phdev_1"));
        }
        assert!(text.contains("  ./posthorn listen\n"));
        assert!(text.contains(
            "nats pub --server nats://127.0.0.1:4 own.events.acme.invoice.paid '{\"id\":\"in_1\"}'"
        ));
        assert!(
            text.contains(r#"-d '{"url":"http://127.0.0.1:9000/","event_types":["invoice.*"]}'"#)
        );
    }
}

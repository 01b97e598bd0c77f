//! The table of settings is what the binaries say about themselves.

use crate::help::{SERVICES, Setting, settings, variables};
use crate::markdown::{code_spans, compare_generated, documents, read};
use std::collections::BTreeSet;
use std::fmt::Write as _;

#[tokio::test]
async fn the_configuration_page_is_what_the_binaries_say() {
    let mut services = Vec::new();
    for name in SERVICES {
        services.push((name, settings(name).await));
    }
    let shared: Vec<Setting> = services[0]
        .1
        .iter()
        .filter(|s| services.iter().all(|(_, all)| all.contains(s)))
        .cloned()
        .collect();
    let mut page = "\n## Every service\n".to_owned();
    table(&mut page, &shared);
    for (name, all) in &services {
        write!(page, "\n## {name}\n").unwrap();
        table(&mut page, &without(all, &shared));
    }
    page.push_str("\n## posthorn dev\n");
    let dev = settings("posthorn dev").await;
    table(&mut page, &without(&dev, &shared));
    page.push_str("\n## The command line\n");
    let mut client = settings("posthorn send").await;
    client.extend(settings("posthorn listen").await);
    client.retain(|setting| setting.env.is_some());
    table(&mut page, &client);
    compare_generated("docs/configuration.md", "settings", &page);
}

fn without(all: &[Setting], shared: &[Setting]) -> Vec<Setting> {
    all.iter()
        .filter(|s| !shared.contains(s))
        .cloned()
        .collect()
}

fn table(page: &mut String, settings: &[Setting]) {
    page.push_str("\n| environment | flag | default | |\n|---|---|---|---|\n");
    for Setting {
        flag,
        env,
        default,
        help,
        ..
    } in settings
    {
        let code = |text: &Option<String>| {
            text.as_ref()
                .map_or(String::new(), |text| format!("`{text}`"))
        };
        let (env, default) = (code(env), code(default));
        let help = help.replace('|', "\\|").replace('<', "&lt;");
        writeln!(page, "| {env} | `{flag}` | {default} | {help} |").unwrap();
    }
}

/// Everything that prose calls a variable of ours is one that some binary reads.
#[tokio::test]
async fn every_variable_that_a_document_names_is_read_by_a_binary() {
    let mut known: BTreeSet<String> = ["POSTHORN_NATS_SERVER", "POSTHORN_BLESS"]
        .map(str::to_owned)
        .into();
    for command in SERVICES
        .iter()
        .chain(&["posthorn dev", "posthorn send", "posthorn listen"])
    {
        known.extend(variables(command).await);
    }
    // Of the sample NATS configuration, and the names of streams and buckets.
    let elsewhere = |name: &str| {
        let names = posthorn_broker::Names::new("posthorn");
        let streams = posthorn_broker::StreamName::ALL.map(|stream| names.stream(stream));
        let buckets = posthorn_broker::BucketName::ALL.map(|bucket| names.bucket(bucket));
        streams.iter().chain(&buckets).any(|known| known == name)
            || read("deploy/nats/nats.conf").contains(&format!("${name}"))
    };
    for document in documents() {
        for span in code_spans(&read(&document)) {
            let name = span.split('=').next().unwrap();
            if name.starts_with("POSTHORN_") && !name.contains('*') {
                assert!(
                    known.contains(name) || elsewhere(name),
                    "{document}: {name}"
                );
            }
        }
    }
}

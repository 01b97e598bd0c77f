//! The OTLP exporter, made from the standard `OTEL_*` variables alone.

use opentelemetry::KeyValue;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;

use super::TelemetryError;

/// A provider that exports in batches, or none where no collector is configured.
pub(super) fn provider(
    service: &str,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Option<SdkTracerProvider>, TelemetryError> {
    if !is_wanted(&env) {
        return Ok(None);
    }
    // An `https` collector is the first TLS this process speaks.
    crate::tls::install_crypto_provider();
    let exporter = SpanExporter::builder()
        .with_http()
        .build()
        .map_err(TelemetryError::Exporter)?;
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource(service, &env))
        .build();
    Ok(Some(provider))
}

fn is_wanted(env: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name| env(name).is_some_and(|value| !value.trim().is_empty());
    let is = |name, word: &str| env(name).is_some_and(|v| v.trim().eq_ignore_ascii_case(word));
    let endpoint = set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") || set("OTEL_EXPORTER_OTLP_ENDPOINT");
    endpoint && !is("OTEL_SDK_DISABLED", "true") && !is("OTEL_TRACES_EXPORTER", "none")
}

/// Who the spans come from. The SDK reads `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`; our
/// own name is only for when neither says one.
fn resource(service: &str, env: impl Fn(&str) -> Option<String>) -> Resource {
    let named = env("OTEL_SERVICE_NAME").is_some_and(|name| !name.is_empty())
        || env("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|list| list.contains("service.name="));
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let builder = Resource::builder().with_attribute(version);
    match named {
        true => builder.build(),
        false => builder.with_service_name(service_name(service)).build(),
    }
}

fn service_name(service: &str) -> String {
    match service.strip_prefix("posthorn") {
        Some(_) => service.to_owned(),
        None => format!("posthorn-{service}"),
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::{Key, Value};

    use super::*;

    fn env(set: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        move |name| {
            let found = set.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn a_collector_is_wanted_only_where_an_endpoint_is_set() {
        assert!(!is_wanted(env(&[])));
        assert!(!is_wanted(env(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")])));
        assert!(is_wanted(env(&[(
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "http://c:4318"
        )])));
        assert!(is_wanted(env(&[(
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "http://c/v1"
        )])));
    }

    #[test]
    fn the_standard_switches_turn_it_off() {
        const ON: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
        assert!(!is_wanted(env(&[ON, ("OTEL_SDK_DISABLED", "TRUE")])));
        assert!(!is_wanted(env(&[ON, ("OTEL_TRACES_EXPORTER", "none")])));
        assert!(is_wanted(env(&[ON, ("OTEL_TRACES_EXPORTER", "otlp")])));
    }

    #[test]
    fn spans_come_from_the_service_unless_the_environment_names_another() {
        let name = |set| resource("ingest", env(set)).get(&Key::new("service.name"));
        assert_eq!(name(&[]), Some(Value::from("posthorn-ingest")));
        assert_ne!(
            name(&[("OTEL_SERVICE_NAME", "hooks")]),
            Some(Value::from("posthorn-ingest"))
        );
        assert_eq!(service_name("posthorn-dispatcher"), "posthorn-dispatcher");
    }
}

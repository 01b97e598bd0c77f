use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use clap::Parser;
use serde::Serialize;

use super::*;
use crate::secret::SecretString;

/// A service's configuration as services write it. `from_env` reads a variable that every test
/// process has, because changing the environment is unsafe while other threads read it.
#[derive(Debug, Parser, Serialize)]
#[command(name = "sample", version)]
struct Sample {
    #[command(flatten)]
    process: ProcessArgs,
    #[command(flatten)]
    nats: NatsArgs,
    #[command(flatten)]
    #[serde(flatten)]
    retention: RetentionArgs,
    #[arg(long, env = "POSTHORN_TEST_NO_SUCH_VARIABLE")]
    admin_key: Option<SecretString>,
    #[arg(long, env = "PATH", default_value = "default")]
    from_env: String,
    #[arg(long, value_delimiter = ',')]
    several: Vec<u16>,
    #[arg(long)]
    allow_loopback: bool,
}

#[derive(Debug, Parser)]
#[command(name = "tool")]
enum Tool {
    Dev(Box<Sample>),
    Send {
        #[arg(long)]
        tenant: String,
    },
}

fn read<T: Parser>(args: &[&str]) -> Result<T, ConfigError> {
    let program = std::iter::once(OsString::from("sample"));
    parse(program.chain(args.iter().map(OsString::from)))
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn with_file(text: &str, args: &[&str]) -> Result<Sample, ConfigError> {
    let file = file(text);
    let path = file.path().to_str().unwrap();
    read(&[&["--config", path], args].concat())
}

fn path_of(error: &ConfigError) -> &Path {
    match error {
        ConfigError::FileValue { path, .. }
        | ConfigError::UnknownKey { path, .. }
        | ConfigError::Unreadable { path, .. }
        | ConfigError::Syntax { path, .. } => path,
        other => panic!("{other} does not concern a file"),
    }
}

#[test]
fn the_defaults_are_the_documented_ones() {
    let sample: Sample = read(&[]).unwrap();
    assert_eq!(sample.nats, NatsArgs::default());
    assert_eq!(sample.retention, RetentionArgs::default());
    assert_eq!(sample.process, ProcessArgs::default());
    assert_eq!(sample.nats.validate(), Ok(()));
    assert_eq!(sample.retention.validate(), Ok(()));
    assert_eq!(sample.process.validate(), Ok(()));
}

#[test]
fn a_flag_goes_before_the_file_and_the_file_before_the_default() {
    let text = "prefix = 'from-file'\nreplicas = 3\n";
    let sample = with_file(text, &["--prefix", "from-flag"]).unwrap();
    assert_eq!(sample.nats.prefix, "from-flag");
    assert_eq!(sample.nats.replicas, 3);
    assert_eq!(sample.process.log, "info");
}

#[test]
fn the_environment_goes_before_the_file_and_a_flag_before_both() {
    let path = std::env::var("PATH").unwrap();
    let text = "from_env = 'from-file'";
    assert_eq!(with_file(text, &[]).unwrap().from_env, path);
    let flag = with_file(text, &["--from-env", "from-flag"]).unwrap();
    assert_eq!(flag.from_env, "from-flag");
}

#[test]
fn a_file_holds_every_kind_of_value() {
    let text = r#"
        nats_url = ["nats://a:4222", "nats://b:4222"]
        several = [1, 2, 3]
        manage_streams = false
        allow_loopback = true
        dedupe_window = "2m"
        event_max_bytes = "10GiB"
        dlq_max_bytes = 4096
        log_format = "json"
        ops_listen = "127.0.0.1:0"
        admin_key = "s3cret"
    "#;
    let sample = with_file(text, &[]).unwrap();
    assert_eq!(sample.nats.nats_url, ["nats://a:4222", "nats://b:4222"]);
    assert_eq!(sample.several, [1, 2, 3]);
    assert!(!sample.nats.manage_streams);
    assert!(sample.allow_loopback);
    assert_eq!(sample.retention.dedupe_window.as_secs(), 120);
    assert_eq!(sample.retention.event_max_bytes, Some(10 << 30));
    assert_eq!(sample.retention.dlq_max_bytes, Some(4096));
    assert_eq!(sample.process.log_format, LogFormat::Json);
    assert!(sample.process.ops_listen.is_some());
    assert!(sample.admin_key.unwrap().matches("s3cret"));
}

#[test]
fn a_list_on_the_command_line_replaces_the_file_s() {
    let text = "nats_url = ['nats://a', 'nats://b']";
    let sample = with_file(text, &["--nats-url", "nats://c,nats://d"]).unwrap();
    assert_eq!(sample.nats.nats_url, ["nats://c", "nats://d"]);
}

#[test]
fn an_unknown_key_is_refused_by_name() {
    for key in ["nats_ulr", "nats-url", "config", "check_config", "help", ""] {
        let error = with_file(&format!("'{key}' = 'x'"), &[]).unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(&error, ConfigError::UnknownKey { key: k, .. } if k == key),
            "{text}"
        );
        assert!(text.contains(path_of(&error).to_str().unwrap()));
    }
}

#[test]
fn an_unknown_flag_is_refused() {
    let error = read::<Sample>(&["--nats-ulr", "x"]).unwrap_err();
    assert!(matches!(error, ConfigError::Usage(_)));
    assert!(error.to_string().contains("--nats-ulr"));
    assert!(!error.is_information());
}

#[test]
fn a_refused_value_of_the_file_is_blamed_on_its_key() {
    for (text, key) in [
        ("replicas = 2", "replicas"),
        ("prefix = 'Bad.Prefix'", "prefix"),
        ("several = [1, 70000]", "several"),
        ("log_format = 'xml'", "log_format"),
        ("drain_timeout = 25", "drain_timeout"),
        ("allow_loopback = 'yes'", "allow_loopback"),
        ("several = [[1]]", "several"),
        ("prefix = { a = 1 }", "prefix"),
        ("prefix = 2026-01-01", "prefix"),
        ("nats_url = ['a,b']", "nats_url"),
    ] {
        let error = with_file(text, &[]).unwrap_err();
        match error {
            ConfigError::FileValue { key: named, .. } => assert_eq!(named, key),
            other => panic!("{text}: {other}"),
        }
    }
}

#[test]
fn a_bad_prefix_is_refused_with_its_rule() {
    let error = read::<Sample>(&["--prefix", "Bad.Prefix"]).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ConfigError::Value { .. }), "{text}");
    assert!(text.contains("--prefix"), "{text}");
    assert!(text.contains("lower-case letter"), "{text}");
}

#[test]
fn dlq_06_a_refused_value_is_not_repeated() {
    let flag = read::<Sample>(&["--ops-listen", "s3cret"]).unwrap_err();
    let in_file = with_file("ops_listen = 's3cret'", &[]).unwrap_err();
    let syntax = with_file("prefix = 'x'\nadmin_key = 's3cret", &[]).unwrap_err();
    assert!(matches!(syntax, ConfigError::Syntax { line: 2, .. }));
    for error in [flag, in_file, syntax] {
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    }
}

#[test]
fn a_missing_file_is_an_error_that_names_it() {
    let error = read::<Sample>(&["--config=/no/such/file.toml"]).unwrap_err();
    assert!(matches!(error, ConfigError::Unreadable { .. }));
    assert_eq!(path_of(&error), Path::new("/no/such/file.toml"));
}

#[test]
fn dlq_06_help_shows_neither_the_environment_nor_the_file() {
    let error = with_file("admin_key = 's3cret'", &["--help"]).unwrap_err();
    assert!(error.is_information());
    let help = error.to_string();
    assert!(help.contains("--admin-key"));
    assert!(!help.contains("s3cret"));
    assert!(!help.contains(&std::env::var("PATH").unwrap()));
}

#[test]
fn a_subcommand_reads_its_own_file_and_others_read_none() {
    let file = file("prefix = 'from-file'");
    let path = file.path().to_str().unwrap();
    match read::<Tool>(&["dev", "--config", path]).unwrap() {
        Tool::Dev(sample) => assert_eq!(sample.nats.prefix, "from-file"),
        Tool::Send { tenant } => panic!("read as send to {tenant}"),
    }
    let send = read::<Tool>(&["send", "--tenant", "t"]).unwrap();
    assert!(matches!(send, Tool::Send { tenant } if tenant == "t"));
}

#[test]
fn the_printed_configuration_is_flat_redacted_and_reads_back() {
    let args = [
        "--nats-url",
        "nats://u:s3cret@a,nats://b",
        "--admin-key",
        "s3cret",
        "--event-max-bytes",
        "1MiB",
        "--drain-timeout",
        "1m30s",
    ];
    let printed = to_toml(&read::<Sample>(&args).unwrap()).unwrap();
    assert!(!printed.contains("s3cret"), "{printed}");
    assert!(!printed.contains("\n["), "{printed}");
    assert!(printed.contains("admin_key = \"[redacted]\""), "{printed}");
    let again = with_file(&printed, &[]).unwrap();
    assert_eq!(again.retention.event_max_bytes, Some(1 << 20));
    assert_eq!(again.retention.dlq_max_bytes, None);
    assert_eq!(again.process.drain_timeout.as_secs(), 90);
    assert_eq!(to_toml(&again).unwrap(), printed);
}

#[test]
fn dlq_06_the_debug_form_has_no_secret() {
    let args = ["--nats-url", "nats://u:s3cret@a", "--admin-key", "s3cret"];
    let sample: Sample = read(&args).unwrap();
    assert!(!format!("{sample:?}").contains("s3cret"));
}

#[test]
fn attempts_must_outlive_dead_letters() {
    let retention = |args: &[&str]| read::<Sample>(args).unwrap().retention.validate();
    assert_eq!(retention(&["--attempt-retention", "34d"]), Ok(()));
    assert!(retention(&["--attempt-retention", "33d"]).is_err());
    assert!(retention(&["--dlq-retention", "31d"]).is_err());
}

#[test]
fn a_size_limit_of_nothing_is_refused() {
    let error = read::<Sample>(&["--dlq-max-bytes", "0"]).unwrap_err();
    assert!(matches!(error, ConfigError::Value { .. }));
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let nats = |args: &[&str]| read::<Sample>(args).unwrap().nats.validate();
    assert!(nats(&["--nats-tls-cert", "c.pem"]).is_err());
    assert!(nats(&["--nats-tls-key", "k.pem"]).is_err());
    assert!(nats(&["--nats-creds", "c", "--nats-nkey", "n"]).is_err());
    assert!(nats(&["--nats-url", "nats://a,,nats://b"]).is_err());
    let both = ["--nats-tls-cert", "c.pem", "--nats-tls-key", "k.pem"];
    assert_eq!(nats(&both), Ok(()));
}

#[test]
fn a_log_filter_that_cannot_be_read_is_refused() {
    let process = |args: &[&str]| read::<Sample>(args).unwrap().process.validate();
    assert_eq!(process(&["--log", "info,posthorn_runtime=debug"]), Ok(()));
    assert!(process(&["--log", "posthorn=verbose"]).is_err());
}

//! Configuration: a flag, else the environment, else the file, else the default.
//!
//! The flag groups that every binary shares are here, each to be flattened into a service's own
//! `clap::Parser`. A value from the file becomes the flag's *default*, so clap itself keeps the
//! order of precedence, and a key that is no flag is refused: a mistyped key that is silently
//! ignored leaves a setting at its default in production.
//!
//! No error and no `--help` text shows a value that came from the environment or the file; a URL
//! or a key may hold a credential.

mod error;
mod file;
mod nats;
mod parse;
mod print;
mod process;
mod retention;
mod secrets;
mod values;

pub use error::ConfigError;
pub use nats::NatsArgs;
pub use parse::parse;
pub use print::to_toml;
pub use process::{LogFormat, ProcessArgs};
pub use retention::RetentionArgs;
pub use secrets::SecretsArgs;
pub use values::{
    as_duration_text, as_redacted_url, as_redacted_urls, duration_between, parse_bytes,
    parse_duration, parse_prefix, redact_userinfo,
};

#[cfg(test)]
mod tests;

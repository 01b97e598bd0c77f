//! Where the services are, and the key to them.
//!
//! A flag, else the environment, else what a running `posthorn dev` wrote down: whoever has
//! just started it types no address and no key.

use crate::devfile::{self, DevFile};
use crate::failure::Failure;
use clap::Args;
use posthorn_runtime::SecretString;
use std::path::PathBuf;
use url::Url;

/// How to reach the services.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectArgs {
    /// The public API.
    #[arg(long, global = true, env = "POSTHORN_INGEST_URL", value_name = "URL")]
    ingest_url: Option<Url>,

    /// The operator's API.
    #[arg(long, global = true, env = "POSTHORN_ADMIN_URL", value_name = "URL")]
    admin_url: Option<Url>,

    /// The key. Better in the environment than here, where other users may see it.
    #[arg(long, global = true, env = "POSTHORN_API_KEY", value_name = "KEY")]
    api_key: Option<SecretString>,

    /// The key that may do everything; used where there is no other.
    #[arg(
        long,
        global = true,
        env = "POSTHORN_ADMIN_KEY",
        value_name = "KEY",
        hide = true
    )]
    admin_key: Option<SecretString>,

    /// The data folder of `posthorn dev`, whose dev.json says what the flags do not.
    #[arg(long, global = true, env = "POSTHORN_DATA_DIR",
        default_value = devfile::DEFAULT_FOLDER, value_name = "FOLDER")]
    data_dir: PathBuf,
}

/// The two services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// The public API.
    Ingest,
    /// The operator's API.
    Admin,
}

impl ConnectArgs {
    /// The address of a service.
    ///
    /// # Errors
    /// [`Failure::Usage`] when nothing says where it is.
    pub fn url(&self, service: Service) -> Result<Url, Failure> {
        let (given, flag) = match service {
            Service::Ingest => (&self.ingest_url, "--ingest-url"),
            Service::Admin => (&self.admin_url, "--admin-url"),
        };
        if let Some(url) = given {
            return Ok(url.clone());
        }
        let file = DevFile::read(&self.data_dir).ok_or_else(|| self.unknown(flag))?;
        let text = match service {
            Service::Ingest => file.ingest_url,
            Service::Admin => file.admin_url,
        };
        Url::parse(&text).map_err(|_| self.unknown(flag))
    }

    /// The key.
    ///
    /// # Errors
    /// [`Failure::Usage`] when there is none.
    pub fn key(&self) -> Result<SecretString, Failure> {
        let given = [&self.api_key, &self.admin_key];
        let given = given.into_iter().flatten().find(|key| !key.is_empty());
        if let Some(key) = given {
            return Ok(key.clone());
        }
        let file = DevFile::read(&self.data_dir).ok_or_else(|| self.unknown("POSTHORN_API_KEY"))?;
        Ok(SecretString::from(file.api_key))
    }

    fn unknown(&self, setting: &str) -> Failure {
        let file = devfile::place(&self.data_dir);
        Failure::usage(format!(
            "nothing says where to go: start `posthorn dev`, or set {setting} (there is no {})",
            file.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::path::Path;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        connect: ConnectArgs,
    }

    fn parse(folder: &Path, more: &[&str]) -> ConnectArgs {
        let folder = folder.to_str().unwrap();
        let args = [&["posthorn", "--data-dir", folder], more].concat();
        Only::try_parse_from(args).unwrap().connect
    }

    fn started(folder: &Path) {
        let file = DevFile {
            ingest_url: "http://127.0.0.1:1".to_owned(),
            admin_url: "http://127.0.0.1:2".to_owned(),
            ops_url: String::new(),
            nats_url: String::new(),
            api_key: "from-file".to_owned(),
            pid: 1,
        };
        file.write(folder).unwrap();
    }

    #[test]
    fn what_dev_wrote_down_is_used() {
        let folder = tempfile::tempdir().unwrap();
        started(folder.path());
        let connect = parse(folder.path(), &[]);
        let url = connect.url(Service::Admin).unwrap();
        assert_eq!(url.as_str(), "http://127.0.0.1:2/");
        assert_eq!(connect.key().unwrap().expose(), "from-file");
    }

    #[test]
    fn a_flag_comes_before_what_dev_wrote_down() {
        let folder = tempfile::tempdir().unwrap();
        started(folder.path());
        let flags = ["--ingest-url", "https://a.example/x", "--api-key", "flag"];
        let connect = parse(folder.path(), &flags);
        let url = connect.url(Service::Ingest).unwrap();
        assert_eq!(url.as_str(), "https://a.example/x");
        assert_eq!(connect.key().unwrap().expose(), "flag");
    }

    #[test]
    fn the_operators_key_will_do_where_there_is_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let connect = parse(folder.path(), &["--admin-key", "admin"]);
        assert_eq!(connect.key().unwrap().expose(), "admin");
        let connect = parse(folder.path(), &["--admin-key", "admin", "--api-key", "own"]);
        assert_eq!(connect.key().unwrap().expose(), "own");
    }

    #[test]
    fn nothing_to_go_by_is_wrong_usage() {
        let folder = tempfile::tempdir().unwrap();
        let connect = parse(folder.path(), &[]);
        assert!(matches!(
            connect.url(Service::Ingest),
            Err(Failure::Usage(_))
        ));
        assert!(matches!(connect.key(), Err(Failure::Usage(_))));
    }

    #[test]
    fn dlq_06_a_key_is_not_in_the_debug_form() {
        let folder = tempfile::tempdir().unwrap();
        let connect = parse(folder.path(), &["--api-key", "s3cret"]);
        assert!(!format!("{connect:?}").contains("s3cret"));
    }
}

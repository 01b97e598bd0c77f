//! What the search looks at. The environment is read here and nowhere else.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Where to look for a nats-server, in the order of the fields.
#[derive(Debug, Clone)]
pub struct FindOptions {
    /// A file the user named; nothing else is looked at then.
    pub named: Option<PathBuf>,
    /// The folders of the machine's programs, in the form of `PATH`.
    pub path: Option<OsString>,
    /// The folder in which a fetched server is kept.
    pub cache: PathBuf,
    /// The Python interpreter whose pip may fetch a server; `None` forbids it.
    pub python: Option<PathBuf>,
    /// The Docker client whose engine may fetch a server; `None` forbids it.
    pub docker: Option<PathBuf>,
}

impl FindOptions {
    /// The options that the environment of this process asks for.
    #[must_use]
    pub fn from_env() -> Self {
        Self {
            named: non_empty("POSTHORN_NATS_SERVER").map(PathBuf::from),
            path: std::env::var_os("PATH"),
            cache: cache_folder(
                non_empty("CARGO_TARGET_DIR").as_deref(),
                std::env::current_dir().ok().as_deref(),
                non_empty("XDG_CACHE_HOME").as_deref(),
                non_empty("HOME").as_deref(),
            ),
            python: Some(PathBuf::from("python3")),
            docker: Some(PathBuf::from("docker")),
        }
    }
}

fn non_empty(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Inside a checkout the target folder, so that a test run shares one server and `cargo clean`
/// takes it away; elsewhere the user's cache; on a machine without a home the temporary folder.
fn cache_folder(
    target: Option<&OsStr>,
    here: Option<&Path>,
    cache_home: Option<&OsStr>,
    home: Option<&OsStr>,
) -> PathBuf {
    if let Some(target) = target {
        return Path::new(target).join("tools");
    }
    let checkout = here
        .into_iter()
        .flat_map(Path::ancestors)
        .find(|folder| folder.join("Cargo.lock").is_file());
    if let Some(checkout) = checkout {
        return checkout.join("target").join("tools");
    }
    let base = match (cache_home, home) {
        (Some(cache_home), _) => PathBuf::from(cache_home),
        (None, Some(home)) => Path::new(home).join(".cache"),
        (None, None) => std::env::temp_dir(),
    };
    base.join("posthorn").join("tools")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(text: &str) -> Option<&OsStr> {
        Some(OsStr::new(text))
    }

    #[test]
    fn the_target_folder_that_cargo_was_given_wins() {
        let folder = cache_folder(os("/build"), None, os("/cache"), os("/home/a"));
        assert_eq!(folder, Path::new("/build/tools"));
    }

    #[test]
    fn a_folder_deep_in_a_checkout_finds_its_target() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("Cargo.lock"), "").unwrap();
        let deep = root.path().join("crates/one");
        std::fs::create_dir_all(&deep).unwrap();
        let folder = cache_folder(None, Some(&deep), os("/cache"), os("/home/a"));
        assert_eq!(folder, root.path().join("target/tools"));
    }

    #[test]
    fn outside_a_checkout_it_is_the_users_cache() {
        let here = tempfile::tempdir().unwrap();
        let here = Some(here.path());
        assert_eq!(
            cache_folder(None, here, os("/cache"), os("/home/a")),
            Path::new("/cache/posthorn/tools")
        );
        assert_eq!(
            cache_folder(None, here, None, os("/home/a")),
            Path::new("/home/a/.cache/posthorn/tools")
        );
    }
}

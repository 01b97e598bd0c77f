//! Builds the real binaries, once for each test process.
//!
//! A test package does not make cargo build the binaries of other packages, and a stale one
//! would be tested without a word. So the first test that needs them runs the same cargo with
//! the same profile and target folder, which is a moment's work where they are fresh.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use tokio::sync::OnceCell;

static FOLDER: OnceCell<PathBuf> = OnceCell::const_new();

/// The folder of the freshly built binaries.
///
/// # Errors
/// When they do not build; cargo's words are in the error.
pub async fn bins() -> Result<&'static Path> {
    let folder = FOLDER.get_or_try_init(build).await?;
    Ok(folder)
}

/// The file of one binary, such as `posthorn-ingest`.
///
/// # Errors
/// As for [`bins`], and when there is no binary of that name.
pub async fn bin(name: &str) -> Result<PathBuf> {
    let file = bins().await?.join(name);
    ensure!(file.is_file(), "the workspace builds no binary {name}");
    Ok(file)
}

async fn build() -> Result<PathBuf> {
    let executable = std::env::current_exe().context("the path of this test")?;
    let layout = Layout::of(&executable).context("this test is not in a target folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--workspace", "--bins", "--profile"])
        .arg(layout.profile)
        .arg("--target-dir")
        .arg(layout.target)
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml"))
        .stdin(Stdio::null())
        .output()
        .await
        .context("running cargo")?;
    ensure!(
        output.status.success(),
        "the binaries do not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(layout.binaries.to_owned())
}

/// Where a test executable lies: `<target>/<profile folder>/deps/<test>`.
#[derive(Debug, PartialEq, Eq)]
struct Layout<'a> {
    target: &'a Path,
    binaries: &'a Path,
    profile: &'a str,
}

impl<'a> Layout<'a> {
    fn of(executable: &'a Path) -> Option<Self> {
        let deps = executable.parent()?;
        let binaries = deps.parent()?;
        let folder = binaries.file_name()?.to_str()?;
        Some(Self {
            target: binaries.parent()?,
            binaries,
            // The folder of the profiles `dev` and `test` has a name of its own.
            profile: if folder == "debug" { "dev" } else { folder },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_the_tests_own() {
        let layout = |path| Layout::of(Path::new(path)).unwrap();
        assert_eq!(
            layout("/a/target/debug/deps/suite-0123"),
            Layout {
                target: Path::new("/a/target"),
                binaries: Path::new("/a/target/debug"),
                profile: "dev",
            }
        );
        assert_eq!(layout("/a/target/release/deps/s").profile, "release");
        assert_eq!(layout("/a/target/dist/deps/s").profile, "dist");
    }
}

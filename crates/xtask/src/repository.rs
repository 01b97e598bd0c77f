//! The files of the repository: what git tracks, and what it would track with the next `git add`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A text file of the repository.
#[derive(Debug, Clone)]
pub struct TextFile {
    /// Path from the root, with forward slashes.
    pub path: String,
    /// The whole content.
    pub text: String,
}

/// The root of the workspace that `cargo xtask` was called in. Cargo says so when it runs the
/// program; the folder it was built in is second best, as a checkout may move.
pub fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.ancestors().nth(2).unwrap_or(&manifest).to_owned()
}

/// Reads every tracked or new file that is text. Files that are ignored, binary, deleted but not
/// yet committed, or someone else's work (`is_foreign`) are left out. Where there is no history,
/// as in an unpacked archive, every file but the build output counts.
///
/// # Errors
/// When git refuses, a folder cannot be read, or a file name is not UTF-8.
pub fn text_files(root: &Path) -> Result<Vec<TextFile>> {
    let paths = if root.join(".git").exists() {
        tracked(root)?
    } else {
        unpacked(root)?
    };
    let ours = paths
        .iter()
        .filter(|path| !path.is_empty() && !is_foreign(path));
    Ok(ours.filter_map(|path| read_text(root, path)).collect())
}

fn tracked(root: &Path) -> Result<Vec<String>> {
    // A build often runs as another user than the one who cloned; git refuses that by default.
    let trust = format!("safe.directory={}", root.display());
    let output = Command::new("git")
        .args(["-c", &trust, "ls-files", "-z"])
        .args([
            "--cached",
            "--others",
            "--exclude-standard",
            "--deduplicate",
        ])
        .current_dir(root)
        .output()
        .context("git does not run")?;
    if !output.status.success() {
        bail!(
            "git ls-files failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let listing = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(listing.split('\0').map(str::to_owned).collect())
}

fn unpacked(root: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() && !path.ends_with("target") && !path.ends_with(".posthorn") {
                folders.push(path);
            } else if let Ok(relative) = path.strip_prefix(root) {
                paths.push(
                    relative
                        .to_str()
                        .context("a file name is not UTF-8")?
                        .to_owned(),
                );
            }
        }
    }
    Ok(paths)
}

fn read_text(root: &Path, path: &str) -> Option<TextFile> {
    let full = root.join(path);
    if full.is_symlink() || !full.is_file() {
        return None;
    }
    let text = std::fs::read_to_string(full).ok()?;
    Some(TextFile {
        path: path.to_owned(),
        text,
    })
}

/// Files written by others and kept as they came: vendored page assets and the licence's text.
fn is_foreign(path: &str) -> bool {
    path == "LICENSE"
        || path.ends_with(".lock")
        || path.ends_with(".min.js")
        || path.ends_with(".min.css")
        || path.split('/').any(|part| part == "vendor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace_manifest() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }

    #[test]
    fn the_sources_are_listed_and_the_build_output_is_not() {
        let files = text_files(&root()).unwrap();
        assert!(
            files
                .iter()
                .any(|file| file.path == "crates/xtask/src/main.rs")
        );
        assert!(!files.iter().any(|file| file.path.starts_with("target/")));
    }

    #[test]
    fn an_archive_without_history_lists_the_same_sources() {
        let files = unpacked(&root()).unwrap();
        assert!(files.iter().any(|path| path == "crates/xtask/src/main.rs"));
        assert!(!files.iter().any(|path| path.starts_with("target/debug")));
    }

    #[test]
    fn what_others_wrote_is_not_judged() {
        assert!(is_foreign("crates/dlq-admin/assets/htmx.min.js"));
        assert!(is_foreign("crates/dlq-admin/assets/vendor/uplot.css"));
        assert!(!is_foreign("crates/dlq-admin/assets/page.js"));
    }
}

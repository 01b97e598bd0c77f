//! The part of `cargo metadata` that the edge rules read.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// What `cargo metadata --no-deps` says of the workspace.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    /// The workspace's own packages.
    pub packages: Vec<Package>,
}

/// A package of the workspace and what its manifest asks for.
#[derive(Debug, Deserialize)]
pub struct Package {
    /// Name in the manifest.
    pub name: String,
    /// Absolute path of the manifest.
    pub manifest_path: String,
    /// Every dependency of every kind, in no order that matters.
    pub dependencies: Vec<Dependency>,
}

/// One dependency line of a manifest.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// Name of the package depended on, not of its local alias.
    pub name: String,
    /// The local alias, where the manifest gives one.
    pub rename: Option<String>,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub kind: Option<String>,
}

impl Dependency {
    /// Whether only tests and benches of the package see it.
    pub fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }

    /// The key under which the manifest lists it.
    pub fn key(&self) -> &str {
        self.rename.as_deref().unwrap_or(&self.name)
    }
}

/// Asks cargo for the packages of the workspace at `root`.
///
/// # Errors
/// When cargo does not run, refuses the manifests, or answers what is not its format.
pub fn read(root: &Path) -> Result<Metadata> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cargo metadata does not run")?;
    if !output.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata gave an unknown format")
}

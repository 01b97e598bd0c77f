//! One provider of cryptography. Two in one process make TLS configuration ambiguous, and the one
//! that is left out would otherwise come back with the next dependency unnoticed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::finding::{Finding, Rule};

const RING: Rule = Rule {
    name: "one-crypto",
    reason: "aws-lc-rs is the one provider of TLS and cryptography in every binary",
};

/// Who brings in the crate `ring`, on any platform and for any kind of dependency.
///
/// # Errors
/// When cargo does not run.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    let output = Command::new("cargo")
        .args([
            "tree",
            "--workspace",
            "--target",
            "all",
            "--edges",
            "all",
            "--prefix",
            "none",
        ])
        .args(["--invert", "ring"])
        .current_dir(root)
        .output()
        .context("cargo tree does not run")?;
    // Cargo refuses the question itself when no package of that name is in the lock file.
    let error = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && !error.contains("did not match any packages") {
        anyhow::bail!("cargo tree failed: {}", error.trim());
    }
    Ok(judge(&String::from_utf8_lossy(&output.stdout)))
}

fn judge(tree: &str) -> Vec<Finding> {
    let users: Vec<&str> = tree
        .lines()
        .filter(|line| !line.is_empty())
        .take(4)
        .collect();
    if users.is_empty() {
        return Vec::new();
    }
    vec![Finding::new(
        RING,
        "Cargo.lock",
        1,
        format!("`{}`", users.join(" <- ")),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_tree_is_well() {
        assert!(judge("").is_empty());
    }

    #[test]
    fn whoever_brings_it_in_is_named() {
        let findings = judge("ring v0.17.14\nrustls v0.23.0\nreqwest v0.13.0\n");
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].rule, RING);
        assert!(findings[0].what.contains("rustls v0.23.0"));
    }
}

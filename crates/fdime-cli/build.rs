//! Passes the compiled features and, where it is known, the commit to `fdime --version`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=FDIME_FEATURES={}", features().join(", "));
    println!("cargo:rustc-env=FDIME_COMMIT={}", commit().unwrap_or_default());
}

/// Returns the features of this crate that are on.
fn features() -> Vec<String> {
    let mut features: Vec<String> = std::env::vars()
        .filter_map(|(name, _)| name.strip_prefix("CARGO_FEATURE_").map(str::to_lowercase))
        .filter(|name| name != "default")
        .map(|name| name.replace('_', "-"))
        .collect();
    features.sort();
    features
}

/// Returns the short commit of the checkout or of the packaged sources; `None` if it is unknown.
fn commit() -> Option<String> {
    // `cargo package` writes this file, which is not part of a checkout.
    if let Ok(package) = std::fs::read_to_string(".cargo_vcs_info.json") {
        let (_, rest) = package.split_once("\"sha1\": \"")?;
        return rest.get(..7).map(String::from);
    }
    // The sources may lie inside the repository of another project.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        if std::path::Path::new(&path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short", "HEAD"])
}

/// Returns what a git command prints; `None` if it fails or there is no git.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string())
}

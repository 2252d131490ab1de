//! Running the command as a user does.

// Every test file uses its own part of this.
#![allow(dead_code)]

use std::path::Path;
use std::process::{Command, Output};

/// Runs with arguments separated by spaces.
pub fn fdime(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fdime"));
    command.args(arguments.split_whitespace()).env("COLUMNS", "80").output().unwrap()
}

/// What a request that succeeds prints.
pub fn stdout(arguments: &str) -> String {
    let output = fdime(arguments);
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A refused request: exit code 2, nothing on stdout, and this on stderr.
pub fn refusal(arguments: &str) -> String {
    let output = fdime(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments}");
    assert!(output.stdout.is_empty(), "{arguments}");
    String::from_utf8(output.stderr).unwrap()
}

/// What a request prints, as JSON.
pub fn json(arguments: &str) -> serde_json::Value {
    serde_json::from_str(&stdout(arguments)).unwrap()
}

/// Whether a folder holds nothing.
pub fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

/// A file that the project ships.
pub fn shipped(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

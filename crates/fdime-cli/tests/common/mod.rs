//! Helpers that run the command as a user does.

// Each test file uses only some of these functions.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A temporary folder for tables.
pub struct Folder(pub TempDir);

impl Folder {
    pub fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name).display().to_string()
    }

    /// Writes a table with correlated x and y, a label that depends on x, a constant and text.
    pub fn table(&self) -> String {
        let mut text = String::from("x,y,label,same,<script>\n");
        for k in 0..300 {
            // Low-discrepancy points: evenly spread, and the same on every machine.
            let u = (f64::from(k) * 0.618_033_988_75).fract() - 0.5;
            let v = (f64::from(k) * 0.754_877_666_25).fract() - 0.5;
            let label = if u > 0.0 { "up" } else { "down" };
            text += &format!("{u},{},{label},7,{}\n", u + 0.5 * v, v * v + u);
        }
        self.write("table.csv", text)
    }
}

/// Runs the command with arguments separated by spaces.
pub fn fdime(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fdime"));
    command.args(arguments.split_whitespace()).env("COLUMNS", "80").output().unwrap()
}

/// Returns the output of a command that must succeed.
pub fn stdout(arguments: &str) -> String {
    let output = fdime(arguments);
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must be refused: exit code 2 and no output on stdout. Returns stderr.
pub fn refusal(arguments: &str) -> String {
    let output = fdime(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments}");
    assert!(output.stdout.is_empty(), "{arguments}");
    String::from_utf8(output.stderr).unwrap()
}

/// Returns the output of a command as JSON.
pub fn json(arguments: &str) -> serde_json::Value {
    serde_json::from_str(&stdout(arguments)).unwrap()
}

/// Returns whether a folder is empty.
pub fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

/// Returns the path of an example file of this repository.
pub fn shipped(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

//! Results as `--json` prints them and as `report` reads them.

use crate::commands::{lag, matrix, select, suite, transfer};
use crate::failure::{Failure, Outcome};
use crate::report::estimate::SavedEstimate;
use fdime::estimate::{CapacityRecord, PowerRecord};
use schemars::{JsonSchema, Schema, schema_for};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// The results of a command, with its name.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Saved<T> {
    /// The command.
    pub command: String,
    /// Its results.
    #[serde(flatten)]
    pub results: T,
}

impl<T: Serialize> Saved<T> {
    pub fn new(command: &str, results: T) -> Self {
        Saved { command: command.into(), results }
    }

    /// Returns the JSON.
    pub fn to_json(&self) -> Result<String, Failure> {
        serde_json::to_string_pretty(self)
            .map_err(|error| Failure::Run(format!("cannot write JSON: {error}")))
    }

    /// Prints the JSON to stdout.
    pub fn print(&self) -> Outcome {
        Ok(writeln!(std::io::stdout().lock(), "{}", self.to_json()?)?)
    }
}

/// Results that were read from a file.
pub enum SavedRun {
    Estimate(Box<SavedEstimate>),
    Matrix(matrix::Results),
    Select(select::Results),
    Lag(lag::Results),
    Transfer(transfer::Results),
    Capacity(CapacityRecord),
    Power(PowerRecord),
}

impl SavedRun {
    /// Reads the JSON of an earlier run. JSON without the name of a command is that of an estimate,
    /// as the Python package writes it.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let refused = |problem: String| Failure::Usage(format!("{}: {problem}", path.display()));
        let text = match path == Path::new("-") {
            true => std::io::read_to_string(std::io::stdin()),
            false => std::fs::read_to_string(path),
        };
        let text = text.map_err(|error| {
            let (file, source) = (path.display().to_string(), Arc::new(error));
            Failure::from(fdime::Error::Read { file, source })
        })?;
        let value: Value = serde_json::from_str(&text).map_err(|error| {
            refused(format!("this is not JSON ({error}); write it with 'fdime COMMAND ... --json'"))
        })?;
        let command =
            value.get("command").and_then(Value::as_str).unwrap_or("estimate").to_string();
        SavedRun::parse(&command, value).map_err(refused)
    }

    fn parse(command: &str, value: Value) -> Result<Self, String> {
        fn results<T: DeserializeOwned>(command: &str, value: Value) -> Result<T, String> {
            serde_json::from_value(value).map_err(|error| {
                format!("these are not the results of 'fdime {command} --json': {error}")
            })
        }
        match command {
            "estimate" => results(command, value).map(SavedRun::Estimate),
            "matrix" => results(command, value).map(SavedRun::Matrix),
            "select" => results(command, value).map(SavedRun::Select),
            "lag" => results(command, value).map(SavedRun::Lag),
            "transfer" => results(command, value).map(SavedRun::Transfer),
            "capacity" => results(command, value).and_then(capacity),
            "power" => results(command, value).map(SavedRun::Power),
            other => Err(format!("there is no report of results of '{other}'")),
        }
    }
}

/// Returns the results if their matrix has a row and a column for each level.
fn capacity(record: CapacityRecord) -> Result<SavedRun, String> {
    let (levels, matrix) = (record.levels.len(), &record.discriminability_bits);
    if matrix.len() != levels || matrix.iter().any(|row| row.len() != levels) {
        return Err("'discriminability_bits' needs a row and a column for each of 'levels'".into());
    }
    Ok(SavedRun::Capacity(record))
}

/// A command whose JSON has a schema, and a function that returns it.
pub type NamedSchema = (&'static str, fn() -> Schema);

/// The schemas of all commands that have one.
pub const SCHEMAS: [NamedSchema; 8] = [
    ("estimate", || schema_for!(Saved<SavedEstimate>)),
    ("matrix", || schema_for!(Saved<matrix::Results>)),
    ("select", || schema_for!(Saved<select::Results>)),
    ("lag", || schema_for!(Saved<lag::Results>)),
    ("transfer", || schema_for!(Saved<transfer::Results>)),
    ("capacity", || schema_for!(Saved<CapacityRecord>)),
    ("power", || schema_for!(Saved<PowerRecord>)),
    ("suite", || schema_for!(Saved<suite::Results>)),
];

//! Journals of finished runs.

use crate::error::Result;
use crate::journal::{Entry, Journal};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::path::Path;

/// A finished run of a plan P with the result R.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoggedRun<P, R> {
    /// The plan.
    pub plan: P,
    /// The device that executed it. Results differ between devices.
    pub engine: String,
    /// The version of this library.
    pub version: String,
    /// The result.
    pub result: R,
}

impl<P, R> Entry for LoggedRun<P, R>
where
    P: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    type Key = P;
    const LINE_START: &'static str = "{\"plan\":";

    fn key(&self) -> &P {
        &self.plan
    }
}

/// A journal of finished runs.
pub struct RunLog<P, R>(Journal<LoggedRun<P, R>>);

impl<P, R> RunLog<P, R>
where
    P: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    /// Opens or creates a log. See [`Journal::open`] for the errors.
    pub fn open(path: &Path) -> Result<Self> {
        Journal::open(path).map(RunLog)
    }

    /// Returns the latest result of a plan on this device with this version of the library.
    pub fn find(&self, plan: &P, device: &str) -> Option<&R> {
        let same = |run: &&LoggedRun<P, R>| {
            run.engine == device && run.version == env!("CARGO_PKG_VERSION")
        };
        self.0.find(plan).iter().rev().find(same).map(|run| &run.result)
    }

    /// Returns the latest run of a plan on any device.
    pub fn find_any(&self, plan: &P) -> Option<&LoggedRun<P, R>> {
        self.0.find(plan).last()
    }

    /// Appends a finished run and waits until it is on disk.
    pub fn append(&mut self, plan: P, device: &str, result: R) -> Result<()> {
        let version = env!("CARGO_PKG_VERSION").into();
        self.0.append(LoggedRun { plan, engine: device.into(), version, result })
    }
}

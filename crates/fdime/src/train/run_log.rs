//! Journals of finished runs.

use crate::error::Result;
use crate::journal::{Entries, Entry, Journal};
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

/// Finished runs, as a log holds them.
pub type Runs<P, R> = Entries<LoggedRun<P, R>>;

impl<P, R> Runs<P, R>
where
    P: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    /// Returns the latest result of a plan on this device with this version of the library.
    pub fn latest_on(&self, plan: &P, device: &str) -> Option<&R> {
        let same = |run: &&LoggedRun<P, R>| {
            run.engine == device && run.version == env!("CARGO_PKG_VERSION")
        };
        self.find(plan).iter().rev().find(same).map(|run| &run.result)
    }

    /// Returns the latest run of a plan on any device.
    pub fn latest(&self, plan: &P) -> Option<&LoggedRun<P, R>> {
        self.find(plan).last()
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

    /// Returns the finished runs.
    pub fn runs(&self) -> &Runs<P, R> {
        self.0.entries()
    }

    /// Returns the latest result of a plan on this device with this version of the library.
    pub fn find(&self, plan: &P, device: &str) -> Option<&R> {
        self.runs().latest_on(plan, device)
    }

    /// Appends a finished run and waits until it is on disk.
    pub fn append(&mut self, plan: P, device: &str, result: R) -> Result<()> {
        let version = env!("CARGO_PKG_VERSION").into();
        self.0.append(LoggedRun { plan, engine: device.into(), version, result })
    }
}

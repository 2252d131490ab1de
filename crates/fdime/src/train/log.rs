//! Finished runs on disk, one JSON line each, appended as they finish: a kill loses at most the runs
//! that were under way, and what is there need not be run again.

use super::{Ending, RunPlan, StepRecord, Trace};
use crate::error::{Error, Result};
use crate::nats::Nats;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file of finished runs.
pub struct RunLog {
    path: PathBuf,
    file: File,
    /// What the runs of this session are executed by; runs of others are not taken for theirs.
    engine: String,
    finished: Vec<LoggedRun>,
}

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LoggedRun {
    plan: RunPlan,
    engine: String,
    version: String,
    true_mi: Vec<Nats>,
    ending: Ending,
    /// By iteration, in single precision.
    values: Vec<f32>,
    estimates: Vec<f32>,
}

impl RunLog {
    /// Opens a log or begins one. `engine` names what executes the runs, as results differ by it.
    pub fn open(path: &Path, engine: &str) -> Result<Self> {
        let fail = |reason: String| Error::Write { path: path.display().to_string(), reason };
        let mut file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(|error| fail(error.to_string()))?;
        let mut finished = Vec::new();
        let mut reader = BufReader::new(&file);
        let mut line = String::new();
        let mut number = 0;
        while reader.read_line(&mut line).map_err(|error| fail(error.to_string()))? > 0 {
            number += 1;
            match serde_json::from_str::<LoggedRun>(&line) {
                Ok(run) => finished.push(run),
                // A run that was being written at a kill; whole lines must be runs.
                Err(_) if !line.ends_with('\n') => {}
                Err(error) => {
                    return Err(fail(format!("line {number} is not a finished run: {error}")));
                }
            }
            line.clear();
        }
        // What comes next must begin on a line of its own.
        if file.seek(SeekFrom::End(-1)).is_ok() {
            let mut last = [0];
            let whole = file.read_exact(&mut last).is_ok() && last == [b'\n'];
            if !whole {
                let length =
                    length_of_whole_lines(path).map_err(|error| fail(error.to_string()))?;
                file.set_len(length).map_err(|error| fail(error.to_string()))?;
            }
        }
        Ok(RunLog { path: path.to_path_buf(), file, engine: engine.to_string(), finished })
    }

    /// The trace of a plan that is in the log already.
    pub fn find(&self, plan: &RunPlan) -> Option<Trace> {
        let same = |run: &&LoggedRun| {
            run.plan == *plan
                && run.engine == self.engine
                && run.version == env!("CARGO_PKG_VERSION")
        };
        self.finished.iter().find(same).map(LoggedRun::trace)
    }

    /// Appends a finished run and sees to it that it is on disk. Runs that were stopped are not
    /// finished, and are left out.
    pub fn append(&mut self, plan: &RunPlan, trace: &Trace) -> Result<()> {
        if trace.ending == Ending::Stopped {
            return Ok(());
        }
        let run = LoggedRun {
            plan: plan.clone(),
            engine: self.engine.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            true_mi: trace.true_mi.clone(),
            ending: trace.ending,
            values: trace.steps.iter().map(|step| step.value as f32).collect(),
            estimates: trace.steps.iter().map(|step| step.estimate.0 as f32).collect(),
        };
        let fail = |reason: String| Error::Write { path: self.path.display().to_string(), reason };
        let mut line = serde_json::to_string(&run).map_err(|error| fail(error.to_string()))?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(|error| fail(error.to_string()))?;
        self.file.sync_data().map_err(|error| fail(error.to_string()))
    }
}

fn length_of_whole_lines(path: &Path) -> std::io::Result<u64> {
    let mut reader = BufReader::new(File::open(path)?);
    let (mut length, mut line) = (0, Vec::new());
    while reader.read_until(b'\n', &mut line)? > 0 {
        if line.ends_with(b"\n") {
            length += line.len() as u64;
        }
        line.clear();
    }
    Ok(length)
}

impl LoggedRun {
    fn trace(&self) -> Trace {
        let iterations = self.plan.schedule.iterations;
        let pairs = self.values.iter().zip(&self.estimates).enumerate();
        Trace {
            true_mi: self.true_mi.clone(),
            iterations,
            steps: pairs
                .map(|(iteration, (&value, &estimate))| StepRecord {
                    iteration,
                    level: iteration / iterations,
                    value: f64::from(value),
                    estimate: Nats(f64::from(estimate)),
                })
                .collect(),
            ending: self.ending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuEngine, CriticKind, CriticPlan, Engine, ScenarioPlan, silent};

    #[test]
    fn runs_survive_a_kill_in_the_middle_of_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.jsonl");
        let critic = CriticPlan::new(CriticKind::Deranged, &[4, 4]);
        let scenario = ScenarioPlan::new("gaussian", 1).unwrap();
        let mut plan = RunPlan::new(scenario, "gan-dime".parse().unwrap(), critic);
        plan.schedule.iterations = 3;
        let other = RunPlan { seed: 1, ..plan.clone() };
        let plans = [plan.clone(), other.clone()];
        let traces = CpuEngine::new(1).execute(&plans, &silent);
        let mut log = RunLog::open(&path, "cpu").unwrap();
        log.append(&plan, traces[0].as_ref().unwrap()).unwrap();
        let whole = std::fs::metadata(&path).unwrap().len();
        log.append(&other, traces[1].as_ref().unwrap()).unwrap();
        drop(log);
        File::options().write(true).open(&path).unwrap().set_len(whole + 40).unwrap();

        let mut log = RunLog::open(&path, "cpu").unwrap();
        let kept = log.find(&plan).unwrap();
        let exact = traces[0].as_ref().unwrap();
        assert_eq!(kept.steps.len(), 15);
        assert!((kept.steps[14].estimate.0 - exact.steps[14].estimate.0).abs() < 1e-6);
        assert!(log.find(&other).is_none(), "the line that was cut off does not count");
        log.append(&other, traces[1].as_ref().unwrap()).unwrap();
        assert!(RunLog::open(&path, "cpu").unwrap().find(&other).is_some());
        assert!(RunLog::open(&path, "cuda").unwrap().find(&other).is_none());

        std::fs::write(&path, "not a run\n").unwrap();
        assert!(RunLog::open(&path, "cpu").err().unwrap().to_string().contains("line 1"));
    }
}

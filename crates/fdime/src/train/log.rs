//! Finished runs on disk, one JSON line each, appended as they finish: a kill loses at most the runs
//! that were under way, and what is there need not be run again.

use super::{Ending, RunPlan, StepRecord, Trace};
use crate::error::{Error, Result};
use crate::nats::Nats;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// A file of finished runs.
pub struct RunLog {
    path: PathBuf,
    file: File,
    /// By plan and engine.
    finished: HashMap<String, LoggedRun>,
}

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LoggedRun {
    plan: RunPlan,
    /// What executed it: results differ by that.
    engine: String,
    version: String,
    true_mi: Vec<Nats>,
    ending: Ending,
    /// By iteration.
    values: Vec<f64>,
    estimates: Vec<f64>,
}

/// How every line begins.
const BEGINNING: &str = "{\"plan\":";

impl RunLog {
    /// Opens a log or begins one.
    pub fn open(path: &Path) -> Result<Self> {
        let fail = |reason: String| Error::Write { path: path.display().to_string(), reason };
        let failed = |error: std::io::Error| fail(error.to_string());
        let file =
            File::options().read(true).append(true).create(true).open(path).map_err(failed)?;
        let mut finished = HashMap::new();
        let mut reader = BufReader::new(&file);
        let (mut line, mut number, mut whole_lines) = (String::new(), 0, 0);
        while reader.read_line(&mut line).map_err(failed)? > 0 {
            number += 1;
            match serde_json::from_str::<LoggedRun>(&line) {
                Ok(run) => {
                    finished.insert(key(&run.plan, &run.engine, &run.version), run);
                }
                // A run that was being written at a kill; everything else must be a run.
                Err(_) if !line.ends_with('\n') && line.starts_with(BEGINNING) => break,
                Err(error) => {
                    return Err(fail(format!("line {number} is not a finished run: {error}")));
                }
            }
            whole_lines += line.len() as u64;
            if !line.ends_with('\n') {
                // What comes next must begin on a line of its own.
                (&file).write_all(b"\n").map_err(failed)?;
                whole_lines += 1;
                break;
            }
            line.clear();
        }
        file.set_len(whole_lines).map_err(failed)?;
        Ok(RunLog { path: path.to_path_buf(), file, finished })
    }

    /// The trace of a plan that this engine, by its name, has executed already.
    pub fn find(&self, plan: &RunPlan, engine: &str) -> Option<Trace> {
        self.finished.get(&key(plan, engine, env!("CARGO_PKG_VERSION"))).map(LoggedRun::trace)
    }

    /// Appends a finished run and sees to it that it is on disk. Runs that were stopped are not
    /// finished, and are left out.
    pub fn append(&mut self, plan: &RunPlan, engine: &str, trace: &Trace) -> Result<()> {
        if trace.ending == Ending::Stopped {
            return Ok(());
        }
        let run = LoggedRun {
            plan: plan.clone(),
            engine: engine.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            true_mi: trace.true_mi.clone(),
            ending: trace.ending,
            values: trace.steps.iter().map(|step| step.value).collect(),
            estimates: trace.steps.iter().map(|step| step.estimate.0).collect(),
        };
        let fail = |reason: String| Error::Write { path: self.path.display().to_string(), reason };
        let mut line = serde_json::to_string(&run).map_err(|error| fail(error.to_string()))?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(|error| fail(error.to_string()))?;
        self.file.sync_data().map_err(|error| fail(error.to_string()))
    }
}

/// A plan is plain data that can always be written; one that could not would only be run again.
fn key(plan: &RunPlan, engine: &str, version: &str) -> String {
    format!("{version} {engine} {}", serde_json::to_string(plan).unwrap_or_default())
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
                    value,
                    estimate: Nats(estimate),
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
        let mut log = RunLog::open(&path).unwrap();
        log.append(&plan, "cpu", traces[0].as_ref().unwrap()).unwrap();
        let whole = std::fs::metadata(&path).unwrap().len();
        log.append(&other, "cpu", traces[1].as_ref().unwrap()).unwrap();
        drop(log);
        let cut =
            |length| File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        cut(whole + 40);

        let mut log = RunLog::open(&path).unwrap();
        assert_eq!(log.find(&plan, "cpu").as_ref(), traces[0].as_ref().ok());
        assert!(log.find(&other, "cpu").is_none(), "the line that was cut off does not count");
        log.append(&other, "cpu", traces[1].as_ref().unwrap()).unwrap();
        let log = RunLog::open(&path).unwrap();
        assert!(log.find(&other, "cpu").is_some() && log.find(&other, "cuda").is_none());

        // Only the end of the last line is missing: the run is there.
        cut(std::fs::metadata(&path).unwrap().len() - 1);
        RunLog::open(&path).unwrap();
        assert!(RunLog::open(&path).unwrap().find(&other, "cpu").is_some());
    }

    #[test]
    fn a_file_that_is_no_log_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        for text in ["not a run", "not a run\n", "{\"plan\":1}\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(RunLog::open(&path).err().unwrap().to_string().contains("line 1"));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}

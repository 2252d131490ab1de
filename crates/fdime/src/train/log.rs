//! Finished runs on disk, one JSON line each, appended as they finish: a kill loses at most the runs
//! that were under way, and what is there need not be run again.

use crate::error::{Result, not_writable, write_error};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// A file of finished runs: plans P and what came of them, R.
pub struct RunLog<P, R> {
    path: PathBuf,
    file: File,
    /// By plan.
    finished: HashMap<String, Vec<LoggedRun<P, R>>>,
}

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoggedRun<P, R> {
    /// What was run.
    pub plan: P,
    /// What executed it: results differ by that.
    pub engine: String,
    /// The version of this library.
    pub version: String,
    /// What came of it.
    pub result: R,
}

/// How every line begins.
const BEGINNING: &str = "{\"plan\":";

impl<P: Serialize + DeserializeOwned, R: Serialize + DeserializeOwned> RunLog<P, R> {
    /// Opens a log or begins one.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| write_error(path, error);
        let file =
            File::options().read(true).append(true).create(true).open(path).map_err(failed)?;
        let mut finished: HashMap<String, Vec<LoggedRun<P, R>>> = HashMap::new();
        let mut reader = BufReader::new(&file);
        let (mut line, mut number, mut whole_lines) = (String::new(), 0, 0);
        while reader.read_line(&mut line).map_err(failed)? > 0 {
            number += 1;
            match serde_json::from_str::<LoggedRun<P, R>>(&line) {
                Ok(run) => finished.entry(key(&run.plan)).or_default().push(run),
                // A run that was being written at a kill; everything else must be a run.
                Err(_) if !line.ends_with('\n') && line.starts_with(BEGINNING) => {
                    file.set_len(whole_lines).map_err(failed)?;
                    break;
                }
                Err(error) => {
                    let reason = format!("line {number} is not a finished run: {error}");
                    return Err(not_writable(path, reason));
                }
            }
            whole_lines += line.len() as u64;
            if !line.ends_with('\n') {
                // What comes next must begin on a line of its own.
                (&file).write_all(b"\n").map_err(failed)?;
                break;
            }
            line.clear();
        }
        Ok(RunLog { path: path.to_path_buf(), file, finished })
    }

    /// What came of a plan when this engine, by its name, executed it with this version.
    pub fn find(&self, plan: &P, engine: &str) -> Option<&R> {
        let version = env!("CARGO_PKG_VERSION");
        let runs = self.finished.get(&key(plan)).into_iter().flatten();
        runs.rev().find(|run| run.engine == engine && run.version == version).map(|run| &run.result)
    }

    /// The last run of a plan, whatever executed it.
    pub fn find_any(&self, plan: &P) -> Option<&LoggedRun<P, R>> {
        self.finished.get(&key(plan))?.last()
    }

    /// Appends a finished run and sees to it that it is on disk.
    pub fn append(&mut self, plan: P, engine: &str, result: R) -> Result<()> {
        let run = LoggedRun {
            plan,
            engine: engine.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            result,
        };
        let failed = |error: std::io::Error| write_error(&self.path, error);
        let mut line = serde_json::to_string(&run).map_err(|error| failed(error.into()))?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(failed)?;
        self.file.sync_data().map_err(failed)?;
        self.finished.entry(key(&run.plan)).or_default().push(run);
        Ok(())
    }
}

/// A plan is plain data that can always be written; one that could not would only be run again.
fn key(plan: &impl Serialize) -> String {
    serde_json::to_string(plan).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuEngine, CriticKind, CriticPlan, Engine, RunPlan, ScenarioPlan, Trace, silent};

    type Log = RunLog<RunPlan, Trace>;

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
        let mut log = Log::open(&path).unwrap();
        log.append(plan.clone(), "cpu", traces[0].clone().unwrap()).unwrap();
        let whole = std::fs::metadata(&path).unwrap().len();
        log.append(other.clone(), "cpu", traces[1].clone().unwrap()).unwrap();
        drop(log);
        let cut =
            |length| File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        cut(whole + 40);

        let mut log = Log::open(&path).unwrap();
        assert_eq!(log.find(&plan, "cpu"), traces[0].as_ref().ok());
        assert!(log.find(&other, "cpu").is_none(), "the line that was cut off does not count");
        log.append(other.clone(), "cpu", traces[1].clone().unwrap()).unwrap();
        let log = Log::open(&path).unwrap();
        assert!(log.find(&other, "cpu").is_some() && log.find(&other, "cuda").is_none());

        // Only the end of the last line is missing: the run is there.
        cut(std::fs::metadata(&path).unwrap().len() - 1);
        Log::open(&path).unwrap();
        assert!(Log::open(&path).unwrap().find(&other, "cpu").is_some());
    }

    #[test]
    fn a_file_that_is_no_log_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        for text in ["not a run", "not a run\n", "{\"plan\":1}\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(Log::open(&path).err().unwrap().to_string().contains("line 1"));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}

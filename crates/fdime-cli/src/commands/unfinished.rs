//! Many jobs whose results are kept in a journal beside the output until all are finished, so that
//! `--resume` continues after an interruption.

use super::{Interruptible, interrupt_flag, progress_bar};
use crate::console::note;
use crate::failure::Failure;
use fdime::counted;
use fdime::engine::{Engine, run_estimates};
use fdime::estimate::Progress;
use fdime::journal::{Entry, Journal};
use indicatif::HumanDuration;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The number of jobs after which the time that is left can be estimated.
const MIN_TIMED_JOBS: usize = 20;

/// A shorter time that is left is not worth a message.
const MIN_TIME_LEFT: Duration = Duration::from_secs(2);

/// Returns the path of the journal of an output.
pub fn journal_path(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".unfinished");
    PathBuf::from(name)
}

/// Opens the journal of an output. That of an earlier run is continued only if `resume` asks for it.
pub fn open_journal<E: Entry>(
    path: &Path,
    heading: &impl Serialize,
    resume: bool,
) -> Result<Journal<E>, Failure> {
    let output = path.with_extension("");
    if resume && !path.exists() && output.exists() {
        return Err(Failure::Usage(format!(
            "{}: there is no unfinished run to resume; leave out --resume to run everything, which \
             replaces this file",
            output.display()
        )));
    }
    if path.exists() && !resume {
        return Err(Failure::Usage(format!(
            "{}: there is an unfinished run; continue it with --resume, or delete this file",
            path.display()
        )));
    }
    let journal = Journal::open_with_heading(path, heading)?;
    if let Some(damage) = journal.entries().damage() {
        note(&format!("note: {}: {damage}", path.display()));
    }
    Ok(journal)
}

/// Runs the jobs of all keys that the journal does not hold, and appends their results to it.
/// Returns all results in the order of the keys. `noun` is the name of a job; `rows` is the size of
/// its table.
pub fn run<E>(
    journal: Option<Journal<E>>,
    keys: &[E::Key],
    noun: &str,
    (engine, rows): (&dyn Engine, usize),
    job: impl Fn(&E::Key, &dyn Engine, &Interruptible) -> fdime::Result<E> + Sync,
) -> Result<Vec<E>, Failure>
where
    E: Entry + Clone + Send,
    E::Key: Sync,
{
    let known = |key| journal.as_ref().and_then(|journal| journal.find(key).last().cloned());
    let mut results: Vec<Option<E>> = keys.iter().map(known).collect();
    let open: Vec<usize> = (0..keys.len()).filter(|index| results[*index].is_none()).collect();
    if open.len() < keys.len() {
        let kept = keys.len() - open.len();
        note(&format!("continuing: {} already done", counted(kept, noun)));
    }
    let bar = progress_bar(keys.len() as u64);
    bar.set_position((keys.len() - open.len()) as u64);
    bar.set_message(format!("{noun}s"));
    let progress = Interruptible(interrupt_flag());
    let start = Instant::now();
    let is_kept = journal.is_some();
    let journal = Mutex::new(journal);
    let finished = run_estimates(engine, rows, open.len(), |index, engine| -> fdime::Result<E> {
        // Thousands of jobs that have not begun are over at once.
        if progress.advance(0).is_break() {
            return Err(fdime::Error::Interrupted);
        }
        let result = job(&keys[open[index]], engine, &progress)?;
        let mut journal = journal.lock().unwrap_or_else(|error| error.into_inner());
        if let Some(journal) = journal.as_mut() {
            journal.append(result.clone())?;
        }
        bar.inc(1);
        let done = bar.position() as usize + open.len() - keys.len();
        if bar.is_hidden() && done == MIN_TIMED_JOBS && done < open.len() {
            let left = start.elapsed().mul_f64((open.len() - done) as f64 / done as f64);
            if left > MIN_TIME_LEFT {
                let (done, left) = (counted(done, noun), HumanDuration(left));
                note(&format!("{done} done, about {left} left"));
            }
        }
        Ok(result)
    });
    bar.finish_and_clear();
    for (index, result) in open.into_iter().zip(finished) {
        results[index] = Some(result.map_err(|error| match error {
            fdime::Error::Interrupted if is_kept => Failure::Paused,
            error => error.into(),
        })?);
    }
    Ok(results.into_iter().flatten().collect())
}

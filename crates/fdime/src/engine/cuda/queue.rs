//! The work on tables of all threads, done by a few threads that own a stream each. While a program
//! runs, more work arrives; all that has the same shape makes the next program.

use super::device_error;
use super::jobs::{Event, ScoringJob, TrainingJob, score, train};
use super::launcher::{Launcher, MAX_RUNS};
use crate::data::without_panic;
use crate::error::Result;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// The number of threads: while some prepare a program or read its results, the GPU runs others.
const WORKERS: usize = 4;

pub(super) struct Queue {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    has_changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    trainings: VecDeque<TrainingJob>,
    scorings: VecDeque<ScoringJob>,
    is_closed: bool,
}

/// Jobs of one shape.
enum Group {
    Training(Vec<TrainingJob>),
    Scoring(Vec<ScoringJob>),
}

impl Queue {
    pub(super) fn new(launcher: &Launcher) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let launchers = (0..WORKERS).map(|_| launcher.with_new_stream(WORKERS as u64));
        let launchers = launchers.collect::<Result<Vec<_>>>()?;
        let work = |launcher: Launcher| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || work(&launcher, &shared))
        };
        let workers = launchers.into_iter().map(work).collect();
        Ok(Queue { shared, workers })
    }

    pub(super) fn train(&self, jobs: Vec<TrainingJob>) {
        self.shared.lock().trainings.extend(jobs);
        self.shared.has_changed.notify_all();
    }

    pub(super) fn score(&self, job: ScoringJob) {
        self.shared.lock().scorings.push_back(job);
        self.shared.has_changed.notify_one();
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.has_changed.notify_all();
        for worker in self.workers.drain(..) {
            // A worker reports its panics to the jobs.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|error| error.into_inner())
    }

    /// Waits for work. Returns `None` when the queue is closed.
    fn take(&self) -> Option<Group> {
        let mut waiting = self.lock();
        loop {
            if waiting.is_closed {
                return None;
            }
            // Scores come first: they are short, and whole estimates wait for them.
            if let Some(jobs) = take_group(&mut waiting.scorings, |job| &job.shape) {
                return Some(Group::Scoring(jobs));
            }
            if let Some(jobs) = take_group(&mut waiting.trainings, |job| &job.shape) {
                return Some(Group::Training(jobs));
            }
            waiting = self.has_changed.wait(waiting).unwrap_or_else(|error| error.into_inner());
        }
    }
}

/// Takes the first job and all others of its shape that can run with it.
fn take_group<J, S: PartialEq>(jobs: &mut VecDeque<J>, shape: impl Fn(&J) -> &S) -> Option<Vec<J>> {
    let mut group = vec![jobs.pop_front()?];
    let mut others = VecDeque::new();
    for job in jobs.drain(..) {
        match group.len() < MAX_RUNS && shape(&job) == shape(&group[0]) {
            true => group.push(job),
            false => others.push_back(job),
        }
    }
    *jobs = others;
    Some(group)
}

/// Executes jobs until the queue is closed.
fn work(launcher: &Launcher, shared: &Shared) {
    while let Some(group) = shared.take() {
        match group {
            Group::Training(jobs) => {
                if let Err(panic) = without_panic(|| train(launcher, &jobs)) {
                    let error = device_error(panic);
                    let fail = |job: &TrainingJob| {
                        job.reply.send(Event::Finished(Err(error.clone())));
                    };
                    jobs.iter().for_each(fail);
                }
            }
            Group::Scoring(jobs) => {
                if let Err(panic) = without_panic(|| score(launcher, &jobs)) {
                    let error = device_error(panic);
                    jobs.iter().for_each(|job| drop(job.reply.send(Err(error.clone()))));
                }
            }
        }
    }
}

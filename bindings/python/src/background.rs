//! Long work in a background thread, while Python handles signals and shows progress.

use crate::failure::{exception, panic_exception};
use fdime::estimate::Progress;
use fdime::parallel::run_jobs;
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The time between two checks for signals, which are also reports of progress.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The progress of background work, and whether it should stop.
#[derive(Clone, Default)]
pub struct SharedProgress(Arc<State>);

#[derive(Default)]
struct State {
    total: AtomicU64,
    done: AtomicU64,
    stop: AtomicBool,
}

impl SharedProgress {
    /// Returns the fraction of the work that is done.
    fn fraction(&self) -> f64 {
        let total = self.0.total.load(Ordering::Relaxed);
        let done = self.0.done.load(Ordering::Relaxed);
        if total == 0 { 0.0 } else { (done as f64 / total as f64).min(1.0) }
    }
}

impl Progress for SharedProgress {
    fn begin(&self, total: u64) {
        self.0.total.store(total, Ordering::Relaxed);
        self.0.done.store(0, Ordering::Relaxed);
    }

    fn advance(&self, units: u64) -> ControlFlow<()> {
        self.0.done.fetch_add(units, Ordering::Relaxed);
        match self.0.stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Runs `work` in a background thread without the interpreter's lock. Meanwhile this thread checks
/// for signals, so that Ctrl-C stops the work, and calls `callback` with the fraction that is done;
/// an exception in either stops the work and is raised here. All threads end with the call, because
/// threads do not survive a fork.
pub fn run_in_background<T: Send>(
    py: Python<'_>,
    callback: Option<Py<PyAny>>,
    work: impl FnOnce(&SharedProgress) -> fdime::Result<T> + Send,
) -> PyResult<T> {
    let progress = SharedProgress::default();
    let (mut raised, mut finished) = (None, None);
    py.detach(|| {
        std::thread::scope(|scope| {
            let (sender, receiver) = channel::<()>();
            let progress = &progress;
            let worker = scope.spawn(move || {
                // Dropped at the end, even after a panic, which ends the loop below.
                let _sender = sender;
                work(progress)
            });
            while receiver.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if raised.is_none() {
                    raised = Python::attach(|py| poll(py, callback.as_ref(), progress)).err();
                    progress.0.stop.store(raised.is_some(), Ordering::Relaxed);
                }
            }
            finished = Some(worker.join());
        });
    });
    match (raised, finished) {
        (Some(error), _) => Err(error),
        (None, Some(Ok(result))) => result.map_err(exception),
        (None, Some(Err(payload))) => Err(panic_exception(&*payload)),
        (None, None) => Err(panic_exception(&"the worker was never started")),
    }
}

/// Handles signals and reports progress.
fn poll(py: Python<'_>, callback: Option<&Py<PyAny>>, progress: &SharedProgress) -> PyResult<()> {
    py.check_signals()?;
    match callback {
        Some(callback) => callback.call1(py, (progress.fraction(),)).map(|_| ()),
        None => Ok(()),
    }
}

/// Panics in a thread of the library. For the tests, which check that it becomes a `RuntimeError`.
#[pyfunction]
pub fn panic_in_a_worker(py: Python<'_>) -> PyResult<()> {
    run_in_background(py, None, |_| {
        run_jobs(2, 2, |_, _| -> () { panic!("a panic on purpose") });
        Ok(())
    })
}

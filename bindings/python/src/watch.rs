//! Long work beside a Python interpreter that goes on.

use crate::failure::{bug, exception};
use fdime::estimate::Progress;
use fdime::{Observer, StepRecord};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often signals are looked for and progress is told.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How far the work has come, and whether it has to end.
#[derive(Clone, Default)]
pub struct Watch(Arc<State>);

#[derive(Default)]
struct State {
    total: AtomicU64,
    done: AtomicU64,
    stop: AtomicBool,
}

impl Watch {
    fn fraction(&self) -> f64 {
        let total = self.0.total.load(Ordering::Relaxed);
        let done = self.0.done.load(Ordering::Relaxed);
        if total == 0 { 0.0 } else { (done as f64 / total as f64).min(1.0) }
    }
}

impl Progress for Watch {
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

impl Observer for Watch {
    fn on_step(&mut self, _record: &StepRecord) -> ControlFlow<()> {
        self.advance(1)
    }
}

/// Runs `work` on a pool of `threads` threads (0: one for every core) without the interpreter's
/// lock. This thread meanwhile looks for signals, so that Ctrl-C ends the work, and calls `watch`
/// with the share that is done; what either raises is raised here. A pool of its own, and no global
/// one, because threads do not survive a fork.
pub fn watched<T: Send>(
    py: Python<'_>,
    threads: usize,
    watch: Option<Py<PyAny>>,
    work: impl FnOnce(&Watch) -> fdime::Result<T> + Send,
) -> PyResult<T> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| PyValueError::new_err(format!("threads={threads}: {error}")))?;
    let state = Watch::default();
    let (mut raised, mut finished) = (None, None);
    py.detach(|| {
        std::thread::scope(|scope| {
            let (sender, receiver) = channel::<()>();
            let state = &state;
            let worker = scope.spawn(move || {
                // Dropped at the end, panic or not: that ends the waiting.
                let _sender = sender;
                pool.install(|| work(state))
            });
            while receiver.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                if raised.is_none() {
                    raised = Python::attach(|py| look(py, watch.as_ref(), state)).err();
                    state.0.stop.store(raised.is_some(), Ordering::Relaxed);
                }
            }
            finished = Some(worker.join());
        });
    });
    match (raised, finished) {
        (Some(error), _) => Err(error),
        (None, Some(Ok(result))) => result.map_err(exception),
        (None, Some(Err(payload))) => Err(bug(&*payload)),
        (None, None) => Err(bug(&"the worker was never started")),
    }
}

fn look(py: Python<'_>, watch: Option<&Py<PyAny>>, state: &Watch) -> PyResult<()> {
    py.check_signals()?;
    match watch {
        Some(watch) => watch.call1(py, (state.fraction(),)).map(|_| ()),
        None => Ok(()),
    }
}

/// Panics where long work is done. For the tests, which see to it that it becomes a `RuntimeError`.
#[pyfunction]
pub fn panic_in_a_worker(py: Python<'_>) -> PyResult<()> {
    watched(py, 2, None, |_| {
        rayon::join(|| panic!("a panic on purpose"), || ());
        Ok(())
    })
}

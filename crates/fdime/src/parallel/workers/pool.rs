//! The synchronisation of the worker threads: handing out tasks, waiting, sleeping and waking.
//!
//! The primitives come from `super::sync`, so that `tests/workers.rs` can compile this file with
//! loom's primitives and explore how threads interleave.

use super::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, UnsafeCell,
    spin_loop, yield_now,
};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The largest number of tasks in a job.
pub(super) const MAX_TASKS: usize = 32;

/// A function of (worker, task).
pub(super) type Job<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// The state that the caller (worker 0) and the threads (workers 1 and up) share.
pub(super) struct Pool {
    workers: usize,
    /// The number of tasks in the job (upper half) and one bit for every task that is not yet
    /// claimed (lower half). They share a word so that a claim always belongs to the current job.
    state: AtomicU64,
    /// The current job.
    job: JobSlot,
    finished: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    stop: AtomicBool,
    /// The number of sleeping threads.
    sleepers: Mutex<usize>,
    wake: Condvar,
}

struct JobSlot(UnsafeCell<Option<Job<'static>>>);

// SAFETY: `run` writes the slot while no task is claimed or open. A worker reads it only while it
// holds a claimed task, and `run` waits for that task. The claim (acquire) orders the read after
// the write, which the store to `state` releases.
unsafe impl Sync for JobSlot {}

/// Aborts the process if it is dropped, which happens only when a panic unwinds past it.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Returns the tasks `from..to` as bits.
fn bits(from: usize, to: usize) -> u64 {
    (1 << to) - (1 << from)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|error| error.into_inner())
}

impl Pool {
    pub(super) fn new(workers: usize) -> Self {
        Pool {
            workers,
            state: AtomicU64::new(0),
            job: JobSlot(UnsafeCell::new(None)),
            finished: AtomicUsize::new(0),
            panic: Mutex::new(None),
            stop: AtomicBool::new(false),
            sleepers: Mutex::new(0),
            wake: Condvar::new(),
        }
    }

    /// Calls `job(worker, task)` once for every task, on the calling thread and on all threads
    /// that call [`work`](Self::work). Returns when all tasks are finished; a panic in a task is
    /// resumed here.
    ///
    /// # Safety
    /// No two calls may overlap.
    pub(super) unsafe fn run(&self, tasks: usize, job: Job<'_>) {
        assert!(tasks <= MAX_TASKS, "{tasks} tasks");
        // The threads borrow `job` from this stack frame until all tasks are finished.
        let guard = AbortOnUnwind;
        // SAFETY: only the lifetime changes. No thread uses the job after this call: it waits for
        // every task below, or aborts the process, and then no task is left to claim.
        let job: Job<'static> = unsafe { std::mem::transmute::<Job<'_>, Job<'static>>(job) };
        self.finished.store(0, Ordering::Relaxed);
        self.job.0.with_mut(|slot| {
            // SAFETY: the previous job is over and calls do not overlap, so no thread reads the
            // slot.
            unsafe { *slot = Some(job) }
        });
        self.state.store((tasks as u64) << 32 | bits(0, tasks), Ordering::Release);
        self.wake_sleepers();
        self.work(0);
        self.wait_until_finished(tasks);
        std::mem::forget(guard);
        let panic = lock(&self.panic).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Works on the current job until none of its tasks is left to claim.
    pub(super) fn work(&self, worker: usize) {
        while let Some(task) = self.claim(worker) {
            // A thread that unwinds here would leave its task unfinished and `run` waiting.
            let guard = AbortOnUnwind;
            // SAFETY: this thread holds a claimed, unfinished task, so the job is alive and the
            // slot is not being written (see JobSlot).
            let job = self.job.0.with(|slot| unsafe { *slot });
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                if let Some(job) = job {
                    job(worker, task);
                }
            }));
            if let Err(panic) = outcome {
                lock(&self.panic).get_or_insert(panic);
            }
            std::mem::forget(guard);
            self.finished.fetch_add(1, Ordering::Release);
        }
    }

    /// Claims a task of the current job: the first open one of the worker's own share, or else the
    /// last open one. Returns `None` if no task is open.
    fn claim(&self, worker: usize) -> Option<usize> {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let open = state & bits(0, MAX_TASKS);
            if open == 0 {
                return None;
            }
            let tasks = (state >> 32) as usize;
            let share = tasks * worker / self.workers..tasks * (worker + 1) / self.workers;
            let own = open & bits(share.start, share.end);
            let task = if own != 0 { own.trailing_zeros() } else { open.ilog2() };
            match self.state.compare_exchange_weak(
                state,
                state & !(1 << task),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(task as usize),
                Err(current) => state = current,
            }
        }
    }

    fn wait_until_finished(&self, tasks: usize) {
        let mut spins = 0u32;
        while self.finished.load(Ordering::Acquire) < tasks {
            spins += 1;
            if spins.is_multiple_of(4096) {
                // Another thread may have lost its core: offer it this one.
                yield_now();
            } else {
                spin_loop();
            }
        }
    }

    /// Waits until a task is open and returns `true`, or returns `false` after
    /// [`stop`](Self::stop). Sleeps as soon as `spin` returns `false`.
    pub(super) fn wait_for_work(&self, mut spin: impl FnMut() -> bool) -> bool {
        while !self.has_work() {
            if self.stop.load(Ordering::Acquire) {
                return false;
            }
            if !spin() {
                self.sleep();
            }
        }
        true
    }

    fn has_work(&self) -> bool {
        self.state.load(Ordering::Acquire) & bits(0, MAX_TASKS) != 0
    }

    /// Sleeps until there is work or the pool stops.
    ///
    /// `run` and `stop` take the lock after they change the state. So either this thread counts as
    /// a sleeper by then and is woken, or it takes the lock later and finds the state changed.
    fn sleep(&self) {
        let mut sleepers = lock(&self.sleepers);
        *sleepers += 1;
        while !self.has_work() && !self.stop.load(Ordering::Acquire) {
            sleepers = self.wake.wait(sleepers).unwrap_or_else(|error| error.into_inner());
        }
        *sleepers -= 1;
    }

    fn wake_sleepers(&self) {
        if *lock(&self.sleepers) > 0 {
            self.wake.notify_all();
        }
    }

    /// Ends all current and future calls of [`wait_for_work`](Self::wait_for_work).
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake_sleepers();
    }
}

//! The worker pool under loom, which runs a model with every relevant interleaving of its threads
//! and reports data races, lost wake-ups (as deadlocks) and failed assertions.

#[path = "../src/parallel/workers/pool.rs"]
mod pool;

/// The primitives of `pool`, by loom.
mod sync {
    pub(super) use loom::cell::UnsafeCell;
    pub(super) use loom::hint::spin_loop;
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use loom::thread::yield_now;
}

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use pool::Pool;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Counters that only the holder of the task with the same index may touch: loom reports a race
/// when two threads reach one of them without synchronisation.
struct Counters([UnsafeCell<u32>; 3]);

// SAFETY: loom checks every access.
unsafe impl Sync for Counters {}

impl Counters {
    fn new() -> Self {
        Counters([0; 3].map(UnsafeCell::new))
    }

    fn add_one(&self, task: usize) {
        // SAFETY: each task is held by one thread, which loom checks.
        self.0[task].with_mut(|count| unsafe { *count += 1 });
    }

    fn values(&self) -> [u32; 3] {
        // SAFETY: called between jobs, which loom checks.
        [0, 1, 2].map(|task| self.0[task].with(|count| unsafe { *count }))
    }
}

/// Explores a pool with `workers` workers, including the caller, that executes `body` and stops.
/// Threads sleep without spinning. `preemptions` bounds the search where it would take too long.
fn explore(
    workers: usize,
    preemptions: Option<usize>,
    body: impl Fn(&Pool) + Sync + Send + 'static,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(move || {
        let pool = Arc::new(Pool::new(workers));
        let serve = |worker| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                while pool.wait_for_work(|| false) {
                    pool.work(worker);
                }
            })
        };
        let threads: Vec<_> = (1..workers).map(serve).collect();
        body(&pool);
        pool.stop();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Runs a job of `tasks` tasks on the pool.
fn run(pool: &Pool, tasks: usize, job: impl Fn(usize, usize) + Sync) {
    // SAFETY: only the model's first thread calls this, one job after the other.
    unsafe { pool.run(tasks, &job) }
}

/// Two jobs in a row, each on its own data, which is dropped before the next job starts. They have
/// equal sizes, so a thread may see the state of one and claim a task of the other.
#[test]
fn every_task_runs_once_and_before_run_returns() {
    explore(2, Some(2), |pool| {
        for _ in 0..2 {
            let counters = Counters::new();
            run(pool, 2, |_, task| counters.add_one(task));
            assert_eq!(counters.values(), [1, 1, 0]);
        }
    });
}

#[test]
fn three_workers_share_the_tasks() {
    explore(3, Some(1), |pool| {
        let (counters, own) = (Counters::new(), Counters::new());
        run(pool, 3, |worker, task| {
            counters.add_one(task);
            // The counter of a worker is never used by two threads.
            own.add_one(worker);
        });
        assert_eq!(counters.values(), [1; 3]);
        assert_eq!(own.values().iter().sum::<u32>(), 3);
    });
}

/// The two tasks wait for each other, so the job ends only if the other thread wakes up.
#[test]
fn a_sleeping_thread_wakes_up() {
    explore(2, Some(2), |pool| {
        let (arrived, all_arrived) = (Mutex::new(0), Condvar::new());
        run(pool, 2, |_, _| {
            let mut count = arrived.lock().unwrap();
            *count += 1;
            all_arrived.notify_all();
            while *count < 2 {
                count = all_arrived.wait(count).unwrap();
            }
        });
    });
}

#[test]
fn a_pool_without_a_job_stops() {
    explore(3, Some(2), |_| ());
}

#[test]
fn a_panic_is_resumed_after_the_other_tasks() {
    explore(2, Some(2), |pool| {
        let counters = Counters::new();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            run(pool, 2, |_, task| {
                counters.add_one(task);
                if task == 1 {
                    std::panic::resume_unwind(Box::new("task 1"));
                }
            });
        }));
        assert!(outcome.is_err());
        assert_eq!(counters.values(), [1, 1, 0]);
    });
}

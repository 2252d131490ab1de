//! A few threads that stay ready between the phases of a training step.
//!
//! A small step takes a third of a millisecond and has two or three parallel phases, so waking
//! sleeping threads for each phase would cost a good part of it. Idle threads therefore spin for a
//! bounded time before they sleep: a phase that follows soon starts immediately, and a machine
//! shared with other work is not kept busy. Each thread begins with its own share of the tasks, the
//! same share in every step, so that it finds their data in its own cache; then it helps with the
//! shares of the others.

mod pool;

/// The primitives of `pool`. The loom test supplies its own.
mod sync {
    pub(super) use std::hint::spin_loop;
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use std::thread::yield_now;

    /// [`std::cell::UnsafeCell`] with the interface of loom's.
    pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(super) fn new(value: T) -> Self {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        pub(super) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        pub(super) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

use super::FlushSubnormals;
use pool::{Job, MAX_TASKS, Pool};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an idle thread spins before it sleeps.
const SPIN: Duration = Duration::from_micros(100);

/// Runs the tasks of one job at a time on a fixed set of threads, including the caller's. In tasks
/// subnormal numbers are zeros.
pub struct Workers {
    pool: Arc<Pool>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts threads so that there are `threads` including the caller's, but at least 1 and at
    /// most 32, the maximum number of tasks.
    pub fn new(threads: usize) -> Self {
        let workers = threads.clamp(1, MAX_TASKS);
        let pool = Arc::new(Pool::new(workers));
        let threads = (1..workers)
            .map(|worker| {
                let pool = Arc::clone(&pool);
                std::thread::spawn(move || serve(&pool, worker))
            })
            .collect();
        Workers { pool, threads }
    }

    /// Returns the number of threads, including the caller's.
    pub fn count(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `job(worker, task)` once for every task, of which there are at most [`MAX_TASKS`];
    /// `worker` < [`count`](Self::count) identifies the thread. Returns when all tasks are
    /// finished; a panic in a task is resumed here.
    fn run(&mut self, tasks: usize, job: Job<'_>) {
        let _flush = FlushSubnormals::new();
        if self.threads.is_empty() || tasks <= 1 {
            (0..tasks).for_each(|task| job(0, task));
        } else {
            // SAFETY: `&mut self` keeps calls from overlapping.
            unsafe { self.pool.run(tasks, job) }
        }
    }
}

/// Works on the jobs of the pool until it stops.
fn serve(pool: &Pool, worker: usize) {
    let _flush = FlushSubnormals::new();
    loop {
        let idle_since = Instant::now();
        let spin = || {
            (0..32).for_each(|_| std::hint::spin_loop());
            idle_since.elapsed() < SPIN
        };
        if !pool.wait_for_work(spin) {
            return;
        }
        pool.work(worker);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.pool.stop();
        for thread in self.threads.drain(..) {
            // A thread cannot fail: panics of tasks are caught and resumed in `run`.
            let _ = thread.join();
        }
    }
}

/// A slice whose elements are handed out to different threads.
struct Shareable<T> {
    data: *mut T,
    len: usize,
}

// SAFETY: elements are reached only through the unsafe `element` and `block`, whose callers ensure
// that no two threads hold the same one; T: Send lets an element be used on another thread.
unsafe impl<T: Send> Sync for Shareable<T> {}

impl<T> Shareable<T> {
    fn new(slice: &mut [T]) -> Self {
        Shareable { data: slice.as_mut_ptr(), len: slice.len() }
    }

    /// # Safety
    /// The slice passed to `new` is still borrowed, and no other reference to element `index`
    /// exists.
    #[allow(clippy::mut_from_ref)]
    unsafe fn element(&self, index: usize) -> &mut T {
        assert!(index < self.len);
        // SAFETY: in bounds, and exclusive by the contract.
        unsafe { &mut *self.data.add(index) }
    }

    /// Returns the `index`-th block of `size` elements; the last one may be shorter.
    ///
    /// # Safety
    /// The slice passed to `new` is still borrowed, all calls have the same `size`, and no other
    /// reference to block `index` exists.
    #[allow(clippy::mut_from_ref)]
    unsafe fn block(&self, index: usize, size: usize) -> &mut [T] {
        let start = (index * size).min(self.len);
        let len = size.min(self.len - start);
        // SAFETY: in bounds; blocks of one size do not overlap; exclusive by the contract.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(start), len) }
    }
}

impl Workers {
    /// Calls `f(index, items[index], others[index], scratch)` for every index. `scratch` holds one
    /// entry for every thread; `f` gets that of the thread it runs on.
    pub(crate) fn for_each<A: Send, B: Send, S: Send>(
        &mut self,
        items: &mut [A],
        others: &mut [B],
        scratch: &mut [S],
        f: impl Fn(usize, &mut A, &mut B, &mut S) + Sync,
    ) {
        assert!(items.len() == others.len() && scratch.len() >= self.count());
        let count = items.len();
        let tasks = count.min(MAX_TASKS);
        let (items, others) = (Shareable::new(items), Shareable::new(others));
        let scratch = Shareable::new(scratch);
        self.run(tasks, &|worker, task| {
            for index in count * task / tasks..count * (task + 1) / tasks {
                // SAFETY: `run` gives every task to one thread and every thread its own number, a
                // thread works on one task at a time, and tasks share no index.
                unsafe {
                    let scratch = scratch.element(worker);
                    f(index, items.element(index), others.element(index), scratch);
                }
            }
        });
    }

    /// Splits the two slices into blocks of `left_size` and `right_size` elements and calls
    /// `f(index, left block, right block)` for every index.
    pub(crate) fn for_each_block<A: Send, B: Send>(
        &mut self,
        (left, left_size): (&mut [A], usize),
        (right, right_size): (&mut [B], usize),
        f: impl Fn(usize, &mut [A], &mut [B]) + Sync,
    ) {
        let blocks = left.len().div_ceil(left_size);
        assert_eq!(blocks, right.len().div_ceil(right_size));
        let tasks = blocks.min(MAX_TASKS);
        let (left, right) = (Shareable::new(left), Shareable::new(right));
        self.run(tasks, &|_, task| {
            for block in blocks * task / tasks..blocks * (task + 1) / tasks {
                // SAFETY: `run` gives every task to one thread, and tasks share no block.
                unsafe { f(block, left.block(block, left_size), right.block(block, right_size)) }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

    #[test]
    fn every_task_runs_once_for_any_number_of_threads() {
        for threads in [1, 2, 5] {
            let mut workers = Workers::new(threads);
            for round in 0..200 {
                let mut items: Vec<usize> = (0..round % 71).collect();
                let mut counts = vec![0usize; items.len()];
                let mut scratch = vec![0usize; threads];
                workers.for_each(&mut items, &mut counts, &mut scratch, |index, item, count, s| {
                    assert_eq!(*item, index);
                    *count += 1;
                    *s += 1;
                });
                assert!(counts.iter().all(|&count| count == 1));
                assert_eq!(scratch.iter().sum::<usize>(), items.len());
            }
        }
    }

    #[test]
    fn sleeping_threads_wake_up() {
        let mut workers = Workers::new(3);
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(2));
            let mut data = vec![0u32; 1000];
            let mut tags = vec![0u32; 10];
            workers.for_each_block((&mut tags, 1), (&mut data, 100), |index, tag, block| {
                tag[0] = index as u32;
                block.fill(index as u32);
            });
            assert!(data.iter().enumerate().all(|(i, &value)| value == i as u32 / 100));
            assert!(tags.iter().enumerate().all(|(i, &tag)| tag == i as u32));
        }
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_caller_and_the_pool_stays_usable() {
        let mut workers = Workers::new(2);
        let mut items = vec![0; 8];
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            workers.for_each(&mut items, &mut [(); 8], &mut [(); 2], |index, _, (), ()| {
                assert!(index != 3, "task three");
            });
        }));
        assert!(outcome.is_err());
        workers.for_each(&mut items, &mut [(); 8], &mut [(); 2], |_, item, (), ()| *item = 1);
        assert_eq!(items, [1; 8]);
    }

    /// Panics again when it is dropped.
    struct PanicOnDrop;

    impl Drop for PanicOnDrop {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    /// The second of two payloads is dropped inside the pool. Its panic must not unwind past tasks
    /// that still borrow the caller's stack, so the process aborts. The test runs itself again in a
    /// second process.
    #[test]
    fn a_panic_inside_the_pool_aborts() {
        const CHILD: &str = "FDIME_TEST_ABORT";
        if std::env::var_os(CHILD).is_some() {
            let mut items = [0; 8];
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let mut workers = Workers::new(2);
                workers.for_each(&mut items, &mut [(); 8], &mut [(); 2], |_, _, (), ()| {
                    panic_any(PanicOnDrop);
                });
            }));
            std::mem::forget(outcome);
            return;
        }
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "parallel::workers::tests::a_panic_inside_the_pool_aborts"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&child.status),
            Some(6),
            "SIGABRT"
        );
        assert!(!child.status.success());
    }
}

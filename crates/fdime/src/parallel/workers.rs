//! A few threads that stay ready between the phases of a training step.
//!
//! A small step takes a third of a millisecond and has two or three parallel phases, so waking
//! sleeping threads for each would cost a good part of it. Here idle threads spin for a bounded
//! time and only then sleep (the caller, who waits for work in progress, yields instead): a phase that follows soon starts at once, and a machine shared with
//! other work is not kept busy for nothing. Each thread begins with its own share of the tasks, the
//! same share in every step, so that it finds their data in its own cache; when it is through, it
//! helps with the others'.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an idle thread spins before it sleeps.
const SPIN: Duration = Duration::from_micros(100);

/// A job: a function of (worker, task) and a number of tasks.
type Job<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Runs the tasks of one job at a time on a fixed set of threads, the caller's included.
pub struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Tasks in the job (upper half) and one bit for every task still to be claimed (lower half).
    /// One word, so that a claim can only succeed for the job that is really there.
    state: AtomicU64,
    /// The job behind `state`; read only by a thread that has claimed one of its tasks.
    job: JobSlot,
    finished: AtomicUsize,
    panicked: Mutex<Option<Box<dyn std::any::Any + Send>>>,
    stop: AtomicBool,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

#[derive(Default)]
struct JobSlot(std::cell::UnsafeCell<Option<Job<'static>>>);

// SAFETY: the slot is written only by `run`, between jobs, when no task is claimed or left to
// claim, and read only by holders of a claimed task, which `run` waits for; the claim (acquire)
// orders the read after the write (released with `state`).
unsafe impl Sync for JobSlot {}

/// The most tasks a job can have.
const MOST_TASKS: usize = 32;

/// Task numbers `from..to` as bits.
fn bits(from: usize, to: usize) -> u64 {
    (1 << to) - (1 << from)
}

impl Shared {
    /// Takes a task of the current job, if one is left: the first of the worker's own share, or
    /// else the last of anybody's.
    fn claim(&self, worker: usize, workers: usize) -> Option<usize> {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let open = state & bits(0, MOST_TASKS);
            if open == 0 {
                return None;
            }
            let tasks = (state >> 32) as usize;
            let own = open & bits(tasks * worker / workers, tasks * (worker + 1) / workers);
            let task = if own != 0 { own.trailing_zeros() } else { open.ilog2() };
            match self.state.compare_exchange_weak(
                state,
                state & !(1 << task),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(task as usize),
                Err(now) => state = now,
            }
        }
    }

    /// Works on the current job until none of its tasks is left to claim.
    fn work(&self, worker: usize, workers: usize) {
        while let Some(task) = self.claim(worker, workers) {
            // SAFETY: this thread holds a claimed, unfinished task, so the job is alive and the
            // slot is not being written (see JobSlot).
            let job = unsafe { *self.job.0.get() };
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                if let Some(job) = job {
                    job(worker, task);
                }
            }));
            if let Err(panic) = outcome {
                let mut slot = self.panicked.lock().unwrap_or_else(|e| e.into_inner());
                slot.get_or_insert(panic);
            }
            self.finished.fetch_add(1, Ordering::Release);
        }
    }

    fn has_work(&self) -> bool {
        self.state.load(Ordering::SeqCst) & bits(0, MOST_TASKS) != 0
    }

    fn thread_loop(&self, worker: usize, workers: usize) {
        loop {
            let idle_since = Instant::now();
            while !self.has_work() {
                if self.stop.load(Ordering::SeqCst) {
                    return;
                }
                if idle_since.elapsed() < SPIN {
                    for _ in 0..32 {
                        std::hint::spin_loop();
                    }
                } else {
                    self.sleep();
                }
            }
            self.work(worker, workers);
        }
    }

    fn sleep(&self) {
        let mut guard = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        // Announced before the last look at the state: `run` changes the state before it looks
        // for sleepers, so one of the two always sees the other.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !self.has_work() && !self.stop.load(Ordering::SeqCst) {
            guard = self.wake.wait(guard).unwrap_or_else(|e| e.into_inner());
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn wake_sleepers(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _guard = self.lock.lock().unwrap_or_else(|e| e.into_inner());
            self.wake.notify_all();
        }
    }
}

impl Workers {
    /// As many threads as asked for, the caller's included: at least one, and no more than could
    /// ever find a task.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let workers = threads.clamp(1, MOST_TASKS);
        let threads = (1..workers)
            .map(|worker| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.thread_loop(worker, workers))
            })
            .collect();
        Workers { shared, threads }
    }

    /// The number of threads.
    pub fn count(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `job(worker, task)` once for every task, of which there are at most 32; `worker` < [`count`](Self::count) tells the
    /// threads apart. Returns when all are done; a panic in a task is raised here.
    fn run(&mut self, tasks: usize, job: Job<'_>) {
        if self.threads.is_empty() || tasks <= 1 {
            (0..tasks).for_each(|task| job(0, task));
            return;
        }
        let shared = &*self.shared;
        assert!(tasks <= MOST_TASKS, "{tasks} tasks");
        // SAFETY: only the lifetime is changed. No thread holds the job after this call: it waits
        // below until every task is finished, and then no further task can be claimed.
        let job: Job<'static> = unsafe { std::mem::transmute::<Job<'_>, Job<'static>>(job) };
        shared.finished.store(0, Ordering::Relaxed);
        // SAFETY: the last job is over (`&mut self`, and `run` waits), so nobody reads the slot.
        unsafe { *shared.job.0.get() = Some(job) };
        shared.state.store((tasks as u64) << 32 | bits(0, tasks), Ordering::SeqCst);
        shared.wake_sleepers();
        shared.work(0, self.count());
        let mut spins = 0u32;
        while shared.finished.load(Ordering::Acquire) < tasks {
            spins += 1;
            if spins.is_multiple_of(4096) {
                // The other thread has lost its core: give ours up instead of burning it.
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        let panic = shared.panicked.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let guard = self.shared.lock.lock().unwrap_or_else(|e| e.into_inner());
        self.shared.wake.notify_all();
        drop(guard);
        for thread in self.threads.drain(..) {
            // A worker cannot fail: panics of tasks are caught and raised in `run`.
            let _ = thread.join();
        }
    }
}

/// A slice whose elements are handed out to different threads.
struct Shareable<T> {
    data: *mut T,
    len: usize,
}

// SAFETY: elements are reached only through the unsafe `element` and `block`, whose callers see to
// it that no two threads hold the same one; T: Send lets an element be used on another thread.
unsafe impl<T: Send> Sync for Shareable<T> {}

impl<T> Shareable<T> {
    fn new(slice: &mut [T]) -> Self {
        Shareable { data: slice.as_mut_ptr(), len: slice.len() }
    }

    /// # Safety
    /// While the slice is borrowed by `new`'s caller, nobody else holds element `index`.
    #[allow(clippy::mut_from_ref)]
    unsafe fn element(&self, index: usize) -> &mut T {
        assert!(index < self.len);
        // SAFETY: in bounds, and exclusive by the caller's promise.
        unsafe { &mut *self.data.add(index) }
    }

    /// The `index`-th run of `size` elements; the last may be shorter.
    ///
    /// # Safety
    /// While the slice is borrowed by `new`'s caller, nobody else holds block `index`.
    #[allow(clippy::mut_from_ref)]
    unsafe fn block(&self, index: usize, size: usize) -> &mut [T] {
        let start = (index * size).min(self.len);
        let len = size.min(self.len - start);
        // SAFETY: in bounds; blocks of one size do not overlap; exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(start), len) }
    }
}

impl Workers {
    /// Calls `f(index, item, other, scratch)` for every item with the other of the same index and
    /// the scratch memory of the thread it runs on. `scratch` holds one entry for every thread.
    pub(crate) fn for_each<A: Send, B: Send, S: Send>(
        &mut self,
        items: &mut [A],
        others: &mut [B],
        scratch: &mut [S],
        f: impl Fn(usize, &mut A, &mut B, &mut S) + Sync,
    ) {
        assert!(items.len() == others.len() && scratch.len() >= self.count());
        let count = items.len();
        let tasks = count.min(MOST_TASKS);
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

    /// Calls `f(index, left block, right block)` for the runs of `left_size` and `right_size`
    /// elements that the two slices are cut into.
    pub(crate) fn for_each_block<A: Send, B: Send>(
        &mut self,
        (left, left_size): (&mut [A], usize),
        (right, right_size): (&mut [B], usize),
        f: impl Fn(usize, &mut [A], &mut [B]) + Sync,
    ) {
        let blocks = left.len().div_ceil(left_size);
        assert_eq!(blocks, right.len().div_ceil(right_size));
        let tasks = blocks.min(MOST_TASKS);
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

    #[test]
    fn every_task_runs_once_whatever_the_number_of_threads() {
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
    fn a_panic_in_a_task_reaches_the_caller_and_the_workers_go_on() {
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
}

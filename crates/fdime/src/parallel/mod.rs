//! Independent jobs on several threads.

mod subnormals;
mod workers;

pub(crate) use subnormals::FlushSubnormals;
pub use workers::Workers;

use crate::error::Result;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The maximum number of threads for each core. Results do not depend on their number, and more would
/// only take memory, and time to start and to stop.
const MAX_THREADS_PER_CORE: usize = 4;

/// Returns the number of threads to use: `threads`, but at most four for each core, or one for each
/// core if it is 0.
pub fn thread_count(threads: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if threads == 0 { cores } else { threads.min(MAX_THREADS_PER_CORE * cores) }
}

/// A check that long computations make at intervals; its error ends them.
pub type Tick<'a> = &'a (dyn Fn() -> Result<()> + Sync);

/// The check of a computation that nothing ends.
pub(crate) fn never() -> std::result::Result<(), std::convert::Infallible> {
    Ok(())
}

/// Runs work that makes no checks itself on a thread of its own, and `tick` every few milliseconds.
/// If that fails, the thread is left to finish alone and its result is dropped.
pub(crate) fn run_detached<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    tick: Tick,
) -> Result<T> {
    let worker = std::thread::spawn(work);
    while !worker.is_finished() {
        tick()?;
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// Runs `jobs` jobs and returns their results in order.
///
/// As many jobs run at a time as there are threads, with one thread each, which uses the cores
/// better than several threads on each job; the jobs left over at the end share all threads. `job`
/// gets its index and its number of threads, and runs with subnormal numbers as zeros.
pub fn run_jobs<T: Send>(
    threads: usize,
    jobs: usize,
    job: impl Fn(usize, usize) -> T + Sync,
) -> Vec<T> {
    let threads = threads.max(1);
    let full_rounds = jobs / threads * threads;
    let mut finished = run_range(threads, 0..full_rounds, &job);
    finished.extend(run_range(threads, full_rounds..jobs, &job));
    finished
}

/// Runs a range of jobs, `threads` at a time, or all of them with an equal share of the threads.
fn run_range<T: Send>(
    threads: usize,
    jobs: Range<usize>,
    job: &(impl Fn(usize, usize) -> T + Sync),
) -> Vec<T> {
    if jobs.is_empty() {
        return Vec::new();
    }
    let concurrent = threads.min(jobs.len());
    let next = AtomicUsize::new(jobs.start);
    let finished: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
    let work = || {
        let _flush = FlushSubnormals::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= jobs.end {
                break;
            }
            let result = job(index, threads / concurrent);
            finished.lock().unwrap_or_else(|error| error.into_inner()).push((index, result));
        }
    };
    // The first worker is this thread.
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..concurrent).map(|_| scope.spawn(work)).collect();
        work();
        for worker in workers {
            // The scope alone would replace the message of a panic by its own.
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    let mut finished = finished.into_inner().unwrap_or_else(|error| error.into_inner());
    finished.sort_by_key(|(index, _)| *index);
    finished.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn absurd_numbers_of_threads_are_limited() {
        let cores = thread_count(0);
        assert_eq!(thread_count(1), 1);
        assert_eq!(thread_count(cores + 1), cores + 1);
        assert_eq!(thread_count(usize::MAX), MAX_THREADS_PER_CORE * cores);
    }

    #[test]
    fn detached_work_is_waited_for_until_a_check_fails() {
        assert_eq!(run_detached(|| 7, &|| Ok(())), Ok(7));
        let (finish, wait) = std::sync::mpsc::channel::<()>();
        let endless = move || wait.recv().is_ok();
        assert_eq!(run_detached(endless, &|| Err(Error::Interrupted)), Err(Error::Interrupted));
        drop(finish);
    }

    #[test]
    fn results_are_in_order_and_threads_are_shared() {
        for threads in 1..5 {
            for jobs in 0..12 {
                let results = run_jobs(threads, jobs, |index, share| (index, share));
                assert_eq!(results.len(), jobs);
                for (index, (job, share)) in results.into_iter().enumerate() {
                    let left_over = jobs % threads;
                    let shared = index >= jobs - left_over;
                    assert_eq!((job, share), (index, if shared { threads / left_over } else { 1 }));
                }
            }
        }
    }
}

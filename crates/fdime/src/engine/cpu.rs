use super::Engine;
use crate::error::Result;
use crate::train::{Observer, RunPlan, Trace, Trainer};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Executes plans on the processor's cores. Plans run side by side, one thread each, which uses the
/// cores better than several threads on each; those left over at the end share all threads.
/// Results do not depend on the number of threads.
#[derive(Clone, Copy, Debug)]
pub struct CpuEngine {
    threads: usize,
}

impl CpuEngine {
    /// Its device, as reports and logs name it.
    pub const DEVICE: &str = "cpu";

    /// With this many threads in all; 0 means one for every core.
    pub fn new(threads: usize) -> Self {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        CpuEngine { threads }
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }
}

impl Engine for CpuEngine {
    fn device(&self, _plan: &RunPlan) -> String {
        Self::DEVICE.into()
    }

    fn execute(
        &self,
        plans: &[RunPlan],
        observer: &(dyn Fn(usize) -> Box<dyn Observer> + Sync),
    ) -> Vec<Result<Trace>> {
        side_by_side(self.threads, plans.len(), |index, threads| {
            Trainer::run(&plans[index], threads, observer(index))
        })
    }
}

/// Does `jobs` jobs, as many at once as there are threads, with one thread each; those left over at the
/// end share all threads. A job is told its index and its number of threads.
pub(crate) fn side_by_side<T: Send>(
    threads: usize,
    jobs: usize,
    job: impl Fn(usize, usize) -> T + Sync,
) -> Vec<T> {
    let threads = threads.max(1);
    let whole_rounds = jobs / threads * threads;
    let mut finished = at_once(threads, 0..whole_rounds, &job);
    finished.extend(at_once(threads, whole_rounds..jobs, &job));
    finished
}

/// As many jobs at once as there are threads, or all of them with an equal share each.
fn at_once<T: Send>(
    threads: usize,
    jobs: Range<usize>,
    job: &(impl Fn(usize, usize) -> T + Sync),
) -> Vec<T> {
    let at_once = threads.min(jobs.len()).max(1);
    let next = AtomicUsize::new(jobs.start);
    let finished: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= jobs.end {
                        break;
                    }
                    let result = job(index, threads / at_once);
                    finished.lock().unwrap_or_else(|e| e.into_inner()).push((index, result));
                }
            });
        }
    });
    let mut finished = finished.into_inner().unwrap_or_else(|e| e.into_inner());
    finished.sort_by_key(|(index, _)| *index);
    finished.into_iter().map(|(_, result)| result).collect()
}

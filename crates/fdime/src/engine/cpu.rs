use super::Engine;
use crate::error::Result;
use crate::train::{Observer, RunPlan, Trace, Trainer};
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
        let whole_rounds = plans.len() / self.threads * self.threads;
        let mut traces = self.side_by_side(&plans[..whole_rounds], observer);
        let rest = |index: usize| observer(whole_rounds + index);
        traces.extend(self.side_by_side(&plans[whole_rounds..], &rest));
        traces
    }
}

impl CpuEngine {
    /// Runs as many plans at once as there are threads, or all of them with an equal share each.
    fn side_by_side(
        &self,
        plans: &[RunPlan],
        observer: &(dyn Fn(usize) -> Box<dyn Observer> + Sync),
    ) -> Vec<Result<Trace>> {
        let at_once = self.threads.min(plans.len()).max(1);
        let threads = self.threads / at_once;
        let next = AtomicUsize::new(0);
        let finished: Mutex<Vec<(usize, Result<Trace>)>> = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..at_once {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(plan) = plans.get(index) else { break };
                        let trace = Trainer::run(plan, threads, observer(index));
                        finished.lock().unwrap_or_else(|e| e.into_inner()).push((index, trace));
                    }
                });
            }
        });
        let mut finished = finished.into_inner().unwrap_or_else(|e| e.into_inner());
        finished.sort_by_key(|(index, _)| *index);
        finished.into_iter().map(|(_, trace)| trace).collect()
    }
}

use super::{Device, Engine, Task};
use crate::error::Result;
use crate::parallel::{run_jobs, thread_count};
use crate::train::{Observers, Outcome, Recorder, Trainer};

/// Executes trainings on the processor's cores. Results do not depend on the number of threads.
#[derive(Clone, Copy, Debug)]
pub struct CpuEngine {
    threads: usize,
}

impl CpuEngine {
    /// Returns an engine with this many threads; 0 means one for each core.
    pub fn new(threads: usize) -> Self {
        CpuEngine { threads: thread_count(threads) }
    }
}

impl Engine for CpuEngine {
    fn device(&self) -> Device {
        Device::Cpu
    }

    fn device_for(&self, _task: &Task) -> Device {
        Device::Cpu
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn with_threads(&self, threads: usize) -> Box<dyn Engine> {
        Box::new(CpuEngine::new(threads))
    }

    fn execute(&self, tasks: &[Task], observers: &Observers<'_>) -> Vec<Result<Outcome>> {
        run_jobs(self.threads, tasks.len(), |index, threads| {
            let Task { training, source, steps } = tasks[index];
            let recorder = Recorder::new(steps, observers(index));
            if recorder.is_stopped() {
                return Ok(recorder.finish(None));
            }
            let dims = source.dims();
            training.check_memory(dims)?;
            Trainer::new(training, dims, threads)?.train_recorded(source, steps, recorder)
        })
    }
}

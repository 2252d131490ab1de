use super::{Observer, Recorder, RunPlan, Trace};
use crate::critic::{Batch, Critic, Reference};
use crate::engine::Workers;
use crate::error::Result;
use crate::nats::Nats;
use crate::nn::Adam;
use crate::objective::{Estimator, Objective};
use crate::pairing::Pairing;
use crate::random::{Purpose, stream};
use crate::scenario::PairSource;

/// Rows drawn from one random stream. It fixes what is sampled, so changing it changes results.
const SAMPLE_BLOCK: usize = 32;

/// A plan in execution: critic, optimiser and the memory of a batch.
pub struct Trainer {
    critic: Box<dyn Critic>,
    estimator: Estimator,
    objective: Box<dyn Objective>,
    optimizer: Adam,
    pairing: Pairing,
    batch: Batch,
    workers: Workers,
    seed: u64,
    iteration: usize,
}

impl Trainer {
    /// Everything allocated, nothing trained.
    pub fn new(plan: &RunPlan, threads: usize) -> Result<Self> {
        plan.check()?;
        plan.check_memory()?;
        let threads = threads.max(1);
        let dims = plan.scenario.at(plan.schedule.levels[0])?.dims();
        let n = plan.batch;
        let critic = plan.critic.build(dims, n, plan.pairing, plan.seed, threads)?;
        Ok(Trainer {
            optimizer: Adam::new(plan.optimizer, critic.parameters().len()),
            objective: plan.estimator.objective(plan.pairing.counts(n)),
            estimator: plan.estimator.clone(),
            critic,
            pairing: plan.pairing,
            batch: Batch {
                n,
                dims,
                x: vec![0.0; n * dims.0],
                y: vec![0.0; n * dims.1],
                partner: Vec::with_capacity(n),
                reference: Reference::default(),
            },
            workers: Workers::new(threads),
            seed: plan.seed,
            iteration: 0,
        })
    }

    /// One step: a fresh batch, its value and estimate, and an update of the parameters. The
    /// estimate is read before the update. Nothing if value or estimate is not finite.
    pub fn step(&mut self, source: &dyn PairSource) -> Result<Option<(f64, Nats)>> {
        self.draw_batch(source)?;
        let value = self.critic.pass(&self.batch, &mut *self.objective, &mut self.workers);
        let estimate = self.estimator.mutual_information(self.critic.scores());
        if !(value.is_finite() && estimate.is_finite()) {
            return Ok(None);
        }
        let (parameters, gradient) = self.critic.parameters_and_gradient();
        self.optimizer.ascend(parameters, gradient.0, &mut self.workers);
        self.iteration += 1;
        Ok(Some((value, estimate)))
    }

    /// Every block of rows has a stream of its own, so threads do not change what is drawn.
    fn draw_batch(&mut self, source: &dyn PairSource) -> Result<()> {
        let (seed, step) = (self.seed, self.iteration as u64);
        let batch = &mut self.batch;
        let (x_dim, y_dim) = batch.dims;
        self.workers.for_each_block(
            (&mut batch.x, SAMPLE_BLOCK * x_dim),
            (&mut batch.y, SAMPLE_BLOCK * y_dim),
            |block, x, y| source.sample(&mut stream(seed, Purpose::Data, step, block as u64), x, y),
        );
        let mut rng = stream(seed, Purpose::Pairing, step, 0);
        self.pairing.fill(batch.n, &mut rng, &mut batch.partner)
    }

    /// The critic as it is now.
    pub fn critic(&self) -> &dyn Critic {
        &*self.critic
    }

    /// Runs the whole plan.
    pub fn run(plan: &RunPlan, threads: usize, observer: Box<dyn Observer>) -> Result<Trace> {
        let mut trainer = Trainer::new(plan, threads)?;
        let mut recorder = Recorder::new(plan, observer)?;
        for level in &plan.schedule.levels {
            let scenario = plan.scenario.at(*level)?;
            for _ in 0..plan.schedule.iterations {
                let step = trainer.step(&scenario)?;
                let (value, estimate) = step.unwrap_or((f64::NAN, Nats(f64::NAN)));
                recorder.take(value, estimate);
                if recorder.over() {
                    return Ok(recorder.end());
                }
            }
        }
        Ok(recorder.end())
    }
}

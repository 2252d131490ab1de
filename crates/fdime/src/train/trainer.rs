use super::njee::Njee;
use super::{Observer, Recorder, RunPlan, Trace};
use crate::critic::{Batch, Critic, CriticPlan, GradientParts, Reference};
use crate::engine::Workers;
use crate::error::Result;
use crate::nats::Nats;
use crate::nn::{Adam, AdamPlan};
use crate::objective::{Estimator, Objective};
use crate::pairing::Pairing;
use crate::random::{Purpose, stream};
use crate::scenario::PairSource;

/// Rows drawn from one random stream. It fixes what is sampled, so changing it changes results.
const SAMPLE_BLOCK: usize = 32;

/// What is trained on whatever pairs are drawn: a plan without its source and schedule.
pub struct Setup<'a> {
    /// Cost, link and readout.
    pub estimator: &'a Estimator,
    /// The network.
    pub critic: &'a CriticPlan,
    /// How marginal pairs are made.
    pub pairing: Pairing,
    /// Joint samples in a step.
    pub batch: usize,
    /// The optimiser.
    pub optimizer: AdamPlan,
    /// The seed of all randomness.
    pub seed: u64,
}

impl<'a> From<&'a RunPlan> for Setup<'a> {
    fn from(plan: &'a RunPlan) -> Self {
        Setup {
            estimator: &plan.estimator,
            critic: &plan.critic,
            pairing: plan.pairing,
            batch: plan.batch,
            optimizer: plan.optimizer,
            seed: plan.seed,
        }
    }
}

/// A plan in execution: networks, optimiser and the memory of a batch.
pub struct Trainer {
    learner: Learner,
    optimizer: Adam,
    pairing: Pairing,
    batch: Batch,
    workers: Workers,
    seed: u64,
    iteration: usize,
}

/// What learns.
enum Learner {
    Critic { critic: Box<dyn Critic>, objective: Box<dyn Objective>, estimator: Estimator },
    Njee(Box<Njee>),
}

impl Learner {
    fn new(setup: &Setup, dims: (usize, usize), threads: usize) -> Result<Self> {
        let Setup { estimator, critic, pairing, batch: n, seed, .. } = *setup;
        if !estimator.has_critic() {
            let mut rng = stream(seed, Purpose::Parameters, 0, 0);
            return Ok(Learner::Njee(Box::new(Njee::new(critic, dims, n, &mut rng, threads))));
        }
        Ok(Learner::Critic {
            critic: critic.build(dims, n, pairing, seed, threads)?,
            objective: estimator.objective(pairing.counts(n))?,
            estimator: estimator.clone(),
        })
    }

    /// The value whose gradient is then there, and the estimate.
    fn pass(&mut self, batch: &Batch, workers: &mut Workers) -> (f64, Nats) {
        match self {
            Learner::Critic { critic, objective, estimator } => {
                let value = critic.pass(batch, &mut **objective, workers);
                (value, estimator.mutual_information(critic.scores()))
            }
            Learner::Njee(njee) => njee.pass(batch, workers),
        }
    }

    fn parameters_and_gradient(&mut self) -> (&mut [f32], GradientParts<'_>) {
        match self {
            Learner::Critic { critic, .. } => critic.parameters_and_gradient(),
            Learner::Njee(njee) => njee.parameters_and_gradient(),
        }
    }
}

impl Trainer {
    /// Everything allocated, nothing trained, for pairs of these dimensions.
    pub fn new(setup: &Setup, dims: (usize, usize), threads: usize) -> Result<Self> {
        let threads = threads.max(1);
        let (n, mut learner) = (setup.batch, Learner::new(setup, dims, threads)?);
        Ok(Trainer {
            optimizer: Adam::new(setup.optimizer, learner.parameters_and_gradient().0.len()),
            learner,
            pairing: setup.pairing,
            batch: Batch {
                n,
                dims,
                x: vec![0.0; n * dims.0],
                y: vec![0.0; n * dims.1],
                partner: Vec::with_capacity(n),
                reference: Reference::default(),
            },
            workers: Workers::new(threads),
            seed: setup.seed,
            iteration: 0,
        })
    }

    /// The trainer of a plan, which is checked first.
    pub fn of_plan(plan: &RunPlan, threads: usize) -> Result<Self> {
        plan.check()?;
        plan.check_memory()?;
        let dims = plan.scenario.at(plan.schedule.levels[0])?.dims();
        Trainer::new(&plan.into(), dims, threads)
    }

    /// One step: a fresh batch, its value and estimate, and an update of the parameters. The
    /// estimate is read before the update. Nothing if value or estimate is not finite.
    pub fn step(&mut self, source: &dyn PairSource) -> Result<Option<(f64, Nats)>> {
        self.draw_batch(source)?;
        let (value, estimate) = self.learner.pass(&self.batch, &mut self.workers);
        if !(value.is_finite() && estimate.is_finite()) {
            return Ok(None);
        }
        let (parameters, gradient) = self.learner.parameters_and_gradient();
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

    /// Floating-point operations of a step's passes, multiplications and additions counted apart.
    pub fn operations(&self) -> f64 {
        match &self.learner {
            Learner::Critic { critic, .. } => critic.operations(),
            Learner::Njee(njee) => njee.operations(self.batch.n),
        }
    }

    /// Runs the whole plan.
    pub fn run(plan: &RunPlan, threads: usize, observer: Box<dyn Observer>) -> Result<Trace> {
        let mut trainer = Trainer::of_plan(plan, threads)?;
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

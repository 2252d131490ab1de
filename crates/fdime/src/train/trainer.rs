use super::learner::Learner;
use super::outcome::Recorder;
use super::{
    BatchSource, Batches, Checkpoint, CurvePoint, HeldOut, LearnerPlan, Observer, Outcome, Training,
};
use crate::critic::{Batch, Reference};
use crate::error::Result;
use crate::nats::Nats;
use crate::nn::Adam;
use crate::parallel::{FlushSubnormals, Workers};
use crate::random::{Purpose, stream};

/// The number of times that the held-out rows are scored during a training.
const CHECKS: usize = 12;

/// A training in execution: the learner, the optimizer and the buffers of a batch.
pub struct Trainer {
    training: Training,
    learner: Box<dyn Learner>,
    optimizer: Adam,
    batch: Batch,
    workers: Workers,
    iteration: usize,
}

impl Trainer {
    /// Builds the learner for pairs of these dimensions with its initial parameters.
    ///
    /// # Errors
    /// If a setting of the training is invalid.
    pub fn new(training: &Training, dims: (usize, usize), threads: usize) -> Result<Self> {
        training.check()?;
        training.learner.check_dims(dims)?;
        let (n, workers) = (training.batch, Workers::new(threads));
        let learner = training.learner.build(dims, n, training.seed, workers.count())?;
        Ok(Trainer {
            optimizer: Adam::new(training.optimizer, learner.parameters().len()),
            training: training.clone(),
            learner,
            batch: Batch {
                n,
                dims,
                x: vec![0.0; n * dims.0],
                y: vec![0.0; n * dims.1],
                partner: Vec::with_capacity(n),
                reference: Reference::default(),
            },
            workers,
            iteration: 0,
        })
    }

    /// Makes one step: draws a batch, computes the objective and its gradient, and updates the
    /// parameters. Returns the objective and the estimate from before the update. If the objective
    /// is not finite, the parameters stay as they are.
    pub fn step(&mut self, batches: &mut dyn Batches) -> Result<(f64, Nats)> {
        let _flush = FlushSubnormals::new();
        let (seed, step) = (self.training.seed, self.iteration as u64);
        batches.fill(seed, step, &mut self.batch, &mut self.workers);
        if let LearnerPlan::Critic(learner) = &self.training.learner {
            let mut rng = stream(seed, Purpose::Pairing, step, 0);
            learner.pairing.fill(self.batch.n, &mut rng, &mut self.batch.partner)?;
        }
        let value = self.learner.pass(&self.batch, &mut self.workers);
        if value.is_finite() {
            let (parameters, gradient) = self.learner.parameters_and_gradient();
            self.optimizer.ascend(parameters, gradient.0, &mut self.workers);
        }
        self.iteration += 1;
        Ok((value, self.learner.estimate()))
    }

    /// Trains for `steps` steps, or until the training diverges or the observer stops it. If the
    /// source holds rows out, the parameters that were best on them are returned. Meanwhile
    /// subnormal numbers are zeros on this thread, also in the source and the observer.
    pub fn train(
        &mut self,
        source: &dyn BatchSource,
        steps: usize,
        observer: Box<dyn Observer + '_>,
    ) -> Result<Outcome> {
        self.train_recorded(source, steps, Recorder::new(steps, observer))
    }

    pub(crate) fn train_recorded(
        &mut self,
        source: &dyn BatchSource,
        steps: usize,
        mut recorder: Recorder,
    ) -> Result<Outcome> {
        let _flush = FlushSubnormals::new();
        let mut batches = source.open();
        let mut validation = Validation::new(steps);
        validation.check(0, &mut *self.learner, &*batches, &mut recorder)?;
        while !recorder.is_over() {
            let step = self.iteration + 1;
            let factor = self.training.learning_rate_schedule.factor(step, steps);
            self.optimizer.set_learning_rate(self.training.optimizer.learning_rate * factor);
            let (value, estimate) = self.step(&mut *batches)?;
            recorder.record_step(value, estimate);
            if value.is_finite() {
                validation.add_step(value);
                validation.check(step, &mut *self.learner, &*batches, &mut recorder)?;
            }
        }
        Ok(recorder.finish(validation.best()))
    }

    /// Returns the floating-point operations of a step; a multiply-add counts as two.
    pub fn operations(&self) -> f64 {
        self.learner.operations()
    }
}

/// Decides when held-out rows are scored and at which step the parameters were best on them.
pub(crate) struct Validation {
    steps: usize,
    best: Option<Checkpoint>,
    /// Sum and number of the objective's values since the last check.
    sum: f64,
    count: usize,
}

impl Validation {
    pub(crate) fn new(steps: usize) -> Self {
        Validation { steps, best: None, sum: 0.0, count: 0 }
    }

    /// Adds the objective of a step.
    pub(crate) fn add_step(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    /// Returns whether the held-out rows are scored after this step.
    pub(crate) fn is_due(&self, step: usize) -> bool {
        step == 0
            || step * CHECKS / self.steps > (step - 1) * CHECKS / self.steps
            || step == self.steps
    }

    /// Scores the held-out rows, if there are any and a check is due.
    fn check(
        &mut self,
        step: usize,
        learner: &mut dyn Learner,
        batches: &dyn Batches,
        recorder: &mut Recorder,
    ) -> Result<()> {
        let usable = |held_out: &HeldOut| held_out.rows.len() > 1 && self.is_due(step);
        let Some(held_out) = batches.held_out().filter(usable) else { return Ok(()) };
        let (point, is_best) = self.add_check(step, learner.held_out_value(held_out)?);
        recorder.record_check(&point);
        if is_best && let Some(best) = &mut self.best {
            best.parameters.clear();
            best.parameters.extend_from_slice(learner.parameters());
        }
        Ok(())
    }

    /// Adds the objective on the held-out rows after a step. Returns the point on the learning curve,
    /// and whether the parameters are the best so far.
    pub(crate) fn add_check(&mut self, step: usize, validation: f64) -> (CurvePoint, bool) {
        let mean = (self.count > 0).then(|| self.sum / self.count as f64);
        let train = mean.filter(|mean| mean.is_finite());
        let point = CurvePoint { step, train, validation };
        (self.sum, self.count) = (0.0, 0);
        if !validation.is_finite() {
            return (point, false);
        }
        let is_best = self.best.as_ref().is_none_or(|best| validation > best.validation);
        let none = || Checkpoint { parameters: Vec::new(), step, validation, curve: Vec::new() };
        let best = self.best.get_or_insert_with(none);
        best.curve.push(point);
        if is_best {
            (best.step, best.validation) = (step, validation);
        }
        (point, is_best)
    }

    /// Returns what is known of the best parameters; `None` if the objective on the held-out rows was
    /// never finite.
    pub(crate) fn best(self) -> Option<Checkpoint> {
        self.best
    }
}

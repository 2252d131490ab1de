//! Sources of samples for trainings.

use super::Schedule;
use crate::critic::{Batch, Inputs};
use crate::error::Result;
use crate::nats::Nats;
use crate::parallel::Workers;
use crate::random::{Purpose, stream};
use crate::scenario::{PairSource, Scenario, ScenarioPlan};
use std::ops::Range;

/// A source of batches for a training. Every [`PairSource`] is one: each step draws fresh samples
/// from it.
pub trait BatchSource: Sync {
    /// Returns the dimensions of x and y.
    fn dims(&self) -> (usize, usize);

    /// Prepares the samples for one training.
    fn open(&self) -> Box<dyn Batches + '_>;

    /// Returns the staircase behind this source, for engines that draw its samples themselves.
    fn staircase(&self) -> Option<&Staircase> {
        None
    }
}

/// The batches of one training.
pub trait Batches {
    /// Fills x, y and the reference of `batch` with the samples of a step. The samples depend on
    /// `seed` and `step`, never on the number of threads.
    fn fill(&mut self, seed: u64, step: u64, batch: &mut Batch, workers: &mut Workers);

    /// Returns the rows that are held out from training; the parameters with the best objective on
    /// them are kept. Returns `None` if samples are always fresh; fewer than two rows count as none.
    fn held_out(&self) -> Option<HeldOut<'_>> {
        None
    }
}

/// Rows held out from training.
pub struct HeldOut<'a> {
    /// The table that they are part of.
    pub inputs: &'a Inputs,
    /// Their positions in it.
    pub rows: Range<u32>,
}

/// The number of rows drawn from one random stream. Changing it changes the samples.
const SAMPLE_BLOCK: usize = 32;

/// Fills a batch with fresh samples. Every block of rows has its own random stream, so the samples
/// do not depend on the number of threads.
fn fill_with_samples(
    source: &(impl PairSource + ?Sized),
    seed: u64,
    step: u64,
    batch: &mut Batch,
    workers: &mut Workers,
) {
    let (x_dim, y_dim) = batch.dims;
    workers.for_each_block(
        (&mut batch.x, SAMPLE_BLOCK * x_dim),
        (&mut batch.y, SAMPLE_BLOCK * y_dim),
        |block, x, y| source.sample(&mut stream(seed, Purpose::Data, step, block as u64), x, y),
    );
}

impl<S: PairSource> BatchSource for S {
    fn dims(&self) -> (usize, usize) {
        PairSource::dims(self)
    }

    fn open(&self) -> Box<dyn Batches + '_> {
        Box::new(FreshSamples(self))
    }
}

struct FreshSamples<'a, S>(&'a S);

impl<S: PairSource> Batches for FreshSamples<'_, S> {
    fn fill(&mut self, seed: u64, step: u64, batch: &mut Batch, workers: &mut Workers) {
        fill_with_samples(self.0, seed, step, batch, workers);
    }
}

/// Fresh samples of a scenario whose level changes after a number of iterations.
pub struct Staircase {
    /// The scenario.
    pub scenario: ScenarioPlan,
    /// The levels and the iterations at each.
    pub schedule: Schedule,
    levels: Vec<Scenario>,
}

impl Staircase {
    /// Prepares all levels.
    ///
    /// # Errors
    /// If there is no level, or the scenario does not support one of them.
    pub fn new(scenario: &ScenarioPlan, schedule: &Schedule) -> Result<Self> {
        schedule.check()?;
        let levels =
            schedule.levels.iter().map(|level| scenario.at(*level)).collect::<Result<_>>()?;
        Ok(Staircase { scenario: scenario.clone(), schedule: schedule.clone(), levels })
    }

    /// Returns the exact mutual information of each level.
    pub fn true_mi(&self) -> Vec<Nats> {
        self.levels.iter().map(Scenario::mutual_information).collect()
    }
}

impl BatchSource for Staircase {
    fn dims(&self) -> (usize, usize) {
        PairSource::dims(&self.levels[0])
    }

    fn open(&self) -> Box<dyn Batches + '_> {
        Box::new(StaircaseSamples(self))
    }

    fn staircase(&self) -> Option<&Staircase> {
        Some(self)
    }
}

struct StaircaseSamples<'a>(&'a Staircase);

impl Batches for StaircaseSamples<'_> {
    fn fill(&mut self, seed: u64, step: u64, batch: &mut Batch, workers: &mut Workers) {
        let Staircase { schedule, levels, .. } = self.0;
        let level = (step as usize / schedule.iterations).min(levels.len() - 1);
        fill_with_samples(&levels[level], seed, step, batch, workers);
    }
}

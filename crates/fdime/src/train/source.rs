//! Sources of samples for trainings.

use super::Schedule;
use crate::chain::{ColumnSelection, Term};
use crate::critic::{Batch, Inputs, Reference};
use crate::error::Result;
use crate::nats::Nats;
use crate::parallel::Workers;
use crate::random::{Purpose, stream};
use crate::scenario::{DrawnImages, PairSource, Scenario, ScenarioPlan};
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

    /// Returns the images whose pixels the samples are, for engines that draw them themselves.
    fn images(&self) -> Option<DrawnImages<'_>> {
        None
    }

    /// Returns the table whose rows the samples are, for engines that draw them themselves.
    fn table(&self) -> Option<&dyn TableSource> {
        None
    }
}

/// Rows of a table, of which every training row is used once in an epoch.
pub trait TableSource: Sync {
    /// Returns the number of rows for training. Rows that are held out follow them.
    fn training_rows(&self) -> usize;

    /// Returns the number of rows that are held out.
    fn held_out_rows(&self) -> usize;

    /// Computes all rows.
    ///
    /// # Errors
    /// If this was interrupted.
    fn inputs(&self) -> Result<Inputs>;
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

    fn images(&self) -> Option<DrawnImages<'_>> {
        PairSource::images(self)
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
    term: Option<(Term, ColumnSelection)>,
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
        Ok(Staircase { scenario: scenario.clone(), schedule: schedule.clone(), levels, term: None })
    }

    /// Returns the same samples as the inputs of a term of a chain; all columns for `None`.
    ///
    /// # Errors
    /// If the chain does not fit y, or has no such term.
    pub fn with_term(mut self, term: Option<&Term>) -> Result<Self> {
        let dims = self.sample_dims();
        let selected = |term: &Term| Ok((term.clone(), term.columns(dims)?));
        self.term = term.map(selected).transpose()?;
        Ok(self)
    }

    /// Returns the term of a chain whose inputs these are, and their columns.
    pub fn term(&self) -> Option<&(Term, ColumnSelection)> {
        self.term.as_ref()
    }

    /// Returns the dimensions of x and y of the scenario.
    pub(crate) fn sample_dims(&self) -> (usize, usize) {
        PairSource::dims(&self.levels[0])
    }

    /// Returns the exact mutual information of each level.
    pub fn true_mi(&self) -> Vec<Nats> {
        self.levels.iter().map(Scenario::mutual_information).collect()
    }
}

impl BatchSource for Staircase {
    fn dims(&self) -> (usize, usize) {
        self.term.as_ref().map_or(self.sample_dims(), |(_, columns)| columns.dims())
    }

    fn open(&self) -> Box<dyn Batches + '_> {
        let samples = Box::new(StaircaseSamples(self));
        match &self.term {
            None => samples,
            Some((_, columns)) => {
                Box::new(SelectedBatches::new(samples, self.sample_dims(), columns))
            }
        }
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

/// Columns of another source, for example those of a term of a chain.
pub struct SelectedColumns<'a> {
    /// The other source.
    pub source: &'a dyn BatchSource,
    /// Its columns that become x and y.
    pub columns: ColumnSelection,
}

impl BatchSource for SelectedColumns<'_> {
    fn dims(&self) -> (usize, usize) {
        self.columns.dims()
    }

    fn open(&self) -> Box<dyn Batches + '_> {
        let batches = self.source.open();
        Box::new(SelectedBatches::new(batches, self.source.dims(), &self.columns))
    }

    fn images(&self) -> Option<DrawnImages<'_>> {
        let drawn = self.source.images()?;
        let pixels = [drawn.x, drawn.y].concat();
        let selected = |columns: &[usize]| columns.iter().map(|column| pixels[*column]).collect();
        let (x, y) = (selected(&self.columns.x), selected(&self.columns.y));
        Some(DrawnImages { x, y, ..drawn })
    }
}

struct SelectedBatches<'a> {
    all: Box<dyn Batches + 'a>,
    columns: &'a ColumnSelection,
    /// A batch with all columns.
    batch: Batch,
}

impl<'a> SelectedBatches<'a> {
    fn new(all: Box<dyn Batches + 'a>, dims: (usize, usize), columns: &'a ColumnSelection) -> Self {
        let batch = Batch {
            n: 0,
            dims,
            x: Vec::new(),
            y: Vec::new(),
            partner: Vec::new(),
            reference: Reference::default(),
        };
        SelectedBatches { all, columns, batch }
    }
}

impl Batches for SelectedBatches<'_> {
    fn fill(&mut self, seed: u64, step: u64, batch: &mut Batch, workers: &mut Workers) {
        let all = &mut self.batch;
        all.n = batch.n;
        all.x.resize(all.n * all.dims.0, 0.0);
        all.y.resize(all.n * all.dims.1, 0.0);
        self.all.fill(seed, step, all, workers);
        self.columns.copy(all.dims, (&all.x, &all.y), (&mut batch.x, &mut batch.y));
    }
}

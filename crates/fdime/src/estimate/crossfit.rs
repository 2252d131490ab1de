//! Cross-fitting: every row is scored by critics that never saw it.

use super::combine::weights;
use super::folds::{Fold, RowOrder, folds_of_recordings};
use super::independence::{PairedNull, block_size, cut};
use super::inputs::{GaussianReference, InputMap, thinned};
use super::method::Method;
use super::model::{FoldModel, Member};
use super::normalised::Normalised;
use super::plan::EstimatePlan;
use super::progress::{Progress, check};
use super::recipe::CriticRecipe;
use super::result::{FoldFigures, FoldRows, MAX_LATE_GAIN, MemberFigures, RaceEntry, late_gain};
use super::scaling::Scaling;
use super::table_rows::TableRows;
use crate::data::{Column, Values};
use crate::engine::{Engine, Task};
use crate::error::{Error, Result};
use crate::link::Link;
use crate::objective::{Estimator, Readout};
use crate::parallel::run_jobs;
use crate::random::{Purpose, stream};
use crate::scores::{ScoreBlock, Scores};
use crate::train::{Checkpoint, Ending, Observer, StepRecord, Training};
use rand::seq::{IndexedRandom, SliceRandom};
use std::ops::{ControlFlow, Range};

/// The maximum number of test rows, over all folds, whose pairs are used for the null distribution
/// and the partition function.
const MAX_NULL_ROWS: usize = 20_000;

/// The number of rows that the InfoNCE readout compares with each other. The readout is at most the
/// logarithm of this number.
const INFO_NCE_BLOCK: usize = 128;

/// The maximum numbers of rows that a critic is trained and validated on. Training uses a row only
/// a few times, and inputs take memory. All rows are scored.
const MAX_TRAINING_ROWS: usize = 200_000;
const MAX_VALIDATION_ROWS: usize = 20_000;

/// The maximum number of training rows that are scored for a comparison with the test rows.
const MAX_SCORED_TRAINING_ROWS: usize = 4_000;

/// The maximum number of validation rows from which a critic's lower bound is computed, and the
/// number of rows that are paired with each other.
const MAX_BOUND_ROWS: usize = 2_000;
const BOUND_BLOCK: usize = 64;

/// Columns of x and y with equal numbers of rows.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    pub(super) x: &'a [Column],
    pub(super) y: &'a [Column],
    pub(super) rows: usize,
    /// The first row of each recording of a series but the first.
    pub(super) starts: &'a [usize],
}

impl Table<'_> {
    /// Returns the degrees of freedom of linear dependence: the dimension of x times that of y. A
    /// category has one dimension less than it has levels.
    pub(super) fn degrees_of_freedom(&self) -> f64 {
        let dimension = |column: &Column| match &column.values {
            Values::Continuous(_) => 1,
            Values::Discrete { labels, .. } => labels.len().saturating_sub(1),
        };
        let side = |columns: &[Column]| columns.iter().map(dimension).sum::<usize>() as f64;
        side(self.x) * side(self.y)
    }
}

/// The data of cross-fitting.
pub(super) struct FoldTables<'a> {
    /// The table of each fold. Folds have tables of their own if columns depend on what was fitted
    /// to the fold's training rows.
    pub(super) tables: Vec<Table<'a>>,
    /// Parts of y that every recipe also uses alone. The other columns may tell nothing, and a critic
    /// that does not see them learns more from few rows.
    pub(super) parts_of_y: Vec<PartOfY>,
    /// Groups of the test rows of each fold. If given, the test of independence permutes rows within
    /// groups.
    pub(super) groups: Option<Vec<Vec<Vec<u32>>>>,
}

impl<'a> FoldTables<'a> {
    /// Returns the same table for all folds.
    pub(super) fn same(table: Table<'a>, folds: usize) -> Self {
        FoldTables { tables: vec![table; folds], parts_of_y: Vec::new(), groups: None }
    }
}

/// The first columns of y.
pub(super) struct PartOfY {
    /// What is added to the names of recipes that use only these columns.
    pub(super) name: &'static str,
    /// The number of columns in each fold.
    pub(super) columns: Vec<usize>,
}

/// A critic trained on one fold.
struct Candidate {
    recipe: usize,
    map: InputMap,
    best: Checkpoint,
    /// The lower bound of the mutual information on the validation rows, in nats. It says how good
    /// the log ratio is, also in the tails, which objectives such as GAN-DIME's hardly see.
    bound: f64,
}

/// The candidates of a fold, in the same order for all folds; `None` for one that diverged.
type FoldCandidates = Vec<Option<Candidate>>;

/// The result of cross-fitting.
pub(super) struct CrossFit {
    pub(super) models: Vec<FoldModel>,
    pub(super) folds: Vec<FoldFigures>,
    pub(super) race: Vec<RaceEntry>,
    /// The log ratio of every row.
    pub(super) pointwise: Vec<f64>,
    /// The pairs of each fold from which a test of independence is computed.
    pub(super) nulls: Vec<PairedNull>,
    /// The mean of normalised log ratios over all folds.
    pub(super) lower_bound: f64,
    /// The variance of `lower_bound` over draws of the test rows.
    pub(super) lower_bound_variance: f64,
    /// The cost of all trainings, in the units of [`Progress`].
    pub(super) cost: u64,
}

impl CrossFit {
    /// Adds a constant to all log ratios, but not to the lower bound and the figures of folds.
    pub(super) fn raise(&mut self, amount: f64) {
        self.pointwise.iter_mut().for_each(|ratio| *ratio += amount);
        self.models.iter_mut().for_each(|model| model.offset -= amount);
    }
}

/// Returns a fold's estimate by a readout of the log ratios of test rows and of marginal pairs.
fn read(readout: Readout, joint: &[f32], null: &PairedNull) -> f64 {
    if readout == Readout::InfoNce {
        let (mut sum, mut rows) = (0.0, 0);
        for square in null.squares() {
            let square = [square];
            let n = Scores(&square).counts().joint;
            sum += readout.read(Link::Identity, Scores(&square)).0 * n as f64;
            rows += n;
        }
        return sum / rows as f64;
    }
    let (joint, marginal) = (joint.to_vec(), null.marginal().collect());
    let block = ScoreBlock::Paired { first: 0, joint, marginal };
    readout.read(Link::Identity, Scores(&[block])).0
}

/// A training, identified by its fold and its recipe.
#[derive(Clone, Copy)]
struct Job {
    fold: usize,
    recipe: usize,
}

/// Trains critics on every fold, chooses among them and scores all rows.
pub(super) fn crossfit(
    data: &FoldTables,
    plan: &EstimatePlan,
    engine: &dyn Engine,
    progress: &dyn Progress,
) -> Result<CrossFit> {
    let estimator = plan.method.estimator();
    let Table { rows, starts, .. } = data.tables[0];
    let folds = folds_of_recordings(rows, plan.folds, plan.order, plan.seed, starts);
    let training_rows = folds.iter().map(|fold| fold.train.len()).min().unwrap_or(0);
    let mut work = Work {
        data,
        plan,
        estimator: &estimator,
        folds: &folds,
        entrants: entrants(data, plan, training_rows),
        finalists: plan.portfolio.finalists_for(plan.folds, training_rows),
        engine,
        progress,
    };
    let (candidates, race) = work.train()?;
    let scored = work.score_folds(&candidates)?;
    let mut pointwise = vec![0.0; rows];
    let (mut models, mut figures, mut nulls) = (Vec::new(), Vec::new(), Vec::new());
    let mut bounds = Vec::new();
    for (fold, scored) in folds.iter().zip(scored) {
        for (&row, ratio) in fold.test.iter().zip(&scored.test) {
            pointwise[row as usize] = f64::from(*ratio);
        }
        models.push(scored.model);
        figures.push(scored.figures);
        nulls.push(scored.null);
        bounds.push(scored.bound);
    }
    let share = |fold: usize| folds[fold].test.len() as f64 / rows as f64;
    let lower_bound = bounds.iter().enumerate().map(|(k, bound)| share(k) * bound.value).sum();
    let lower_bound_variance =
        bounds.iter().enumerate().map(|(k, bound)| share(k).powi(2) * bound.variance).sum();
    Ok(CrossFit {
        models,
        folds: figures,
        race,
        pointwise,
        nulls,
        lower_bound,
        lower_bound_variance,
        cost: work.cost(),
    })
}

/// A recipe in the race.
struct Entrant<'a> {
    /// The recipe, adapted to the number of rows.
    recipe: CriticRecipe,
    /// The columns of y that its critics see; `None` for all columns.
    part_of_y: Option<&'a PartOfY>,
}

impl Entrant<'_> {
    /// Returns the columns of y that its critics see in a fold.
    fn visible<'a>(&self, fold: usize, y: &'a [Column]) -> &'a [Column] {
        &y[..self.part_of_y.map_or(y.len(), |part| part.columns[fold])]
    }
}

/// Returns all entrants of the race.
fn entrants<'a>(
    data: &'a FoldTables,
    plan: &EstimatePlan,
    training_rows: usize,
) -> Vec<Entrant<'a>> {
    let sized = plan.portfolio.recipes.iter().map(|recipe| recipe.sized_for(training_rows));
    let with_all = sized.clone().map(|recipe| Entrant { recipe, part_of_y: None });
    let with_parts = data.parts_of_y.iter().flat_map(|part| {
        sized.clone().map(move |recipe| {
            let name = format!("{} {}", recipe.name, part.name);
            Entrant { recipe: CriticRecipe { name, ..recipe }, part_of_y: Some(part) }
        })
    });
    with_all.chain(with_parts).collect()
}

/// Returns the folds whose validation rows may decide how this fold's test rows are scored: those
/// that hold none of these test rows.
fn folds_without_rows_of(folds: &[Fold], fold: usize) -> Vec<usize> {
    let is_tested = |row: &u32| folds[fold].test.binary_search(row).is_ok();
    (0..folds.len()).filter(|&other| !folds[other].validation.iter().any(is_tested)).collect()
}

/// Returns the cost of one training in millions of multiply-adds.
fn training_cost(recipe: &CriticRecipe, columns: usize) -> u64 {
    let widths: Vec<usize> =
        [columns + 2].into_iter().chain(recipe.hidden.iter().copied()).chain([1]).collect();
    let row: f64 = widths.windows(2).map(|pair| pair[0] as f64 * pair[1] as f64).sum();
    (recipe.steps as f64 * recipe.batch as f64 * 6.0 * row / 1e6) as u64
}

/// Adds a training's steps to the progress of the estimate.
struct StepCounter<'a> {
    progress: &'a dyn Progress,
    /// The cost of a step.
    units: u64,
}

impl Observer for StepCounter<'_> {
    fn on_begin(&mut self) -> ControlFlow<()> {
        self.progress.advance(0)
    }

    fn on_step(&mut self, _record: &StepRecord) -> ControlFlow<()> {
        self.progress.advance(self.units)
    }
}

struct ScoredFold {
    model: FoldModel,
    figures: FoldFigures,
    test: Vec<f32>,
    null: PairedNull,
    bound: Bound,
}

/// A fold's lower bound of the mutual information: the mean log ratio of its test rows minus the
/// mean log normaliser of those in the null distribution.
struct Bound {
    value: f64,
    variance: f64,
}

impl Bound {
    fn new(test: &[f32], normalised: &Normalised) -> Self {
        let (n, m) = (test.len() as f64, normalised.ratios.len() as f64);
        let mean = test.iter().map(|ratio| f64::from(*ratio)).sum::<f64>() / n;
        let (_, variance) = mean_and_variance(test);
        // The m rows with a normaliser enter the mean with the weight m / n.
        let terms: Vec<f32> = normalised
            .ratios
            .iter()
            .zip(&normalised.log_normalisers)
            .map(|(ratio, normaliser)| (m / n * ratio - normaliser) as f32)
            .collect();
        let (_, with_normaliser) = mean_and_variance(&terms);
        let rest = if m < n { (1.0 - m / n).powi(2) * variance / (n - m) } else { 0.0 };
        Bound { value: mean - normalised.offset(), variance: with_normaliser / m + rest }
    }
}

/// The log ratios of a fold's rows and pairs by all its members.
struct FoldRatios {
    members: Vec<Member>,
    figures: Vec<MemberFigures>,
    /// The log ratios of test rows, then of training rows, then of the pairs of the null
    /// distribution.
    ratios: Vec<f32>,
}

/// The inputs of cross-fitting.
struct Work<'a> {
    data: &'a FoldTables<'a>,
    plan: &'a EstimatePlan,
    estimator: &'a Estimator,
    folds: &'a [Fold],
    entrants: Vec<Entrant<'a>>,
    /// The number of entrants that are trained on all folds.
    finalists: usize,
    engine: &'a dyn Engine,
    progress: &'a dyn Progress,
}

impl Work<'_> {
    /// Runs the race, then the finalists on all folds. Returns every fold's candidates in the same
    /// order, and the result of the race.
    fn train(&mut self) -> Result<(Vec<FoldCandidates>, Vec<RaceEntry>)> {
        let (recipes, all_folds) = (self.entrants.len(), self.folds.len());
        let finalists = self.finalists;
        let race_folds = self.race_folds();
        let every_recipe: Vec<usize> = (0..recipes).collect();
        self.begin_progress(race_folds, finalists * (all_folds - race_folds));

        let mut race_results = self.run(&jobs(0..race_folds, &every_recipe))?;
        let ranking = rank_recipes(&race_results, recipes, race_folds);
        let chosen: Vec<usize> = ranking[..finalists].iter().map(|(recipe, _)| *recipe).collect();
        if is_still_improving(&race_results, &chosen) {
            for Entrant { recipe, .. } in &mut self.entrants {
                recipe.steps = (recipe.steps as f64 * LONGER) as usize;
            }
            self.begin_progress(0, finalists * all_folds);
            race_results = self.run(&jobs(0..race_folds, &chosen))?;
        }
        let later = self.run(&jobs(race_folds..all_folds, &chosen))?;

        let mut candidates: Vec<FoldCandidates> =
            (0..all_folds).map(|_| (0..finalists).map(|_| None).collect()).collect();
        for (job, candidate) in race_results.into_iter().chain(later) {
            if let Some(index) = chosen.iter().position(|&recipe| recipe == job.recipe) {
                candidates[job.fold][index] = candidate;
            }
        }
        if candidates.iter().any(|fold| fold.iter().all(Option::is_none)) {
            return Err(Error::Diverged { estimator: self.estimator.to_string() });
        }
        let race = if race_folds == 0 { Vec::new() } else { ranking };
        let race = race.into_iter().enumerate().map(|(rank, (recipe, validation))| RaceEntry {
            recipe: self.entrants[recipe].recipe.name.clone(),
            validation: validation.is_finite().then_some(validation),
            chosen: rank < finalists,
        });
        Ok((candidates, race.collect()))
    }

    /// Announces the cost of all trainings; those after the race are counted at the highest cost.
    fn begin_progress(&self, race_folds: usize, later_trainings: usize) {
        self.progress.begin(self.cost_of(race_folds, later_trainings));
    }

    fn cost_of(&self, race_folds: usize, later_trainings: usize) -> u64 {
        let costs: Vec<u64> =
            self.entrants.iter().map(|entrant| self.cost_of_one(entrant)).collect();
        let max_cost = costs.iter().max().copied().unwrap_or(0);
        costs.iter().sum::<u64>() * race_folds as u64 + max_cost * later_trainings as u64
    }

    /// Returns the cost of one training.
    fn cost_of_one(&self, entrant: &Entrant) -> u64 {
        let Table { x, y, .. } = self.data.tables[0];
        training_cost(&entrant.recipe, x.len() + entrant.visible(0, y).len())
    }

    /// Returns the number of folds that the race is run on; none if all recipes are finalists.
    fn race_folds(&self) -> usize {
        match self.entrants.len() > self.finalists {
            true => self.plan.portfolio.race_folds.clamp(1, self.folds.len()),
            false => 0,
        }
    }

    /// Returns the cost of all trainings, without those that the race may ask for.
    fn cost(&self) -> u64 {
        let race_folds = self.race_folds();
        self.cost_of(race_folds, self.finalists * (self.folds.len() - race_folds))
    }

    /// Runs trainings. The candidate is `None` if the objective was never finite.
    fn run(&self, jobs: &[Job]) -> Result<Vec<(Job, Option<Candidate>)>> {
        let sources =
            run_jobs(self.engine.threads(), jobs.len(), |index, _| self.rows(jobs[index]));
        let sources = sources.into_iter().collect::<Result<Vec<_>>>()?;
        let trainings: Vec<Training> = jobs
            .iter()
            .zip(&sources)
            .map(|(job, source)| {
                let seed = self.plan.seed ^ (job.fold as u64) << 32 ^ (job.recipe as u64) << 40;
                self.entrants[job.recipe].recipe.training(self.estimator, source.train.len(), seed)
            })
            .collect();
        let tasks: Vec<Task> = jobs
            .iter()
            .zip(trainings.iter().zip(&sources))
            .map(|(job, (training, source))| Task {
                training,
                source,
                steps: self.entrants[job.recipe].recipe.steps,
            })
            .collect();
        let observer = |index: usize| -> Box<dyn Observer + '_> {
            let entrant = &self.entrants[jobs[index].recipe];
            let units = self.cost_of_one(entrant) / entrant.recipe.steps.max(1) as u64;
            Box::new(StepCounter { progress: self.progress, units })
        };
        let outcomes = self.engine.execute(&tasks, &observer);
        drop(tasks);
        // A training of no steps cannot report an interruption.
        check(self.progress)?;
        let mut best = Vec::new();
        for outcome in outcomes {
            let outcome = outcome?;
            if outcome.ending == Ending::Stopped {
                return Err(Error::Interrupted);
            }
            best.push(outcome.best);
        }
        let bounds = run_jobs(self.engine.threads(), jobs.len(), |index, _| {
            let Some(best) = &best[index] else { return Ok(None) };
            self.validation_bound(jobs[index], &sources[index], &best.parameters).map(Some)
        });
        let bounds = bounds.into_iter().collect::<Result<Vec<_>>>()?;
        let finished = jobs.iter().zip(sources).zip(best.into_iter().zip(bounds));
        let candidates = finished.map(|((job, source), (best, bound))| {
            let candidate = best.zip(bound).map(|(best, bound)| Candidate {
                recipe: job.recipe,
                map: source.map,
                best,
                bound,
            });
            (*job, candidate)
        });
        Ok(candidates.collect())
    }

    /// Returns a critic's lower bound of the mutual information on the validation rows.
    fn validation_bound(&self, job: Job, source: &TableRows, parameters: &[f32]) -> Result<f64> {
        let Table { x, y, .. } = self.data.tables[job.fold];
        let mut rows = source.validation.clone();
        // Neighbours in a series are not independent, so blocks are random.
        rows.shuffle(&mut stream(self.plan.seed, Purpose::Null, 2, 0));
        rows.truncate(MAX_BOUND_ROWS);
        let member = Member {
            recipe: self.entrants[job.recipe].recipe.clone(),
            map: source.map.clone(),
            parameters: parameters.to_vec(),
            weight: 1.0,
        };
        let positions: Vec<u32> = (0..rows.len() as u32).collect();
        let mut pairs = PairedNull::within_blocks(&cut(&positions, BOUND_BLOCK));
        let tick = || check(self.progress);
        let inputs = member.map.apply_checked(x, y, &rows, &tick)?;
        pairs.ratios =
            member.log_ratios(self.estimator, &inputs, &pairs.pairs, self.engine, &tick)?;
        let observed = pairs.pairs.iter().zip(&pairs.ratios).filter(|((i, j), _)| i == j);
        let limit = largest(observed.map(|(_, ratio)| ratio));
        Ok(Normalised::new(&pairs.pairs, &pairs.ratios, limit).lower_bound())
    }

    /// Returns the rows of a training, with the maps of its recipe fitted to them.
    fn rows(&self, job: Job) -> Result<TableRows<'_>> {
        let Table { x, y, .. } = self.data.tables[job.fold];
        let entrant = &self.entrants[job.recipe];
        let Fold { train, validation, .. } = &self.folds[job.fold];
        let tick = || check(self.progress);
        Ok(TableRows {
            x,
            y,
            map: InputMap::fit(&entrant.recipe, x, entrant.visible(job.fold, y), train, &tick)?,
            train: thinned(train, MAX_TRAINING_ROWS),
            validation: thinned(validation, MAX_VALIDATION_ROWS),
            progress: self.progress,
        })
    }

    /// Combines each fold's candidates into one model and scores the fold's rows with it.
    fn score_folds(&self, candidates: &[FoldCandidates]) -> Result<Vec<ScoredFold>> {
        let validation: Vec<Vec<Option<f64>>> = candidates
            .iter()
            .map(|fold| fold.iter().map(|c| Some(c.as_ref()?.bound)).collect())
            .collect();
        let scored = run_jobs(self.engine.threads(), candidates.len(), |fold, _| {
            let weights = weights(&validation, fold, &folds_without_rows_of(self.folds, fold));
            let weighted = candidates[fold].iter().zip(weights);
            let members: Vec<(&Candidate, f64)> =
                weighted.filter_map(|(c, weight)| Some((c.as_ref()?, weight))).collect();
            self.score_fold(fold, &members)
        });
        scored.into_iter().collect()
    }

    fn score_fold(&self, index: usize, candidates: &[(&Candidate, f64)]) -> Result<ScoredFold> {
        let fold = &self.folds[index];
        let mut null = self.null_pairs(index, MAX_NULL_ROWS / self.folds.len());
        let mut within_groups = self.data.groups.as_ref().map(|groups| {
            let groups: Vec<&[u32]> = groups[index].iter().map(Vec::as_slice).collect();
            PairedNull::within_blocks(&groups)
        });
        let grouped = within_groups.as_ref().map_or(&[][..], |grouped| &grouped.pairs);
        let pairs = [&null.pairs[..], grouped].concat();
        let mut rng = stream(self.plan.seed, Purpose::Rows, 1, 0);
        let train: Vec<u32> =
            fold.train.sample(&mut rng, MAX_SCORED_TRAINING_ROWS).copied().collect();
        let FoldRatios { members, figures, mut ratios } =
            self.score_pairs(index, &train, &pairs, null.pairs.len(), candidates)?;
        let mut rest = ratios.split_off(fold.test.len());
        null.ratios = rest.split_off(train.len());
        let mut grouped_ratios = null.ratios.split_off(null.pairs.len());
        let mut train_ratios = rest;

        let (normalised, limit) =
            Normalised::with_limit_of(&train_ratios, &null.pairs, &null.ratios);
        let capped: Vec<f32> = ratios.iter().map(|ratio| ratio.min(limit)).collect();
        let bound = Bound::new(&capped, &normalised);
        let limit = if self.plan.method == Method::Auto { limit } else { f32::INFINITY };
        let limited = ratios.iter_mut().chain(&mut train_ratios).chain(&mut null.ratios);
        for ratio in limited.chain(&mut grouped_ratios) {
            *ratio = ratio.min(limit);
        }

        let (plain, variance) = mean_and_variance(&ratios);
        let mean = match (&self.plan.method, self.estimator.readout()) {
            (Method::Auto, _) => bound.value,
            (_, Readout::Plain) => plain,
            (_, readout) => read(readout, &ratios, &null),
        };
        if !mean.is_finite() {
            return Err(Error::Diverged { estimator: self.estimator.to_string() });
        }
        let offset = plain - mean;
        if offset != 0.0 {
            for ratio in ratios.iter_mut().chain(&mut null.ratios).chain(&mut grouped_ratios) {
                *ratio -= offset as f32;
            }
        }
        if let Some(within_groups) = &mut within_groups {
            within_groups.ratios = grouped_ratios;
        }
        let mut null = within_groups.unwrap_or(null);
        null.ties = self.ties(index, &null.pairs)?;
        Ok(ScoredFold {
            figures: FoldFigures {
                rows: FoldRows {
                    train: fold.train.len(),
                    validation: fold.validation.len(),
                    test: fold.test.len(),
                },
                mi_nats: mean,
                standard_error: (variance / ratios.len() as f64).sqrt(),
                train_mi_nats: mean_and_variance(&train_ratios).0 - offset,
                members: figures,
            },
            model: FoldModel { members, limit: f64::from(limit), offset },
            test: ratios,
            null,
            bound,
        })
    }

    /// Scores the test rows, some training rows and further pairs with every candidate, and sums the
    /// log ratios by weight. The first `marginal` further pairs are random, for normalisation.
    fn score_pairs(
        &self,
        index: usize,
        train: &[u32],
        null_pairs: &[(u32, u32)],
        marginal: usize,
        candidates: &[(&Candidate, f64)],
    ) -> Result<FoldRatios> {
        let Table { x, y, rows, .. } = self.data.tables[index];
        let fold = &self.folds[index];
        // Inputs are computed only for the rows that are needed; pairs hold positions among them.
        let used = [fold.test.as_slice(), train].concat();
        let mut position = vec![0u32; rows];
        for (at, &row) in (0u32..).zip(&used) {
            position[row as usize] = at;
        }
        let joint = (0..used.len() as u32).map(|at| (at, at));
        let null = null_pairs.iter().map(|&(i, j)| (position[i as usize], position[j as usize]));
        let pairs: Vec<(u32, u32)> = joint.chain(null).collect();

        let mut sums = FoldRatios {
            members: Vec::new(),
            figures: Vec::new(),
            ratios: vec![0f32; pairs.len()],
        };
        for &(candidate, weight) in candidates {
            let recipe = self.entrants[candidate.recipe].recipe.clone();
            let mut figures = MemberFigures {
                recipe: recipe.name.clone(),
                weight,
                mi_nats: None,
                step: candidate.best.step,
                validation: candidate.best.validation,
                curve: candidate.best.curve.clone(),
            };
            if weight > 0.0 {
                let (map, parameters) = (candidate.map.clone(), candidate.best.parameters.clone());
                let member = Member { recipe, map, parameters, weight };
                let tick = || check(self.progress);
                let inputs = member.map.apply_checked(x, y, &used, &tick)?;
                let own = member.log_ratios(self.estimator, &inputs, &pairs, self.engine, &tick)?;
                let pairs = &null_pairs[..marginal];
                figures.mi_nats = Some(self.member_mi(&own, fold.test.len(), train.len(), pairs));
                for (sum, own) in sums.ratios.iter_mut().zip(own) {
                    *sum += weight as f32 * own;
                }
                sums.members.push(member);
            }
            sums.figures.push(figures);
        }
        Ok(sums)
    }

    /// Returns the estimate of one member alone, given its log ratios of test rows, training rows
    /// and pairs of the null distribution.
    fn member_mi(&self, own: &[f32], test: usize, train: usize, pairs: &[(u32, u32)]) -> f64 {
        let (test, rest) = own.split_at(test);
        let (train, null) = rest.split_at(train);
        let null = &null[..pairs.len()];
        if self.plan.method != Method::Auto {
            return mean_and_variance(test).0;
        }
        let (normalised, limit) = Normalised::with_limit_of(train, pairs, null);
        let capped: Vec<f32> = test.iter().map(|ratio| ratio.min(limit)).collect();
        Bound::new(&capped, &normalised).value
    }

    /// Returns random pairs of the fold's test rows: all pairs within blocks, or shifts of a series.
    fn null_pairs(&self, index: usize, max_rows: usize) -> PairedNull {
        let fold = &self.folds[index];
        match self.plan.order {
            RowOrder::Exchangeable => {
                let mut test = fold.test.clone();
                test.shuffle(&mut stream(self.plan.seed, Purpose::Null, 0, 0));
                test.truncate(max_rows);
                let block = match self.estimator.readout() {
                    Readout::InfoNce => INFO_NCE_BLOCK,
                    _ => block_size(self.data.tables[0].rows),
                };
                PairedNull::within_blocks(&cut(&test, block))
            }
            RowOrder::Series { gap } => {
                PairedNull::shifts(&fold.test, gap, max_rows, self.plan.seed)
            }
            // A plan that is run has its gap.
            RowOrder::AutomaticSeries => {
                PairedNull::shifts(&fold.test, 0, max_rows, self.plan.seed)
            }
        }
    }

    /// Returns the criterion that breaks ties where critics give all pairs the same ratio: the log
    /// ratio of a Gaussian copula that keeps every correlation, however small. Empty if there is none.
    fn ties(&self, index: usize, pairs: &[(u32, u32)]) -> Result<Vec<f32>> {
        let Table { x, y, rows, .. } = self.data.tables[index];
        let y = match self.data.parts_of_y.first() {
            Some(part) => &y[..part.columns[index]],
            None => y,
        };
        let fold = &self.folds[index];
        let tick = || check(self.progress);
        let gaussian = GaussianReference::fit(x, y, &fold.train, Scaling::Gaussian, false, &tick)?;
        let Some(gaussian) = gaussian else { return Ok(Vec::new()) };
        let reference = gaussian.reference(x, y, &fold.test);
        if reference.width == 0 {
            return Ok(Vec::new());
        }
        let mut position = vec![0; rows];
        for (at, &row) in fold.test.iter().enumerate() {
            position[row as usize] = at;
        }
        let position = |row: u32| position[row as usize];
        let ratio = |&(i, j): &(u32, u32)| reference.log_ratio(position(i), position(j));
        Ok(pairs.iter().map(ratio).collect())
    }
}

/// Returns the trainings of these recipes on these folds, fold by fold.
fn jobs(folds: Range<usize>, recipes: &[usize]) -> Vec<Job> {
    let on_fold = |fold| recipes.iter().map(move |&recipe| Job { fold, recipe });
    folds.flat_map(on_fold).collect()
}

/// The factor by which trainings are longer if critics were still learning at the end of the race.
const LONGER: f64 = 2.5;

/// Returns whether the chosen critics were still learning at the end of the race.
fn is_still_improving(race_results: &[(Job, Option<Candidate>)], chosen: &[usize]) -> bool {
    let (mut gain, mut total) = (0.0, 0.0);
    for (job, candidate) in race_results {
        if let Some(Candidate { best, .. }) = candidate
            && chosen.contains(&job.recipe)
        {
            gain += late_gain(&best.curve, best.validation);
            total += best.validation;
        }
    }
    gain > MAX_LATE_GAIN * total && total > 0.05
}

/// Returns every recipe with its mean lower bound on validation rows in the race, best first.
fn rank_recipes(
    race_results: &[(Job, Option<Candidate>)],
    recipes: usize,
    race_folds: usize,
) -> Vec<(usize, f64)> {
    let mut ranking: Vec<(usize, f64)> = (0..recipes)
        .map(|recipe| {
            let values = race_results.iter().filter(|(job, _)| job.recipe == recipe);
            let sum =
                values.map(|(_, c)| c.as_ref().map_or(f64::NEG_INFINITY, |c| c.bound)).sum::<f64>();
            (recipe, sum / race_folds as f64)
        })
        .collect();
    ranking.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranking
}

/// Returns the largest of the values.
fn largest<'a>(values: impl IntoIterator<Item = &'a f32>) -> f32 {
    values.into_iter().copied().fold(f32::NEG_INFINITY, f32::max)
}

/// Returns the mean and the unbiased variance.
pub(super) fn mean_and_variance(values: &[f32]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum();
    (mean, squares / (n - 1.0).max(1.0))
}

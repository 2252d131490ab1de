//! Cross-fitting: every row is scored by critics that never saw it.

use super::combine::weights;
use super::fit::{Fitted, fit};
use super::folds::{Fold, RowOrder, folds};
use super::independence::{BLOCK, IndependenceTest, PairedNull, cut};
use super::inputs::{GaussianReference, InputMap, thinned};
use super::model::{FoldModel, Member};
use super::plan::EstimatePlan;
use super::progress::{Progress, advance};
use super::recipe::Recipe;
use super::result::{FoldFigures, FoldRows, MemberFigures, RaceEntry};
use super::scaling::Scaling;
use crate::data::{Column, Values};
use crate::error::{Error, Result};
use crate::link::Link;
use crate::objective::{Estimator, Readout};
use crate::random::{Purpose, stream};
use crate::scores::{ScoreBlock, Scores};
use rand::seq::{IndexedRandom, SliceRandom};
use rayon::prelude::*;
use std::ops::Range;

/// Test rows in all whose pairs the null distribution and the partition function come from.
const MOST_NULL_ROWS: usize = 20_000;

/// Rows that InfoNCE compares with each other when it is read off: it never exceeds ln of this.
const INFO_NCE_BLOCK: usize = 128;

/// More rows than these are not learnt from or validated on: training sees a row a few times at
/// most, and inputs take memory. All rows are scored.
const MOST_ROWS_TO_LEARN: usize = 200_000;
const MOST_ROWS_TO_VALIDATE: usize = 20_000;

/// Training rows that a fold's training figure comes from.
const MOST_TRAIN_ROWS: usize = 4_000;

/// Columns of x and y with equal numbers of rows.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    pub(super) x: &'a [Column],
    pub(super) y: &'a [Column],
    pub(super) rows: usize,
}

impl Table<'_> {
    /// Numbers in x times numbers in y: the correlations that there can be. A category counts as one
    /// number less than it has levels.
    pub(super) fn freedom(&self) -> f64 {
        let numbers = |columns: &[Column]| -> f64 {
            let of = |column: &Column| match &column.values {
                Values::Continuous(_) => 1,
                Values::Discrete { labels, .. } => labels.len().saturating_sub(1),
            };
            columns.iter().map(of).sum::<usize>() as f64
        };
        numbers(self.x) * numbers(self.y)
    }
}

/// A critic trained on one fold.
struct Candidate {
    recipe: usize,
    map: InputMap,
    fitted: Fitted,
}

/// The candidates of a fold, in the same order for all folds; nothing for one that diverged.
type FoldCandidates = Vec<Option<Candidate>>;

/// What cross-fitting gives.
pub(super) struct CrossFit {
    pub(super) models: Vec<FoldModel>,
    pub(super) folds: Vec<FoldFigures>,
    pub(super) race: Vec<RaceEntry>,
    /// The log ratio of every row.
    pub(super) pointwise: Vec<f64>,
    pub(super) independence: IndependenceTest,
    /// The Donsker-Varadhan readout over all folds together.
    pub(super) lower_bound: f64,
}

/// The estimate by a readout of a fold: test rows' ratios, and those of pairs put together.
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

/// One training.
#[derive(Clone, Copy)]
struct Job {
    fold: usize,
    recipe: usize,
}

/// Trains, chooses and scores.
pub(super) fn crossfit(
    table: Table,
    plan: &EstimatePlan,
    progress: &dyn Progress,
) -> Result<CrossFit> {
    let estimator = plan.method.estimator()?;
    let folds = folds(table.rows, plan.folds, plan.order, plan.seed);
    let fewest = folds.iter().map(|fold| fold.train.len()).min().unwrap_or(0);
    let recipes = plan.portfolio.recipes.iter().map(|recipe| recipe.sized_for(fewest)).collect();
    let work = Work { table, plan, estimator: &estimator, folds: &folds, recipes, progress };
    let (candidates, race) = work.train()?;
    let validation: Vec<Vec<Option<f64>>> = candidates
        .iter()
        .map(|fold| fold.iter().map(|c| Some(c.as_ref()?.fitted.validation)).collect())
        .collect();
    let scored: Vec<ScoredFold> = candidates
        .into_par_iter()
        .enumerate()
        .map(|(fold, candidates)| {
            let weighted =
                candidates.into_iter().zip(weights(&validation, fold, &judges(&folds, fold)));
            let members = weighted.filter_map(|(c, weight)| Some((c?, weight))).collect();
            work.score(&folds[fold], members)
        })
        .collect::<Result<_>>()?;
    let mut pointwise = vec![0.0; table.rows];
    let (mut models, mut figures, mut nulls) = (Vec::new(), Vec::new(), Vec::new());
    for (fold, scored) in folds.iter().zip(scored) {
        for (&row, ratio) in fold.test.iter().zip(&scored.test) {
            pointwise[row as usize] = f64::from(*ratio);
        }
        models.push(scored.model);
        figures.push(scored.figures);
        nulls.push(scored.null);
    }
    let joint: Vec<f32> = pointwise.iter().map(|ratio| *ratio as f32).collect();
    let marginal = nulls.iter().flat_map(PairedNull::marginal).collect();
    let all = [ScoreBlock::Paired { first: 0, joint, marginal }];
    let lower_bound = Readout::DonskerVaradhan.read(Link::Identity, Scores(&all)).0;
    let independence =
        IndependenceTest::new(&nulls, plan.permutations, table.freedom(), plan.seed, progress)?;
    Ok(CrossFit { models, folds: figures, race, pointwise, independence, lower_bound })
}

/// The folds whose validation rows may decide how this fold's test rows are scored: those that hold
/// none of these.
fn judges(folds: &[Fold], fold: usize) -> Vec<usize> {
    let own = |row: &u32| folds[fold].test.binary_search(row).is_ok();
    (0..folds.len()).filter(|&other| !folds[other].validation.iter().any(own)).collect()
}

/// Multiply-adds of one training, in millions.
fn units(recipe: &Recipe, columns: usize) -> u64 {
    let widths: Vec<usize> =
        [columns + 2].into_iter().chain(recipe.hidden.iter().copied()).chain([1]).collect();
    let row: usize = widths.windows(2).map(|pair| pair[0] * pair[1]).sum();
    (recipe.steps * recipe.batch * 6) as u64 * row as u64 / 1_000_000
}

struct ScoredFold {
    model: FoldModel,
    figures: FoldFigures,
    test: Vec<f32>,
    null: PairedNull,
}

struct Work<'a> {
    table: Table<'a>,
    plan: &'a EstimatePlan,
    estimator: &'a Estimator,
    folds: &'a [Fold],
    /// The portfolio's, sized for this many rows.
    recipes: Vec<Recipe>,
    progress: &'a dyn Progress,
}

impl Work<'_> {
    /// The race, then the finalists on all folds: every fold's candidates in the same order, with
    /// nothing for one that diverged, and how the race went.
    fn train(&self) -> Result<(Vec<FoldCandidates>, Vec<RaceEntry>)> {
        let portfolio = &self.plan.portfolio;
        let (recipes, all_folds) = (portfolio.recipes.len(), self.folds.len());
        let finalists = portfolio.finalists.clamp(1, recipes);
        let race_folds =
            if recipes > finalists { portfolio.race_folds.clamp(1, all_folds) } else { 0 };
        let jobs = |folds: Range<usize>, recipes: &[usize]| -> Vec<Job> {
            let of_fold = |fold| recipes.iter().map(move |&recipe| Job { fold, recipe });
            folds.flat_map(of_fold).collect()
        };
        let every: Vec<usize> = (0..recipes).collect();
        let columns = self.table.x.len() + self.table.y.len();
        let cost: Vec<u64> = self.recipes.iter().map(|recipe| units(recipe, columns)).collect();
        let dearest = cost.iter().max().copied().unwrap_or(0);
        let trainings_later = finalists * (all_folds - race_folds);
        self.progress
            .begin(cost.iter().sum::<u64>() * race_folds as u64 + dearest * trainings_later as u64);

        let raced = self.run(&jobs(0..race_folds, &every))?;
        let mut standing: Vec<(usize, f64)> = every
            .iter()
            .map(|&recipe| {
                let values = raced.iter().filter(|(job, _)| job.recipe == recipe);
                let sum = values
                    .map(|(_, c)| c.as_ref().map_or(f64::NEG_INFINITY, |c| c.fitted.validation))
                    .sum::<f64>();
                (recipe, sum / race_folds as f64)
            })
            .collect();
        standing.sort_by(|a, b| b.1.total_cmp(&a.1));
        let chosen: Vec<usize> = standing[..finalists].iter().map(|(recipe, _)| *recipe).collect();
        let later = jobs(race_folds..all_folds, &chosen);

        let mut candidates: Vec<FoldCandidates> =
            (0..all_folds).map(|_| (0..finalists).map(|_| None).collect()).collect();
        for (job, candidate) in raced.into_iter().chain(self.run(&later)?) {
            if let Some(place) = chosen.iter().position(|&recipe| recipe == job.recipe) {
                candidates[job.fold][place] = candidate;
            }
        }
        if candidates.iter().any(|fold| fold.iter().all(Option::is_none)) {
            return Err(Error::Diverged { estimator: self.estimator.to_string() });
        }
        let race = if race_folds == 0 { Vec::new() } else { standing };
        let race = race.into_iter().enumerate().map(|(place, (recipe, validation))| RaceEntry {
            recipe: self.recipes[recipe].name.clone(),
            validation,
            chosen: place < finalists,
        });
        Ok((candidates, race.collect()))
    }

    /// Trains; nothing comes of what diverged from the start.
    fn run(&self, jobs: &[Job]) -> Result<Vec<(Job, Option<Candidate>)>> {
        let Table { x, y, .. } = self.table;
        jobs.par_iter()
            .map(|job| {
                let Job { fold, recipe: index } = *job;
                let recipe = &self.recipes[index];
                let Fold { train, validation, .. } = &self.folds[fold];
                let map = InputMap::fit(recipe, x, y, train);
                let train = thinned(train, MOST_ROWS_TO_LEARN);
                let validation = thinned(validation, MOST_ROWS_TO_VALIDATE);
                let inputs = map.apply(x, y, &[train.as_slice(), &validation].concat());
                let step = units(recipe, x.len() + y.len()) / recipe.steps.max(1) as u64;
                let tick = || advance(self.progress, step);
                let seed = self.plan.seed ^ (fold as u64) << 32 ^ (index as u64) << 40;
                let fitted = fit(&inputs, train.len(), recipe, self.estimator, seed, &tick)?;
                Ok((*job, fitted.map(|fitted| Candidate { recipe: index, map, fitted })))
            })
            .collect()
    }

    /// Makes one model of a fold's candidates and scores the fold's rows with it.
    fn score(&self, fold: &Fold, candidates: Vec<(Candidate, f64)>) -> Result<ScoredFold> {
        let Table { x, y, rows } = self.table;
        let null_rows = MOST_NULL_ROWS / self.folds.len();
        let mut null = self.null_pairs(fold, null_rows);
        let mut rng = stream(self.plan.seed, Purpose::Rows, 1, 0);
        let train: Vec<u32> = fold.train.sample(&mut rng, MOST_TRAIN_ROWS).copied().collect();
        // Inputs are made of the rows that are needed; pairs are named by their places among them.
        let used = [fold.test.as_slice(), &train].concat();
        let mut place = vec![0u32; rows];
        for (at, &row) in (0u32..).zip(&used) {
            place[row as usize] = at;
        }
        let itself = (0..used.len() as u32).map(|at| (at, at));
        let pairs: Vec<(u32, u32)> = itself
            .chain(null.pairs.iter().map(|&(i, j)| (place[i as usize], place[j as usize])))
            .collect();

        let mut ratios = vec![0f32; pairs.len()];
        let mut model = FoldModel { members: Vec::new(), offset: 0.0 };
        let mut figures = Vec::new();
        for (candidate, weight) in candidates {
            let Candidate { recipe, map, fitted } = candidate;
            let recipe = self.recipes[recipe].clone();
            let mut of_member = MemberFigures {
                recipe: recipe.name.clone(),
                weight,
                mi_nats: None,
                step: fitted.step,
                validation: fitted.validation,
                curve: fitted.curve,
            };
            if weight == 0.0 {
                figures.push(of_member);
                continue;
            }
            let member = Member { recipe, map, parameters: fitted.parameters, weight };
            let inputs = member.map.apply(x, y, &used);
            advance(self.progress, 0)?;
            let own = member.log_ratios(self.estimator, &inputs, pairs.iter().copied());
            of_member.mi_nats = Some(mean_and_variance(&own[..fold.test.len()]).0);
            figures.push(of_member);
            for (sum, own) in ratios.iter_mut().zip(own) {
                *sum += weight as f32 * own;
            }
            model.members.push(member);
        }
        let rest = ratios.split_off(fold.test.len());
        let (train_ratios, null_ratios) = rest.split_at(train.len());
        null.ratios = null_ratios.to_vec();
        let (plain, variance) = mean_and_variance(&ratios);
        let mean = match self.estimator.readout() {
            Readout::Plain => plain,
            readout => read(readout, &ratios, &null),
        };
        let offset = plain - mean;
        if offset != 0.0 {
            model.offset = offset;
            for ratio in ratios.iter_mut().chain(&mut null.ratios) {
                *ratio -= offset as f32;
            }
        }
        if !mean.is_finite() {
            return Err(Error::Diverged { estimator: self.estimator.to_string() });
        }
        Ok(ScoredFold {
            figures: FoldFigures {
                rows: FoldRows {
                    train: fold.train.len(),
                    validation: fold.validation.len(),
                    test: fold.test.len(),
                },
                mi_nats: mean,
                standard_error: (variance / ratios.len() as f64).sqrt(),
                train_mi_nats: mean_and_variance(train_ratios).0 - offset,
                members: figures,
            },
            model,
            test: ratios,
            null,
        })
    }

    /// The pairs that the fold's null distribution needs, and what decides where critics are
    /// silent: a Gaussian copula that keeps every correlation, however small.
    fn null_pairs(&self, fold: &Fold, most: usize) -> PairedNull {
        let Table { x, y, .. } = self.table;
        let mut null = match self.plan.order {
            RowOrder::Exchangeable => {
                let mut test = fold.test.clone();
                test.shuffle(&mut stream(self.plan.seed, Purpose::Null, 0, 0));
                test.truncate(most);
                let block = match self.estimator.readout() {
                    Readout::InfoNce => INFO_NCE_BLOCK,
                    _ => BLOCK,
                };
                PairedNull::within_blocks(&cut(&test, block))
            }
            RowOrder::Series { gap } => PairedNull::shifts(&fold.test, gap, most, self.plan.seed),
        };
        let gaussian = GaussianReference::fit(x, y, &fold.train, Scaling::Gaussian, false);
        if let Some(gaussian) = gaussian {
            let reference = gaussian.reference(x, y, &fold.test);
            // Test rows are in ascending order.
            let place = |row: u32| fold.test.partition_point(|other| *other < row);
            if reference.width > 0 {
                let ratio = |&(i, j): &(u32, u32)| reference.log_ratio(place(i), place(j));
                null.ties = null.pairs.iter().map(ratio).collect();
            }
        }
        null
    }
}

pub(super) fn mean_and_variance(values: &[f32]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum();
    (mean, squares / (n - 1.0).max(1.0))
}

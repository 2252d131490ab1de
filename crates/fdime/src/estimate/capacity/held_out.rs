//! Held-out rows, with the likelihood of their outputs under every level of the input.

use super::super::crossfit::{Table, mean_and_variance};
use super::super::folds::{Fold, folds};
use super::super::levels::Levels;
use super::super::plan::EstimatePlan;
use super::super::progress::{Progress, advance, check};
use super::super::result::Estimate;
use super::super::rows_of_a_block;
use super::input::Input;
use crate::channel::{Channel, Draw, Outputs, Transmission, uniform};
use crate::engine::Engine;
use crate::error::Result;
use crate::parallel::run_jobs;
use crate::random::{Purpose, Rng, stream};
use rand::seq::IndexedRandom;
use rand_distr::{Distribution, Poisson};

/// The number of pairs of a level and an output that critics score, unless levels would then have
/// fewer rows than the least number below.
const MAX_PAIRS: usize = 2_000_000;
const MIN_ROWS_OF_LEVEL: usize = 20;

/// The number of groups of rows; an input distribution is chosen on all but one of them.
const GROUPS: usize = 5;

/// The number of bootstrap samples, and the duality gap at which their input distribution is final.
const BOOTSTRAP_SAMPLES: usize = 200;
const BOOTSTRAP_TOLERANCE: f64 = 1e-5;

/// The rows that are added to each level of the input for every level of the output, distributed as
/// the output is: a combination may be missing by chance.
const ADDED_ROWS: f64 = 0.5;

/// Rows whose outputs were scored by critics, or by counts, that did not see them.
pub(super) struct HeldOut {
    outputs: Outputs,
    /// The output and the level of every row, with a weight of 1.
    draws: Vec<Draw>,
    /// The group of every row.
    groups: Vec<usize>,
    /// The block of neighbouring rows that every row is in.
    blocks: Vec<usize>,
}

impl HeldOut {
    /// Scores rows with the critics of an estimate, or with counts if it has none.
    pub(super) fn new(
        table: Table,
        input: &Input,
        plan: &EstimatePlan,
        estimate: &Estimate,
        engine: &dyn Engine,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let most = (MAX_PAIRS / input.counts.len().pow(2)).max(MIN_ROWS_OF_LEVEL);
        let mut rng = stream(plan.seed, Purpose::Rows, 2, 0);
        let counted = Levels::of(table.y).filter(|_| estimate.models.is_empty());
        let most = if counted.is_some() { usize::MAX } else { most };
        let places = places(input, most, &mut rng);
        let groups: Vec<usize> = places.iter().map(|place| place.group).collect();
        let outputs = match counted {
            Some(output) => count_outputs(input, &output, &groups),
            None => score_outputs(table, input, plan, estimate, &places, engine, progress)?,
        };
        let run = rows_of_a_block(plan.order, table.rows);
        Ok(HeldOut {
            draws: places
                .iter()
                .zip(outputs.of_rows)
                .map(|(place, output)| Draw { output, level: place.level, weight: 1.0 })
                .collect(),
            outputs: outputs.likelihoods,
            blocks: places.iter().map(|place| place.row as usize / run).collect(),
            groups,
        })
    }

    /// Returns the channel of all rows.
    pub(super) fn channel(&self) -> Channel<'_> {
        Channel::new(&self.outputs, self.draws.iter().copied())
    }

    /// Returns the mean information of input distributions in rows that they were not chosen on:
    /// each is the best one for all groups but one, and evaluated on that one.
    pub(super) fn information_elsewhere(&self, optimum: &Transmission, tolerance: f64) -> f64 {
        let rows_where = |keep: &dyn Fn(usize) -> bool| {
            let rows = self.draws.iter().zip(&self.groups).filter(|(_, group)| keep(**group));
            Channel::new(&self.outputs, rows.map(|(draw, _)| *draw))
        };
        let of_group = |chosen: usize| {
            let others = rows_where(&|group| group != chosen);
            let input = others.blahut_arimoto(near(optimum), tolerance).input;
            rows_where(&|group| group == chosen).transmission(input).information
        };
        (0..GROUPS).map(of_group).sum::<f64>() / GROUPS as f64
    }

    /// Returns the standard deviation of the largest information over bootstrap samples, in which
    /// every row, or every block of neighbours in a series, occurs a Poisson number of times.
    pub(super) fn standard_error(
        &self,
        optimum: &Transmission,
        threads: usize,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<f64> {
        progress.begin(BOOTSTRAP_SAMPLES as u64);
        let values = run_jobs(threads, BOOTSTRAP_SAMPLES, |sample, _| {
            advance(progress, 1)?;
            let mut rng = stream(seed, Purpose::Null, 4, sample as u64);
            let channel = Channel::new(&self.outputs, self.resampled(&mut rng));
            Ok(channel.blahut_arimoto(near(optimum), BOOTSTRAP_TOLERANCE).information as f32)
        });
        let values = values.into_iter().collect::<Result<Vec<f32>>>()?;
        Ok(mean_and_variance(&values).1.sqrt())
    }

    /// Returns the rows with random weights. A level of which no row was drawn keeps all its rows.
    fn resampled(&self, rng: &mut Rng) -> Vec<Draw> {
        let blocks = self.blocks.last().map_or(0, |last| last + 1);
        // The distribution exists for a mean of 1.
        let count = Poisson::new(1.0).ok();
        let weights: Vec<f64> =
            (0..blocks).map(|_| count.as_ref().map_or(1.0, |count| count.sample(rng))).collect();
        let levels = self.draws.iter().map(|draw| draw.level + 1).max().unwrap_or(0);
        let mut totals = vec![0.0; levels as usize];
        for (draw, block) in self.draws.iter().zip(&self.blocks) {
            totals[draw.level as usize] += weights[*block];
        }
        let weighted = self.draws.iter().zip(&self.blocks).map(|(draw, block)| {
            let is_drawn = totals[draw.level as usize] > 0.0;
            Draw { weight: if is_drawn { weights[*block] } else { 1.0 }, ..*draw }
        });
        weighted.collect()
    }
}

/// Returns an input distribution near the optimum, without zeros, from which nearby optima are
/// reached in few steps.
fn near(optimum: &Transmission) -> Vec<f64> {
    const SHARE: f64 = 0.01;
    let even = uniform(optimum.input.len());
    optimum.input.iter().zip(even).map(|(q, even)| (1.0 - SHARE) * q + SHARE * even).collect()
}

/// A row that is used.
struct Place {
    row: u32,
    level: u32,
    /// Each level's rows in order, in parts of equal size.
    group: usize,
}

/// Returns at most `most` rows of each level, drawn at random, in the order of the table.
fn places(input: &Input, most: usize, rng: &mut Rng) -> Vec<Place> {
    let mut places = Vec::new();
    for (level, rows) in (0..).zip(input.rows()) {
        let mut chosen = match rows.len() > most {
            true => rows.sample(rng, most).copied().collect(),
            false => rows,
        };
        chosen.sort_unstable();
        let count = chosen.len();
        let place = |(at, row)| Place { row, level, group: GROUPS * at / count };
        places.extend(chosen.into_iter().enumerate().map(place));
    }
    places.sort_unstable_by_key(|place| place.row);
    places
}

/// Likelihoods, and the output of each row that is used.
struct Scored {
    likelihoods: Outputs,
    of_rows: Vec<u32>,
}

/// Scores the outputs of rows against every level with the critics of the fold that they were held
/// out from.
fn score_outputs(
    table: Table,
    input: &Input,
    plan: &EstimatePlan,
    estimate: &Estimate,
    places: &[Place],
    engine: &dyn Engine,
    progress: &dyn Progress,
) -> Result<Scored> {
    let levels = input.counts.len();
    let folds = folds(table.rows, plan.folds, plan.order, plan.seed);
    let estimator = plan.method.estimator();
    // A row of each level stands for the level.
    let of_levels: Vec<u32> =
        input.rows().iter().filter_map(|rows| rows.first().copied()).collect();
    let in_fold = |fold: &Fold| -> Vec<usize> {
        let is_held_out = |at: &usize| fold.test.binary_search(&places[*at].row).is_ok();
        (0..places.len()).filter(is_held_out).collect()
    };
    let scored = run_jobs(engine.threads(), folds.len(), |fold, _| {
        let held_out = in_fold(&folds[fold]);
        let rows = held_out.iter().map(|at| places[*at].row);
        let used: Vec<u32> = of_levels.iter().copied().chain(rows).collect();
        let pairs =
            (levels..used.len()).flat_map(|at| (0..levels).map(move |s| (s as u32, at as u32)));
        let pairs: Vec<(u32, u32)> = pairs.collect();
        let tick = || check(progress);
        let model = &estimate.models[fold];
        let ratios =
            model.pair_log_ratios(&estimator, (table.x, table.y), &used, &pairs, engine, &tick)?;
        Ok((held_out, ratios))
    });
    let mut all = vec![0.0; places.len() * levels];
    for fold in scored {
        let (held_out, ratios) = fold?;
        for (at, ratios) in held_out.into_iter().zip(ratios.chunks_exact(levels)) {
            let row = &mut all[at * levels..][..levels];
            row.iter_mut().zip(ratios).for_each(|(to, ratio)| *to = f64::from(*ratio));
        }
    }
    let of_rows = (0..places.len() as u32).collect();
    Ok(Scored { likelihoods: Outputs::new(levels, all), of_rows })
}

/// Scores the levels of a discrete output by the frequencies in all groups but the row's own.
fn count_outputs(input: &Input, output: &Levels, groups: &[usize]) -> Scored {
    let (levels, kinds) = (input.counts.len(), output.counts.len());
    let mut counts = vec![vec![0.0; kinds * levels]; GROUPS];
    let rows = || input.codes.iter().zip(&output.codes).zip(groups);
    for ((level, kind), group) in rows() {
        counts[*group][*kind as usize * levels + *level as usize] += 1.0;
    }
    let mut logs = Vec::with_capacity(GROUPS * kinds * levels);
    for own in 0..GROUPS {
        let others = |cell: usize| -> f64 {
            (0..GROUPS).filter(|group| *group != own).map(|group| counts[group][cell]).sum()
        };
        let others: Vec<f64> = (0..kinds * levels).map(others).collect();
        let total: f64 = others.iter().sum();
        let added = ADDED_ROWS * kinds as f64;
        let mut of_levels = vec![0.0; levels];
        for row in others.chunks_exact(levels) {
            of_levels.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
        }
        for row in others.chunks_exact(levels) {
            // ln (n_sr / p_r + a) / (n_s + a), with p_r the share of this output.
            let share = row.iter().sum::<f64>() / total;
            logs.extend(row.iter().zip(&of_levels).map(|(count, of_level)| {
                let expected = if *count > 0.0 { count / share } else { 0.0 };
                ((expected + added) / (of_level + added)).ln()
            }));
        }
    }
    let of_rows = rows().map(|((_, kind), group)| (group * kinds) as u32 + kind).collect();
    Scored { likelihoods: Outputs::new(levels, logs), of_rows }
}

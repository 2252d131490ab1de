//! Mutual information from finite data, with an interval, a test of independence and a verdict.
//!
//! Rows are split into folds. For each fold, critics are trained on most of the other rows; the
//! rest of those rows determines which parameters are kept. The fold's own rows, which the critics
//! have not seen, are then scored; the mean of their log ratios is the estimate. The critics are
//! chosen for each data set from a portfolio of [`CriticRecipe`]s by the objective on rows held out
//! from training.

mod capacity;
mod chained;
mod combine;
mod conditional;
mod contingency;
mod counts;
mod crossfit;
mod feature_test;
mod folds;
mod fourier;
mod functional;
mod independence;
mod inputs;
mod lag;
mod lag_test;
mod levels;
mod matrix;
mod memo;
mod method;
mod model;
mod multiple;
mod neighbourhoods;
mod normalised;
mod plan;
mod power;
mod progress;
mod recipe;
mod regression;
mod repeats;
mod report;
mod result;
mod saved;
mod scaling;
mod screening;
mod selection;
mod serial;
mod table_rows;
mod terms;
mod timeline;
mod transfer;
mod verdict;

pub use capacity::{
    CapacityRecord, CapacityReport, ChannelCapacity, InputLevel, LevelRecord, channel_capacity,
};
pub use chained::ChainChoice;
pub use conditional::estimate_given;
pub use folds::{Fold, RowOrder, folds};
pub use independence::IndependenceTest;
pub use inputs::{GaussianReference, InputMap};
pub use lag::{
    LagEstimate, LagJournal, LagPlan, LagProfile, LagRecord, LagSeries, lagged_information,
};
pub use lag_test::LagTest;
pub use matrix::{MatrixHeading, MatrixJournal, PairEstimate, PairRecord};
pub use method::{FiniteDataEstimator, Method};
pub use model::{FoldModel, Member};
pub use multiple::benjamini_hochberg;
pub use plan::{Effort, EstimatePlan};
pub use power::{
    MAX_STUDY_ROWS, PowerPlan, PowerRecord, PowerStudy, RowsNeeded, SizeFigures, StudySize,
    power_study,
};
pub use progress::{NoProgress, Progress};
pub use recipe::{CriticRecipe, Portfolio, ReferenceKind};
pub use report::{EstimateRecord, EstimateReport, Paragraph, format_p_value};
pub use result::{
    Baselines, ChainFigures, Estimate, FoldFigures, FoldRows, GivenFigures, MemberFigures,
    RaceEntry, Residuals, TermFigures,
};
pub use saved::{SavedColumn, SavedModel};
pub use scaling::{ColumnScaler, Features, Radius, Scaling, SideScaler};
pub use selection::{
    Criterion, SELECTION_LEVEL, SelectedFeature, Selection, SelectionEnd, SelectionPlan,
    select_features,
};
pub use timeline::{SeriesHeading, Timeline};
pub use transfer::{
    TransferEntropy, TransferJournal, TransferPlan, TransferRecord, TransferSeries,
    transfer_entropy,
};
pub use verdict::{Reason, Reliability, RenderedReason, RenderedVerdict, Verdict};

use crate::baseline::{CanonicalModel, ksg};
use crate::data::{Column, Values};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::message::Parameter;
use crate::nats::Nats;
use crate::parallel::Tick;
use crate::random::{Purpose, stream};
use counts::{countable, estimate_from_counts};
use crossfit::{CrossFit, FoldTables, Table, crossfit, mean_and_variance};
use feature_test::{permutation_test, shift_test};
use levels::{Levels, takes_few_values};
use normalised::mean;
use progress::check;
use rand::RngExt;
use serial::{SerialDependence, autocorrelation_time};
use verdict::{Evidence, entropy_bound};

/// The k of KSG's k-th nearest neighbour.
const KSG_NEIGHBOUR: usize = 3;

/// Limits of KSG as a cross-check: rows, and columns, because it breaks down in many dimensions.
const MAX_KSG_ROWS: usize = 5_000;
const MAX_KSG_COLUMNS: usize = 6;

/// The maximum number of rows that the classical cross-checks use.
const MAX_BASELINE_ROWS: usize = 50_000;

/// The 97.5% point of the normal distribution.
const NORMAL_QUANTILE: f64 = 1.959_963_985;

/// Estimates the mutual information between two groups of columns of equal length without missing
/// values.
///
/// ```
/// use fdime::data::{Column, Values};
/// use fdime::CpuEngine;
/// use fdime::estimate::{Effort, EstimatePlan, Method, NoProgress, estimate};
///
/// let column = |name: &str, values: Vec<f64>| Column {
///     name: name.into(),
///     values: Values::Continuous(values),
/// };
/// let x: Vec<f64> = (0..400).map(|k| f64::from(k * 37 % 400)).collect();
/// let y = x.iter().enumerate().map(|(k, x)| x + 60.0 * (k as f64).sin()).collect();
/// let plan = EstimatePlan::new(Method::GaussianCopula, Effort::Default);
/// let (x, y) = ([column("x", x)], [column("y", y)]);
/// let result = estimate(&x, &y, &plan, &CpuEngine::new(0), &NoProgress)?;
/// assert!(result.mi.0 > 0.5 && result.independence.unwrap().p_value < 0.01);
/// # Ok::<(), fdime::Error>(())
/// ```
pub fn estimate(
    x: &[Column],
    y: &[Column],
    plan: &EstimatePlan,
    engine: &dyn Engine,
    progress: &dyn Progress,
) -> Result<Estimate> {
    estimate_recordings(x, y, &[], plan, engine, progress)
}

/// As [`estimate`], for a series of several recordings that begin at row 0 and at `starts`.
fn estimate_recordings(
    x: &[Column],
    y: &[Column],
    starts: &[usize],
    plan: &EstimatePlan,
    engine: &dyn Engine,
    progress: &dyn Progress,
) -> Result<Estimate> {
    let rows = x.first().map_or(0, Column::len);
    check_columns(x, y)?;
    let plan = &plan.for_data(x, y);
    plan.check(rows)?;
    let table = Table { x, y, rows, starts };
    check_numbers(x, y, &plan.method)?;
    chained::check(table, plan)?;
    if plan.method == Method::Ksg {
        return nearest_neighbours(table, plan, engine.threads(), progress);
    }
    if let Some(counts) = countable(table, plan) {
        return estimate_from_counts(&counts, table, plan, progress);
    }
    let serial = SerialDependence::of(x, y, || check(progress))?;
    let data = FoldTables::same(table, plan.folds);
    let mut direct = Fitted::direct(crossfit(&data, plan, engine, progress)?, plan);
    let nulls = std::mem::take(&mut direct.fit.nulls);
    let independence = if is_short_series(plan, &serial) {
        shift_test(x, y, plan.permutations, progress)?
    } else {
        let (freedom, m) = (table.degrees_of_freedom(), plan.permutations);
        let by_critics = IndependenceTest::new(&nulls, m, freedom, plan.seed, progress)?;
        match plan.order {
            RowOrder::Exchangeable if rows < MAX_FEW_ROWS => {
                let by_correlations = |limit| permutation_test(x, y, m, limit, plan.seed, progress);
                by_critics.or(share_of_correlations(rows), by_correlations)?
            }
            _ => by_critics,
        }
    };
    let fitted = match chained::blocks_for(table, plan, &direct) {
        Some(blocks) => {
            let chained = chained::chained(table, plan, blocks, &direct, engine, progress)?;
            let is_wanted = plan.chain != ChainChoice::Auto || chained.exceeds(&direct);
            if is_wanted { chained } else { direct }
        }
        None => direct,
    };
    let baselines = baselines(table, engine.threads(), &|| check(progress))?;
    Findings { table, plan, fitted, independence, serial, baselines, given: None }
        .conclude(progress)
}

/// With fewer rows, dependence is also tested by correlations. From few rows critics learn little, and
/// their test has little power against dependence that correlations show.
const MAX_FEW_ROWS: usize = 2_000;

/// Returns the share of the level that the test by correlations gets: half of it where rows are few,
/// and the less the more critics can learn. A share that ended at once would let a test of more rows
/// find less.
fn share_of_correlations(rows: usize) -> f64 {
    (100.0 / rows as f64).min(0.5)
}

/// A fold of a series needs to be worth this many independent rows for a test by its critics. In
/// fewer, circular shifts are too much alike, and chance agreement continues from fold to fold.
const MIN_EFFECTIVE_ROWS_OF_FOLD: f64 = 40.0;

/// Returns whether rows are a series that is too short for a test by critics.
fn is_short_series(plan: &EstimatePlan, serial: &SerialDependence) -> bool {
    plan.order != RowOrder::Exchangeable
        && serial.effective_rows() < MIN_EFFECTIVE_ROWS_OF_FOLD * plan.folds as f64
}

/// What an estimate by critics is concluded from.
struct Findings<'a> {
    table: Table<'a>,
    plan: &'a EstimatePlan,
    fitted: Fitted,
    independence: IndependenceTest,
    serial: SerialDependence,
    baselines: Baselines,
    /// The columns that are held fixed, and what they tell.
    given: Option<(&'a [Column], GivenFigures)>,
}

impl Findings<'_> {
    /// Returns the estimate with its interval and the verdict on it.
    fn conclude(self, progress: &dyn Progress) -> Result<Estimate> {
        let Findings { table, plan, fitted, independence, mut serial, baselines, given } = self;
        let Table { x, y, rows, .. } = table;
        let Fitted { fit, gap, spread, largest_term, chain } = fitted;
        serial.time_of_ratios = autocorrelation_time(&fit.pointwise);
        let unclipped = mean(&fit.pointwise);
        let lower_bound = fit.lower_bound;
        let standard_error = standard_error(&fit.pointwise, &fit.folds, plan.order)
            .max(fit.lower_bound_variance.sqrt());
        let entropy = entropy_bound(x, y);
        let uncertainty = Uncertainty {
            lower_bound,
            standard_error,
            spread,
            gap,
            unseen_share: plan.unseen_share(informative_rows(table)),
            undetectable: undetectable(table, serial.rows_for(plan.order), &plan.method),
            upper_limit: entropy.as_ref().map_or(f64::INFINITY, |bound| bound.largest),
        };
        let evidence = Evidence {
            x,
            y,
            given: given.as_ref().map(|(columns, figures)| (*columns, figures)),
            rows,
            mi: unclipped,
            largest_term,
            chain: chain.as_ref(),
            standard_error,
            lower_bound: Some(lower_bound),
            p_value: Some(independence.p_value),
            folds: &fit.folds,
            baselines: &baselines,
            spread,
            serial: &serial,
            plan,
        };
        let verdict = Verdict::new(&evidence, || check(progress))?;
        Ok(Estimate {
            mi: Nats(unclipped.clamp(0.0, entropy.map_or(f64::INFINITY, |bound| bound.entropy))),
            unclipped: Nats(unclipped),
            interval: uncertainty.interval(unclipped),
            independence: Some(independence),
            pointwise: fit.pointwise,
            folds: fit.folds,
            race: fit.race,
            lower_bound: Some(Nats(lower_bound)),
            baselines,
            verdict,
            models: fit.models,
            chain,
            given: given.map(|(_, figures)| figures),
            residuals: None,
        })
    }
}

/// Log ratios of all rows, with the figures that their uncertainty follows from.
struct Fitted {
    fit: CrossFit,
    /// See [`training_gap`].
    gap: f64,
    /// See [`spread`].
    spread: f64,
    /// The largest mutual information that had to be estimated at once.
    largest_term: f64,
    chain: Option<ChainFigures>,
}

impl Fitted {
    /// Returns the fit of one table.
    fn direct(mut fit: CrossFit, plan: &EstimatePlan) -> Self {
        let gap = training_gap(&fit.folds);
        if plan.method == Method::Auto {
            fit.raise(shortfall(fit.lower_bound, gap));
        }
        let largest_term = mean(&fit.pointwise);
        Fitted { gap, spread: spread(&fit.folds), largest_term, chain: None, fit }
    }

    /// Returns the estimate.
    fn mi(&self) -> f64 {
        mean(&self.fit.pointwise)
    }

    /// Returns whether this estimate and its lower bound are above those of another. Critics miss
    /// dependence rather than invent it, so the larger one is better.
    fn exceeds(&self, other: &Fitted) -> bool {
        self.fit.lower_bound > other.fit.lower_bound && self.mi() > other.mi()
    }
}

/// The sources of uncertainty of an estimate.
struct Uncertainty {
    /// A value that is not above the truth systematically.
    lower_bound: f64,
    standard_error: f64,
    /// The standard deviation between critics of different recipes.
    spread: f64,
    /// The difference between the training rows' mean log ratio and that of held-out rows.
    gap: f64,
    /// The share of the estimate that good critics may miss.
    unseen_share: f64,
    /// The amount of information that cannot be distinguished from chance.
    undetectable: f64,
    /// The upper end of the smaller entropy of x and y if they are discrete, otherwise infinite.
    upper_limit: f64,
}

/// Returns the number of rows that tell something: where almost all rows have the same level, few do.
fn informative_rows(table: Table) -> usize {
    let sides = [table.x, table.y].into_iter().filter_map(Levels::of);
    sides.map(|levels| levels.effective_rows()).min().unwrap_or(table.rows).max(1)
}

impl Uncertainty {
    /// Returns the interval, limited to between 0 and the upper limit like the estimate. Critics
    /// can miss dependence, but they rarely find any that is not there in rows they have not seen.
    /// So what cannot be measured extends the interval upwards: the gap to the training rows (the
    /// truth is between the two), a share of the estimate, and the amount that cannot be
    /// distinguished from chance.
    fn interval(&self, mi: f64) -> (Nats, Nats) {
        let chance = self.standard_error.powi(2) + self.spread.powi(2);
        let missed = self.gap.powi(2) + (self.unseen_share * mi).powi(2);
        let (low, high) = (chance.sqrt(), (chance + missed).sqrt());
        let upper = (mi.max(0.0) + self.undetectable).max(mi + NORMAL_QUANTILE * high);
        let start = mi.min(self.lower_bound).min(self.upper_limit);
        let lower = (start - NORMAL_QUANTILE * low).max(0.0);
        (Nats(lower), Nats(upper.min(self.upper_limit)))
    }
}

/// Returns roughly the largest amount of information that independent data appear to have. For
/// linear dependence between p and q numbers, 2 n I is chi-squared with p q degrees of freedom;
/// this is its mean plus two standard deviations. `rows` is the number of independent rows that the
/// table is worth.
///
/// Canonical correlations below that level are taken for 0. With the noncentrality l, the statistic
/// is below it by chance if f + l - 2 sqrt(2 f + 4 l) is, that is up to l = 16 + 4 sqrt(2 f).
fn undetectable(table: Table, rows: f64, method: &Method) -> f64 {
    let freedom = table.degrees_of_freedom();
    let chance = freedom + 2.0 * (2.0 * freedom).sqrt();
    let missed = match method {
        Method::GaussianCopula | Method::Cca => 16.0 + 4.0 * (2.0 * freedom).sqrt(),
        _ => 0.0,
    };
    chance.max(missed) / (2.0 * rows)
}

/// Returns the weighted standard deviation of the estimates that each recipe alone would give.
fn spread(folds: &[FoldFigures]) -> f64 {
    let critics = folds.iter().map(|fold| fold.members.len()).min().unwrap_or(0);
    let (mut sum, mut total) = (0.0, 0.0);
    for critic in 0..critics {
        let (mut difference, mut weight) = (0.0, 0.0);
        for fold in folds {
            let member = &fold.members[critic];
            if let Some(mi) = member.mi_nats {
                difference += member.weight * (mi - fold.mi_nats);
                weight += member.weight;
            }
        }
        if weight > 0.0 {
            sum += difference * difference / weight;
            total += weight;
        }
    }
    if total > 0.0 { (sum / total).sqrt() } else { 0.0 }
}

/// Returns an estimate of how far a lower bound on held-out rows is below the mutual information
/// because its critics were fitted to few rows. Fitting k parameters to n rows lowers the mean log
/// ratio of other rows by k / 2n and raises that of the rows themselves by as much (Akaike), so the
/// value for infinitely many rows is in the middle. The factor lets it vanish with the bound: where
/// nothing is found in held-out rows, what is found in training rows is chance.
fn shortfall(lower_bound: f64, gap: f64) -> f64 {
    let bound = lower_bound.max(0.0);
    if gap > 0.0 { 0.5 * gap * bound / (bound + gap) } else { 0.0 }
}

/// Returns by how much the training rows' mean log ratio exceeds that of held-out rows, at least 0.
fn training_gap(folds: &[FoldFigures]) -> f64 {
    let gaps = folds.iter().map(|fold| fold.train_mi_nats - fold.mi_nats);
    (gaps.sum::<f64>() / folds.len().max(1) as f64).max(0.0)
}

/// Returns the standard error of the mean log ratio: the larger of that between rows and that
/// between folds, to which critics of different quality add. Rows of a series are first averaged
/// over blocks, so that the correlation of neighbours is included.
fn standard_error(pointwise: &[f64], folds: &[FoldFigures], order: RowOrder) -> f64 {
    let run = rows_of_a_block(order, pointwise.len());
    let means: Vec<f32> = pointwise
        .chunks_exact(run)
        .map(|run| (run.iter().sum::<f64>() / run.len() as f64) as f32)
        .collect();
    let (_, of_rows) = mean_and_variance(&means);
    let by_fold: Vec<f32> = folds.iter().map(|fold| fold.mi_nats as f32).collect();
    let (_, of_folds) = mean_and_variance(&by_fold);
    (of_rows / means.len() as f64).max(of_folds / by_fold.len() as f64).sqrt()
}

/// Returns the number of neighbouring rows whose correlation counts: 1 for exchangeable rows, and for
/// a series twice the gap, across which little of it is lost, with at least 5 blocks.
fn rows_of_a_block(order: RowOrder, rows: usize) -> usize {
    match order {
        RowOrder::Exchangeable => 1,
        RowOrder::Series { gap } => (2 * gap + 1).min(rows / 5).max(rows.isqrt() / 2).max(1),
        RowOrder::AutomaticSeries => (rows.isqrt() / 2).max(1),
    }
}

/// Returns the continuous columns of both sides as normal scores, for at most `max_rows` rows
/// spread over the table.
fn normal_scores(table: Table, max_rows: usize, tick: Tick) -> Result<[(Vec<f32>, usize); 2]> {
    let step = table.rows.div_ceil(max_rows).max(1);
    let rows: Vec<u32> = (0..table.rows as u32).step_by(step).collect();
    let of_side = |columns: &[Column]| {
        let scaler = SideScaler::plain(columns, &rows, Scaling::Gaussian, tick)?;
        Ok((scaler.apply_continuous(columns, &rows), scaler.continuous()))
    };
    Ok([of_side(table.x)?, of_side(table.y)?])
}

/// Returns whether both sides have a column of measurements. Normal scores and nearest neighbours
/// say nothing about sides whose columns take few values.
fn has_measurements(table: Table) -> bool {
    [table.x, table.y].iter().all(|side| !side.iter().all(takes_few_values))
}

/// Returns classical estimates from the continuous columns.
fn baselines(table: Table, threads: usize, tick: Tick) -> Result<Baselines> {
    if !has_measurements(table) {
        return Ok(Baselines::default());
    }
    let [(x, x_dim), (y, y_dim)] = normal_scores(table, MAX_BASELINE_ROWS, tick)?;
    let copula = CanonicalModel::fit(&x, x_dim, &y, y_dim, true, tick)?.mutual_information().0;
    let columns = x_dim + y_dim;
    let discrete = |side: &[Column]| {
        side.iter().any(|column| matches!(column.values, Values::Discrete { .. }))
    };
    let use_ksg = columns <= MAX_KSG_COLUMNS && !discrete(table.x) && !discrete(table.y);
    let mut ksg_nats = None;
    if use_ksg {
        let [(x, _), (y, _)] = normal_scores(table, MAX_KSG_ROWS, tick)?;
        let (x, y) = (without_ties(&x, 0), without_ties(&y, 1));
        ksg_nats = Some(mean(&ksg(&x, x_dim, &y, y_dim, KSG_NEIGHBOUR, threads, tick)?));
    }
    Ok(Baselines { gaussian_copula_nats: Some(copula), ksg_nats })
}

/// Returns the values with noise far below the resolution of the data, because KSG is infinite
/// where distances are 0.
fn without_ties(values: &[f32], side: u64) -> Vec<f32> {
    let mut rng = stream(0, Purpose::Null, 0, side);
    values.iter().map(|value| value + rng.random_range(-1e-5..1e-5f32)).collect()
}

/// Checks that there are columns on both sides, of equal length and with finite values only.
fn check_columns(x: &[Column], y: &[Column]) -> Result<()> {
    let fail = |problem: String| Err(Error::Columns { problem });
    let (Some(first), Some(_)) = (x.first(), y.first()) else {
        return fail("x and y need at least one column each".into());
    };
    if first.is_empty() {
        return fail("x and y have no rows".into());
    }
    for column in x.iter().chain(y) {
        if column.len() != first.len() {
            let describe = |column: &Column| (column.name.clone(), column.len());
            return Err(Error::UnequalColumns { columns: [describe(first), describe(column)] });
        }
        if let Some(row) = (0..column.len()).find(|row| column.is_missing(*row)) {
            return fail(format!("column '{}' has no value in row {}", column.name, row + 1));
        }
        if let Values::Continuous(values) = &column.values
            && let Some(row) = values.iter().position(|value| value.is_infinite())
        {
            return fail(format!("column '{}' is infinite in row {}", column.name, row + 1));
        }
    }
    Ok(())
}

/// Checks that both sides have numbers if the method needs them.
fn check_numbers(x: &[Column], y: &[Column], method: &Method) -> Result<()> {
    if method.needs_numbers() && [x, y].iter().any(|side| !has_numbers(side)) {
        return Err(Error::Incompatible {
            parameter: Parameter::Estimator,
            value: method.to_string(),
            other: "x or y of categories alone".into(),
            reason: "it needs numbers on both sides; use auto".into(),
        });
    }
    Ok(())
}

/// Returns whether any column is continuous.
fn has_numbers(columns: &[Column]) -> bool {
    columns.iter().any(|column| matches!(column.values, Values::Continuous(_)))
}

/// Estimates by KSG, which has no folds, critics or test. Both sides have numbers.
fn nearest_neighbours(
    table: Table,
    plan: &EstimatePlan,
    threads: usize,
    progress: &dyn Progress,
) -> Result<Estimate> {
    let tick = || check(progress);
    let [(x, x_dim), (y, y_dim)] = normal_scores(table, usize::MAX, &tick)?;
    let (x, y) = (without_ties(&x, 0), without_ties(&y, 1));
    progress.begin(table.rows as u64);
    let count = || progress::advance(progress, 1);
    let pointwise = ksg(&x, x_dim, &y, y_dim, KSG_NEIGHBOUR, threads, &count)?;
    let unclipped = mean(&pointwise);
    let standard_error = standard_error(&pointwise, &[], plan.order);
    let mut serial = SerialDependence::of(table.x, table.y, tick)?;
    serial.time_of_ratios = autocorrelation_time(&pointwise);
    let undetectable = undetectable(table, serial.rows_for(plan.order), &plan.method);
    // Both sides have numbers, so no entropy limits what they share.
    let uncertainty = Uncertainty {
        lower_bound: unclipped,
        standard_error,
        spread: 0.0,
        gap: 0.0,
        unseen_share: plan.unseen_share(table.rows),
        undetectable,
        upper_limit: f64::INFINITY,
    };
    let mut gaussian_copula_nats = None;
    if has_measurements(table) {
        let model = CanonicalModel::fit(&x, x_dim, &y, y_dim, true, &tick)?;
        gaussian_copula_nats = Some(model.mutual_information().0);
    }
    let baselines = Baselines { gaussian_copula_nats, ksg_nats: None };
    let evidence = Evidence {
        x: table.x,
        y: table.y,
        given: None,
        rows: table.rows,
        mi: unclipped,
        largest_term: unclipped,
        chain: None,
        standard_error,
        lower_bound: None,
        p_value: None,
        folds: &[],
        baselines: &baselines,
        spread: 0.0,
        serial: &serial,
        plan,
    };
    let verdict = Verdict::new(&evidence, tick)?;
    Ok(Estimate {
        mi: Nats(unclipped.max(0.0)),
        unclipped: Nats(unclipped),
        interval: uncertainty.interval(unclipped),
        independence: None,
        pointwise,
        folds: Vec::new(),
        race: Vec::new(),
        lower_bound: None,
        baselines,
        verdict,
        models: Vec::new(),
        chain: None,
        given: None,
        residuals: None,
    })
}

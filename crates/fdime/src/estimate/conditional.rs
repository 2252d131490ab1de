//! Conditional mutual information: what y tells about x beyond what other columns z tell.
//!
//! I(X; Y | Z) = I(X; (Y, Z)) - I(X; Z), and for any functions m and g
//!
//! I(X; Y | Z) = I(X - m(Z); Y - g(Z) | Z),
//!
//! because given z, subtracting m(z) is one-to-one; so is dividing by s(z) > 0. So x and y are replaced by
//! what is left of them after regressions on z ([`predict_with_spread`]): their residuals, divided by the
//! spread of these. Then I(X; Z) is close to 0, and the estimate is not the difference of two large
//! numbers. If all columns are discrete, rows are counted instead.

use super::contingency::Contingencies;
use super::counts::{countable_given, estimate_from_counts};
use super::crossfit::{FoldTables, PartOfY, Table, crossfit};
use super::feature_test::shift_test;
use super::folds::{Fold, RowOrder, folds_of_recordings};
use super::independence::{FIRST_PERMUTATIONS, IndependenceTest, PairedNull};
use super::levels::different_numbers;
use super::method::Method;
use super::neighbourhoods::neighbourhoods;
use super::plan::EstimatePlan;
use super::progress::{OnlyChecks, Progress, check};
use super::regression::{FEW_INPUTS, Prediction, directions_beside, predict_with_spread};
use super::result::{Baselines, Estimate, GivenFigures, Residuals};
use super::serial::SerialDependence;
use super::terms::{WithoutBegin, sum};
use super::{
    ChainChoice, Findings, Fitted, check_columns, check_numbers, has_measurements, is_short_series,
    normal_scores,
};
use crate::baseline::CanonicalModel;
use crate::data::{Column, Values};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::message::{Message, Parameter};
use crate::nats::Nats;
use crate::parallel::{Tick, run_jobs};
use std::iter;

/// The share of a column's variance from which its prediction is an input of critics.
const MIN_EXPLAINED: f64 = 0.02;

/// The maximum number of values of a column from which its prediction is not subtracted. A residual of
/// a column of 0 and 1 would reveal the prediction, and so z, and both terms would be large.
pub(super) const MAX_UNADJUSTED_VALUES: usize = 20;

/// The maximum number of rows of the Gaussian cross-check.
const MAX_BASELINE_ROWS: usize = 50_000;

/// Estimates the mutual information between two groups of columns given a third, I(x; y | given). All
/// columns have equal lengths and no missing values.
///
/// ```
/// use fdime::CpuEngine;
/// use fdime::data::{Column, Values};
/// use fdime::estimate::{Effort, EstimatePlan, Method, NoProgress, estimate_given};
///
/// // x and y depend on z and on nothing else.
/// let noise = |k: usize, step: usize| (k * step % 401) as f64 / 401.0;
/// let column = |name: &str, value: &dyn Fn(usize) -> f64| Column {
///     name: name.into(),
///     values: Values::Continuous((0..400).map(value).collect()),
/// };
/// let z = [column("z", &|k| noise(k, 37))];
/// let x = [column("x", &|k| noise(k, 37) + 0.2 * noise(k, 101))];
/// let y = [column("y", &|k| noise(k, 37) + 0.2 * noise(k, 211))];
/// let plan = EstimatePlan::new(Method::GaussianCopula, Effort::Default);
/// let result = estimate_given(&x, &y, &z, &plan, &CpuEngine::new(0), &NoProgress)?;
/// assert!(result.mi.0 < 0.02);
/// assert!(result.given.unwrap().unconditional_nats.0 > 0.5);
/// # Ok::<(), fdime::Error>(())
/// ```
///
/// # Errors
/// If columns do not fit together, or the plan cannot be run on them: nearest neighbours and chains
/// have no conditional estimate.
pub fn estimate_given(
    x: &[Column],
    y: &[Column],
    given: &[Column],
    plan: &EstimatePlan,
    engine: &dyn Engine,
    progress: &dyn Progress,
) -> Result<Estimate> {
    estimate_given_recordings([x, y, given], &[], plan, engine, progress)
}

/// Estimates I(x; y | given) of x, y and given from a series of recordings, as [`estimate_given`]
/// does. `starts` has the first row of each recording but the first.
pub(super) fn estimate_given_recordings(
    [x, y, given]: [&[Column]; 3],
    starts: &[usize],
    plan: &EstimatePlan,
    engine: &dyn Engine,
    progress: &dyn Progress,
) -> Result<Estimate> {
    check_columns(x, y)?;
    if given.is_empty() {
        let problem = "there is no column to hold fixed".into();
        return Err(Error::Columns { problem });
    }
    check_columns(x, given)?;
    let y_and_given = [y, given].concat();
    let mut plan = plan.for_data(x, &y_and_given);
    refuse_incompatible(&plan)?;
    plan.chain = ChainChoice::Off;
    let plan = &plan;
    let table = Table { x, y, rows: x[0].len(), starts };
    plan.check(table.rows)?;
    check_numbers(x, y, &plan.method)?;

    if let Some(counts) = countable_given(table, given, plan) {
        return estimate_from_strata(counts, table, given, plan, progress);
    }
    let tick = || check(progress);
    let serial = SerialDependence::of(x, y, tick)?;
    let data = FoldTables::same(table, plan.folds);
    let direct = Fitted::direct(crossfit(&data, plan, engine, progress)?, plan);
    // The first term has twice the critics in the race.
    progress.begin(3 * direct.fit.cost);
    let adjusted = adjusted_folds(table, given, plan, engine.threads(), progress)?;
    let terms = Terms::new(&adjusted, starts, plan, engine, &WithoutBegin(progress))?;
    let is_short = is_short_series(plan, &serial);
    let independence = match is_short {
        true => test_short_series(table, given, plan, progress)?,
        false => terms.test(table, plan, progress)?,
    };
    let neighbourhoods = terms.test_neighbourhoods(plan, progress)?;
    let unseen = plan.unseen_share(table.rows);
    let fitted = sum(&[1.0, -1.0], &terms.fits, unseen);
    let explained = |side: usize| mean(adjusted.iter().map(|fold| fold.explained[side]));
    let figures = GivenFigures {
        columns: given.iter().map(|column| column.name.clone()).collect(),
        unconditional_nats: Nats(direct.mi().max(0.0)),
        explained_x: explained(0),
        explained_y: explained(1),
        remaining_nats: terms.fits[1].mi(),
        neighbourhood_p_value: neighbourhoods.p_value,
    };
    let gaussian_copula_nats = match has_unadjusted(x, plan) && has_unadjusted(y, plan) {
        // Unadjusted columns share what both share with z.
        true => None,
        false => gaussian_copula(&adjusted[0], &tick)?,
    };
    let baselines = Baselines { gaussian_copula_nats, ksg_nats: None };
    let findings = Findings {
        table,
        plan,
        fitted,
        independence,
        serial,
        baselines,
        given: Some((given, figures)),
    };
    let residuals = Some(Residuals::held_out(table, &adjusted, plan.order));
    Ok(Estimate { residuals, ..findings.conclude(progress)? })
}

/// Estimates from the counts of x and y in each level of what is held fixed, in which the test permutes
/// rows.
fn estimate_from_strata(
    [conditional, unconditional]: [Contingencies; 2],
    table: Table,
    given: &[Column],
    plan: &EstimatePlan,
    progress: &dyn Progress,
) -> Result<Estimate> {
    // Only the value of the unconditional estimate is used, which needs no small p-value.
    let few =
        EstimatePlan { permutations: plan.permutations.min(FIRST_PERMUTATIONS), ..plan.clone() };
    let without_given = estimate_from_counts(&unconditional, table, &few, &OnlyChecks(progress))?;
    let figures = GivenFigures {
        columns: given.iter().map(|column| column.name.clone()).collect(),
        unconditional_nats: without_given.mi,
        explained_x: None,
        explained_y: None,
        remaining_nats: 0.0,
        neighbourhood_p_value: 1.0,
    };
    let estimate = estimate_from_counts(&conditional, table, plan, progress)?;
    Ok(Estimate { given: Some(figures), ..estimate })
}

/// Refuses methods and chains that have no conditional estimate.
pub(super) fn refuse_incompatible(plan: &EstimatePlan) -> Result<()> {
    let incompatible = |parameter: Parameter, value: String, reason: &str| {
        let other = Message::new().parameter(Parameter::Given);
        Err(Error::Incompatible { parameter, value, other, reason: reason.into() })
    };
    if plan.method == Method::Ksg {
        let reason = "nearest neighbours have no conditional estimate here; use auto";
        return incompatible(Parameter::Estimator, plan.method.to_string(), reason);
    }
    match plan.chain {
        ChainChoice::Blocks(blocks) => {
            let reason = "a conditional estimate is a difference of two terms already; use auto";
            incompatible(Parameter::Chain, blocks.to_string(), reason)
        }
        ChainChoice::Off | ChainChoice::Auto => Ok(()),
    }
}

/// Returns the mean of the values; `None` if one is missing.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Option<Vec<f64>> = values.collect();
    values.map(|values| values.iter().sum::<f64>() / values.len().max(1) as f64)
}

/// The columns of a fold, adjusted by regressions on its training rows.
struct AdjustedFold {
    test: Vec<u32>,
    x: Vec<Column>,
    /// The columns of y, summaries of those that are held fixed, and these themselves.
    y_and_given: Vec<Column>,
    y_columns: usize,
    summary_columns: usize,
    /// Test rows that are alike in what is held fixed; `None` for a series.
    groups: Option<Vec<Vec<u32>>>,
    /// The mean share of the variance of x and y that was predicted; `None` for categories.
    explained: [Option<f64>; 2],
}

impl AdjustedFold {
    /// Returns the table of x and of y and what is held fixed, from column `start` of these.
    fn table<'a>(&'a self, start: usize, starts: &'a [usize]) -> Table<'a> {
        let rows = self.x[0].len();
        Table { x: &self.x, y: &self.y_and_given[start..], rows, starts }
    }
}

fn adjusted_folds(
    table: Table,
    given: &[Column],
    plan: &EstimatePlan,
    threads: usize,
    progress: &dyn Progress,
) -> Result<Vec<AdjustedFold>> {
    let folds = folds_of_recordings(table.rows, plan.folds, plan.order, plan.seed, table.starts);
    let adjust = |index: usize| {
        let fold = &folds[index];
        adjusted_fold(table, given, fold, plan, &|| check(progress))
    };
    run_jobs(threads, folds.len(), |index, _| adjust(index)).into_iter().collect()
}

fn adjusted_fold(
    table: Table,
    given: &[Column],
    fold: &Fold,
    plan: &EstimatePlan,
    tick: Tick,
) -> Result<AdjustedFold> {
    let sides = [table.x, table.y];
    let mut of_x = predict_with_spread(&sides.concat(), given, &fold.train, plan.seed, tick)?;
    let of_y = of_x.split_off(table.x.len());
    let predictions = [of_x, of_y];
    let explained = [0, 1].map(|side| mean_explained(&predictions[side]));
    let along: Vec<Vec<f64>> = predictions.iter().flatten().flatten().flat_map(along).collect();
    let groups = match plan.order {
        RowOrder::Exchangeable => Some(neighbourhoods(given, &along, fold, plan.seed, tick)?),
        RowOrder::Series { .. } | RowOrder::AutomaticSeries => None,
    };
    let [x, mut y] = [0, 1].map(|side| {
        let columns = sides[side].iter().zip(&predictions[side]);
        let adjusted = columns.map(|(column, prediction)| match prediction {
            Some(prediction) if is_adjusted(column, plan.order) => prediction.residual_of(column),
            _ => column.clone(),
        });
        adjusted.collect::<Vec<Column>>()
    });
    let summaries = summaries(sides, given, &predictions, fold, plan, tick)?;
    let (y_columns, summary_columns) = (table.y.len(), summaries.len());
    y.extend(summaries);
    y.extend(given.iter().cloned());
    let test = fold.test.clone();
    Ok(AdjustedFold { test, x, y_and_given: y, y_columns, summary_columns, groups, explained })
}

/// Returns functions of the given columns that say what x and y have to do with them. A critic learns
/// more from these than from many columns, of which it would have to find the few that matter.
fn summaries(
    sides: [&[Column]; 2],
    given: &[Column],
    predictions: &[Vec<Option<Prediction>>; 2],
    fold: &Fold,
    plan: &EstimatePlan,
    tick: Tick,
) -> Result<Vec<Column>> {
    let mut summaries = Vec::new();
    // Linear methods use every direction in z anyway.
    let is_linear = matches!(plan.method, Method::GaussianCopula | Method::Cca);
    for (side, predictions) in predictions.iter().enumerate() {
        for (column, prediction) in sides[side].iter().zip(predictions) {
            let Some(prediction) = prediction else { continue };
            // A network learns a function of a single column by itself; a linear method does not.
            if given.len() == 1 && is_adjusted(column, plan.order) {
                continue;
            }
            let explains = prediction.explained >= MIN_EXPLAINED;
            summaries.extend(explains.then(|| prediction.mean.clone()));
            summaries.extend(prediction.spread.as_ref().map(|spread| spread.log.clone()));
            if given.len() > FEW_INPUTS && !is_linear {
                let (others, train) = (sides[1 - side], &fold.train);
                summaries.extend(directions_beside(others, column, given, train, plan.seed, tick)?);
            }
        }
    }
    let named = |(index, values): (usize, Vec<f64>)| Column {
        name: format!("summary {}", index + 1),
        values: Values::Continuous(values),
    };
    Ok(summaries.into_iter().enumerate().map(named).collect())
}

/// Returns the given columns along the directions that matter for a prediction.
fn along(prediction: &Prediction) -> Vec<Vec<f64>> {
    let explains = prediction.explained >= MIN_EXPLAINED;
    let of_mean = if explains { &prediction.along[..] } else { &[] };
    let of_spread = prediction.spread.iter().flat_map(|spread| &spread.along);
    of_mean.iter().chain(of_spread).cloned().collect()
}

/// Returns whether the prediction of a column is subtracted from it. In a series it always is: the test
/// shifts x against y and z, which assumes that x is independent of z.
fn is_adjusted(column: &Column, order: RowOrder) -> bool {
    let is_number = matches!(column.values, Values::Continuous(_));
    is_number
        && (order != RowOrder::Exchangeable
            || different_numbers(column).len() > MAX_UNADJUSTED_VALUES)
}

/// Returns whether a side has numbers from which no prediction is subtracted.
fn has_unadjusted(side: &[Column], plan: &EstimatePlan) -> bool {
    let is_number = |column: &&Column| matches!(column.values, Values::Continuous(_));
    side.iter().filter(is_number).any(|column| !is_adjusted(column, plan.order))
}

impl Residuals {
    /// Returns the residuals of each fold's test rows.
    fn held_out(table: Table, folds: &[AdjustedFold], order: RowOrder) -> Self {
        let side = |columns: &[Column], adjusted: fn(&AdjustedFold) -> &[Column]| {
            let column = |(index, column): (usize, &Column)| {
                if !is_adjusted(column, order) {
                    return column.clone();
                }
                let mut residuals = vec![0.0; table.rows];
                for fold in folds {
                    if let Values::Continuous(values) = &adjusted(fold)[index].values {
                        fold.test
                            .iter()
                            .for_each(|&row| residuals[row as usize] = values[row as usize]);
                    }
                }
                let name = format!("{} (residual)", column.name);
                Column { name, values: Values::Continuous(residuals) }
            };
            columns.iter().enumerate().map(column).collect()
        };
        Residuals { x: side(table.x, |fold| &fold.x), y: side(table.y, |fold| &fold.y_and_given) }
    }
}

/// Returns the columns with their predictions subtracted; categories remain as they are.
pub(super) fn residuals(columns: &[Column], predictions: &[Option<Prediction>]) -> Vec<Column> {
    let residual = |(column, prediction): (&Column, &Option<Prediction>)| match prediction {
        Some(prediction) => prediction.residual_of(column),
        None => column.clone(),
    };
    columns.iter().zip(predictions).map(residual).collect()
}

fn mean_explained(predictions: &[Option<Prediction>]) -> Option<f64> {
    let shares: Vec<f64> = predictions.iter().flatten().map(|found| found.explained).collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

/// The estimates of I(x; (y, given)) and of I(x; given), with x and y adjusted.
struct Terms {
    fits: [Fitted; 2],
    /// The degrees of freedom of linear dependence between x and what is held fixed.
    freedom: f64,
}

impl Terms {
    fn new(
        folds: &[AdjustedFold],
        starts: &[usize],
        plan: &EstimatePlan,
        engine: &dyn Engine,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let groups = || folds.iter().map(|fold| fold.groups.clone()).collect();
        let y_columns = folds[0].y_columns;
        let summarised: Vec<usize> = folds.iter().map(|fold| fold.summary_columns).collect();
        let of_y = PartOfY { name: "of y alone", columns: vec![y_columns; folds.len()] };
        let of_summaries = |before: usize| PartOfY {
            name: "with z in summary",
            columns: summarised.iter().map(|count| before + count).collect(),
        };
        let is_shorter = |fold: &AdjustedFold| {
            let given = fold.y_and_given.len() - fold.y_columns - fold.summary_columns;
            (1..given).contains(&fold.summary_columns)
        };
        let has_summaries = folds.iter().all(is_shorter);
        let with_y = FoldTables {
            tables: folds.iter().map(|fold| fold.table(0, starts)).collect(),
            parts_of_y: iter::once(of_y)
                .chain(has_summaries.then(|| of_summaries(y_columns)))
                .collect(),
            groups: groups(),
        };
        let without_y = FoldTables {
            tables: folds.iter().map(|fold| fold.table(y_columns, starts)).collect(),
            parts_of_y: has_summaries.then(|| of_summaries(0)).into_iter().collect(),
            groups: groups(),
        };
        let fit = |data: &FoldTables| -> Result<Fitted> {
            Ok(Fitted::direct(crossfit(data, plan, engine, progress)?, plan))
        };
        let freedom = without_y.tables[0].degrees_of_freedom();
        Ok(Terms { fits: [fit(&with_y)?, fit(&without_y)?], freedom })
    }

    /// Tests conditional independence: given z, x is exchanged between rows that are alike in z, or
    /// shifted against y and z in a series, and scored by critics that were trained on other rows.
    fn test(
        &self,
        table: Table,
        plan: &EstimatePlan,
        progress: &dyn Progress,
    ) -> Result<IndependenceTest> {
        let [with_y, without_y] = self.fits.each_ref().map(|fit| &fit.fit.nulls);
        let difference = |(with_y, without_y): (&PairedNull, &PairedNull)| with_y.minus(without_y);
        let nulls: Vec<PairedNull> = with_y.iter().zip(without_y).map(difference).collect();
        let freedom = table.degrees_of_freedom();
        IndependenceTest::new(&nulls, plan.permutations, freedom, plan.seed, progress)
    }

    /// Tests whether x is independent of z among the rows that are exchanged, as the test of
    /// conditional independence assumes.
    fn test_neighbourhoods(
        &self,
        plan: &EstimatePlan,
        progress: &dyn Progress,
    ) -> Result<IndependenceTest> {
        let nulls = &self.fits[1].fit.nulls;
        IndependenceTest::new(nulls, plan.permutations, self.freedom, plan.seed, progress)
    }
}

/// Tests a series that is too short for critics, by shifts of what is left of x against what is left
/// of y.
fn test_short_series(
    table: Table,
    given: &[Column],
    plan: &EstimatePlan,
    progress: &dyn Progress,
) -> Result<IndependenceTest> {
    let all: Vec<u32> = (0..table.rows as u32).collect();
    let tick = || check(progress);
    let rest = |side: &[Column]| -> Result<Vec<Column>> {
        Ok(residuals(side, &predict_with_spread(side, given, &all, plan.seed, &tick)?))
    };
    shift_test(&rest(table.x)?, &rest(table.y)?, plan.permutations, progress)
}

/// Returns the mutual information of a Gaussian copula of what is left of x and y after regressions.
fn gaussian_copula(fold: &AdjustedFold, tick: Tick) -> Result<Option<f64>> {
    let y = &fold.y_and_given[..fold.y_columns];
    let table = Table { y, ..fold.table(0, &[]) };
    if !has_measurements(table) {
        return Ok(None);
    }
    let [(x, x_dim), (y, y_dim)] = normal_scores(table, MAX_BASELINE_ROWS, tick)?;
    Ok(Some(CanonicalModel::fit(&x, x_dim, &y, y_dim, true, tick)?.mutual_information().0))
}

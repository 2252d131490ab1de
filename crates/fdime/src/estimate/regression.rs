//! What some columns predict of others, by ridge regression on functions of them.

use super::inputs::thinned;
use super::scaling::{Scaling, SideScaler};
use crate::data::{Column, Values};
use crate::error::Result;
use crate::parallel::Tick;
use crate::random::{Purpose, Rng, stream};
use multiversion::multiversion;
use nalgebra::{DMatrix, DMatrixView, DVector, SymmetricEigen};
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};
use std::f64::consts::{FRAC_PI_2, TAU};

/// The maximum number of training rows of a regression.
const MAX_ROWS: usize = 20_000;

/// The number of rows whose functions are computed at a time.
const CHUNK_ROWS: usize = 4_096;

/// The maximum number of waves. Few training rows have fewer.
const MAX_WAVES: usize = 200;

/// The number of inputs up to which waves along all of them together are enough.
pub(super) const FEW_INPUTS: usize = 3;

/// The maximum number of inputs for which directions are computed.
const MAX_INPUTS_OF_DIRECTIONS: usize = 200;

/// The maximum number of rows by which inputs are ranked.
const MAX_RANKING_ROWS: usize = 4_000;

/// The numbers of inputs, those that predict best, along which waves are tried, and the number of
/// waves along each of them.
const BEST_INPUTS: [usize; 3] = [1, 2, 4];
const WAVES_OF_ONE: usize = 40;

/// The number of directions in which a fit is refined, and the maximum number of refinements.
const DIRECTIONS: usize = 2;
const REFINEMENTS: usize = 3;

/// The share of a fit's variation below which a direction is left out.
const MIN_DIRECTION: f64 = 0.1;

/// The penalty of a change of direction, relative to the number of rows.
const STEP_PENALTY: f64 = 1e-3;

/// The scales on which columns are predicted.
const SCALINGS: [Scaling; 2] = [Scaling::Standard, Scaling::Gaussian];

/// The number of parts of cross-validation.
const PARTS: usize = 4;

/// Penalties relative to the number of rows, for functions with a variance of about 1.
const PENALTIES: [f64; 5] = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1];

/// The shortest and the longest scale of waves, in standard deviations of the inputs.
const SCALES: [f64; 2] = [0.15, 3.0];

/// The maximum of |ln spread|.
const MAX_LOG_SPREAD: f64 = 3.0;

/// A column and what other columns predict of it.
pub(super) struct Prediction {
    /// The column, scaled to a variance of 1.
    pub(super) scaled: Vec<f64>,
    /// The conditional mean of the scaled column, in every row.
    pub(super) mean: Vec<f64>,
    /// The share of its variance that the mean explains in rows left out of the regression.
    pub(super) explained: f64,
    /// The given columns along the directions in which the mean varies most, in every row. There are
    /// none if nothing is explained.
    pub(super) along: Vec<Vec<f64>>,
    /// The spread of the residuals; `None` if the given columns do not predict it, or if it was not
    /// asked for.
    pub(super) spread: Option<Spread>,
}

/// How the spread of a column's residuals depends on other columns.
pub(super) struct Spread {
    /// The logarithm of the spread in every row, relative to the usual one.
    pub(super) log: Vec<f64>,
    /// The given columns along the directions in which it varies most, in every row.
    pub(super) along: Vec<Vec<f64>>,
}

impl Prediction {
    /// Returns the difference between the column and its conditional mean, divided by its spread.
    pub(super) fn residual(&self) -> Vec<f64> {
        let mut residual = self.difference();
        if let Some(Spread { log, .. }) = &self.spread {
            residual.iter_mut().zip(log).for_each(|(value, log)| *value *= (-log).exp());
        }
        residual
    }

    fn difference(&self) -> Vec<f64> {
        self.scaled.iter().zip(&self.mean).map(|(value, mean)| value - mean).collect()
    }

    /// Returns ln |residual| of the training rows.
    fn log_sizes(&self, train: &[u32]) -> DVector<f64> {
        let difference = self.difference();
        let of_rows: Vec<f64> = train.iter().map(|&row| difference[row as usize]).collect();
        log_sizes(&of_rows)
    }

    /// Returns the residual of a column under its name.
    pub(super) fn residual_of(&self, column: &Column) -> Column {
        Column { name: column.name.clone(), values: Values::Continuous(self.residual()) }
    }
}

/// Predicts the continuous columns among `targets` in all rows from `given`, by regressions on
/// training rows; `None` for categories.
///
/// Each column is predicted on two scales, standardised and as normal scores, by several bases of
/// functions of the given columns: the columns themselves, waves along all of them together and along
/// each, waves along the few that predict best, and waves along the directions in which the best of
/// these fits varies most. Cross-validation on the training rows chooses scale, basis and penalty.
pub(super) fn predict(
    targets: &[Column],
    given: &[Column],
    train: &[u32],
    seed: u64,
    tick: Tick,
) -> Result<Vec<Option<Prediction>>> {
    let train = &thinned(train, MAX_ROWS);
    let (scaler, inputs) = scaled_inputs(given, train, tick)?;
    let mut scaled = Vec::new();
    for column in targets {
        if let Values::Continuous(_) = column.values {
            for scaling in SCALINGS {
                scaled.push(scaled_column(column, train, scaling, tick)?);
            }
        }
    }
    let values = DMatrix::from_fn(train.len(), scaled.len(), |i, k| scaled[k][train[i] as usize]);
    let mut rng = stream(seed, Purpose::Parameters, u64::MAX, 0);
    let fits = fit(&inputs, &values, &mut rng, tick)?;
    let mut predictions = Vec::new();
    let mut next = scaled.into_iter().zip(fits).enumerate();
    for column in targets {
        if let Values::Discrete { .. } = column.values {
            predictions.push(None);
            continue;
        }
        let both = next.by_ref().take(SCALINGS.len());
        let better = both.max_by(|a, b| a.1.1.explained.total_cmp(&b.1.1.explained));
        let Some((target, (scaled, fit))) = better else { break };
        let value = values.columns(target, 1).into_owned();
        let fit = refine(fit, &inputs, &value, &mut rng, tick)?;
        let (mean, explained) = (fit.apply(&scaler, given, tick)?, fit.explained);
        let mut along = fit.along_directions(&inputs, &scaler, given, tick)?;
        if along.is_empty() && explained > 0.0 {
            along.push(mean.clone());
        }
        predictions.push(Some(Prediction { scaled, mean, explained, along, spread: None }));
    }
    Ok(predictions)
}

/// Predicts columns as [`predict`] does, and also the spread of their residuals: ln |residual| is
/// predicted like a column.
pub(super) fn predict_with_spread(
    targets: &[Column],
    given: &[Column],
    train: &[u32],
    seed: u64,
    tick: Tick,
) -> Result<Vec<Option<Prediction>>> {
    let mut predictions = predict(targets, given, train, seed, tick)?;
    let train = &thinned(train, MAX_ROWS);
    let sizes: Vec<DVector<f64>> =
        predictions.iter().flatten().map(|found| found.log_sizes(train)).collect();
    if sizes.is_empty() {
        return Ok(predictions);
    }
    let (scaler, inputs) = scaled_inputs(given, train, tick)?;
    let values = DMatrix::from_columns(&sizes);
    let mut rng = stream(seed, Purpose::Parameters, u64::MAX, 1);
    let fits = fit(&inputs, &values, &mut rng, tick)?;
    for (target, (prediction, fit)) in predictions.iter_mut().flatten().zip(fits).enumerate() {
        if fit.explained < min_explained(train.len()) {
            continue;
        }
        let value = values.columns(target, 1).into_owned();
        let fit = refine(fit, &inputs, &value, &mut rng, tick)?;
        let limited = |log: f64| (log - fit.mean).clamp(-MAX_LOG_SPREAD, MAX_LOG_SPREAD);
        let log = fit.apply(&scaler, given, tick)?.into_iter().map(limited).collect();
        let along = fit.along_directions(&inputs, &scaler, given, tick)?;
        prediction.spread = Some(Spread { log, along });
    }
    Ok(predictions)
}

/// Returns the given columns along the directions in which the mean and the spread of a column vary
/// most where `others` are known too, in every row; none for a category. What others tell would
/// otherwise be noise that hides these directions.
pub(super) fn directions_beside(
    others: &[Column],
    target: &Column,
    given: &[Column],
    train: &[u32],
    seed: u64,
    tick: Tick,
) -> Result<Vec<Vec<f64>>> {
    let train = &thinned(train, MAX_ROWS);
    let (scaler, of_given) = scaled_inputs(given, train, tick)?;
    let (_, of_others) = scaled_inputs(others, train, tick)?;
    let (first, width) = (of_given.nrows(), of_given.nrows() + of_others.nrows());
    if !matches!(target.values, Values::Continuous(_)) || width > MAX_INPUTS_OF_DIRECTIONS {
        return Ok(Vec::new());
    }
    let mut inputs = of_given.resize_vertically(width, 0.0);
    inputs.rows_mut(first, of_others.nrows()).copy_from(&of_others);
    let scaled = scaled_column(target, train, Scaling::Gaussian, tick)?;
    let mut value = DMatrix::from_fn(train.len(), 1, |i, _| scaled[train[i] as usize]);
    let mut rng = stream(seed, Purpose::Parameters, u64::MAX, 2);
    let mut found = Vec::new();
    // First the mean, then the spread of its residuals.
    for _ in 0..2 {
        let fit = fit(&inputs, &value, &mut rng, tick)?.remove(0);
        let fit = refine(fit, &inputs, &value, &mut rng, tick)?;
        // Every input has a gradient by chance. Most may be along the others.
        let gradients = gradients(&fit, &inputs);
        let share = gradients.rows(0, first).norm_squared() / gradients.norm_squared();
        let by_chance = 4.0 * first as f64 / train.len() as f64;
        if fit.explained >= min_explained(train.len()) && share > by_chance {
            let directions = directions(&fit, &inputs, first);
            found.extend(along(&directions, &scaler, given, tick)?);
        }
        let residuals = value.column(0) - fit.values(&inputs);
        value = DMatrix::from_columns(&[log_sizes(residuals.as_slice())]);
    }
    Ok(found)
}

/// Returns the share of a variance from which this many rows show that it is not explained by chance.
fn min_explained(rows: usize) -> f64 {
    10.0 / rows.max(1) as f64
}

/// Returns ln |residual|. A part of the root mean square is added, so that residuals that happen to be
/// close to 0 do not decide.
fn log_sizes(residuals: &[f64]) -> DVector<f64> {
    let squares: f64 = residuals.iter().map(|value| value * value).sum();
    let least = 0.1 * (squares / residuals.len().max(1) as f64).sqrt();
    let least = least.max(f64::MIN_POSITIVE);
    let sizes = residuals.iter().map(|value| (value.abs() + least).ln());
    DVector::from_iterator(residuals.len(), sizes)
}

/// Returns the scaling of the given columns, and the inputs of the training rows as the columns of a
/// matrix.
fn scaled_inputs(
    given: &[Column],
    train: &[u32],
    tick: Tick,
) -> Result<(SideScaler, DMatrix<f64>)> {
    let scaler = SideScaler::plain(given, train, Scaling::Gaussian, tick)?;
    let inputs = scaler.apply(given, train);
    let inputs = DMatrixView::from_slice(&inputs, scaler.width(), train.len()).map(f64::from);
    Ok((scaler, inputs))
}

fn scaled_column(column: &Column, train: &[u32], scaling: Scaling, tick: Tick) -> Result<Vec<f64>> {
    let side = std::slice::from_ref(column);
    let scaler = SideScaler::plain(side, train, scaling, tick)?;
    let all: Vec<u32> = (0..column.len() as u32).collect();
    Ok(scaler.apply_continuous(side, &all).into_iter().map(f64::from).collect())
}

/// Functions of the inputs s: the inputs themselves and waves cos(w . s + b).
#[derive(Clone)]
struct Basis {
    /// The frequencies w, one column for each wave.
    frequencies: DMatrix<f64>,
    phases: Vec<f64>,
}

impl Basis {
    fn linear(inputs: usize) -> Self {
        Basis { frequencies: DMatrix::zeros(inputs, 0), phases: Vec::new() }
    }

    /// Returns waves along combinations of the directions, the columns of a matrix.
    fn waves(directions: &DMatrix<f64>, count: usize, rng: &mut Rng) -> Self {
        let weights =
            DMatrix::from_fn(directions.ncols(), count, |_, _| StandardNormal.sample(rng));
        let mut basis = Basis { frequencies: directions * weights, phases: Vec::new() };
        basis.finish(rng);
        basis
    }

    /// Returns waves along single inputs out of `inputs`, in turn.
    fn along_axes(inputs: usize, axes: &[usize], count: usize, rng: &mut Rng) -> Self {
        let frequencies =
            DMatrix::from_fn(inputs, count, |input, wave| match axes[wave % axes.len()] == input {
                true => StandardNormal.sample(rng),
                false => 0.0,
            });
        let mut basis = Basis { frequencies, phases: Vec::new() };
        basis.finish(rng);
        basis
    }

    /// Draws a scale and a phase for each wave.
    fn finish(&mut self, rng: &mut Rng) {
        let [short, long] = SCALES.map(f64::ln);
        for mut frequency in self.frequencies.column_iter_mut() {
            frequency /= rng.random_range(short..long).exp();
            self.phases.push(rng.random_range(0.0..TAU));
        }
    }

    /// Returns the functions of each row; inputs are the columns of a matrix.
    fn apply(&self, inputs: &DMatrix<f64>) -> DMatrix<f64> {
        let ((width, rows), waves) = (inputs.shape(), self.phases.len());
        let mut functions = inputs.transpose().resize_horizontally(width + waves, 0.0);
        let (inputs, mut waves) = functions.columns_range_pair_mut(..width, width..width + waves);
        waves.gemm(1.0, &inputs, &self.frequencies, 0.0);
        let columns = functions.as_mut_slice().chunks_exact_mut(rows.max(1)).skip(width);
        columns.zip(&self.phases).for_each(|(wave, phase)| cosines(wave, *phase));
        functions
    }
}

/// A regression on a basis: mean + sum_k coefficient_k (function_k - center_k).
struct Fit {
    basis: Basis,
    centers: DVector<f64>,
    coefficients: DVector<f64>,
    mean: f64,
    explained: f64,
}

impl Fit {
    /// Returns the prediction for every row.
    fn apply(&self, scaler: &SideScaler, given: &[Column], tick: Tick) -> Result<Vec<f64>> {
        let rows = given.first().map_or(0, Column::len) as u32;
        if self.explained <= 0.0 {
            return Ok(vec![self.mean; rows as usize]);
        }
        let mut predictions = Vec::with_capacity(rows as usize);
        for_chunks(scaler, given, tick, |inputs| predictions.extend(self.values(&inputs).iter()))?;
        Ok(predictions)
    }

    /// Returns the prediction for each row; inputs are the columns of a matrix.
    fn values(&self, inputs: &DMatrix<f64>) -> DVector<f64> {
        let offset = self.mean - self.centers.dot(&self.coefficients);
        (self.basis.apply(inputs) * &self.coefficients).add_scalar(offset)
    }

    /// Returns the inputs of every row along the directions in which the fit varies most.
    fn along_directions(
        &self,
        train: &DMatrix<f64>,
        scaler: &SideScaler,
        given: &[Column],
        tick: Tick,
    ) -> Result<Vec<Vec<f64>>> {
        if self.explained <= 0.0 || train.nrows() > MAX_INPUTS_OF_DIRECTIONS {
            return Ok(Vec::new());
        }
        along(&directions(self, train, train.nrows()), scaler, given, tick)
    }
}

/// Returns the given columns of every row along directions, the columns of a matrix.
fn along(
    directions: &DMatrix<f64>,
    scaler: &SideScaler,
    given: &[Column],
    tick: Tick,
) -> Result<Vec<Vec<f64>>> {
    let mut along = vec![Vec::new(); directions.ncols()];
    for_chunks(scaler, given, tick, |inputs| {
        let projected = inputs.transpose() * directions;
        for (values, column) in along.iter_mut().zip(projected.column_iter()) {
            values.extend(column.iter());
        }
    })?;
    Ok(along)
}

/// Calls a function with the inputs of all rows, some at a time; inputs are the columns of a matrix.
fn for_chunks(
    scaler: &SideScaler,
    given: &[Column],
    tick: Tick,
    mut with: impl FnMut(DMatrix<f64>),
) -> Result<()> {
    let all: Vec<u32> = (0..given.first().map_or(0, Column::len) as u32).collect();
    for chunk in all.chunks(CHUNK_ROWS) {
        tick()?;
        let inputs = scaler.apply(given, chunk);
        with(DMatrixView::from_slice(&inputs, scaler.width(), chunk.len()).map(f64::from));
    }
    Ok(())
}

/// Fits every target, a column of `values`, on the basis that predicts it best.
fn fit(
    inputs: &DMatrix<f64>,
    values: &DMatrix<f64>,
    rng: &mut Rng,
    tick: Tick,
) -> Result<Vec<Fit>> {
    let (width, rows) = inputs.shape();
    let count = wave_count(rows);
    let every = DMatrix::identity(width, width) / (width.max(1) as f64).sqrt();
    let mut bases = vec![Basis::linear(width), Basis::waves(&every, count, rng)];
    if width > 1 {
        let all: Vec<usize> = (0..width).collect();
        bases.push(Basis::along_axes(width, &all, count, rng));
    }
    let mut best: Vec<Option<Fit>> = (0..values.ncols()).map(|_| None).collect();
    for basis in bases {
        for (best, fit) in best.iter_mut().zip(fit_on(basis, inputs, values, tick)?) {
            if best.as_ref().is_none_or(|best| fit.explained > best.explained) {
                *best = Some(fit);
            }
        }
    }
    Ok(best.into_iter().flatten().collect())
}

fn wave_count(rows: usize) -> usize {
    MAX_WAVES.min(rows / 4)
}

/// Fits a target again along the inputs that predict it best, and along the directions in which its
/// fit varies most, as long as that is better.
fn refine(
    mut fit: Fit,
    inputs: &DMatrix<f64>,
    value: &DMatrix<f64>,
    rng: &mut Rng,
    tick: Tick,
) -> Result<Fit> {
    let (width, rows) = inputs.shape();
    if !(FEW_INPUTS + 1..=MAX_INPUTS_OF_DIRECTIONS).contains(&width) {
        return Ok(fit);
    }
    let ranking = ranking(inputs, value, rng, tick)?;
    for best in BEST_INPUTS.map(|count| &ranking[..count]) {
        let count = wave_count(rows).min(best.len() * WAVES_OF_ONE);
        let basis = Basis::along_axes(width, best, count, rng);
        let refined = fit_on(basis, inputs, value, tick)?.remove(0);
        if refined.explained > fit.explained {
            fit = refined;
        }
    }
    for _ in 0..REFINEMENTS {
        if fit.explained <= 0.0 {
            break;
        }
        let before = fit.explained;
        let found = directions(&fit, inputs, width);
        fit = better_along(fit, &found, inputs, value, rng, tick)?;
        let found = directions(&fit, inputs, width);
        if let Some(corrected) = corrected_directions(&fit, &found, inputs, value) {
            fit = better_along(fit, &corrected, inputs, value, rng, tick)?;
        }
        if fit.explained <= before {
            break;
        }
    }
    Ok(fit)
}

/// Returns a fit on waves along these directions, or the fit before if that is better.
fn better_along(
    before: Fit,
    directions: &DMatrix<f64>,
    inputs: &DMatrix<f64>,
    value: &DMatrix<f64>,
    rng: &mut Rng,
    tick: Tick,
) -> Result<Fit> {
    let basis = Basis::waves(directions, wave_count(inputs.ncols()), rng);
    let refined = fit_on(basis, inputs, value, tick)?.remove(0);
    Ok(if refined.explained > before.explained { refined } else { before })
}

/// Returns the directions after a Gauss-Newton step: if the mean is m(d's), then a small change c of d
/// changes it by m'(d's) c's, so c is a regression of what is left on m'(d's) s.
fn corrected_directions(
    fit: &Fit,
    directions: &DMatrix<f64>,
    inputs: &DMatrix<f64>,
    value: &DMatrix<f64>,
) -> Option<DMatrix<f64>> {
    let (width, rows) = inputs.shape();
    let slopes = directions.transpose() * gradients(fit, inputs);
    let functions = DMatrix::from_fn(rows, width * directions.ncols(), |row, k| {
        slopes[(k / width, row)] * inputs[(k % width, row)]
    });
    let left = DMatrix::from_columns(&[value.column(0) - fit.values(inputs)]);
    let transposed = functions.transpose();
    let change = solve(&transposed * &functions, &transposed * left, STEP_PENALTY * rows as f64)?;
    let mut corrected = directions.clone();
    for (k, mut direction) in corrected.column_iter_mut().enumerate() {
        direction += change.view((k * width, 0), (width, 1));
        direction.normalize_mut();
    }
    Some(corrected)
}

/// Returns all inputs, first the one that predicts the target best alone.
fn ranking(
    inputs: &DMatrix<f64>,
    value: &DMatrix<f64>,
    rng: &mut Rng,
    tick: Tick,
) -> Result<Vec<usize>> {
    let step = inputs.ncols().div_ceil(MAX_RANKING_ROWS).max(1);
    let rows: Vec<usize> = (0..inputs.ncols()).step_by(step).collect();
    let value = value.select_rows(&rows);
    let mut explained = Vec::new();
    for input in inputs.row_iter() {
        let alone = input.select_columns(&rows);
        let alone = DMatrix::from_row_slice(1, rows.len(), alone.as_slice());
        let basis = Basis::along_axes(1, &[0], wave_count(rows.len()).min(WAVES_OF_ONE), rng);
        explained.push(fit_on(basis, &alone, &value, tick)?.remove(0).explained);
    }
    let mut order: Vec<usize> = (0..explained.len()).collect();
    order.sort_by(|a, b| explained[*b].total_cmp(&explained[*a]));
    Ok(order)
}

/// Returns the directions in which a fit varies most along its first inputs: the main axes of E[g g'] with
/// its gradient g, without those that account for little of its trace.
fn directions(fit: &Fit, inputs: &DMatrix<f64>, first: usize) -> DMatrix<f64> {
    let gradients = gradients(fit, inputs).rows(0, first).into_owned();
    let eigen = SymmetricEigen::new(&gradients * gradients.transpose());
    let mut order: Vec<usize> = (0..first).collect();
    order.sort_by(|a, b| eigen.eigenvalues[*b].total_cmp(&eigen.eigenvalues[*a]));
    let least = MIN_DIRECTION * eigen.eigenvalues.sum();
    let (first, others) = order.split_at(1);
    let others = others.iter().filter(|&&k| eigen.eigenvalues[k] >= least);
    let axes = first.iter().chain(others).take(DIRECTIONS);
    let axes = axes.map(|&k| eigen.eigenvectors.column(k).into_owned());
    DMatrix::from_columns(&axes.collect::<Vec<_>>())
}

/// Returns the gradient of a fit in each row, as the columns of a matrix.
fn gradients(fit: &Fit, inputs: &DMatrix<f64>) -> DMatrix<f64> {
    let Basis { frequencies, phases } = &fit.basis;
    let width = inputs.nrows();
    let mut slopes = frequencies.transpose() * inputs;
    for mut column in slopes.column_iter_mut() {
        column.iter_mut().zip(phases).for_each(|(value, phase)| *value += phase);
        // sin a = cos(a - pi / 2)
        cosines(column.as_mut_slice(), -FRAC_PI_2);
        let coefficients = fit.coefficients.iter().skip(width);
        column.iter_mut().zip(coefficients).for_each(|(value, factor)| *value *= -factor);
    }
    let mut gradients = frequencies * slopes;
    for mut gradient in gradients.column_iter_mut() {
        gradient += fit.coefficients.rows(0, width);
    }
    gradients
}

/// A part of the rows: functions, targets, and their products.
struct RowPart {
    functions: DMatrix<f64>,
    targets: DMatrix<f64>,
    gram: DMatrix<f64>,
    cross: DMatrix<f64>,
}

/// Fits all targets on one basis, each with the penalty that predicts it best in the parts of the
/// rows that are left out in turn.
fn fit_on(
    basis: Basis,
    inputs: &DMatrix<f64>,
    values: &DMatrix<f64>,
    tick: Tick,
) -> Result<Vec<Fit>> {
    let (functions, centers) = centred(basis.apply(inputs));
    let (targets, means) = centred(values.clone());
    let rows = functions.nrows();
    let mut parts = Vec::new();
    for k in 0..PARTS {
        tick()?;
        let (start, end) = (rows * k / PARTS, rows * (k + 1) / PARTS);
        let functions = functions.rows(start, end - start).into_owned();
        let targets = targets.rows(start, end - start).into_owned();
        let transposed = functions.transpose();
        let (gram, cross) = (&transposed * &functions, &transposed * &targets);
        parts.push(RowPart { functions, targets, gram, cross });
    }
    let (width, count) = (functions.ncols(), targets.ncols());
    let gram = parts.iter().fold(DMatrix::zeros(width, width), |sum, part| sum + &part.gram);
    let cross = parts.iter().fold(DMatrix::zeros(width, count), |sum, part| sum + &part.cross);
    // The squared errors of each penalty (row) and target (column).
    let mut errors = DMatrix::<f64>::zeros(PENALTIES.len(), count);
    for part in &parts {
        for (k, penalty) in PENALTIES.iter().enumerate() {
            tick()?;
            let (others, right) = (&gram - &part.gram, &cross - &part.cross);
            let wrong = match solve(others, right, penalty * rows as f64) {
                Some(coefficients) => &part.functions * coefficients - &part.targets,
                None => part.targets.clone(),
            };
            for (target, column) in wrong.column_iter().enumerate() {
                errors[(k, target)] += column.norm_squared();
            }
        }
    }
    let fit = |target: usize| {
        let (k, error): (usize, f64) = errors.column(target).argmin();
        let total: f64 = targets.column(target).norm_squared();
        let right = cross.columns(target, 1).into_owned();
        let coefficients = solve(gram.clone(), right, PENALTIES[k] * rows as f64)
            .map_or_else(|| DVector::zeros(width), |solution| solution.column(0).into_owned());
        Fit {
            basis: basis.clone(),
            centers: centers.clone(),
            coefficients,
            mean: means[target],
            explained: if total > 0.0 { (1.0 - error / total).max(0.0) } else { 0.0 },
        }
    };
    Ok((0..count).map(fit).collect())
}

/// Returns a matrix with the means of its columns subtracted, and these means.
fn centred(mut matrix: DMatrix<f64>) -> (DMatrix<f64>, DVector<f64>) {
    let means = matrix.row_mean().transpose();
    for (mut column, mean) in matrix.column_iter_mut().zip(means.iter()) {
        column.add_scalar_mut(-mean);
    }
    (matrix, means)
}

/// Solves (gram + penalty) coefficients = cross; `None` if that is not possible.
fn solve(mut gram: DMatrix<f64>, cross: DMatrix<f64>, penalty: f64) -> Option<DMatrix<f64>> {
    for k in 0..gram.nrows() {
        gram[(k, k)] += penalty;
    }
    factorise(&mut gram)?;
    let (factor, mut solution) = (gram, cross);
    factor.solve_lower_triangular_mut(&mut solution);
    factor.tr_solve_lower_triangular_mut(&mut solution);
    Some(solution)
}

/// Replaces the lower triangle of a symmetric matrix by its Cholesky factor; `None` if the matrix is not
/// positive definite. Blocks of columns make most of it matrix products, which is several times as fast
/// as nalgebra's factorisation for the usual 200 columns.
fn factorise(matrix: &mut DMatrix<f64>) -> Option<()> {
    const BLOCK: usize = 32;
    let size = matrix.nrows();
    for start in (0..size).step_by(BLOCK) {
        let end = (start + BLOCK).min(size);
        let (before, mut block) = matrix.columns_range_pair_mut(..start, start..end);
        let rows = before.rows(start, size - start);
        let transposed = before.rows(start, end - start).transpose();
        block.rows_mut(start, size - start).gemm(-1.0, &rows, &transposed, 1.0);
        for (k, row) in (start..end).enumerate() {
            for earlier in 0..k {
                let factor = block[(row, earlier)];
                let (earlier, mut column) = block.columns_range_pair_mut(earlier, k);
                column.rows_mut(row, size - row).axpy(-factor, &earlier.rows(row, size - row), 1.0);
            }
            let pivot = block[(row, k)];
            if !(pivot > 0.0 && pivot.is_finite()) {
                return None;
            }
            block.column_mut(k).rows_mut(row, size - row).scale_mut(1.0 / pivot.sqrt());
        }
    }
    Some(())
}

/// Replaces each angle by the cosine of the angle and a phase. The error is below 1e-11.
#[multiversion(targets("x86_64+avx512f+avx512dq+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn cosines(angles: &mut [f64], phase: f64) {
    // The Taylor series of cos: (-1)^k / (2k)!, for angles between -pi and pi.
    const TERMS: [f64; 13] = {
        let mut terms = [1.0; 13];
        let mut k = 1;
        while k < terms.len() {
            terms[k] = -terms[k - 1] / ((2 * k - 1) * 2 * k) as f64;
            k += 1;
        }
        terms
    };
    for angle in angles {
        let turns = (*angle + phase) / TAU;
        let reduced = TAU * (turns - turns.round_ties_even());
        let square = reduced * reduced;
        let mut sum = TERMS[12];
        for term in TERMS.iter().rev().skip(1) {
            sum = sum * square + term;
        }
        *angle = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(values: Vec<f64>) -> Column {
        Column { name: "v".into(), values: Values::Continuous(values) }
    }

    /// Returns the explained share of f(z) + noise of variance 1/4, for `columns` given columns.
    fn explained(columns: usize, rows: usize, f: impl Fn(&[f64]) -> f64) -> f64 {
        let mut rng = stream(5, Purpose::Data, 0, 0);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let z: Vec<Vec<f64>> =
            (0..rows).map(|_| (0..columns).map(|_| normal()).collect()).collect();
        let y = z.iter().map(|z| f(z) + 0.5 * normal()).collect();
        let given: Vec<Column> =
            (0..columns).map(|k| numbers(z.iter().map(|z| z[k]).collect())).collect();
        let train: Vec<u32> = (0..rows as u32 / 2).collect();
        let prediction = predict(&[numbers(y)], &given, &train, 0, &|| Ok(())).unwrap().remove(0);
        let prediction = prediction.expect("a continuous column");
        // Rows that the regression has not seen confirm the share.
        let residual = prediction.residual();
        let square = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            values.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
        };
        let half = rows / 2;
        let held_out = 1.0 - square(&residual[half..]) / square(&prediction.scaled[half..]);
        assert!(
            (held_out - prediction.explained).abs() < 0.1,
            "{held_out} {}",
            prediction.explained
        );
        held_out
    }

    /// The fast functions equal those of the standard library and of nalgebra.
    #[test]
    fn cosines_and_factors_are_those_of_slow_functions() {
        let angles: Vec<f64> = (-4000..4000).map(|k| f64::from(k) * 0.0317).collect();
        let mut fast = angles.clone();
        cosines(&mut fast, 0.7);
        for (fast, angle) in fast.iter().zip(&angles) {
            assert!((fast - (angle + 0.7).cos()).abs() < 1e-11, "{angle}");
        }
        let mut rng = stream(1, Purpose::Data, 0, 0);
        for size in [1, 7, 32, 33, 100] {
            let factor: DMatrix<f64> =
                DMatrix::from_fn(size, size + 3, |_, _| StandardNormal.sample(&mut rng));
            let gram = &factor * factor.transpose();
            let cross = DMatrix::from_fn(size, 2, |_, _| StandardNormal.sample(&mut rng));
            let expected =
                (&gram + DMatrix::identity(size, size)).cholesky().unwrap().solve(&cross);
            let solution = solve(gram.clone(), cross.clone(), 1.0).unwrap();
            assert!((solution - expected).amax() < 1e-9, "{size} columns");
            assert!(solve(-gram, cross, 1e-3).is_none());
        }
    }

    #[test]
    fn smooth_and_oscillating_means_are_found() {
        assert!(explained(1, 2000, |z| z[0]) > 0.75);
        assert!(explained(1, 2000, |z| 1.41 * (5.0 * z[0]).sin()) > 0.7);
        assert!(explained(5, 2000, |z| 1.41 * (3.0 * z[1]).sin()) > 0.6);
        assert!(explained(3, 4000, |z| z[0] * z[1]) > 0.6);
        assert!(explained(5, 700, |z| 1.41 * (4.0 * z[1]).sin()) > 0.6);
        assert!(explained(20, 800, |z| 1.41 * (4.0 * z[7]).sin()) > 0.5);
    }

    /// One direction among many columns, along which the mean is not monotonic.
    #[test]
    fn a_direction_among_many_columns_is_found() {
        let f = |z: &[f64]| 2.0 * (z.iter().sum::<f64>() / (z.len() as f64).sqrt() + 0.5).cos();
        assert!(explained(20, 8000, f) > 0.6);
    }

    /// The noise level depends on one of the given columns.
    #[test]
    fn the_spread_of_residuals_is_predicted() {
        let rows = 3000;
        let mut rng = stream(6, Purpose::Data, 0, 0);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let given: Vec<Column> =
            (0..6).map(|_| numbers((0..rows).map(|_| normal()).collect())).collect();
        let Values::Continuous(level) = given[2].values.clone() else { unreachable!() };
        let mut noise = || -> Vec<f64> { (0..rows).map(|_| normal()).collect() };
        let varying = noise().iter().zip(&level).map(|(e, z)| z + e * (0.5 * z).exp()).collect();
        let targets = [numbers(varying), numbers(noise())];
        let train: Vec<u32> = (0..rows as u32 / 2).collect();
        let found = predict_with_spread(&targets, &given, &train, 0, &|| Ok(())).unwrap();
        let [Some(varying), Some(constant)] = &found[..] else { panic!("continuous columns") };
        assert!(constant.spread.is_none());
        // In rows that the regression has not seen, the residual's size no longer depends on z.
        let slope = |residual: Vec<f64>| {
            let held_out = rows / 2..rows;
            let sizes = held_out.map(|row| (residual[row].abs().max(1e-3).ln(), level[row]));
            let (products, squares) =
                sizes.fold((0.0, 0.0), |(p, s), (l, z)| (p + l * z, s + z * z));
            products / squares
        };
        let (before, after) = (slope(varying.difference()), slope(varying.residual()));
        assert!(before > 0.2 && after.abs() < 0.05, "{before} {after}");
    }

    #[test]
    fn nothing_is_predicted_from_unrelated_columns() {
        assert!(explained(10, 1000, |_| 0.0).abs() < 0.05);
    }
}

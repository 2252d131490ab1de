//! A Gaussian model of (x, y) fitted by canonical correlations.

use crate::critic::Reference;
use crate::error::Result;
use crate::nats::Nats;
use crate::parallel::{Tick, run_detached};
use nalgebra::{DMatrix, DVector, SymmetricEigen};
use serde::{Deserialize, Serialize};

/// The maximum squared correlation, which keeps log ratios finite.
const MAX_SQUARED_CORRELATION: f64 = 1.0 - 1e-6;

/// The number of rows in one matrix product of a covariance.
const CHUNK_ROWS: usize = 1024;

/// The maximum number of multiplications in one matrix product between two checks.
const MAX_PRODUCT: usize = 2_000_000_000;

/// The maximum size of a matrix that is decomposed without checks, in about a tenth of a second.
const MAX_UNCHECKED_SIZE: usize = 300;

/// A Gaussian model of (x, y) by its canonical correlations: u = U (x - mean) and v = V (y - mean)
/// have unit variances, and u_k depends only on v_k, with correlation rho_k. Then
///
/// I = -1/2 sum_k ln(1 - rho_k^2)
///
/// Fitted to normal scores it is the Gaussian copula. Sample correlations are biased upwards: those
/// that independent data would give are dropped, the others are shrunk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CanonicalModel {
    x: Directions,
    y: Directions,
    rho: Vec<f64>,
}

/// The means of one side and its canonical directions, one row each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Directions {
    mean: Vec<f64>,
    rows: Vec<Vec<f64>>,
}

impl Directions {
    /// Returns component k of a row.
    fn project(&self, row: &[f32], k: usize) -> f64 {
        let centred = row.iter().zip(&self.mean).map(|(value, mean)| f64::from(*value) - mean);
        centred.zip(&self.rows[k]).map(|(value, weight)| value * weight).sum()
    }
}

impl Directions {
    /// Returns the same directions among `dim` columns, of which these are `columns`.
    fn among(self, dim: usize, columns: &[usize]) -> Self {
        let spread = |values: &[f64]| {
            let mut all = vec![0.0; dim];
            columns.iter().zip(values).for_each(|(&column, value)| all[column] = *value);
            all
        };
        Directions {
            mean: spread(&self.mean),
            rows: self.rows.iter().map(|row| spread(row)).collect(),
        }
    }
}

impl CanonicalModel {
    /// Fits the model to `x` and `y`, both row-major. If `strict`, correlations that independent
    /// data could give are dropped; otherwise they are only shrunk. An error of `tick`, which is
    /// called every fraction of a second, ends the computation.
    pub fn fit(
        x: &[f32],
        x_dim: usize,
        y: &[f32],
        y_dim: usize,
        strict: bool,
        tick: Tick,
    ) -> Result<Self> {
        let n = x.len() / x_dim.max(1);
        let scale = 1.0 / n.max(1) as f64;
        let (x_mean, y_mean) = (column_means(x, x_dim), column_means(y, y_dim));
        let mut model = CanonicalModel {
            x: Directions { mean: x_mean, rows: Vec::new() },
            y: Directions { mean: y_mean, rows: Vec::new() },
            rho: Vec::new(),
        };
        let (x_mean, y_mean) = (&model.x.mean, &model.y.mean);
        // As many directions as rows correlate perfectly by chance. The rank alone is found faster.
        if x_dim + y_dim >= n && rank(x, x_mean, n, tick)? + rank(y, y_mean, n, tick)? >= n {
            return Ok(model);
        }
        let (x_white, y_white) = (whitening(x, x_mean, n, tick)?, whitening(y, y_mean, n, tick)?);
        let (p, q) = (x_white.nrows() as f64 * scale, y_white.nrows() as f64 * scale);
        if x_white.nrows() == 0 || y_white.nrows() == 0 {
            return Ok(model);
        }
        let covariance = covariance((x, x_mean), (y, y_mean), tick)? * scale;
        let decompose = move || {
            let cross = &x_white * covariance * y_white.transpose();
            let svd = cross.svd(true, true);
            let (Some(left), Some(right)) = (svd.u, svd.v_t) else { return model };
            for (k, sample) in svd.singular_values.iter().enumerate() {
                let squared = sample.powi(2).min(MAX_SQUARED_CORRELATION);
                let Some(squared) = shrink(squared, p, q, n as f64, strict) else { continue };
                model.rho.push(squared.sqrt());
                let row = |matrix: DMatrix<f64>| matrix.iter().copied().collect::<Vec<f64>>();
                model.x.rows.push(row(left.columns(k, 1).transpose() * &x_white));
                model.y.rows.push(row(right.rows(k, 1) * &y_white));
            }
            model
        };
        run_algebra(x_dim.max(y_dim), decompose, tick)
    }

    /// Fits the model to the columns that are correlated with a column of the other side, by more
    /// than chance: few directions among many columns are estimated badly from few rows. Returns
    /// `None` if that is true of all columns. `tick`: see [`fit`](Self::fit).
    pub fn fit_screened(
        x: &[f32],
        x_dim: usize,
        y: &[f32],
        y_dim: usize,
        tick: Tick,
    ) -> Result<Option<Self>> {
        let [x_columns, y_columns] = correlated_columns(x, x_dim, y, y_dim, tick)?;
        if x_columns.len() == x_dim && y_columns.len() == y_dim {
            return Ok(None);
        }
        if x_columns.is_empty() || y_columns.is_empty() {
            let none = |dim: usize| Directions { mean: vec![0.0; dim], rows: Vec::new() };
            return Ok(Some(CanonicalModel { x: none(x_dim), y: none(y_dim), rho: Vec::new() }));
        }
        let pick = |data: &[f32], dim: usize, columns: &[usize]| -> Vec<f32> {
            data.chunks_exact(dim).flat_map(|row| columns.iter().map(|&k| row[k])).collect()
        };
        let few_x = pick(x, x_dim, &x_columns);
        let few_y = pick(y, y_dim, &y_columns);
        let (p, q) = (x_columns.len(), y_columns.len());
        let few = CanonicalModel::fit(&few_x, p, &few_y, q, true, tick)?;
        Ok(Some(CanonicalModel {
            x: few.x.among(x_dim, &x_columns),
            y: few.y.among(y_dim, &y_columns),
            rho: few.rho,
        }))
    }

    /// Returns I = -1/2 sum_k ln(1 - rho_k^2).
    pub fn mutual_information(&self) -> Nats {
        Nats(-0.5 * self.rho.iter().map(|rho| (1.0 - rho * rho).ln()).sum::<f64>())
    }

    /// Returns whether x and y are independent in this model.
    pub fn is_independent(&self) -> bool {
        self.rho.is_empty()
    }

    /// Returns the log density ratio as an inner product of features of x and of y; it is the sum
    /// over the components of
    ///
    /// -1/2 ln(1 - rho^2) - rho^2 (u^2 + v^2) / (2 (1 - rho^2)) + rho u v / (1 - rho^2)
    pub fn reference(&self, x: &[f32], y: &[f32]) -> Reference {
        if self.is_independent() {
            return Reference::default();
        }
        let constant = self.mutual_information().0;
        let side = |data: &[f32], directions: &Directions, is_x: bool| -> Vec<f32> {
            let mut rows = Vec::with_capacity((self.rho.len() + 2) * data.len());
            for row in data.chunks_exact(directions.mean.len()) {
                let mut quadratic = 0.0;
                for (k, rho) in self.rho.iter().enumerate() {
                    let u = directions.project(row, k);
                    let weight = rho / (1.0 - rho * rho);
                    quadratic -= 0.5 * rho * weight * u * u;
                    rows.push(if is_x { weight * u } else { u } as f32);
                }
                let ends = if is_x { [quadratic + constant, 1.0] } else { [1.0, quadratic] };
                rows.extend(ends.map(|value| value as f32));
            }
            rows
        };
        Reference {
            width: self.rho.len() + 2,
            x: side(x, &self.x, true),
            y: side(y, &self.y, false),
        }
    }
}

/// Estimates the true squared correlation from that of a sample, with p and q the dimensions
/// divided by the number of rows n. Returns `None` if p + q >= 1, or if `strict` and independent
/// data could give the sample value.
///
/// Independent data give squared canonical correlations up to the edge
/// (sqrt(p (1 - q)) + sqrt(q (1 - p)))^2. For a true value r, a sample value above it tends to
/// (r (1 - p) + p) (r (1 - q) + q) / r, which is solved for r. The margin above the edge, a few
/// standard errors, limits false positives in low dimensions.
fn shrink(sample: f64, p: f64, q: f64, n: f64, strict: bool) -> Option<f64> {
    if p + q >= 1.0 {
        return None;
    }
    let edge = ((p * (1.0 - q)).sqrt() + (q * (1.0 - p)).sqrt()).powi(2);
    if strict && sample <= 1.2 * edge + 3.0 / n {
        return None;
    }
    let (a, b, c) = ((1.0 - p) * (1.0 - q), q * (1.0 - p) + p * (1.0 - q) - sample, p * q);
    let discriminant = b * b - 4.0 * a * c;
    if discriminant > 0.0 && b < 0.0 {
        return Some(((-b + discriminant.sqrt()) / (2.0 * a)).clamp(0.0, MAX_SQUARED_CORRELATION));
    }
    (!strict).then_some(sample)
}

/// Returns the columns of x and of y that have a correlation of more than chance with a column of
/// the other side: r^2 > (2 ln(p q) + 4) / n, which the largest of p q independent correlations
/// rarely exceeds.
fn correlated_columns(
    x: &[f32],
    x_dim: usize,
    y: &[f32],
    y_dim: usize,
    tick: Tick,
) -> Result<[Vec<usize>; 2]> {
    let n = x.len() / x_dim.max(1);
    let (x, y) = (centred(x, &column_means(x, x_dim)), centred(y, &column_means(y, y_dim)));
    let norms = |data: &DMatrix<f64>| -> Vec<f64> {
        data.row_iter().map(|row| row.norm().max(f64::MIN_POSITIVE)).collect()
    };
    let (x_norms, y_norms) = (norms(&x), norms(&y));
    let threshold = (2.0 * ((x_dim * y_dim) as f64).ln() + 4.0) / n as f64;
    let (mut x_columns, mut y_found) = (Vec::new(), vec![false; y_dim]);
    let y = y.transpose();
    let block = (MAX_PRODUCT / (n * y_dim).max(1)).max(8);
    for start in (0..x_dim).step_by(block) {
        tick()?;
        let cross = x.rows(start, block.min(x_dim - start)) * &y;
        for (i, row) in (start..).zip(cross.row_iter()) {
            let correlated =
                |(r, norm): (&f64, &f64)| (r / (x_norms[i] * norm)).powi(2) > threshold;
            let found: Vec<bool> = row.iter().zip(&y_norms).map(correlated).collect();
            if found.contains(&true) {
                x_columns.push(i);
            }
            y_found.iter_mut().zip(found).for_each(|(any, found)| *any |= found);
        }
    }
    Ok([x_columns, (0..y_dim).filter(|&j| y_found[j]).collect()])
}

/// Returns the mean of every column.
fn column_means(data: &[f32], dim: usize) -> Vec<f64> {
    let mut sums = vec![0.0; dim];
    for row in data.chunks_exact(dim.max(1)) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    let n = (data.len() / dim.max(1)).max(1) as f64;
    sums.iter().map(|sum| sum / n).collect()
}

/// Returns the rows minus the means as the columns of a matrix.
fn centred(data: &[f32], mean: &[f64]) -> DMatrix<f64> {
    let values = data.iter().enumerate().map(|(k, v)| f64::from(*v) - mean[k % mean.len()]);
    DMatrix::from_iterator(mean.len(), data.len() / mean.len(), values)
}

/// Returns the sum over rows of the products of centred columns, from the data and means of two
/// sides.
fn covariance(x: (&[f32], &[f64]), y: (&[f32], &[f64]), tick: Tick) -> Result<DMatrix<f64>> {
    let (x_dim, y_dim) = (x.1.len(), y.1.len());
    let mut sum = DMatrix::zeros(x_dim, y_dim);
    for (x_rows, y_rows) in x.0.chunks(CHUNK_ROWS * x_dim).zip(y.0.chunks(CHUNK_ROWS * y_dim)) {
        tick()?;
        // The columns of these matrices are rows of the data.
        sum += centred(x_rows, x.1) * centred(y_rows, y.1).transpose();
    }
    Ok(sum)
}

/// Returns the covariance C = X X' / n of n rows of data, with X the centred data, one column for
/// each row; or X' X / n, which has the same positive eigenvalues, if that is smaller.
fn second_moments(data: &[f32], mean: &[f64], n: usize, tick: Tick) -> Result<DMatrix<f64>> {
    let scale = 1.0 / n.max(1) as f64;
    if mean.len() <= n {
        return Ok(covariance((data, mean), (data, mean), tick)? * scale);
    }
    let x = centred(data, mean);
    run_algebra(mean.len(), move || x.transpose() * &x * scale, tick)
}

/// Returns the number of directions in which the data vary.
fn rank(data: &[f32], mean: &[f64], n: usize, tick: Tick) -> Result<usize> {
    let moments = second_moments(data, mean, n, tick)?;
    let eigenvalues = run_algebra(n, move || moments.symmetric_eigenvalues(), tick)?;
    let largest = eigenvalues.max();
    Ok(eigenvalues.iter().filter(|value| is_direction(**value, largest)).count())
}

/// Returns whether data vary in the direction of an eigenvector, given its eigenvalue.
fn is_direction(eigenvalue: f64, largest: f64) -> bool {
    eigenvalue > 1e-6 * largest && eigenvalue > 0.0
}

/// Returns W with W C W' = 1 for the covariance C of the data, without the directions in which C
/// has almost no variance. With eigenvectors v of X' X / n, the rows of W are
/// v' X' / (sqrt(n) lambda).
fn whitening(data: &[f32], mean: &[f64], n: usize, tick: Tick) -> Result<DMatrix<f64>> {
    let moments = second_moments(data, mean, n, tick)?;
    if mean.len() <= n {
        return run_algebra(mean.len(), || directions(moments, f64::sqrt), tick);
    }
    let (x, root) = (centred(data, mean).transpose(), (n as f64).sqrt());
    run_algebra(mean.len(), move || directions(moments, |value| root * value) * x, tick)
}

/// Returns the eigenvectors of a symmetric matrix, one in each row, divided by a function of their
/// eigenvalues, without those whose eigenvalue is almost 0.
fn directions(matrix: DMatrix<f64>, divisor: impl Fn(f64) -> f64) -> DMatrix<f64> {
    let SymmetricEigen { eigenvalues, eigenvectors } = SymmetricEigen::new(matrix);
    let largest = eigenvalues.max();
    let rows: Vec<_> = eigenvalues
        .iter()
        .enumerate()
        .filter(|(_, value)| is_direction(**value, largest))
        .map(|(k, value)| DVector::from(eigenvectors.column(k)).transpose() / divisor(*value))
        .collect();
    if rows.is_empty() {
        return DMatrix::zeros(0, eigenvectors.nrows());
    }
    DMatrix::from_rows(&rows)
}

/// Runs a decomposition of matrices of this size: large ones take seconds without a check.
fn run_algebra<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
    tick: Tick,
) -> Result<T> {
    tick()?;
    if size > MAX_UNCHECKED_SIZE { run_detached(work, tick) } else { Ok(work()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::random::{Purpose, stream};
    use crate::scenario::{Level, ScenarioPlan};

    fn fit(x: &[f32], x_dim: usize, y: &[f32], y_dim: usize, strict: bool) -> CanonicalModel {
        CanonicalModel::fit(x, x_dim, y, y_dim, strict, &|| Ok(())).unwrap()
    }

    fn gaussian(dim: usize, mi: f64, n: usize) -> (Vec<f32>, Vec<f32>, Vec<f64>) {
        let scenario = ScenarioPlan::new("gaussian", dim).unwrap().at(Level::Mi(mi)).unwrap();
        let mut rng = stream(3, Purpose::Data, 0, 0);
        let (mut x, mut y, mut exact) = (Vec::new(), Vec::new(), Vec::new());
        let (mut x_row, mut y_row) = (Vec::new(), Vec::new());
        for _ in 0..n {
            exact.push(scenario.draw(&mut rng, &mut x_row, &mut y_row));
            x.extend(x_row.iter().map(|v| *v as f32));
            y.extend(y_row.iter().map(|v| *v as f32));
        }
        (x, y, exact)
    }

    /// The mutual information of d equal canonical correlations has a standard error of
    /// sqrt(d rho^2 / n), here .005; the tolerance is more than 5 of them (alpha of about 6e-7,
    /// fixed seed).
    #[test]
    fn estimates_the_mutual_information_and_log_ratio_of_gaussians() {
        let (d, n) = (3, 40_000);
        let (x, y, exact) = gaussian(d, 1.5, n);
        let model = fit(&x, d, &y, d, true);
        assert!((model.mutual_information().0 - 1.5).abs() < 0.035);
        let reference = model.reference(&x, &y);
        let worst = (0..2000)
            .map(|i| (f64::from(reference.log_ratio(i, i)) - exact[i]).abs())
            .fold(0.0, f64::max);
        assert!(worst < 0.5, "{worst}");
        let mean: f64 =
            (0..n).map(|i| f64::from(reference.log_ratio(i, i))).sum::<f64>() / n as f64;
        assert!((mean - 1.5).abs() < 0.035, "{mean}");
    }

    #[test]
    fn independent_data_have_almost_no_correlation() {
        for (d, n) in [(5, 500), (20, 2000), (50, 700)] {
            let (x, _, _) = gaussian(d, 1.0, n);
            let (y, _, _) = gaussian(d, 1.0, 2 * n);
            let model = fit(&x, d, &y[n * d..], d, true);
            assert!(model.mutual_information().0 < 0.05, "d = {d}: {:?}", model.rho);
            let loose = fit(&x, d, &y[n * d..], d, false);
            assert!(!loose.is_independent());
        }
    }

    /// Two dependent pairs among 30 + 30 columns and 400 rows: the screened model finds them.
    #[test]
    fn screening_keeps_the_correlated_columns() {
        let (d, n) = (30, 400);
        let (mut x, mut y, exact) = gaussian(2, 1.0, n);
        let widen = |few: &[f32], noise: &[f32]| -> Vec<f32> {
            let rows = few.chunks_exact(2).zip(noise.chunks_exact(d));
            rows.flat_map(|(few, noise)| [few, &noise[2..]].concat()).collect()
        };
        let (noise, _, _) = gaussian(d, 1.0, 3 * n);
        x = widen(&x, &noise[n * d..2 * n * d]);
        y = widen(&y, &noise[2 * n * d..]);
        let model = CanonicalModel::fit_screened(&x, d, &y, d, &|| Ok(())).unwrap().unwrap();
        assert_eq!(model.rho.len(), 2);
        let unrelated =
            CanonicalModel::fit_screened(&x, d, &noise[..n * d], d, &|| Ok(())).unwrap().unwrap();
        assert!(unrelated.is_independent());
        let mean = |model: &CanonicalModel| {
            let reference = model.reference(&x, &y);
            let error = |i: usize| (f64::from(reference.log_ratio(i, i)) - exact[i]).abs();
            (0..n).map(error).sum::<f64>() / n as f64
        };
        let full = fit(&x, d, &y, d, true);
        assert!(mean(&model) < 0.5 * mean(&full), "{} {}", mean(&model), mean(&full));
    }

    #[test]
    fn degenerate_columns_are_ignored() {
        let (x, y, _) = gaussian(1, 1.0, 1000);
        let twice: Vec<f32> = x.iter().flat_map(|v| [*v, 2.0 * *v, 7.0]).collect();
        let plain = fit(&x, 1, &y, 1, true).mutual_information().0;
        let doubled = fit(&twice, 3, &y, 1, true).mutual_information().0;
        assert!((plain - doubled).abs() < 1e-6, "{plain} {doubled}");
        let constant = fit(&vec![1.0; 1000], 1, &y, 1, true);
        assert!(constant.is_independent());
        let equal = fit(&x, 1, &x, 1, true).mutual_information().0;
        assert!(equal.is_finite() && equal > 5.0);
    }

    /// 300 columns that are weighted sums of 3 have no more to say than the 3, although they are
    /// more than the rows.
    #[test]
    fn more_columns_than_rows_are_reduced_to_their_directions() {
        let (n, d) = (200, 3);
        let (x, y, _) = gaussian(d, 1.5, n);
        let weights = |k: usize| [1.0, (k as f32).sin(), (k as f32 * 0.7).cos()];
        let sum = |row: &[f32], k| row.iter().zip(weights(k)).map(|(v, w)| v * w).sum::<f32>();
        let wide: Vec<f32> =
            x.chunks_exact(d).flat_map(|row| (0..300).map(|k| sum(row, k))).collect();
        let (few, many) = (fit(&x, d, &y, d, true), fit(&wide, 300, &y, d, true));
        assert_eq!(few.rho.len(), many.rho.len());
        let (few, many) = (few.reference(&x, &y), many.reference(&wide, &y));
        for row in 0..n {
            let difference = few.log_ratio(row, row) - many.log_ratio(row, row);
            assert!(difference.abs() < 1e-2, "{difference}");
        }
    }

    #[test]
    fn columns_of_full_rank_as_many_as_rows_show_nothing() {
        let (x, y, _) = gaussian(60, 1.5, 100);
        assert!(fit(&x, 60, &y, 60, false).is_independent());
        let (x, y, _) = gaussian(400, 1.5, 100);
        assert!(fit(&x, 400, &y, 400, false).is_independent());
    }

    #[test]
    fn a_failed_check_ends_the_computation() {
        let (x, y, _) = gaussian(400, 1.5, 100);
        let fail = || Err(Error::Interrupted);
        let fitted = CanonicalModel::fit(&x, 400, &y, 400, true, &fail);
        assert_eq!(fitted, Err(Error::Interrupted));
        assert_eq!(CanonicalModel::fit_screened(&x, 400, &y, 400, &fail), Err(Error::Interrupted));
    }
}

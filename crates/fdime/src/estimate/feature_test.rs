//! Tests of independence without critics, by correlations of features of all rows: of short series,
//! with circular shifts of one against the other, and of tables with few rows, with permutations.

use super::independence::{FIRST_PERMUTATIONS, IndependenceTest, MANY_AS_LARGE};
use super::progress::{Progress, check};
use super::serial::{Feature, features};
use crate::data::Column;
use crate::error::Result;
use crate::parallel::Tick;
use crate::random::{Purpose, stream};
use nalgebra::DMatrix;
use rand::seq::SliceRandom;

/// The maximum number of multiplications, which limits the number of shifts.
const MAX_COST: usize = 4_000_000_000;

/// The maximum number of rows whose similarities are stored.
const MAX_ROWS_OF_SIMILARITIES: usize = 5_000;

/// Tests whether x and y are independent, by correlations of their features over the whole series.
///
/// Critics trained on a part of a short series meet the same slow swings in the other part, and no
/// gap between the two is long enough. This test trains nothing: its statistic
///
/// T(s) = 1/2 sum_jk (w_j w_k c_jk(s))^2,   c_jk(s) = 1/n sum_i f_j(x_i) g_k(y_(i+s mod n))
///
/// is computed for the data, s = 0, in the same way as for every shift s. If y is stationary and
/// independent of x, all shifts are equally likely but for the one place where the end of y meets
/// its beginning, so the rank of T(0) is uniform for all autocorrelations. For that, near
/// shifts are as good as distant ones and must not be left out: where T is large by chance, it is
/// large at near shifts too. T is about the mutual information if that is small.
pub(super) fn shift_test(
    x: &[Column],
    y: &[Column],
    max_shifts: usize,
    progress: &dyn Progress,
) -> Result<IndependenceTest> {
    let of_side = |columns: &[Column]| features(columns, usize::MAX, || check(progress));
    let (of_x, of_y) = (of_side(x)?, of_side(y)?);
    let rows = x.first().map_or(0, Column::len);
    let tick = || check(progress);
    let series = Series::new(of_x, of_y, rows, &tick)?;
    let affordable = MAX_COST / series.cost().max(1);
    let shifts = max_shifts.min(rows.saturating_sub(1)).min(affordable.max(99));
    let observed = series.statistic(0, &tick)?;
    let mut null = Vec::with_capacity(shifts);
    for k in 1..=shifts {
        null.push(series.statistic(k * rows / (shifts + 1), &tick)?);
    }
    let at_least = null.iter().filter(|value| **value >= observed).count();
    Ok(IndependenceTest { p_value: (at_least + 1) as f64 / (shifts + 1) as f64, observed, null })
}

/// Tests whether the rows of x and y are independent, as [`shift_test`] does, with permutations of
/// the rows of y in place of shifts.
///
/// Critics see only some of the rows, and a permutation within folds moves only the test rows. This
/// test uses all rows at once and has nothing to learn, which makes it stronger if there are few rows.
/// It ends with `None` as soon as its p-value cannot be below `limit`.
pub(super) fn permutation_test(
    x: &[Column],
    y: &[Column],
    permutations: usize,
    limit: f64,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Option<IndependenceTest>> {
    let smallest_p = |at_least: usize| (at_least + 1) as f64 / (permutations + 1) as f64;
    if smallest_p(0) >= limit {
        return Ok(None);
    }
    let of_side = |columns: &[Column]| features(columns, usize::MAX, || check(progress));
    let rows = x.first().map_or(0, Column::len);
    let tick = || check(progress);
    let series = Series::new(of_side(x)?, of_side(y)?, rows, &tick)?;
    let observed = series.statistic(0, &tick)?;
    let mut rng = stream(seed, Purpose::Null, 3, 0);
    let mut order: Vec<usize> = (0..rows).collect();
    let (mut null, mut at_least) = (Vec::new(), 0);
    while null.len() < permutations
        && !(null.len() == FIRST_PERMUTATIONS && at_least >= MANY_AS_LARGE)
    {
        order.shuffle(&mut rng);
        let permuted = series.permuted_statistic(&order, &tick)?;
        // Equal values in another order may differ by rounding.
        at_least += usize::from(permuted >= observed * (1.0 - 1e-6));
        null.push(permuted);
        if smallest_p(at_least) >= limit {
            return Ok(None);
        }
    }
    let p_value = (at_least + 1) as f64 / (null.len() + 1) as f64;
    Ok(Some(IndependenceTest { p_value, observed, null }))
}

/// Two series, in the form from which the statistic is computed fastest.
enum Series {
    /// The features of x and of y.
    Features([Vec<Feature>; 2]),
    /// How similar every two rows are in the features of x and of y, A_ik = sum_j f_j(x_i) f_j(x_k)
    /// with weighted features. With B of y, T(s) is the sum of A_ik B_(i+s)(k+s) over i and k,
    /// divided by 2 n^2.
    Similarities([DMatrix<f32>; 2]),
}

impl Series {
    fn new(x: Vec<Feature>, y: Vec<Feature>, rows: usize, tick: Tick) -> Result<Self> {
        if x.len() * y.len() <= rows || rows > MAX_ROWS_OF_SIMILARITIES {
            return Ok(Series::Features([x, y]));
        }
        let similarities = |features: &[Feature]| -> Result<DMatrix<f32>> {
            let mut sum = DMatrix::zeros(rows, rows);
            for part in features.chunks(64) {
                tick()?;
                let value = |i: usize, j: usize| part[j].weight * part[j].values[i];
                let matrix = DMatrix::from_fn(rows, part.len(), value);
                sum += &matrix * matrix.transpose();
            }
            Ok(sum)
        };
        Ok(Series::Similarities([similarities(&x)?, similarities(&y)?]))
    }

    /// Returns the number of multiplications for one shift.
    fn cost(&self) -> usize {
        match self {
            Series::Features([x, y]) => x.first().map_or(0, |f| f.values.len()) * x.len() * y.len(),
            Series::Similarities([x, _]) => x.len(),
        }
    }

    /// Returns T(shift).
    fn statistic(&self, shift: usize, tick: Tick) -> Result<f64> {
        tick()?;
        Ok(match self {
            Series::Features([x, y]) => {
                let mut sum = 0.0;
                for f in x {
                    tick()?;
                    for g in y {
                        let products = shifted_dot(&f.values, &g.values, shift);
                        let n = f.values.len() as f64;
                        sum += (f64::from(f.weight * g.weight) * products / n).powi(2);
                    }
                }
                0.5 * sum
            }
            Series::Similarities([x, y]) => {
                let n = x.nrows();
                let (x, y) = (x.as_slice(), y.as_slice());
                let products = |i: usize| {
                    let k = (i + shift) % n;
                    shifted_dot(&x[i * n..(i + 1) * n], &y[k * n..(k + 1) * n], shift)
                };
                0.5 * (0..n).map(products).sum::<f64>() / (n as f64).powi(2)
            }
        })
    }
}

impl Series {
    /// Returns T with row i of x beside row `order[i]` of y.
    fn permuted_statistic(&self, order: &[usize], tick: Tick) -> Result<f64> {
        tick()?;
        let n = order.len() as f64;
        Ok(match self {
            Series::Features([x, y]) => {
                let mut sum = 0.0;
                for g in y {
                    tick()?;
                    let permuted: Vec<f32> = order.iter().map(|place| g.values[*place]).collect();
                    for f in x {
                        let products = dot(&f.values, &permuted);
                        sum += (f64::from(f.weight * g.weight) * products / n).powi(2);
                    }
                }
                0.5 * sum
            }
            Series::Similarities([x, y]) => {
                let mut sum = 0.0;
                for (i, place) in order.iter().enumerate() {
                    let (x, y) = (x.column(i), y.column(*place));
                    let terms = x.iter().zip(order).map(|(x, place)| f64::from(x * y[*place]));
                    sum += terms.sum::<f64>();
                }
                0.5 * sum / n.powi(2)
            }
        })
    }
}

/// Returns the sum of a_i b_(i+shift mod n).
fn shifted_dot(a: &[f32], b: &[f32], shift: usize) -> f64 {
    let (before, after) = a.split_at(a.len() - shift);
    dot(before, &b[shift..]) + dot(after, &b[..shift])
}

/// Returns the inner product, with partial sums that become vector code.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let (a_parts, a_rest) = a.as_chunks::<16>();
    let (b_parts, b_rest) = b.as_chunks::<16>();
    let mut sums = [0f32; 16];
    for (a, b) in a_parts.iter().zip(b_parts) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| f64::from(a * b));
    sums.iter().map(|sum| f64::from(*sum)).sum::<f64>() + rest.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::super::progress::NoProgress;
    use super::super::serial::tests::{autoregressive, numbers};
    use super::*;
    use crate::parallel::never;
    use crate::random::{Purpose, stream};

    /// Returns the p-value for y = correlation f(x) + rest, where x and the rest are series of 500
    /// rows.
    fn p_value(phi: f64, correlation: f64, f: fn(f64) -> f64, seed: u64) -> f64 {
        let mut rng = stream(seed, Purpose::Data, 0, 0);
        let [x, other] = [0, 1].map(|_| autoregressive(phi, 500, &mut rng));
        let rest = (1.0 - correlation * correlation).sqrt();
        let y = x.iter().zip(&other).map(|(x, other)| correlation * f(*x) + rest * other).collect();
        shift_test(&[numbers("x", x)], &[numbers("y", y)], 199, &NoProgress).unwrap().p_value
    }

    /// Of 300 tests at 10%, 30 +- 21 reject, which is 4 standard deviations (alpha of about 6e-5,
    /// fixed seeds), whether rows are independent or worth only 25.
    #[test]
    fn independent_series_are_rejected_at_the_level_of_the_test() {
        for phi in [0.0, 0.9, 0.98] {
            let rejected = (0..300).filter(|&seed| p_value(phi, 0.0, |x| x, seed) <= 0.1).count();
            assert!((9..=51).contains(&rejected), "{phi}: {rejected}");
        }
    }

    #[test]
    fn dependence_is_found_in_values_and_in_squares() {
        for seed in 0..10 {
            assert!(p_value(0.8, 0.6, |x| x, seed) <= 0.05, "{seed}");
            assert!(p_value(0.8, 0.9, |x| (x * x - 1.0) / 1.4, seed) <= 0.05, "{seed}");
        }
    }

    /// Returns the p-value for 25 rows of y = correlation f(x) + rest.
    fn p_value_of_few(correlation: f64, f: fn(f64) -> f64, seed: u64) -> f64 {
        let mut rng = stream(seed, Purpose::Data, 1, 0);
        let [x, other] = [0, 1].map(|_| autoregressive(0.0, 25, &mut rng));
        let rest = (1.0 - correlation * correlation).sqrt();
        let y = x.iter().zip(&other).map(|(x, other)| correlation * f(*x) + rest * other).collect();
        let (x, y) = ([numbers("x", x)], [numbers("y", y)]);
        permutation_test(&x, &y, 199, f64::INFINITY, seed, &NoProgress).unwrap().unwrap().p_value
    }

    /// Of 400 tests at 10%, 40 +- 24 reject, which is 4 standard deviations (alpha of about 6e-5,
    /// fixed seeds). A correlation of .7 of 25 rows is found nearly always, as by its own test.
    #[test]
    fn few_rows_are_tested_at_the_level_and_with_power() {
        let rejected = |correlation: f64, level: f64| {
            (0..400).filter(|&seed| p_value_of_few(correlation, |x| x, seed) <= level).count()
        };
        assert!((16..=64).contains(&rejected(0.0, 0.1)));
        assert!(rejected(0.7, 0.05) > 340);
    }

    /// A limit ends a test early and changes no p-value below it.
    #[test]
    fn a_test_ends_once_its_p_value_reaches_the_limit() {
        let mut rng = stream(3, Purpose::Data, 1, 0);
        for correlation in [0.0, 0.3, 0.6] {
            let [x, other] = [0, 1].map(|_| autoregressive(0.0, 40, &mut rng));
            let y = x.iter().zip(&other).map(|(x, other)| correlation * x + other).collect();
            let (x, y) = ([numbers("x", x)], [numbers("y", y)]);
            let with_limit = |limit| permutation_test(&x, &y, 199, limit, 5, &NoProgress).unwrap();
            let full = with_limit(f64::INFINITY).unwrap();
            assert_eq!(with_limit(full.p_value), None);
            assert_eq!(with_limit(full.p_value + 1e-9), Some(full));
        }
    }

    /// Many columns of few rows are compared by similarities, with the same result.
    #[test]
    fn both_forms_of_a_series_have_the_same_statistic() {
        let mut rng = stream(2, Purpose::Data, 0, 0);
        let mut side = || -> Vec<Column> {
            (0..40).map(|_| numbers("v", autoregressive(0.5, 60, &mut rng))).collect()
        };
        let columns = [side(), side()];
        let side = |k: usize| {
            let Ok(features) = features(&columns[k], usize::MAX, never);
            features
        };
        let fast_form = Series::new(side(0), side(1), 60, &|| Ok(())).unwrap();
        assert!(matches!(fast_form, Series::Similarities(_)));
        let plain_form = Series::Features([side(0), side(1)]);
        for shift in [0, 1, 30, 59] {
            let [fast, plain] = [&fast_form, &plain_form]
                .map(|series| series.statistic(shift, &|| Ok(())).unwrap());
            assert!((fast / plain - 1.0).abs() < 1e-4, "{fast} {plain}");
            let order: Vec<usize> = (0..60).map(|i| (i + shift) % 60).collect();
            for permuted in [&fast_form, &plain_form] {
                let permuted = permuted.permuted_statistic(&order, &|| Ok(())).unwrap();
                assert!((permuted / plain - 1.0).abs() < 1e-4, "{permuted} {plain}");
            }
        }
    }

    #[test]
    fn columns_without_features_are_not_rejected() {
        let constant = [numbers("x", vec![1.0; 30])];
        let y = [numbers("y", (0..30).map(f64::from).collect())];
        assert_eq!(shift_test(&constant, &y, 19, &NoProgress).unwrap().p_value, 1.0);
    }
}

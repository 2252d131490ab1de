//! Finds a numeric column that is a function of the other side. Then the mutual information is
//! infinite, or limited only by the precision of the values, and no estimate of it is right.
//!
//! Only what a table shows beyond doubt is found: a curve v = f(u) through the points of two
//! columns, or a column that is a weighted sum of several others. Other functions of several
//! columns are not.

use crate::data::{Column, Values};
use crate::error::quote;
use nalgebra::{DMatrix, DVector};
use std::cmp::Ordering;

/// Noise below this share of a column's spread is rounding.
const ROUNDING: f64 = 1e-6;

/// The maximum numbers of rows and of columns of a side that are compared.
const MAX_ROWS: usize = 20_000;
const MAX_COLUMNS: usize = 30;
const MAX_SUMMANDS: usize = 200;

/// The minimum number of points of a curve.
const MIN_POINTS: usize = 20;

/// The minimum number of points whose equal order shows a function. With noise of 0.001 standard
/// deviations, fewer points can have the same order by chance.
const MIN_ORDERED: usize = 200;

/// The minimum number of points on which a curvature is compared with noise.
const MIN_CURVED: usize = 100;

/// The distance, in points, of the neighbours that show whether differences shrink with distance.
const FAR: usize = 4;

/// A numeric column over at most [`MAX_ROWS`] rows.
struct Numbers<'a> {
    name: &'a str,
    values: Vec<f64>,
}

/// Returns the numeric columns of a side, with rows spread over the table if there are many.
fn numbers(side: &[Column]) -> Vec<Numbers<'_>> {
    let numeric = side.iter().filter_map(|column| match &column.values {
        Values::Continuous(values) => {
            let step = values.len().div_ceil(MAX_ROWS).max(1);
            let values = values.iter().step_by(step).copied().collect();
            Some(Numbers { name: &column.name, values })
        }
        Values::Discrete { .. } => None,
    });
    numeric.collect()
}

/// Describes a numeric column that is a function of the other side, such as "column 'y' is a smooth
/// function of column 'x'"; returns `None` if none is found. `tick` is called at intervals; its error
/// ends the search.
pub(super) fn function_between<E>(
    x: &[Column],
    y: &[Column],
    tick: impl Fn() -> Result<(), E>,
) -> Result<Option<String>, E> {
    match function_of(x, y, &tick)? {
        Some(found) => Ok(Some(found)),
        None => function_of(y, x, &tick),
    }
}

/// Describes a numeric column of `to` that is a function of `from`, as [`function_between`] does.
pub(super) fn function_of<E>(
    from: &[Column],
    to: &[Column],
    tick: impl Fn() -> Result<(), E>,
) -> Result<Option<String>, E> {
    let (from, to) = (numbers(from), numbers(to));
    Ok(curve(&from, &to, &tick)?.or_else(|| weighted_sum(&from, &to)))
}

/// Describes a column of `to` that is a function of one column of `from`.
fn curve<E>(
    from: &[Numbers],
    to: &[Numbers],
    tick: impl Fn() -> Result<(), E>,
) -> Result<Option<String>, E> {
    let spreads: Vec<f64> = to.iter().take(MAX_COLUMNS).map(|v| spread(v.values.clone())).collect();
    for u in from.iter().take(MAX_COLUMNS) {
        tick()?;
        let mut order: Vec<usize> = (0..u.values.len()).collect();
        order.sort_unstable_by(|&a, &b| u.values[a].total_cmp(&u.values[b]));
        for (v, spread) in to.iter().zip(&spreads) {
            let points = order.iter().map(|&row| (u.values[row], v.values[row]));
            let tolerance = spread / order.len() as f64;
            let distinct = distinct_points(points, tolerance);
            let Some(shape) = distinct.and_then(|points| shape(&points)) else { continue };
            let found = format!("column {} is {shape} column {}", quote(v.name), quote(u.name));
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the points with ascending first coordinates, each once. Returns `None` if points share
/// the first coordinate and differ in the second by more than the tolerance, so that they are not on
/// the graph of a function, or if most points are repetitions: discrete values share a finite amount of
/// information.
fn distinct_points(
    points: impl ExactSizeIterator<Item = (f64, f64)>,
    tolerance: f64,
) -> Option<Vec<(f64, f64)>> {
    let rows = points.len();
    let mut distinct: Vec<(f64, f64)> = Vec::with_capacity(rows);
    for (u, v) in points {
        match distinct.last() {
            Some(last) if last.0 == u && (last.1 - v).abs() <= tolerance => {}
            Some(last) if last.0 == u => return None,
            _ => distinct.push((u, v)),
        }
    }
    (distinct.len() >= MIN_POINTS && 4 * distinct.len() >= rows).then_some(distinct)
}

/// Returns how v depends on u if the n points (u, v), with ascending u, are on a curve: they have the
/// same order in u and in v, or v has no noise that n points could show.
///
/// With r the distance of v from the line through its two neighbours, noise is about
/// |r| / sqrt(1 + w² + (1 - w)²), where w is the share of the neighbour on the right, and the
/// curvature |f''| / 2 is about |r| / (h₁ h₂), with the distances h in u. Values without noise are
/// those with
///
/// - noise below the rounding of values, which is small compared with their spread, or
/// - noise below 1/n of the spread of v, so that the information exceeds about ln n, and a curvature
///   that is the same for near and for far neighbours. Noise would make it appear to grow with 1/h².
fn shape(points: &[(f64, f64)]) -> Option<&'static str> {
    if !varies(points) {
        return None;
    }
    // Rounded values can be equal.
    let same_order = |order: Ordering| {
        let differs =
            |pair: &[(f64, f64)]| pair[0].1.partial_cmp(&pair[1].1) == Some(order.reverse());
        points.len() >= MIN_ORDERED && !points.windows(2).any(differs)
    };
    if same_order(Ordering::Less) {
        return Some("an increasing function of");
    }
    if same_order(Ordering::Greater) {
        return Some("a decreasing function of");
    }
    let spread = spread(points.iter().map(|point| point.1).collect());
    let (noise, near) = noise_and_curvature(points, 1);
    let is_rounding = || noise <= ROUNDING * spread || is_rounding(points, spread);
    let is_curvature = || {
        points.len() >= MIN_CURVED
            && noise <= spread / points.len() as f64
            && near <= 1.5 * noise_and_curvature(points, FAR).1
    };
    (spread > 0.0 && (is_rounding() || is_curvature())).then_some("a smooth function of")
}

/// Returns whether v was rounded to decimal places, in steps below 1/n of its spread, and differs from
/// a line through its neighbours by no more than rounding explains: about half of q_v + |slope| q_u,
/// with the steps q_v and q_u of the roundings of v and u.
fn is_rounding(points: &[(f64, f64)], spread: f64) -> bool {
    let (step_u, step_v) = (
        rounding_step(points.iter().map(|point| point.0)),
        rounding_step(points.iter().map(|point| point.1)),
    );
    if step_v == 0.0 || points.len() < MIN_CURVED {
        return false;
    }
    let (distances, steps) = points
        .windows(3)
        .map(|window| {
            let (left, right) = (window[0], window[2]);
            let slope = (right.1 - left.1) / (right.0 - left.0);
            let distance = (window[1].1 - left.1 - slope * (window[1].0 - left.0)).abs();
            let steps = step_v + slope.abs() * step_u;
            (distance / steps, steps)
        })
        .unzip();
    quantile(distances, 0.5) <= 0.5 && quantile(steps, 0.5) <= spread / points.len() as f64
}

/// Returns the step of values that were all rounded to the same number of decimal places, and 0 if
/// they were not.
fn rounding_step(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let on_grid = |digits: i32| {
        let scale = 10_f64.powi(digits);
        values
            .clone()
            .all(|value| ((value * scale).round() / scale - value).abs() <= 1e-15 * value.abs())
    };
    (0..=9).find(|digits| on_grid(*digits)).map_or(0.0, |digits| 0.1_f64.powi(digits))
}

/// Returns whether v takes many values. A step function shares a finite amount of information.
fn varies(points: &[(f64, f64)]) -> bool {
    let mut values: Vec<f64> = points.iter().map(|point| point.1).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    10 * values.len() >= 4 * points.len()
}

/// Returns the medians of the noise and of the curvature, for neighbours this many points away.
fn noise_and_curvature(points: &[(f64, f64)], distance: usize) -> (f64, f64) {
    let triples = points.windows(2 * distance + 1).map(|window| {
        let (left, middle, right) = (window[0], window[distance], window[2 * distance]);
        let w = (middle.0 - left.0) / (right.0 - left.0);
        let r = (middle.1 - left.1 - w * (right.1 - left.1)).abs();
        let curvature = r / ((middle.0 - left.0) * (right.0 - middle.0));
        (r / (1.0 + w * w + (1.0 - w).powi(2)).sqrt(), curvature)
    });
    let (noise, curvature): (Vec<f64>, Vec<f64>) = triples.unzip();
    (quantile(noise, 0.5), quantile(curvature, 0.5))
}

/// Describes a column of `to` that is a weighted sum of several columns of `from`. Weights are fitted
/// to a few rows, and most rows that they are checked on are others.
fn weighted_sum(from: &[Numbers], to: &[Numbers]) -> Option<String> {
    let (rows, columns) = (from.first()?.values.len(), from.len());
    let fitted = 2 * (columns + 1) + 50;
    if !(2..=MAX_SUMMANDS).contains(&columns) || rows < 2 * fitted {
        return None;
    }
    let scaled: Vec<Vec<f64>> = from.iter().map(|column| scaled(&column.values)).collect();
    let input = |row: usize, k: usize| scaled.get(k).map_or(1.0, |column| column[row]);
    let rows_fitted: Vec<usize> = (0..fitted).map(|k| k * rows / fitted).collect();
    let design = DMatrix::from_fn(fitted, columns + 1, |row, k| input(rows_fitted[row], k));
    let decomposition = design.svd(true, true);
    for column in to.iter().take(MAX_COLUMNS) {
        let values = DVector::from_fn(fitted, |row, _| column.values[rows_fitted[row]]);
        let Ok(weights) = decomposition.solve(&values, 1e-12) else { continue };
        let sum = |row: usize| (0..=columns).map(|k| weights[k] * input(row, k)).sum::<f64>();
        let errors = (0..rows).map(|row| (column.values[row] - sum(row)).abs()).collect();
        let points: Vec<(f64, f64)> = column.values.iter().map(|value| (0.0, *value)).collect();
        let spread = spread(column.values.clone());
        if spread > 0.0 && quantile(errors, 0.9) <= ROUNDING * spread && varies(&points) {
            let name = quote(column.name);
            return Some(format!("column {name} is a weighted sum of the other side's columns"));
        }
    }
    None
}

/// Returns the values minus their median, divided by their spread if it is not 0.
fn scaled(values: &[f64]) -> Vec<f64> {
    let centre = quantile(values.to_vec(), 0.5);
    let spread = Some(spread(values.to_vec())).filter(|spread| *spread > 0.0).unwrap_or(1.0);
    values.iter().map(|value| (value - centre) / spread).collect()
}

/// Returns the distance between the quartiles.
fn spread(values: Vec<f64>) -> f64 {
    quantile(values.clone(), 0.75) - quantile(values, 0.25)
}

/// Returns the value below which this share of the values is; 0 if there are none.
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    *values.select_nth_unstable_by((last as f64 * share) as usize, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::never;
    use crate::random::{Purpose, stream};
    use rand::RngExt;
    use rand_distr::StandardNormal;

    fn function_between(x: &[Column], y: &[Column]) -> Option<String> {
        let Ok(found) = super::function_between(x, y, never);
        found
    }

    fn column(name: &str, values: Vec<f64>) -> Column {
        Column { name: name.into(), values: Values::Continuous(values) }
    }

    fn normal(rows: usize, block: u64) -> Vec<f64> {
        let mut rng = stream(1, Purpose::Data, 0, block);
        (0..rows).map(|_| rng.sample(StandardNormal)).collect()
    }

    /// Returns what is found for x standard normal, and y = f(x, e) with e standard normal.
    fn found(rows: usize, f: impl Fn(f64, f64) -> f64) -> Option<String> {
        let (x, noise) = (normal(rows, 0), normal(rows, 1));
        let y = x.iter().zip(noise).map(|(x, noise)| f(*x, noise)).collect();
        function_between(&[column("x", x)], &[column("y", y)])
    }

    #[test]
    fn functions_are_found() {
        for rows in [200, 2_000, 10_000] {
            let increasing = Some("column 'y' is an increasing function of column 'x'".into());
            assert_eq!(found(rows, |x, _| x), increasing);
            assert_eq!(found(rows, |x, _| x.powi(3)), increasing);
            let decreasing = Some("column 'y' is a decreasing function of column 'x'".into());
            assert_eq!(found(rows, |x, _| (-x).exp()), decreasing);
            let smooth = Some("column 'y' is a smooth function of column 'x'".into());
            assert_eq!(found(rows, |x, _| (3.0 * x).sin()), smooth);
            assert_eq!(found(rows, |x, _| x * x), smooth);
            assert_eq!(found(rows, |x, _| x.abs()), smooth);
            assert_eq!(found(rows, |x, _| x - x.floor()), smooth, "with jumps");
        }
        // The other direction, and a few rows.
        let x: Vec<f64> = normal(500, 0);
        let squares = column("squares", x.iter().map(|x| x * x).collect());
        let reverse = function_between(&[squares], &[column("x", x)]);
        assert_eq!(reverse.unwrap(), "column 'squares' is a smooth function of column 'x'");
        assert!(found(30, |x, _| 2.0 * x + 1.0).is_some());
    }

    /// These curves are smooth enough that 200 rows show noise of a thousandth of the spread. (Where
    /// noise below 1/n hides behind the curvature, as for sin 10x, the information exceeds ln n.)
    #[test]
    fn noise_is_no_function() {
        for rows in [200, 500, 2_000, 10_000] {
            for noise in [1e-3, 1e-2, 0.1, 1.0] {
                assert_eq!(found(rows, |x, e| x + noise * e), None, "{rows} {noise}");
                assert_eq!(found(rows, |x, e| (3.0 * x).sin() + noise * e), None, "{rows} {noise}");
                assert_eq!(found(rows, |x, e| x * x + noise * e), None, "{rows} {noise}");
                assert_eq!(found(rows, |x, e| x * (1.0 + noise * e)), None, "{rows} {noise}");
            }
            assert_eq!(found(rows, |_, e| e), None, "independent");
        }
    }

    /// I(x; y) is at most the entropy of y, which is finite.
    #[test]
    fn discrete_values_and_mostly_zeros_are_no_function() {
        for rows in [200, 2_000] {
            assert_eq!(found(rows, |x, _| x.floor()), None);
            assert_eq!(found(rows, |x, _| (10.0 * x).round()), None);
            assert_eq!(found(rows, |_, e| e.max(0.3)), None, "62% are equal");
            let grid: Vec<f64> = normal(rows, 0).iter().map(|x| (5.0 * x).round()).collect();
            assert_eq!(function_between(&[column("x", grid.clone())], &[column("y", grid)]), None);
        }
    }

    /// Both columns are rounded to four digits, so some equal values of x have two values of y.
    #[test]
    fn rounding_does_not_hide_a_function() {
        let (exact, errors) = (normal(1000, 0), normal(1000, 1));
        let found = |f: &dyn Fn(f64) -> f64, noise: f64| {
            let rounded =
                |values: Vec<f64>| values.iter().map(|v| (1e4 * v).round() / 1e4).collect();
            let y = exact.iter().zip(&errors).map(|(x, e)| f(*x) + noise * e).collect();
            function_between(&[column("x", rounded(exact.clone()))], &[column("y", rounded(y))])
        };
        for f in [|x: f64| 2.0 * x, |x: f64| x.sin()] {
            assert!(found(&f, 0.0).is_some());
            assert_eq!(found(&f, 1e-2), None);
        }
    }

    #[test]
    fn copies_of_rows_do_not_hide_a_function() {
        let x: Vec<f64> = normal(500, 0).into_iter().flat_map(|x| [x, x]).collect();
        let y = x.iter().map(|x| x.sin()).collect();
        assert!(function_between(&[column("x", x)], &[column("y", y)]).is_some());
    }

    #[test]
    fn weighted_sums_are_found() {
        let side = |noise: f64| {
            let parts: Vec<Vec<f64>> = (0..3).map(|block| normal(400, block)).collect();
            let errors = normal(400, 3);
            let sum = |row: usize| {
                3.0 * parts[0][row] - parts[1][row] + 1e3 * parts[2][row] + noise * errors[row]
            };
            let sum = column("sum", (0..400).map(sum).collect());
            let parts = parts.into_iter().map(|part| column("part", part)).collect::<Vec<_>>();
            function_between(&parts, &[sum])
        };
        let expected = "column 'sum' is a weighted sum of the other side's columns";
        assert_eq!(side(0.0).as_deref(), Some(expected));
        assert_eq!(side(1.0), None);
    }
}

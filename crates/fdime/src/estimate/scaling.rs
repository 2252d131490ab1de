//! Scaling of columns for the network, fitted on training rows only.

use super::memo::Memo;
use crate::data::{Column, Values};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::sync::LazyLock;

/// A scaling of continuous columns. Mutual information does not change under any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scaling {
    /// (v - mean) / standard deviation
    Standard,
    /// Normal scores of the ranks, interpolated between training values.
    Gaussian,
    /// asinh((v - median) / half the interquartile range), which is logarithmic in heavy tails.
    Asinh,
}

/// The maximum number of continuous columns of a side with waves. With more columns, waves would be
/// most of the inputs, and the columns vary in directions other than their own axes.
const MAX_COLUMNS_FOR_WAVES: usize = 64;

/// The maximum number of intervals in the interpolation of normal scores.
const MAX_KNOTS: usize = 256;

/// The fitted scaling of one column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnScaler {
    /// (v - center) / scale
    Affine {
        /// The mean.
        center: f64,
        /// The standard deviation.
        scale: f64,
    },
    /// asinh((v - center) / scale)
    Asinh {
        /// The median.
        center: f64,
        /// Half the interquartile range.
        scale: f64,
    },
    /// Linear interpolation between (value, score) knots in ascending order, constant outside.
    Scores {
        /// Training values.
        values: Vec<f64>,
        /// Their normal scores.
        scores: Vec<f64>,
    },
    /// One indicator for each level that occurs in the training rows.
    OneHot {
        /// The names of the levels.
        labels: Vec<String>,
    },
}

impl ColumnScaler {
    fn fit(column: &Column, rows: &[u32], scaling: Scaling) -> Self {
        let values = match &column.values {
            Values::Discrete { codes, labels } => {
                let seen: BTreeSet<u32> = rows.iter().map(|&row| codes[row as usize]).collect();
                let labels = seen.iter().filter_map(|code| labels.get(*code as usize).cloned());
                return ColumnScaler::OneHot { labels: labels.collect() };
            }
            Values::Continuous(values) => values,
        };
        let chosen: Vec<f64> = rows.iter().map(|&row| values[row as usize]).collect();
        let n = chosen.len();
        match scaling {
            Scaling::Standard => {
                let sorted = sorted(&chosen);
                // A common factor keeps the squares of very large values finite.
                let largest = valid_scale(sorted[0].abs().max(sorted[n - 1].abs()));
                let mean = sorted.iter().map(|v| v / largest).sum::<f64>() / n as f64;
                let variance =
                    sorted.iter().map(|v| (v / largest - mean).powi(2)).sum::<f64>() / n as f64;
                let scale = valid_scale(variance.sqrt() * largest);
                ColumnScaler::Affine { center: mean * largest, scale }
            }
            Scaling::Asinh => {
                let (center, scale) = median_and_spread(&sorted(&chosen));
                ColumnScaler::Asinh { center, scale }
            }
            Scaling::Gaussian => {
                NORMAL_SCORES.get_or(ValuesKey::new(&chosen), || normal_scores(&sorted(&chosen)))
            }
        }
    }

    /// Returns the number of inputs.
    pub fn width(&self) -> usize {
        match self {
            ColumnScaler::OneHot { labels } => labels.len(),
            _ => 1,
        }
    }

    /// Returns whether the parameters are valid: sorted knots with a score each, positive scales.
    fn is_valid(&self) -> bool {
        match self {
            ColumnScaler::Scores { values, scores } => {
                !values.is_empty() && values.len() == scores.len() && values.is_sorted()
            }
            ColumnScaler::Affine { scale, .. } | ColumnScaler::Asinh { scale, .. } => *scale > 0.0,
            ColumnScaler::OneHot { .. } => true,
        }
    }

    fn is_continuous(&self) -> bool {
        !matches!(self, ColumnScaler::OneHot { .. })
    }

    /// Returns the scaled value of a continuous column.
    fn scale(&self, value: f64) -> f64 {
        (match self {
            ColumnScaler::Affine { center, scale } => (value - center) / scale,
            ColumnScaler::Asinh { center, scale } => ((value - center) / scale).asinh(),
            ColumnScaler::Scores { values, scores } => interpolate(values, scores, value),
            ColumnScaler::OneHot { .. } => 0.0,
        })
        // Values far outside the training range must not overflow single precision.
        .clamp(-1e6, 1e6)
    }
}

/// Returns the scale if it is positive and finite, else 1.
fn valid_scale(scale: f64) -> f64 {
    if scale.is_finite() && scale > 0.0 { scale } else { 1.0 }
}

/// Returns the values in ascending order.
fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The scalings and spreads that were fitted last. A column of a matrix is estimated with many others
/// on the same folds, and several recipes use it on each.
static NORMAL_SCORES: LazyLock<Memo<ValuesKey, ColumnScaler>> =
    LazyLock::new(|| Memo::new(MAX_FITS));
static SPREADS: LazyLock<Memo<ValuesKey, (f64, f64)>> = LazyLock::new(|| Memo::new(MAX_FITS));

/// The maximum number of fits that are kept; each takes up to 4 KB.
const MAX_FITS: usize = 20_000;

/// Tells lists of values apart: their number, a hash of them, and their sum.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ValuesKey(usize, u64, u64);

impl ValuesKey {
    fn new(values: &[f64]) -> Self {
        let mut hasher = DefaultHasher::new();
        values.iter().for_each(|value| hasher.write_u64(value.to_bits()));
        ValuesKey(values.len(), hasher.finish(), values.iter().sum::<f64>().to_bits())
    }
}

/// Returns the median and half the interquartile range, which exist for all distributions.
fn median_and_spread(sorted: &[f64]) -> (f64, f64) {
    let quantile = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
    // If half of the values are equal, wider quantiles are used.
    let spread = [0.25, 0.1, 0.02, 0.0]
        .into_iter()
        .map(|tail| quantile(1.0 - tail) / 2.0 - quantile(tail) / 2.0)
        .find(|spread| spread.is_finite() && *spread > 0.0);
    (quantile(0.5), spread.unwrap_or(1.0))
}

/// Fits Phi^-1 of the mid-ranks; equal values have equal scores. Knots are evenly spaced in scores.
fn normal_scores(sorted: &[f64]) -> ColumnScaler {
    let n = sorted.len() as f64;
    let normal = Normal::standard();
    let (mut values, mut scores) = (Vec::new(), Vec::new());
    let mut start = 0;
    let spacing = 2.0 * -normal.inverse_cdf(0.5 / n) / MAX_KNOTS as f64;
    while start < sorted.len() {
        let end = start + sorted[start..].partition_point(|v| *v <= sorted[start]);
        let score = normal.inverse_cdf((start + end) as f64 / (2.0 * n));
        let last = end == sorted.len();
        if last || scores.last().is_none_or(|before| score - before >= spacing) {
            values.push(sorted[start]);
            scores.push(score);
        }
        start = end.max(start + 1);
    }
    ColumnScaler::Scores { values, scores }
}

/// Interpolates the score of a value between knots.
fn interpolate(values: &[f64], scores: &[f64], value: f64) -> f64 {
    let above = values.partition_point(|v| *v < value);
    if above == 0 {
        return scores.first().copied().unwrap_or(0.0);
    }
    if above == values.len() {
        return scores[above - 1];
    }
    // Halves avoid overflow of the difference. Neighbours may be too close to divide by it.
    let (low, high) = (values[above - 1] / 2.0, values[above] / 2.0);
    let share = if high > low { (value / 2.0 - low) / (high - low) } else { 1.0 };
    scores[above - 1] + share * (scores[above] - scores[above - 1])
}

/// The inputs that are computed from the columns of x or of y.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Features {
    /// The scalings of continuous columns; each gives one input for every column.
    pub scalings: Vec<Scaling>,
    /// Whether radii are added (see [`Radius`]).
    pub radial: bool,
    /// The number of waves: sin(pi k u) and cos(pi k u) of the ranks u in (-1, 1) of continuous
    /// columns, for k = 1, 2, 4, ... They detect dependence that changes sign along a column, and
    /// are added only if the first scaling is [`Scaling::Gaussian`].
    pub waves: usize,
}

/// The fitted scaling of all columns of x or of y.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SideScaler {
    /// The first scaling, of every column.
    columns: Vec<ColumnScaler>,
    /// Further scalings of the continuous columns.
    #[serde(rename = "again")]
    further: Vec<Vec<ColumnScaler>>,
    /// The number of waves of each continuous column. If it is not 0, the first scaling gives
    /// normal scores, from which ranks are computed.
    waves: usize,
    radii: Vec<Radius>,
}

/// ln(1 + |v|^2) over the continuous columns, standardised. Dependence through heavy tails or
/// rotations is a function of it, which a network is slow to learn from the coordinates. v is
/// either the vector of scaled columns, or that of (value - median) / spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Radius {
    /// (median, spread) of the continuous columns; `None` to use the scaled columns.
    spreads: Option<Vec<(f64, f64)>>,
    center: f64,
    scale: f64,
}

impl Radius {
    fn fit(
        columns: &[Column],
        rows: &[u32],
        scalers: &[ColumnScaler],
        spreads: Option<Vec<(f64, f64)>>,
    ) -> Self {
        /// So many rows that are scaled at a time take little memory.
        const ROWS: usize = 1_000;
        let mut radius = Radius { spreads, center: 0.0, scale: 1.0 };
        let scalers = if radius.spreads.is_some() { &[] } else { scalers };
        let of_some =
            |rows: &[u32]| radius.apply(columns, rows, &scaled_columns(columns, rows, scalers));
        let values: Vec<f64> = rows.chunks(ROWS).flat_map(of_some).map(f64::from).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        radius.center = mean;
        radius.scale = valid_scale(variance.sqrt());
        radius
    }

    /// Returns the radius of each row. `scaled` are the scaled columns of these rows, which a radius of
    /// spreads does not need.
    fn apply(&self, columns: &[Column], rows: &[u32], scaled: &[Vec<f64>]) -> Vec<f32> {
        let mut squares = vec![0f64; rows.len()];
        let mut add = |place: usize, term: f64| squares[place] += term;
        match &self.spreads {
            Some(spreads) => {
                for (values, (center, spread)) in continuous(columns).zip(spreads) {
                    let term = |&row: &u32| ((values[row as usize] - center) / spread).powi(2);
                    rows.iter().map(term).enumerate().for_each(|(place, term)| add(place, term));
                }
            }
            None => {
                for scaled in scaled {
                    let terms = scaled.iter().map(|value| value.powi(2)).enumerate();
                    terms.for_each(|(place, term)| add(place, term));
                }
            }
        }
        let standardised = |square: f64| (square.min(f64::MAX).ln_1p() - self.center) / self.scale;
        squares.into_iter().map(|square| standardised(square) as f32).collect()
    }
}

/// Returns the scaled values of these rows of each continuous column.
fn scaled_columns(columns: &[Column], rows: &[u32], scalers: &[ColumnScaler]) -> Vec<Vec<f64>> {
    let scalers = scalers.iter().filter(|scaler| scaler.is_continuous());
    let scale = |(values, scaler): (&Vec<f64>, &ColumnScaler)| {
        rows.iter().map(|&row| scaler.scale(values[row as usize])).collect()
    };
    continuous(columns).zip(scalers).map(scale).collect()
}

/// Returns the values of the continuous columns.
fn continuous(columns: &[Column]) -> impl Iterator<Item = &Vec<f64>> {
    columns.iter().filter_map(|column| match &column.values {
        Values::Continuous(values) => Some(values),
        Values::Discrete { .. } => None,
    })
}

impl SideScaler {
    /// Fits the scalings on these rows. `tick` is called for every column; its error ends the
    /// computation.
    pub fn fit<E>(
        columns: &[Column],
        rows: &[u32],
        features: &Features,
        tick: impl Fn() -> Result<(), E>,
    ) -> Result<Self, E> {
        let fit_column = |column: &Column, scaling: Scaling| {
            tick().map(|()| ColumnScaler::fit(column, rows, scaling))
        };
        let fit = |scaling: Scaling| -> Result<Vec<ColumnScaler>, E> {
            columns.iter().map(|column| fit_column(column, scaling)).collect()
        };
        let fit_continuous = |scaling: &Scaling| -> Result<Vec<ColumnScaler>, E> {
            Ok(fit(*scaling)?.into_iter().filter(ColumnScaler::is_continuous).collect())
        };
        let first = features.scalings.first().copied().unwrap_or(Scaling::Standard);
        let scalers = fit(first)?;
        let use_waves =
            first == Scaling::Gaussian && continuous(columns).count() <= MAX_COLUMNS_FOR_WAVES;
        let mut radii = Vec::new();
        if features.radial && continuous(columns).next().is_some() {
            let spread = |values: &Vec<f64>| {
                let chosen: Vec<f64> = rows.iter().map(|&row| values[row as usize]).collect();
                let fit = || median_and_spread(&sorted(&chosen));
                tick().map(|()| SPREADS.get_or(ValuesKey::new(&chosen), fit))
            };
            let spreads = continuous(columns).map(spread).collect::<Result<_, E>>()?;
            radii.push(Radius::fit(columns, rows, &scalers, None));
            radii.push(Radius::fit(columns, rows, &scalers, Some(spreads)));
        }
        Ok(SideScaler {
            columns: scalers,
            further: features
                .scalings
                .iter()
                .skip(1)
                .map(fit_continuous)
                .collect::<Result<_, E>>()?,
            waves: if use_waves { features.waves } else { 0 },
            radii,
        })
    }

    /// Fits a single scaling without further features. `tick`: see [`fit`](Self::fit).
    pub fn plain<E>(
        columns: &[Column],
        rows: &[u32],
        scaling: Scaling,
        tick: impl Fn() -> Result<(), E>,
    ) -> Result<Self, E> {
        let features = Features { scalings: vec![scaling], radial: false, waves: 0 };
        SideScaler::fit(columns, rows, &features, tick)
    }

    /// Returns whether all parameters are valid; those read from a file may not be.
    pub(super) fn is_valid(&self) -> bool {
        self.columns.iter().chain(self.further.iter().flatten()).all(ColumnScaler::is_valid)
    }

    /// Returns the number of inputs.
    pub fn width(&self) -> usize {
        self.columns.iter().map(ColumnScaler::width).sum::<usize>()
            + self.further.iter().map(Vec::len).sum::<usize>()
            + 2 * self.waves * self.continuous()
            + self.radii.len()
    }

    /// Returns the number of continuous columns.
    pub fn continuous(&self) -> usize {
        self.columns.iter().filter(|column| column.is_continuous()).count()
    }

    /// Returns the inputs of these rows, row-major.
    pub fn apply(&self, columns: &[Column], rows: &[u32]) -> Vec<f32> {
        let mut writer = InputWriter::new(rows, self.width());
        let scaled = scaled_columns(columns, rows, &self.columns);
        let mut remaining = scaled.iter();
        for (scaler, column) in self.columns.iter().zip(columns) {
            match &column.values {
                Values::Continuous(_) => {
                    remaining.next().map_or((), |scaled| writer.write_scaled(scaled))
                }
                Values::Discrete { codes, labels } => writer.write_levels(scaler, codes, labels),
            }
        }
        for scalers in &self.further {
            for scaled in &scaled_columns(columns, rows, scalers) {
                writer.write_scaled(scaled);
            }
        }
        if self.waves > 0 {
            scaled.iter().for_each(|scores| writer.write_waves(scores, self.waves));
        }
        for radius in &self.radii {
            let radii = radius.apply(columns, rows, &scaled);
            writer.write(1, |at, input| input[0] = radii[at]);
        }
        writer.inputs
    }

    /// Returns the continuous columns of these rows in the first scaling, row-major.
    pub fn apply_continuous(&self, columns: &[Column], rows: &[u32]) -> Vec<f32> {
        let width = self.continuous();
        let mut scores = vec![0f32; rows.len() * width];
        let scalers = self.columns.iter().filter(|scaler| scaler.is_continuous());
        for (place, (scaler, values)) in scalers.zip(continuous(columns)).enumerate() {
            for (scores, &row) in scores.chunks_exact_mut(width).zip(rows) {
                scores[place] = scaler.scale(values[row as usize]) as f32;
            }
        }
        scores
    }
}

/// A row-major matrix of inputs that is filled from left to right.
struct InputWriter<'a> {
    rows: &'a [u32],
    width: usize,
    inputs: Vec<f32>,
    /// The next column to write.
    column: usize,
}

impl<'a> InputWriter<'a> {
    fn new(rows: &'a [u32], width: usize) -> Self {
        InputWriter { rows, width, inputs: vec![0.0; rows.len() * width], column: 0 }
    }

    /// Writes the next `count` columns: `fill` gets the place of each row and its output.
    fn write(&mut self, count: usize, mut fill: impl FnMut(usize, &mut [f32])) {
        for (place, inputs) in self.inputs.chunks_exact_mut(self.width).enumerate() {
            fill(place, &mut inputs[self.column..self.column + count]);
        }
        self.column += count;
    }

    fn write_scaled(&mut self, scaled: &[f64]) {
        self.write(1, |at, input| input[0] = scaled[at] as f32);
    }

    /// Writes an indicator for each known level. Levels are matched by name, because another table
    /// may number them differently.
    fn write_levels(&mut self, scaler: &ColumnScaler, codes: &[u32], labels: &[String]) {
        let known: &[String] = match scaler {
            ColumnScaler::OneHot { labels } => labels,
            _ => &[],
        };
        let known: HashMap<&String, usize> =
            known.iter().enumerate().map(|(place, name)| (name, place)).collect();
        let places: Vec<Option<usize>> =
            labels.iter().map(|label| known.get(label).copied()).collect();
        let rows = self.rows;
        self.write(scaler.width(), |at, input| {
            if let Some(Some(place)) = places.get(codes[rows[at] as usize] as usize) {
                input[*place] = 1.0;
            }
        });
    }

    /// Writes sin(pi k u) and cos(pi k u) for k = 1, 2, 4, ... with u = 2 Phi(score) - 1.
    fn write_waves(&mut self, scores: &[f64], waves: usize) {
        let normal = Normal::standard();
        self.write(2 * waves, |at, input| {
            let u = 2.0 * normal.cdf(scores[at]) - 1.0;
            for (octave, pair) in input.chunks_exact_mut(2).enumerate() {
                let angle = std::f64::consts::PI * f64::from(1u32 << octave) * u;
                pair.copy_from_slice(&[angle.sin() as f32, angle.cos() as f32]);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::never;

    fn fit(columns: &[Column], rows: &[u32], features: &Features) -> SideScaler {
        let Ok(scaler) = SideScaler::fit(columns, rows, features, never);
        scaler
    }

    fn plain(columns: &[Column], rows: &[u32], scaling: Scaling) -> SideScaler {
        let Ok(scaler) = SideScaler::plain(columns, rows, scaling, never);
        scaler
    }

    fn column(values: Vec<f64>) -> Column {
        Column { name: "v".into(), values: Values::Continuous(values) }
    }

    fn scaled(values: Vec<f64>, train: usize, scaling: Scaling) -> Vec<f32> {
        let all: Vec<u32> = (0..values.len() as u32).collect();
        let columns = [column(values)];
        plain(&columns, &all[..train], scaling).apply(&columns, &all)
    }

    #[test]
    fn every_scaling_is_increasing_and_finite_for_all_values() {
        for values in [
            vec![-1e300, -1.0, 0.0, 1e-300, 2.0, 1e308],
            vec![1.0, 1.0, 1.0, 2.0, 3.0, 4.0],
            (0..6).map(|k| f64::from(k).powi(9)).collect(),
        ] {
            for scaling in [Scaling::Standard, Scaling::Gaussian, Scaling::Asinh] {
                let out = scaled(values.clone(), 5, scaling);
                assert!(out.iter().all(|v| v.is_finite()), "{scaling:?}: {out:?}");
                assert!(out.windows(2).all(|p| p[0] <= p[1]), "{scaling:?}: {out:?}");
            }
        }
    }

    #[test]
    fn normal_scores_depend_only_on_ranks_and_interpolate() {
        let plain: Vec<f64> = (0..99).map(f64::from).collect();
        let cubed = plain.iter().map(|v| v.powi(3)).collect();
        assert_eq!(scaled(plain, 99, Scaling::Gaussian), scaled(cubed, 99, Scaling::Gaussian));
        let between = scaled(vec![0.0, 1.0, 2.0, 3.0, 1.5, -9.0, 9.0], 4, Scaling::Gaussian);
        assert!(between[4].abs() < 1e-6, "the middle has score 0");
        assert_eq!((between[5], between[6]), (between[0], between[3]), "constant outside");
        let tied = scaled(vec![0.0, 0.0, 1.0, 1.0], 4, Scaling::Gaussian);
        assert_eq!((tied[0], tied[2]), (tied[1], -tied[0]));
    }

    #[test]
    fn few_knots_give_accurate_scores() {
        let values: Vec<f64> = (0..50_000).map(|k| f64::from(k).sin() * 3.0).collect();
        let columns = [column(values)];
        let rows: Vec<u32> = (0..50_000).collect();
        let scaler = plain(&columns, &rows, Scaling::Gaussian);
        let ColumnScaler::Scores { values: knots, .. } = &scaler.columns[0] else { panic!() };
        assert!(knots.len() <= MAX_KNOTS + 1);
        let mut out = scaler.apply(&columns, &rows);
        out.sort_by(f32::total_cmp);
        let normal = Normal::standard();
        for (rank, score) in out.iter().enumerate().step_by(997) {
            let exact = normal.inverse_cdf((rank as f64 + 0.5) / 50_000.0);
            assert!((f64::from(*score) - exact).abs() < 0.01, "rank {rank}");
        }
    }

    #[test]
    fn levels_become_indicators_by_name_and_unknown_levels_zeros() {
        let discrete = |codes: Vec<u32>, labels: &[&str]| Column {
            name: "c".into(),
            values: Values::Discrete {
                codes,
                labels: labels.iter().map(ToString::to_string).collect(),
            },
        };
        let train =
            [discrete(vec![0, 1, 1, 2], &["a", "b", "c"]), column(vec![1.0, 2.0, 3.0, 4.0])];
        let scaler = plain(&train, &[0, 1, 2], Scaling::Standard);
        assert_eq!((scaler.width(), scaler.continuous()), (3, 1));
        let out = scaler.apply(&train, &[0, 1, 2]);
        assert_eq!((&out[..2], &out[3..5]), (&[1.0, 0.0][..], &[0.0, 1.0][..]));
        let other = [discrete(vec![0, 1], &["b", "z"]), column(vec![2.0, 2.0])];
        let out = scaler.apply(&other, &[0, 1]);
        assert_eq!((&out[..2], &out[3..5]), (&[0.0, 1.0][..], &[0.0, 0.0][..]));
    }

    #[test]
    fn features_follow_their_formulas() {
        let columns = [column((0..99).map(f64::from).collect())];
        let rows: Vec<u32> = (0..99).collect();
        let scalings = vec![Scaling::Gaussian, Scaling::Asinh];
        let features = Features { scalings, radial: true, waves: 2 };
        let scaler = fit(&columns, &rows, &features);
        assert_eq!(scaler.width(), 2 + 4 + 2);
        let out = scaler.apply(&columns, &rows);
        let row = &out[80 * 8..81 * 8];
        // The mid-rank of the 81st of 99 values.
        let u = 2.0 * 80.5 / 99.0 - 1.0;
        assert!((row[1] - (31.0f32 / 24.5).asinh()).abs() < 1e-5, "{}", row[1]);
        let waves = [1.0, 2.0].map(|k: f64| std::f64::consts::PI * k * u);
        for (k, angle) in waves.into_iter().enumerate() {
            assert!((f64::from(row[2 + 2 * k]) - angle.sin()).abs() < 1e-3);
            assert!((f64::from(row[3 + 2 * k]) - angle.cos()).abs() < 1e-3);
        }
        // Radii are standardised and symmetric about the median.
        for radius in [6, 7] {
            let values: Vec<f32> = out.iter().copied().skip(radius).step_by(8).collect();
            let mean = values.iter().sum::<f32>() / 99.0;
            assert!(mean.abs() < 1e-4, "{mean}");
            assert!((values[20] - values[78]).abs() < 0.01);
        }
    }
}

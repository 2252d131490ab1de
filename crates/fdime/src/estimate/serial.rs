//! Serial dependence: how alike neighbouring rows are, and how many independent rows they are
//! worth.
//!
//! If x and y are independent series with autocorrelations r_x(k) and r_y(k), the variance of their
//! sample correlation is that of n / t independent rows, where (Bartlett)
//!
//! t = 1 + 2 sum_k r_x(k) r_y(k)
//!
//! is the autocorrelation time of the pair. One series of independent values is enough for t = 1:
//! rows whose y could be shuffled without a trace are exchangeable for a test of independence.

use super::folds::RowOrder;
use super::scaling::{Scaling, SideScaler};
use super::verdict::{Reason, Reliability};
use crate::data::{Column, Values};
use crate::message::{Message, Parameter};

/// The maximum number of rows that autocorrelations are computed from: consecutive ones.
const MAX_ROWS: usize = 100_000;

/// The maximum lag of an autocorrelation.
const MAX_LAG: usize = 1_000;

/// Autocorrelations end where this many in a row are within two standard errors of 0.
const QUIET_LAGS: usize = 5;

/// Independent values have no autocorrelation of this many times two standard errors, in one table
/// of a hundred with many columns.
const CLEAR: f64 = 2.0;

/// Autocorrelations end after this many times the sum of their absolute values: further ones would
/// add noise only (Sokal's window).
const WINDOW: f64 = 3.0;

/// Levels of a category with fewer rows than this have no feature: by chance two neighbours can
/// have the same rare level.
const MIN_LEVEL_ROWS: usize = 20;

/// The maximum number of levels of a category that have a feature: the most frequent ones.
const MAX_LEVELS: usize = 8;

/// The weight of the square of a normal score beside the score itself.
const SQUARE_WEIGHT: f32 = 0.5;

/// The autocorrelation time from which exchangeable rows are doubtful: tests at 5% then reject more
/// than 15% of independent pairs.
const DOUBTFUL_TIME: f64 = 2.0;

/// A series that is worth fewer independent rows than this is doubtful, or fair.
const DOUBTFUL_ROWS: f64 = 20.0;
const FAIR_ROWS: f64 = 50.0;

/// A function of a column with mean 0 and variance 1 over the rows.
pub(super) struct Feature {
    /// The index of the column.
    pub(super) column: usize,
    /// Its weight in a test of independence.
    pub(super) weight: f32,
    pub(super) values: Vec<f32>,
}

/// Returns the features of all columns: of a number its normal score, in which a Gaussian series
/// remembers longest, and the square of that, because the spread of a series can have a memory that
/// its values lack; of a category the indicators of its frequent levels. `tick` is called for every
/// column; its error ends the computation.
pub(super) fn features<E>(
    columns: &[Column],
    max_rows: usize,
    tick: impl Fn() -> Result<(), E>,
) -> Result<Vec<Feature>, E> {
    let mut features = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let raw = match &column.values {
            Values::Continuous(_) => {
                let scores = normal_scores(column, max_rows, &tick)?;
                let squares = scores.iter().map(|score| score * score).collect();
                vec![(1.0, scores), (SQUARE_WEIGHT, squares)]
            }
            Values::Discrete { codes, .. } => {
                tick()?;
                indicators(&codes[..codes.len().min(max_rows)])
            }
        };
        features.extend(raw.into_iter().filter_map(|(weight, values)| {
            Some(Feature { column: index, weight, values: standardised(&values)? })
        }));
    }
    Ok(features)
}

fn normal_scores<E>(
    column: &Column,
    max_rows: usize,
    tick: impl Fn() -> Result<(), E>,
) -> Result<Vec<f32>, E> {
    let rows: Vec<u32> = (0..column.len().min(max_rows) as u32).collect();
    let column = std::slice::from_ref(column);
    let scaler = SideScaler::plain(column, &rows, Scaling::Gaussian, tick)?;
    Ok(scaler.apply_continuous(column, &rows))
}

fn indicators(codes: &[u32]) -> Vec<(f32, Vec<f32>)> {
    let mut counts = std::collections::BTreeMap::<u32, usize>::new();
    codes.iter().for_each(|code| *counts.entry(*code).or_default() += 1);
    let mut levels: Vec<(u32, usize)> =
        counts.into_iter().filter(|(_, count)| *count >= MIN_LEVEL_ROWS).collect();
    levels.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    levels.truncate(MAX_LEVELS);
    let indicator = |level: u32| codes.iter().map(|code| f32::from(*code == level)).collect();
    levels.into_iter().map(|(level, _)| (1.0, indicator(level))).collect()
}

/// Returns the values with mean 0 and variance 1; `None` if they are constant.
fn standardised(values: &[f32]) -> Option<Vec<f32>> {
    let (mean, variance) = super::crossfit::mean_and_variance(values);
    let scale = 1.0 / variance.sqrt();
    (scale.is_finite() && variance > 1e-12)
        .then(|| values.iter().map(|v| ((f64::from(*v) - mean) * scale) as f32).collect())
}

/// Returns r(k) = 1/n sum_i z_i z_(i+k) of standardised values for k = 1, 2, ..., until they are
/// lost in noise; none if none of them is clearly different from 0.
fn autocorrelations(z: &[f32]) -> Vec<f64> {
    let n = z.len();
    let noise = 2.0 / (n as f64).sqrt();
    let (mut found, mut quiet, mut sum) = (Vec::new(), 0, 1.0);
    for lag in 1..=(n / 4).min(MAX_LAG) {
        let products = z.iter().zip(&z[lag..]).map(|(a, b)| f64::from(a * b));
        let r = products.sum::<f64>() / n as f64;
        quiet = if r.abs() < noise { quiet + 1 } else { 0 };
        sum += 2.0 * r.abs();
        found.push(r);
        if quiet == QUIET_LAGS || lag as f64 > WINDOW * sum {
            break;
        }
    }
    found.truncate(found.len() - quiet);
    if found.iter().all(|r| r.abs() < CLEAR * noise) {
        found.clear();
    }
    found
}

/// Returns the autocorrelation time of a single series: the mean of n values is as precise as that
/// of n / t independent ones, t = 1 + 2 sum_k r(k). It is (1 + phi)/(1 - phi) for an
/// autoregressive series of order 1. It is 1 if values are constant.
pub(super) fn autocorrelation_time(values: &[f64]) -> f64 {
    let values: Vec<f32> = values.iter().take(MAX_ROWS).map(|value| *value as f32).collect();
    let found = standardised(&values).map_or(Vec::new(), |z| autocorrelations(&z));
    (1.0 + 2.0 * found.iter().sum::<f64>()).max(1.0)
}

/// Returns whether a column is sorted: nearly all its changes have the same direction, or all rows
/// of each level are together.
fn is_sorted(column: &Column) -> bool {
    match &column.values {
        Values::Continuous(values) => {
            let ups = values.windows(2).filter(|pair| pair[0] < pair[1]).count();
            let downs = values.windows(2).filter(|pair| pair[0] > pair[1]).count();
            100 * ups.min(downs) <= ups.max(downs)
        }
        Values::Discrete { codes, .. } => {
            let changes = codes.windows(2).filter(|pair| pair[0] != pair[1]).count();
            let levels: std::collections::BTreeSet<&u32> = codes.iter().collect();
            changes < levels.len()
        }
    }
}

/// Returns whether neighbours differ as much as rows two steps apart: E(z_(i+2) - z_i)^2 is not
/// clearly larger than E(z_(i+1) - z_i)^2. That is so for independent noise around a slow trend, as
/// when exchangeable rows were sorted by another column; in a series with memory the difference
/// grows with the lag, by 1 + phi from lag 1 to lag 2 if it is autoregressive.
fn is_rough(z: &[f32]) -> bool {
    let square = |lag: usize| -> f64 {
        z.iter().zip(&z[lag.min(z.len())..]).map(|(a, b)| f64::from(a - b).powi(2)).sum()
    };
    square(2) <= square(1) * (1.0 + 4.0 * (2.0 / z.len() as f64).sqrt())
}

/// The serial dependence of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SerialDependence {
    rows: usize,
    /// The largest autocorrelation time of a feature of x with one of y.
    pub(super) time: f64,
    /// The largest one that the sorting of rows does not explain, with the columns.
    pub(super) unexplained: Option<(f64, [String; 2])>,
    /// The autocorrelation time of the log ratios, from which the mean log ratio's standard error
    /// is computed.
    pub(super) time_of_ratios: f64,
    /// The column by which rows seem to be sorted.
    pub(super) sorted_by: Option<String>,
}

/// The autocorrelations of a feature, and what they mean.
struct Memory<'a> {
    column: &'a Column,
    autocorrelations: Vec<f64>,
    /// Whether sorted rows explain them: the column is sorted, or rough around a trend.
    settled: bool,
}

impl SerialDependence {
    /// Measures the serial dependence of the rows of x and y. `tick` is called for every column; its
    /// error ends the computation.
    pub(super) fn of<E>(
        x: &[Column],
        y: &[Column],
        tick: impl Fn() -> Result<(), E>,
    ) -> Result<Self, E> {
        let sorted_by = x.iter().chain(y).find(|column| is_sorted(column));
        let (of_x, of_y) = (memories(x, &tick)?, memories(y, &tick)?);
        let mut serial = SerialDependence {
            rows: x.first().map_or(0, Column::len),
            time: 1.0,
            unexplained: None,
            time_of_ratios: 1.0,
            sorted_by: sorted_by.map(|column| column.name.clone()),
        };
        for a in &of_x {
            tick()?;
            for b in &of_y {
                let products = a.autocorrelations.iter().zip(&b.autocorrelations);
                let time = 1.0 + 2.0 * products.map(|(a, b)| a * b).sum::<f64>();
                serial.time = serial.time.max(time);
                let explained = sorted_by.is_some() && a.settled && b.settled;
                let longest = serial.unexplained.as_ref().map_or(1.0, |(longest, _)| *longest);
                if !explained && time > longest {
                    let names = [a, b].map(|memory| memory.column.name.clone());
                    serial.unexplained = Some((time, names));
                }
            }
        }
        Ok(serial)
    }

    /// Returns the serial dependence of rows that have none.
    #[cfg(test)]
    pub(super) fn none(rows: usize) -> Self {
        let (time, time_of_ratios) = (1.0, 1.0);
        SerialDependence { rows, time, unexplained: None, time_of_ratios, sorted_by: None }
    }

    /// Returns the number of independent rows that the rows are worth.
    pub(super) fn effective_rows(&self) -> f64 {
        self.rows as f64 / self.time
    }

    /// Returns a gap after which x and y have both forgotten: twice the autocorrelation time of the
    /// pair. For autoregressive series of order 1 the product of their autocorrelations has then
    /// fallen to e^-4. It is 0 if rows look exchangeable.
    pub(super) fn gap(&self) -> usize {
        if self.time < noticeable_time(self.rows) { 0 } else { (2.0 * self.time).ceil() as usize }
    }

    /// Returns the number of independent rows that rows of this order are worth.
    pub(super) fn rows_for(&self, order: RowOrder) -> f64 {
        match order {
            RowOrder::Exchangeable => self.rows as f64,
            RowOrder::Series { .. } | RowOrder::AutomaticSeries => self.effective_rows(),
        }
    }

    /// Returns the warning about rows of this order, if there is one.
    pub(super) fn reason(&self, order: RowOrder) -> Option<Reason> {
        match order {
            RowOrder::Exchangeable => self.series_in_disguise().or_else(|| self.sorted_rows()),
            RowOrder::Series { .. } | RowOrder::AutomaticSeries => self.short_series(),
        }
    }

    /// Rows that are treated as exchangeable but are like their neighbours.
    fn series_in_disguise(&self) -> Option<Reason> {
        // Log ratios vary with x, so sorted rows have similar ones.
        let of_ratios = if self.sorted_by.is_some() { 1.0 } else { self.time_of_ratios };
        let (of_columns, names) = match &self.unexplained {
            Some((time, [x, y])) => (*time, format!("columns '{x}' and '{y}'")),
            None => (1.0, String::new()),
        };
        let alike = if of_columns >= of_ratios { names } else { "their log ratios".into() };
        let time = of_columns.max(of_ratios);
        if time < noticeable_time(self.rows) {
            return None;
        }
        let limits_to =
            if time < DOUBTFUL_TIME { Reliability::Fair } else { Reliability::Doubtful };
        let text = format!(
            "neighbouring rows are similar ({alike}): the effective sample size of {} rows is about \
             {:.0}, so the p-value is too small and the interval too narrow; if rows are in time order, use ",
            self.rows,
            self.rows as f64 / time
        );
        let message = Message::from(text).parameter(Parameter::Blocks);
        Some(Reason { code: "serial-dependence", limits_to, message })
    }

    /// Rows that are like their neighbours because they are sorted, which does no harm.
    fn sorted_rows(&self) -> Option<Reason> {
        let column = self.sorted_by.as_ref()?;
        if self.time < noticeable_time(self.rows) {
            return None;
        }
        let message = Message::from(format!(
            "rows look sorted by column '{column}' and are treated as exchangeable; if they are a \
             time series, use "
        ));
        let message = message.parameter(Parameter::Blocks);
        Some(Reason { code: "sorted-rows", limits_to: Reliability::Good, message })
    }

    /// A series that is worth few independent rows.
    fn short_series(&self) -> Option<Reason> {
        let worth = self.effective_rows();
        let limits_to = match worth {
            _ if self.time < noticeable_time(self.rows) => return None,
            worth if worth < DOUBTFUL_ROWS => Reliability::Doubtful,
            worth if worth < FAIR_ROWS => Reliability::Fair,
            _ => return None,
        };
        let message = Message::from(format!(
            "neighbouring rows are similar: the effective sample size of this series of {} rows is about {worth:.0}, \
             too few to detect any but strong dependence",
            self.rows
        ));
        Some(Reason { code: "few-independent-rows", limits_to, message })
    }
}

fn memories<E>(columns: &[Column], tick: impl Fn() -> Result<(), E>) -> Result<Vec<Memory<'_>>, E> {
    let mut memories = Vec::new();
    for feature in features(columns, MAX_ROWS, &tick)? {
        tick()?;
        let column = &columns[feature.column];
        let autocorrelations = autocorrelations(&feature.values);
        if !autocorrelations.is_empty() {
            let settled = is_sorted(column) || is_rough(&feature.values);
            memories.push(Memory { column, autocorrelations, settled });
        }
    }
    Ok(memories)
}

/// Returns the autocorrelation time from which rows are not treated as exchangeable: a quarter more
/// than 1, and more if there are few rows, where chance gives autocorrelations of 1 / sqrt(n).
pub(super) fn noticeable_time(rows: usize) -> f64 {
    1.25 + 20.0 / rows.max(1) as f64
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::parallel::never;
    use crate::random::{Purpose, Rng, stream};
    use rand::RngExt;
    use rand_distr::StandardNormal;

    fn serial_dependence(x: &[Column], y: &[Column]) -> SerialDependence {
        let Ok(serial) = SerialDependence::of(x, y, never);
        serial
    }

    /// Returns a stationary autoregressive series of order 1 with variance 1.
    pub(in super::super) fn autoregressive(phi: f64, rows: usize, rng: &mut Rng) -> Vec<f64> {
        let mut value: f64 = rng.sample(StandardNormal);
        let step = |_| {
            let noise: f64 = rng.sample(StandardNormal);
            value = phi * value + (1.0 - phi * phi).sqrt() * noise;
            value
        };
        (0..rows).map(step).collect()
    }

    pub(in super::super) fn numbers(name: &str, values: Vec<f64>) -> Column {
        Column { name: name.into(), values: Values::Continuous(values) }
    }

    fn levels(name: &str, codes: Vec<u32>) -> Column {
        let labels = (0..=codes.iter().copied().max().unwrap_or(0)).map(|k| k.to_string());
        let labels = labels.collect();
        Column { name: name.into(), values: Values::Discrete { codes, labels } }
    }

    fn random(seed: u64) -> Rng {
        stream(seed, Purpose::Data, 0, 0)
    }

    fn reason(x: Vec<Column>, y: Vec<Column>) -> Option<(&'static str, Reliability)> {
        let reason = serial_dependence(&x, &y).reason(RowOrder::Exchangeable)?;
        Some((reason.code, reason.limits_to))
    }

    const DOUBTFUL: Option<(&str, Reliability)> =
        Some(("serial-dependence", Reliability::Doubtful));
    const SORTED: Option<(&str, Reliability)> = Some(("sorted-rows", Reliability::Good));

    /// The mean over 10 series has a standard deviation below 4% of the time (fixed seeds; 20% is
    /// at least 5 of them).
    #[test]
    fn the_autocorrelation_time_is_that_of_theory() {
        for phi in [0.0, 0.3, 0.6, 0.9] {
            let (mut single, mut of_pair) = (0.0, 0.0);
            for seed in 0..10 {
                let mut rng = random(seed);
                let [x, y] = [0, 1].map(|_| autoregressive(phi, 20_000, &mut rng));
                single += autocorrelation_time(&x) / 10.0;
                of_pair += serial_dependence(&[numbers("x", x)], &[numbers("y", y)]).time / 10.0;
            }
            let close = |found: f64, exact: f64| (found / exact - 1.0).abs() < 0.2;
            assert!(close(single, (1.0 + phi) / (1.0 - phi)), "{phi}: {single}");
            let product = phi * phi;
            assert!(close(of_pair, (1.0 + product) / (1.0 - product)), "{phi}: {of_pair}");
        }
    }

    /// Independent rows with dependent, heavy-tailed, tied and rare values in 12 columns: if 1% of
    /// tables gave a warning, more than 8 of 300 would have probability .004 (fixed seeds).
    #[test]
    fn exchangeable_rows_give_no_warning() {
        let alarms = (0..300u64).filter(|&seed| {
            let mut rng = random(seed);
            let rows = [60, 200, 1000][seed as usize % 3];
            let mut side = |shared: &[f64]| -> Vec<Column> {
                let mut draw = |weight: f64| -> Vec<f64> {
                    let noise = |value: &f64| weight * value + rng.sample::<f64, _>(StandardNormal);
                    shared.iter().map(noise).collect()
                };
                let codes = |values: Vec<f64>, scale: f64| {
                    levels("c", values.iter().map(|v| (v * scale).abs() as u32).collect())
                };
                vec![
                    numbers("a", draw(5.0)),
                    numbers("b", draw(0.5)),
                    numbers("tail", draw(2.0).iter().map(|v| v.powi(9)).collect()),
                    numbers("tied", draw(2.0).iter().map(|v| v.round()).collect()),
                    codes(draw(2.0), 1.0),
                    codes(draw(2.0), 100.0),
                ]
            };
            let shared = autoregressive(0.0, rows, &mut random(seed + 1000));
            reason(side(&shared), side(&shared)).is_some()
        });
        let count = alarms.count();
        assert!(count <= 8, "{count}");
    }

    #[test]
    fn series_are_recognised() {
        for seed in 0..20 {
            let mut rng = random(seed);
            let mut series = || autoregressive(0.9, 500, &mut rng);
            let (x, y, noise) = (series(), series(), autoregressive(0.0, 500, &mut random(seed)));
            let found = reason(vec![numbers("x", x.clone())], vec![numbers("y", y.clone())]);
            assert_eq!(found, DOUBTFUL, "{seed}");
            let state = |values: &[f64]| values.iter().map(|v| u32::from(*v > 0.3)).collect();
            let found = reason(vec![levels("x", state(&x))], vec![levels("y", state(&y))]);
            assert_eq!(found, DOUBTFUL, "{seed}: categories");
            // Only the spread of x has a memory.
            let spread = x.iter().zip(&noise).map(|(x, noise)| noise * (2.0 * x).exp()).collect();
            let found = reason(vec![numbers("x", spread)], vec![numbers("y", y)]);
            assert_eq!(found.map(|reason| reason.0), Some("serial-dependence"), "{seed}: spread");
            // A test of independence may permute y, which has no memory.
            assert_eq!(reason(vec![numbers("x", x)], vec![numbers("y", noise)]), None, "{seed}");
        }
    }

    /// Exchangeable rows stay exchangeable if a file has them in the order of one of its columns; a
    /// series does not become exchangeable if one column is the time.
    #[test]
    fn sorted_rows_are_not_mistaken_for_a_series() {
        for seed in 0..20 {
            let mut rng = random(seed);
            let mut x = autoregressive(0.0, 500, &mut rng);
            x.sort_unstable_by(f64::total_cmp);
            let noise = autoregressive(0.0, 500, &mut rng);
            let y: Vec<f64> = x.iter().zip(&noise).map(|(x, noise)| x + noise).collect();
            let label: Vec<u32> = x.iter().map(|x| (x + 10.0) as u32).collect();
            let sorted = reason(vec![numbers("x", x.clone())], vec![numbers("y", y.clone())]);
            assert_eq!(sorted, SORTED, "{seed}");
            assert_eq!(reason(vec![numbers("y", y)], vec![levels("label", label)]), SORTED);
            let series = numbers("y", autoregressive(0.9, 500, &mut rng));
            assert_eq!(reason(vec![numbers("time", x)], vec![series]), DOUBTFUL, "{seed}");
        }
    }

    #[test]
    fn a_series_of_few_independent_rows_is_reported() {
        let series = RowOrder::Series { gap: 10 };
        let worth = |time: f64| {
            let serial = SerialDependence { time, ..SerialDependence::none(1000) };
            serial.reason(series).map(|reason| (reason.code, reason.limits_to))
        };
        assert_eq!(worth(1.0), None);
        assert_eq!(worth(10.0), None);
        assert_eq!(worth(30.0), Some(("few-independent-rows", Reliability::Fair)));
        assert_eq!(worth(100.0), Some(("few-independent-rows", Reliability::Doubtful)));
        assert_eq!(SerialDependence::none(1000).gap(), 0);
        assert_eq!(SerialDependence { time: 9.5, ..SerialDependence::none(1000) }.gap(), 19);
    }

    #[test]
    fn alike_log_ratios_are_a_warning_unless_rows_are_sorted() {
        let mut serial = SerialDependence { time_of_ratios: 1.5, ..SerialDependence::none(1000) };
        let text = serial.reason(RowOrder::Exchangeable).unwrap().message.to_string();
        assert!(text.contains("log ratios") && text.contains("667") && text.ends_with("blocks"));
        serial.sorted_by = Some("x".into());
        assert_eq!(serial.reason(RowOrder::Exchangeable), None);
    }
}

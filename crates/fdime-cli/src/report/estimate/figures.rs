//! What the figures of an estimate show, as plain data, so that they can be drawn again from JSON.

use crate::plot::finite_range;
use crate::plot::marks::count_in_bins;
use fdime::data::{Column, Values};
use fdime::estimate::EstimateReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The maximum number of rows that are drawn.
const MAX_POINTS: usize = 1000;
/// The maximum number of columns of x and of y that are considered for the scatter plot.
const MAX_COLUMNS: usize = 30;
/// The numbers of bars of the histograms of pointwise information and of the test.
const BINS: usize = 60;
const TEST_BINS: usize = 40;

/// The data of all figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EstimateFigures {
    /// The test of independence, if the method has one.
    pub test: Option<TestFigure>,
    /// The log ratios of all rows.
    pub pointwise: PointwiseFigure,
    /// Some rows of one column of x and one of y.
    pub scatter: Option<ScatterFigure>,
}

/// The statistics of the test of independence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestFigure {
    /// That of the data.
    pub observed_nats: f64,
    /// Those of random pairings.
    pub null: Histogram,
}

/// Counts of values in bars of equal width.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Histogram {
    /// The low end of the first bar.
    pub low_nats: f64,
    /// The high end of the last bar.
    pub high_nats: f64,
    /// The count of each bar; the outermost bars also count the values beyond them.
    pub counts: Vec<usize>,
}

/// The log ratios of all rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointwiseFigure {
    /// Their histogram.
    pub histogram: Histogram,
    /// The mean of all rows.
    pub mean_nats: f64,
    /// The share of rows whose log ratio is negative.
    pub negative: f64,
}

/// The two columns with the largest rank correlation; of a conditional estimate, their residuals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScatterFigure {
    /// The column of x.
    pub x: ScatterColumn,
    /// The column of y.
    pub y: ScatterColumn,
    /// The log ratio of each row.
    pub log_ratio_nats: Vec<f64>,
}

/// The coordinates of some rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScatterColumn {
    /// The name of the column.
    pub name: String,
    /// The categories in the order of their places 0, 1, 2, ...; none for numbers.
    pub labels: Vec<String>,
    /// The coordinate of each row; rows of a category are spread around its place.
    pub values: Vec<f64>,
}

impl EstimateFigures {
    /// Returns the figures of an estimate.
    pub fn new(report: &EstimateReport) -> Self {
        let test = report.estimate.independence.as_ref().map(|test| {
            let range = finite_range(test.null.iter().copied().chain([test.observed]));
            let null = Histogram::new(&test.null, TEST_BINS, range);
            TestFigure { observed_nats: rounded(test.observed), null }
        });
        EstimateFigures {
            test,
            pointwise: PointwiseFigure::new(&report.estimate.pointwise),
            scatter: ScatterFigure::new(report),
        }
    }
}

impl Histogram {
    fn new(values: &[f64], bins: usize, (low, high): (f64, f64)) -> Self {
        let counts = count_in_bins(values, bins, (low, high));
        Histogram { low_nats: rounded(low), high_nats: rounded(high), counts }
    }
}

impl PointwiseFigure {
    fn new(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        // A few extreme values, which count in the outermost bars, must not stretch the axis.
        let histogram = Histogram::new(&sorted, BINS, central_range(&sorted, 0.002));
        let (count, negative) =
            (sorted.len().max(1) as f64, sorted.iter().filter(|value| **value < 0.0).count());
        PointwiseFigure {
            histogram,
            mean_nats: rounded(sorted.iter().sum::<f64>() / count),
            negative: rounded(negative as f64 / count),
        }
    }
}

impl ScatterFigure {
    /// Returns the figure; `None` if a side has no columns.
    fn new(report: &EstimateReport) -> Option<Self> {
        let n = report.table.kept.len();
        let rows: Vec<usize> = (0..n).step_by(n.div_ceil(MAX_POINTS).max(1)).collect();
        let (x, y) = most_correlated(report, &rows)?;
        let ratios = rows.iter().map(|&row| rounded(report.estimate.pointwise[row]));
        Some(ScatterFigure {
            x: x.column(&rows),
            y: y.column(&rows),
            log_ratio_nats: ratios.collect(),
        })
    }
}

/// Returns the number with five significant digits, more than a figure shows.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// A column of the scatter plot.
#[derive(Clone, Copy)]
enum Side {
    X,
    Y,
}

/// A column and the coordinates of its rows.
struct Coordinates<'a> {
    column: &'a Column,
    side: Side,
    /// The place of each category on the axis; empty for numbers.
    places: Vec<usize>,
}

impl<'a> Coordinates<'a> {
    fn new(column: &'a Column, side: Side) -> Self {
        let places = match &column.values {
            Values::Continuous(_) => Vec::new(),
            Values::Discrete { labels, .. } => {
                let mut places = vec![0; labels.len()];
                for (place, label) in sorted_labels(labels).into_iter().enumerate() {
                    places[label] = place;
                }
                places
            }
        };
        Coordinates { column, side, places }
    }

    /// Returns the coordinate of a row; rows of a category are spread around its place.
    fn of(&self, row: usize) -> f64 {
        match &self.column.values {
            Values::Continuous(values) => values[row],
            Values::Discrete { codes, .. } => {
                let place = self.places.get(codes[row] as usize).map_or(f64::NAN, |p| *p as f64);
                place + 0.6 * jitter(row, self.side)
            }
        }
    }

    /// Returns the coordinates of some rows.
    fn column(&self, rows: &[usize]) -> ScatterColumn {
        let labels = match &self.column.values {
            Values::Continuous(_) => Vec::new(),
            Values::Discrete { labels, .. } => {
                sorted_labels(labels).into_iter().map(|label| labels[label].clone()).collect()
            }
        };
        let values = rows.iter().map(|&row| rounded(self.of(row))).collect();
        ScatterColumn { name: self.column.name.clone(), labels, values }
    }
}

/// Returns the indices of labels in their order: numbers by value, other labels by text.
fn sorted_labels(labels: &[String]) -> Vec<usize> {
    let numbers: Vec<Option<f64>> = labels.iter().map(|label| label.parse().ok()).collect();
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by(|&a, &b| match (numbers[a], numbers[b]) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => labels[a].cmp(&labels[b]),
    });
    order
}

/// Returns a number between -1/2 and 1/2 that looks random. Those of the two sides are
/// independent, or points would lie on diagonals.
fn jitter(row: usize, side: Side) -> f64 {
    // The output function of SplitMix64.
    let mut bits = (2 * row as u64 + side as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    bits as f64 / u64::MAX as f64 - 0.5
}

/// Returns the correlation of the ranks of two columns over some rows.
fn rank_correlation(left: &Coordinates, right: &Coordinates, rows: &[usize]) -> f64 {
    let ranks = |coordinates: &Coordinates| -> Vec<f64> {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let keys: Vec<f64> = rows.iter().map(|&row| coordinates.of(row)).collect();
        order.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]));
        let mut ranks = vec![0.0; rows.len()];
        for (rank, index) in order.into_iter().enumerate() {
            ranks[index] = rank as f64 - (rows.len() as f64 - 1.0) / 2.0;
        }
        ranks
    };
    let (left, right) = (ranks(left), ranks(right));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(&left, &right) / (dot(&left, &left) * dot(&right, &right)).sqrt().max(1e-300)
}

/// Returns the columns of x and y with the largest rank correlation; `None` if a side has none. Those
/// of a conditional estimate are residuals.
fn most_correlated<'a>(
    report: &EstimateReport<'a>,
    rows: &[usize],
) -> Option<(Coordinates<'a>, Coordinates<'a>)> {
    let coordinates = |columns: &'a [Column], side| -> Vec<Coordinates<'a>> {
        columns.iter().take(MAX_COLUMNS).map(|column| Coordinates::new(column, side)).collect()
    };
    let (x, y) = match &report.estimate.residuals {
        Some(residuals) => (&residuals.x, &residuals.y),
        None => (&report.table.x, &report.table.y),
    };
    let (mut xs, mut ys) = (coordinates(x, Side::X), coordinates(y, Side::Y));
    let pairs = (0..xs.len()).flat_map(|x| (0..ys.len()).map(move |y| (x, y)));
    let (_, x, y) = pairs
        .map(|(x, y)| (rank_correlation(&xs[x], &ys[y], rows).abs(), x, y))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((xs.swap_remove(x), ys.swap_remove(y)))
}

/// Returns the range of sorted values without a share of them at either end; (0, 0) if there are
/// none.
pub fn central_range(sorted: &[f64], share: f64) -> (f64, f64) {
    let Some(last) = sorted.len().checked_sub(1) else { return (0.0, 0.0) };
    let cut = (last as f64 * share) as usize;
    (sorted[cut], sorted[last - cut])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discrete(labels: &[&str], rows: usize) -> Column {
        let labels: Vec<String> = labels.iter().map(|label| label.to_string()).collect();
        let codes = (0..rows).map(|row| (row % labels.len()) as u32).collect();
        Column { name: "kind".into(), values: Values::Discrete { codes, labels } }
    }

    #[test]
    fn rows_of_two_categories_are_spread_independently() {
        let column = discrete(&["a"], 2000);
        let (x, y) = (Coordinates::new(&column, Side::X), Coordinates::new(&column, Side::Y));
        for every in [1, 2, 3] {
            let rows: Vec<usize> = (0..2000).step_by(every).collect();
            assert!(rank_correlation(&x, &y, &rows).abs() < 0.1, "every {every}");
            assert!(rows.iter().all(|&row| x.of(row).abs() < 0.31 && y.of(row).abs() < 0.31));
        }
    }

    #[test]
    fn categories_have_places_in_their_order() {
        let column = discrete(&["10", "9", "b", "a"], 4);
        let shown = Coordinates::new(&column, Side::X).column(&[0, 1]);
        assert_eq!(shown.labels, ["9", "10", "a", "b"]);
        assert!(shown.values[0] > shown.values[1], "10 is to the right of 9");
    }

    #[test]
    fn extreme_values_count_in_the_outermost_bars() {
        let mut values: Vec<f64> = (0..2000).map(|k| f64::from(k) / 2000.0).collect();
        values.extend([-1e6, 1e6]);
        let figure = PointwiseFigure::new(&values);
        assert!(figure.histogram.low_nats >= 0.0 && figure.histogram.high_nats <= 1.0);
        let total = |figure: &PointwiseFigure| figure.histogram.counts.iter().sum::<usize>();
        assert_eq!((total(&figure), total(&PointwiseFigure::new(&[0.5; 3]))), (values.len(), 3));
        assert_eq!(PointwiseFigure::new(&[]).histogram.counts, [0; BINS]);
        assert_eq!(rounded(0.123_456_789), 0.12346);
    }
}

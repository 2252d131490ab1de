//! Mutual information between two series at lags: a profile, and the journal of finished lags.

use super::conditional::{estimate_given_recordings, refuse_incompatible};
use super::lag_test::LagTest;
use super::matrix::PairEstimate;
use super::method::Method;
use super::plan::{Effort, EstimatePlan};
use super::progress::{Progress, advance};
use super::timeline::Timeline;
use super::{RowOrder, benjamini_hochberg, estimate_recordings};
use crate::data::{Column, Frame, PairTable, Reading};
use crate::engine::Engine;
use crate::error::{Error, Result, invalid, quote};
use crate::journal::{Entry, Journal};
use crate::message::{Message, Neutral, Parameter, Wording, counted};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Everything that determines a profile, except the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LagPlan {
    /// The lags in ascending order: x at step t is compared with y at step t + lag.
    pub lags: Vec<i64>,
    /// How each lag is estimated.
    pub estimate: EstimatePlan,
}

impl LagPlan {
    /// Returns the plan for these lags, sorted and each once. Rows are a series whose gap is computed
    /// from its autocorrelation time.
    pub fn new(lags: impl IntoIterator<Item = i64>, method: Method, effort: Effort) -> Self {
        let order = RowOrder::AutomaticSeries;
        let estimate = EstimatePlan { order, ..EstimatePlan::new(method, effort) };
        LagPlan { lags: Vec::new(), estimate }.with_lags(lags)
    }

    /// Returns the plan with these lags, sorted and each once.
    pub fn with_lags(mut self, lags: impl IntoIterator<Item = i64>) -> Self {
        self.lags = lags.into_iter().collect();
        self.lags.sort_unstable();
        self.lags.dedup();
        self
    }

    /// Checks that the plan can be run on these series.
    ///
    /// # Errors
    /// The first invalid setting, or a column that is constant.
    pub fn check(&self, series: &LagSeries) -> Result<()> {
        if self.lags.is_empty() {
            return Err(invalid(Parameter::Lags, "[]", "give at least one lag"));
        }
        if self.lags.windows(2).any(|pair| pair[0] >= pair[1]) {
            let problem = "the lags of the plan are not in ascending order".into();
            return Err(Error::Plan { problem });
        }
        let rows = series.timeline.rows();
        if !series.given.is_empty() {
            refuse_incompatible(&self.estimate)?;
        }
        for column in [series.x, series.y].into_iter().chain(series.given) {
            if column.len() != rows {
                let columns = [(column.name.clone(), column.len()), ("x".into(), rows)];
                return Err(Error::UnequalColumns { columns });
            }
            if column.is_constant() {
                let name = quote(&column.name);
                let problem = format!("column {name} has the same value in every row");
                return Err(Error::Columns { problem });
            }
        }
        self.check_lengths(series.timeline)?;
        self.estimate.check(rows)
    }

    /// Checks that every recording is more than twice as long as the lags, so that most of its rows
    /// are compared at every lag.
    fn check_lengths(&self, timeline: &Timeline) -> Result<()> {
        let largest = self.lags.iter().copied().max_by_key(|lag| lag.unsigned_abs()).unwrap_or(0);
        let Some(shortest) = timeline.shortest() else {
            return Err(Error::Columns { problem: "no row has a time and a recording".into() });
        };
        let steps = shortest.steps.len();
        let most = steps.saturating_sub(1) / 2;
        if largest.unsigned_abs() <= most as u64 {
            return Ok(());
        }
        let steps = counted(steps, "step");
        let expected = match &shortest.name {
            None => format!("the series has {steps}; lags must be at most {most}, half of that").into(),
            Some(name) => Message::from(format!(
                "recording {} has {steps}, and lags must be at most half of that, {most}; use smaller \
                 lags, or leave out short recordings of ",
                quote(name)
            ))
            .parameter(Parameter::Group),
        };
        Err(invalid(Parameter::Lags, largest, expected))
    }
}

/// Two series and the places of their rows in time. Values may be missing.
#[derive(Clone, Copy)]
pub struct LagSeries<'a> {
    /// The series that is compared at step t.
    pub x: &'a Column,
    /// The series that is compared at step t + lag.
    pub y: &'a Column,
    /// The columns that are held fixed, both at step t and at step t + lag. Without any, it is a mutual
    /// information, else a conditional one.
    pub given: &'a [Column],
    /// The places of the rows.
    pub timeline: &'a Timeline,
}

impl LagSeries<'_> {
    /// Returns whether a column, x or y, and all that is held fixed have values in a row.
    pub(super) fn has_values(&self, column: &Column, row: usize) -> bool {
        !column.is_missing(row) && self.given.iter().all(|given| !given.is_missing(row))
    }

    /// Returns the columns of a lag: x, y, and what is held fixed at the time of x, then at that of y.
    fn columns(&self, x_rows: &[usize], y_rows: &[usize], lag: i64) -> Vec<Column> {
        let at = |step: i64, rows: &[usize]| {
            let time = if step == 0 { "t".to_string() } else { format!("t{step:+}") };
            let column = |given: &Column| Column {
                name: format!("{}({time})", given.name),
                ..self.timeline.centred(given).at(rows)
            };
            self.given.iter().map(column).collect::<Vec<Column>>()
        };
        let centred = |column, rows| self.timeline.centred(column).at(rows);
        let mut columns = vec![centred(self.x, x_rows), centred(self.y, y_rows)];
        // A column that is constant in these rows explains nothing.
        columns.extend(at(0, x_rows).into_iter().filter(|column| !column.is_constant()));
        if lag != 0 {
            columns.extend(at(lag, y_rows).into_iter().filter(|column| !column.is_constant()));
        }
        columns
    }

    /// Returns the rows of x and of y that are a lag apart within a recording and all have values,
    /// with the first position of each recording but the first.
    fn aligned(&self, lag: i64) -> ([Vec<usize>; 2], Vec<usize>) {
        let (mut x_rows, mut y_rows, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        for recording in &self.timeline.recordings {
            if !x_rows.is_empty() && starts.last() != Some(&x_rows.len()) {
                starts.push(x_rows.len());
            }
            for (step, x_row) in recording.steps.iter().enumerate() {
                let other = usize::try_from(step as i64 + lag).ok();
                let y_row = other.and_then(|other| recording.steps.get(other).copied().flatten());
                if let (Some(x_row), Some(y_row)) = (*x_row, y_row)
                    && self.has_values(self.x, x_row)
                    && self.has_values(self.y, y_row)
                {
                    x_rows.push(x_row);
                    y_rows.push(y_row);
                }
            }
        }
        if starts.last() == Some(&x_rows.len()) {
            starts.pop();
        }
        ([x_rows, y_rows], starts)
    }
}

/// The estimate at one lag.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LagEstimate {
    /// The lag: positive if y is later than x.
    pub lag: i64,
    /// The estimate; `None` if there is a problem.
    pub mi_nats: Option<f64>,
    /// The lower end of its interval.
    pub ci_low: Option<f64>,
    /// The upper end of its interval.
    pub ci_high: Option<f64>,
    /// The p-value of the estimate's own test of independence, for this lag alone; `None` if there
    /// are several recordings, between which that test would shift rows.
    pub p_value: Option<f64>,
    /// The p-value adjusted for the number of lags, once the profile is complete: see [`LagTest`].
    #[serde(default)]
    pub p_adjusted: Option<f64>,
    /// The statistic of that test.
    #[serde(default)]
    pub statistic_nats: Option<f64>,
    /// The number of pairs of rows in which both have values.
    pub n_rows: usize,
    /// The reliability according to the verdict.
    pub reliability: Option<String>,
    /// The codes of the verdict's reasons, separated by spaces.
    #[serde(default)]
    pub reasons: Option<String>,
    /// Why there is no estimate.
    pub problem: Option<String>,
}

impl LagEstimate {
    /// Estimates one lag. A problem with the lag is part of the result, because it must not end the
    /// estimates of other lags; it names parameters in the words of `wording`. The only error is an
    /// interruption.
    pub fn new(
        series: &LagSeries,
        lag: i64,
        plan: &EstimatePlan,
        reading: &Reading,
        wording: &dyn Wording,
        engine: &dyn Engine,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let ([x_rows, y_rows], starts) = series.aligned(lag);
        let columns = series.columns(&x_rows, &y_rows, lag);
        let run = |PairTable { x, y, given, .. }: &PairTable| match given.is_empty() {
            true => estimate_recordings(x, y, &starts, plan, engine, progress),
            false => estimate_given_recordings([x, y, given], &starts, plan, engine, progress),
        };
        let names = [series.x, series.y].map(|column| column.name.as_str());
        // The rows of a series are never drawn at random.
        let reading = Reading { sample_rows: None, ..*reading };
        let table = Frame { columns, rows: x_rows.len(), notes: Vec::new() }.into_pairs(
            1,
            1,
            &reading,
            &names.join(" and "),
        );
        let found = PairEstimate::of_table(names, table, wording, run)?;
        Ok(LagEstimate {
            lag,
            mi_nats: found.mi_nats,
            ci_low: found.ci_low,
            ci_high: found.ci_high,
            p_value: found.p_value.filter(|_| starts.is_empty()),
            p_adjusted: None,
            statistic_nats: None,
            n_rows: x_rows.len(),
            reliability: found.reliability,
            reasons: found.reasons,
            problem: found.problem,
        })
    }
}

/// The mutual information between two series at all lags of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LagProfile {
    /// The name of the first series.
    pub x: String,
    /// The name of the second series.
    pub y: String,
    /// The names of the columns that are held fixed.
    #[serde(default)]
    pub given: Vec<String>,
    /// The lag with the largest estimate; `None` if no lag has one.
    pub largest_at: Option<i64>,
    /// The p-value of the test of independence at all lags: the smallest adjusted one.
    pub p_value: f64,
    /// This p-value adjusted for the number of profiles, once all are known.
    #[serde(default)]
    pub p_over_pairs: Option<f64>,
    /// The band of the test's statistic: see [`LagTest::band_nats`].
    pub band_nats: f64,
    /// The smallest adjusted p-value that is possible: see [`LagTest::smallest_p`].
    pub smallest_p: f64,
    /// The estimates, in the order of the plan.
    pub lags: Vec<LagEstimate>,
}

impl LagProfile {
    /// Returns the profile of the estimates of all lags of a plan, with the test's p-values.
    pub fn new(series: &LagSeries, mut lags: Vec<LagEstimate>, test: &LagTest) -> Self {
        let tested = test.p_adjusted.iter().zip(&test.statistic_nats);
        for (lag, (p_adjusted, statistic)) in lags.iter_mut().zip(tested) {
            lag.p_adjusted = Some(*p_adjusted);
            lag.statistic_nats = Some(*statistic);
        }
        let mut profile = LagProfile {
            x: series.x.name.clone(),
            y: series.y.name.clone(),
            given: series.given.iter().map(|column| column.name.clone()).collect(),
            largest_at: None,
            p_value: test.p_adjusted.iter().copied().fold(1.0, f64::min),
            p_over_pairs: None,
            band_nats: test.band_nats,
            smallest_p: test.smallest_p,
            lags,
        };
        profile.largest_at = profile.largest().map(|lag| lag.lag);
        profile
    }

    /// Returns the lag with the largest estimate; `None` if no lag has one. Of equal ones it is the
    /// first with the smallest adjusted p-value.
    pub fn largest(&self) -> Option<&LagEstimate> {
        let found = self.lags.iter().filter(|lag| lag.mi_nats.is_some());
        found.min_by(|a, b| {
            let by_estimate = b.mi_nats.partial_cmp(&a.mi_nats);
            let by_p_value = a.p_adjusted.partial_cmp(&b.p_adjusted);
            by_estimate
                .into_iter()
                .chain(by_p_value)
                .fold(std::cmp::Ordering::Equal, |a, b| a.then(b))
        })
    }

    /// Adjusts the p-values of all profiles for their number (Benjamini-Hochberg).
    pub fn adjust(profiles: &mut [LagProfile]) {
        let p_values: Vec<Option<f64>> =
            profiles.iter().map(|profile| Some(profile.p_value)).collect();
        for (profile, adjusted) in profiles.iter_mut().zip(benjamini_hochberg(&p_values)) {
            profile.p_over_pairs = adjusted;
        }
    }
}

/// Estimates the mutual information between x at step t and y at step t + lag for all lags of a plan,
/// given the columns that are held fixed at both steps, with a test over all lags. Progress is in lags.
///
/// ```
/// use fdime::CpuEngine;
/// use fdime::data::{Column, Values};
/// use fdime::estimate::*;
///
/// let column = |name: &str, values: Vec<f64>| Column {
///     name: name.into(),
///     values: Values::Continuous(values),
/// };
/// let noise = |k: i32| ((f64::from(k) * 12.9898).sin() * 43758.5453).fract();
/// let x = column("x", (0..400).map(noise).collect());
/// let y = column("y", (0..400).map(|k| noise(k - 3) + 0.3 * noise(k + 9999)).collect());
/// let timeline = Timeline::new(400, None, None)?;
/// let series = LagSeries { x: &x, y: &y, given: &[], timeline: &timeline };
/// let plan = LagPlan::new(-5..=5, Method::GaussianCopula, Effort::Quick);
/// let profile = lagged_information(&series, &plan, &CpuEngine::new(0), &NoProgress)?;
/// assert_eq!(profile.largest_at, Some(3));
/// assert!(profile.p_value < 0.05);
/// # Ok::<(), fdime::Error>(())
/// ```
///
/// # Errors
/// As for [`LagPlan::check`], and if `progress` ends it.
pub fn lagged_information(
    series: &LagSeries,
    plan: &LagPlan,
    engine: &dyn Engine,
    progress: &dyn Progress,
) -> Result<LagProfile> {
    plan.check(series)?;
    progress.begin(plan.lags.len() as u64);
    let (reading, part) = (Reading::default(), Part(progress));
    let mut lags = Vec::with_capacity(plan.lags.len());
    for &lag in &plan.lags {
        let estimate = &plan.estimate;
        lags.push(LagEstimate::new(series, lag, estimate, &reading, &Neutral, engine, &part)?);
        advance(progress, 1)?;
    }
    let test = LagTest::new(series, plan, &part)?;
    Ok(LagProfile::new(series, lags, &test))
}

/// A part of a larger work, which may end it and does not report its own progress.
struct Part<'a>(&'a dyn Progress);

impl Progress for Part<'_> {
    fn begin(&self, _total: u64) {}

    fn advance(&self, _units: u64) -> ControlFlow<()> {
        self.0.advance(0)
    }
}

/// A finished lag, identified by the positions of its two columns and the lag.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LagRecord {
    /// The positions of x and y, and the lag.
    pub lag: (usize, usize, i64),
    /// The estimate.
    pub found: LagEstimate,
}

impl Entry for LagRecord {
    type Key = (usize, usize, i64);
    const LINE_START: &'static str = "{\"lag\":";

    fn key(&self) -> &(usize, usize, i64) {
        &self.lag
    }
}

/// The lags that are finished, behind a [`SeriesHeading`](super::SeriesHeading) with the plan of each
/// estimate. The lags are not part of it, so that a request for more of them continues the journal.
pub type LagJournal = Journal<LagRecord>;

#[cfg(test)]
mod tests {
    use super::super::serial::tests::numbers;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Rows hold their own place in time, so that pairs can be checked by values.
        #[test]
        fn aligned_rows_are_a_lag_apart_within_a_recording_and_have_values(
            rows in prop::collection::vec((0u8..3, any::<bool>(), any::<bool>()), 1..60),
            lag in -5i64..6,
        ) {
            let value = |row: usize, there: bool| if there { row as f64 } else { f64::NAN };
            let places = || rows.iter().enumerate();
            let x = numbers("x", places().map(|(row, rest)| value(row, rest.1)).collect());
            let y = numbers("y", places().map(|(row, rest)| value(row, rest.2)).collect());
            let group = numbers("g", rows.iter().map(|row| f64::from(row.0)).collect());
            let timeline = Timeline::new(rows.len(), None, Some(&group)).unwrap();
            let series = LagSeries { x: &x, y: &y, given: &[], timeline: &timeline };
            let ([x_rows, y_rows], starts) = series.aligned(lag);
            // The place of a row among the rows of its recording.
            let step = |row: usize| rows[..row].iter().filter(|r| r.0 == rows[row].0).count() as i64;
            let mut expected = Vec::new();
            for (a, of_a) in places() {
                for (b, of_b) in places() {
                    if of_a.0 == of_b.0 && of_a.1 && of_b.2 && step(b) - step(a) == lag {
                        expected.push((a, b));
                    }
                }
            }
            let mut found: Vec<(usize, usize)> =
                x_rows.iter().copied().zip(y_rows.iter().copied()).collect();
            let changes = found.windows(2).map(|pair| rows[pair[0].0].0 != rows[pair[1].0].0);
            let changes = (1..).zip(changes).filter(|(_, change)| *change).map(|(row, _)| row);
            prop_assert_eq!(starts, changes.collect::<Vec<usize>>());
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn impossible_plans_are_refused() {
        let x = numbers("x", (0..50).map(f64::from).collect());
        let (constant, timeline) =
            (numbers("c", vec![1.0; 50]), Timeline::new(50, None, None).unwrap());
        let refusal = |lags: Vec<i64>, y: &Column| {
            let plan = LagPlan::new(lags, Method::Auto, Effort::Quick);
            let series = LagSeries { x: &x, y, given: &[], timeline: &timeline };
            plan.check(&series).unwrap_err().to_string()
        };
        assert_eq!(refusal(vec![], &x), "lags = []: give at least one lag");
        let text = "lags = -25: the series has 50 steps; lags must be at most 24, half of that";
        assert_eq!(refusal(vec![3, -25], &x), text);
        assert!(refusal(vec![1], &constant).contains("'c' has the same value in every row"));
        let short = numbers("y", vec![1.0, 2.0]);
        assert!(refusal(vec![1], &short).contains("'y' has 2 rows, but 'x' has 50"));
    }
}

//! Transfer entropy: what the past of one series tells about the next value of another beyond that
//! series' own past, for single directions and for networks.
//!
//! TE(X -> Y) = I(Y_t; X_(t-l) for l in lags | Y_(t-1), ..., Y_(t-history))
//!
//! It is a conditional estimate ([`estimate_given`]) of rows that are instants of time. Its test
//! shifts what is left of Y_t after the regression on its own past. If nothing is transferred, that
//! is unrelated to the past of both series, while each of these keeps its own dynamics and whatever
//! the two have in common.

use super::conditional::estimate_given;
use super::folds::{RowOrder, largest_gap};
use super::inputs::thinned;
use super::matrix::PairEstimate;
use super::method::Method;
use super::multiple::benjamini_hochberg;
use super::plan::{Effort, EstimatePlan};
use super::progress::{Progress, check};
use super::regression::predict;
use super::result::Estimate;
use super::timeline::Timeline;
use crate::data::{Column, Frame, PairTable, Reading, Values};
use crate::engine::Engine;
use crate::error::{Error, Result, invalid, quote};
use crate::journal::{Entry, Journal};
use crate::message::{Message, Parameter, Wording, counted};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// The maximum number of steps of history, and of lags.
const MAX_PAST: usize = 100;

/// The longest history that is chosen automatically.
const MAX_CHOSEN_HISTORY: usize = 10;

/// The maximum number of instants that the history is chosen from, and the minimum.
const MAX_CHOICE_ROWS: usize = 5_000;
const MIN_CHOICE_ROWS: usize = 40;

/// A longer history is chosen only if it tells more than this many nats about the next value.
const MIN_GAIN: f64 = 0.005;

/// Everything that determines a transfer entropy, except the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferPlan {
    /// The number of past values of the target that are held fixed; `None` if it is chosen: see
    /// [`for_target`](Self::for_target).
    pub history: Option<usize>,
    /// The lags of the source, in ascending order; `None` for 1 to `history`.
    pub lags: Option<Vec<usize>>,
    /// How each direction is estimated.
    pub estimate: EstimatePlan,
}

impl TransferPlan {
    /// Returns the plan with a chosen history and the same lags. Rows are a series whose gap is
    /// computed from its autocorrelation time.
    pub fn new(method: Method, effort: Effort) -> Self {
        let order = RowOrder::AutomaticSeries;
        let estimate = EstimatePlan { order, ..EstimatePlan::new(method, effort) };
        TransferPlan { history: None, lags: None, estimate }
    }

    /// Checks that the plan can be run on series with these places in time.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self, timeline: &Timeline) -> Result<()> {
        if let Some(history) = self.history.filter(|history| !(1..=MAX_PAST).contains(history)) {
            let expected =
                format!("must be between 1 and {MAX_PAST} steps of the series' own past");
            return Err(invalid(Parameter::History, history, expected));
        }
        if let Some(lags) = &self.lags {
            check_lags(lags)?;
        }
        if self.estimate.order == RowOrder::Exchangeable {
            let problem = "the rows of a transfer entropy are a series, not exchangeable".into();
            return Err(Error::Plan { problem });
        }
        if self.estimate.method == Method::Ksg {
            return Err(Error::Incompatible {
                parameter: Parameter::Estimator,
                value: Method::Ksg.to_string(),
                other: "transfer entropy".into(),
                reason: "nearest neighbours have no conditional estimate here; use auto".into(),
            });
        }
        self.check_lengths(timeline)?;
        self.estimate.check(timeline.rows())
    }

    /// Checks that every recording is more than twice as long as the past that is used.
    fn check_lengths(&self, timeline: &Timeline) -> Result<()> {
        let Some(shortest) = timeline.shortest() else {
            return Err(Error::Columns { problem: "no row has a time and a recording".into() });
        };
        let steps = shortest.steps.len();
        let most = steps.saturating_sub(1) / 2;
        let lag = self.lags.iter().flatten().copied().max().unwrap_or(1);
        let history = self.history.unwrap_or(1);
        let (parameter, longest) = match history > lag {
            true => (Parameter::History, history),
            false => (Parameter::Lags, lag),
        };
        if longest <= most {
            return Ok(());
        }
        let steps = counted(steps, "step");
        let expected = match &shortest.name {
            None => format!("must be at most {most}, half of the {steps} of the series").into(),
            Some(name) => Message::from(format!(
                "recording {} has {steps}, and at most half of that is used as past; use less, or \
                 leave out short recordings of ",
                quote(name)
            ))
            .parameter(Parameter::Group),
        };
        Err(invalid(parameter, longest, expected))
    }

    /// Returns the plan with all that depends on the target decided: the history, if none is given,
    /// and the lags.
    ///
    /// The history is the smallest one, of up to 10 steps, from which a regression predicts held-out
    /// values of the target almost as well as from any: with r the share of the variance that is not
    /// predicted, ln(r / r_best) / 2 is at most .005 nats or 2 / n. For categories it is 1.
    ///
    /// # Errors
    /// If `progress` ends it.
    pub fn for_target(
        &self,
        target: &Column,
        timeline: &Timeline,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let history = match self.history {
            Some(history) => history,
            None => choose_history(target, timeline, self.estimate.seed, progress)?,
        };
        let lags = self.lags.clone().unwrap_or_else(|| (1..=history).collect());
        Ok(TransferPlan { history: Some(history), lags: Some(lags), ..self.clone() })
    }
}

fn check_lags(lags: &[usize]) -> Result<()> {
    if lags.is_empty() {
        return Err(invalid(Parameter::Lags, "[]", "give at least one lag"));
    }
    if lags.contains(&0) {
        let expected = "lags must be at least 1: only the past is used";
        return Err(invalid(Parameter::Lags, 0, expected));
    }
    if lags.len() > MAX_PAST {
        let expected = format!("there are at most {MAX_PAST} lags");
        return Err(invalid(Parameter::Lags, counted(lags.len(), "lag"), expected));
    }
    if lags.windows(2).any(|pair| pair[0] >= pair[1]) {
        let problem = "the lags of the plan are not in ascending order".into();
        return Err(Error::Plan { problem });
    }
    Ok(())
}

/// Returns the history of a target: see [`TransferPlan::for_target`].
fn choose_history(
    target: &Column,
    timeline: &Timeline,
    seed: u64,
    progress: &dyn Progress,
) -> Result<usize> {
    if !matches!(target.values, Values::Continuous(_)) || target.is_constant() {
        return Ok(1);
    }
    let rows_of = |history: usize| {
        let lags: Vec<usize> = (0..=history).collect();
        rows_at(timeline, &lags, |_, row| !target.is_missing(row))
    };
    // Gaps in the series must not leave few rows to choose from.
    let most = rows_of(1)[&0].len();
    let longest = (1..=MAX_CHOSEN_HISTORY).rev().find(|h| 2 * rows_of(*h)[&0].len() >= most);
    let longest = longest.unwrap_or(1);
    let rows = rows_of(longest);
    let count = rows[&0].len();
    if count < MIN_CHOICE_ROWS {
        return Ok(1);
    }
    let target = timeline.centred(target);
    let columns: Vec<Column> = rows.values().map(|rows| target.at(rows)).collect();
    let (next, past) = (&columns[..1], &columns[1..]);
    let all: Vec<u32> = (0..count as u32).collect();
    let train = thinned(&all, MAX_CHOICE_ROWS);
    let tick = || check(progress);
    let mut unexplained = Vec::new();
    for history in 1..=longest {
        let found = predict(next, &past[..history], &train, seed, &tick)?;
        let explained = found.into_iter().flatten().map(|found| found.explained).sum::<f64>();
        unexplained.push((1.0 - explained).max(f64::MIN_POSITIVE));
    }
    let best = unexplained.iter().copied().fold(f64::INFINITY, f64::min);
    let tolerance = MIN_GAIN.max(2.0 / train.len() as f64);
    let is_enough = |share: &f64| 0.5 * (share / best).ln() <= tolerance;
    Ok(1 + unexplained.iter().position(is_enough).unwrap_or(0))
}

/// Returns the rows at each lag before every instant that has a row with a value at all lags.
/// `has_value` takes a lag and a row.
fn rows_at(
    timeline: &Timeline,
    lags: &[usize],
    has_value: impl Fn(usize, usize) -> bool,
) -> BTreeMap<usize, Vec<usize>> {
    let mut rows: BTreeMap<usize, Vec<usize>> = lags.iter().map(|lag| (*lag, vec![])).collect();
    let longest = rows.keys().next_back().copied().unwrap_or(0);
    for recording in &timeline.recordings {
        for step in longest..recording.steps.len() {
            let at = |lag: usize| recording.steps[step - lag].filter(|row| has_value(lag, *row));
            if rows.keys().all(|lag| at(*lag).is_some()) {
                rows.iter_mut().for_each(|(lag, rows)| rows.extend(at(*lag)));
            }
        }
    }
    rows
}

/// Two series and the places of their rows in time. Values may be missing.
#[derive(Clone, Copy)]
pub struct TransferSeries<'a> {
    /// The series whose past may be informative about the target.
    pub source: &'a Column,
    /// The series whose next value may depend on the source.
    pub target: &'a Column,
    /// The places of the rows.
    pub timeline: &'a Timeline,
}

impl TransferSeries<'_> {
    /// Returns a row for each instant of which all values are present: the target as x, the source at
    /// its lags as y, and the target's history as what is held fixed.
    fn instants(&self, history: usize, lags: &[usize], reading: &Reading) -> Result<PairTable> {
        let TransferSeries { source, target, timeline } = *self;
        let used: Vec<usize> = (0..=history).chain(lags.iter().copied()).collect();
        let rows = rows_at(timeline, &used, |lag, row| {
            let as_source = !lags.contains(&lag) || !source.is_missing(row);
            as_source && (lag > history || !target.is_missing(row))
        });
        let at = |column: &Column, lag: usize| Column {
            name: format!("{}(t-{lag})", column.name),
            ..column.at(&rows[&lag])
        };
        let [source_values, target_values] = [source, target].map(|c| timeline.centred(c));
        let mut columns = vec![target_values.at(&rows[&0])];
        columns.extend(lags.iter().map(|lag| at(&source_values, *lag)));
        columns.extend((1..=history).map(|lag| at(&target_values, lag)));
        let name = format!("{} -> {}", source.name, target.name);
        // The rows of a series are never drawn at random.
        let reading = Reading { sample_rows: None, ..*reading };
        Frame::new(columns)?.into_pairs(1, lags.len(), &reading, &name)
    }
}

/// Estimates the transfer entropy from one series to another.
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
/// let y = column("y", (0..400).map(|k| noise(k - 1) + 0.5 * noise(k + 9999)).collect());
/// let timeline = Timeline::new(400, None, None)?;
/// let plan = TransferPlan::new(Method::GaussianCopula, Effort::Quick);
/// let run = |source, target| {
///     let series = TransferSeries { source, target, timeline: &timeline };
///     transfer_entropy(&series, &plan, &CpuEngine::new(0), &NoProgress)
/// };
/// assert!(run(&x, &y)?.mi.0 > 0.5);
/// assert!(run(&y, &x)?.mi.0 < 0.05);
/// # Ok::<(), fdime::Error>(())
/// ```
///
/// # Errors
/// As for [`TransferPlan::check`], if the instants do not allow an estimate, and if `progress` ends
/// it.
pub fn transfer_entropy(
    series: &TransferSeries,
    plan: &TransferPlan,
    engine: &dyn Engine,
    progress: &dyn Progress,
) -> Result<Estimate> {
    for column in [series.source, series.target] {
        let (rows, count) = (series.timeline.rows(), column.len());
        if count != rows {
            let columns = [(column.name.clone(), count), ("time".into(), rows)];
            return Err(Error::UnequalColumns { columns });
        }
    }
    plan.check(series.timeline)?;
    let past = Past::new(series, plan, progress)?;
    let table = series.instants(past.history, &past.lags, &Reading::default())?;
    past.estimate(&table, &plan.estimate, engine, progress)
}

/// The values of the past that are used.
struct Past {
    history: usize,
    lags: Vec<usize>,
}

impl Past {
    fn new(series: &TransferSeries, plan: &TransferPlan, progress: &dyn Progress) -> Result<Self> {
        let plan = plan.for_target(series.target, series.timeline, progress)?;
        Ok(Past { history: plan.history.unwrap_or(1), lags: plan.lags.unwrap_or_default() })
    }

    /// Estimates from instants. Critics are not trained on instants that share a value with those
    /// that they score.
    fn estimate(
        &self,
        table: &PairTable,
        plan: &EstimatePlan,
        engine: &dyn Engine,
        progress: &dyn Progress,
    ) -> Result<Estimate> {
        let PairTable { x, y, given, kept, .. } = table;
        let mut decided = plan.for_data(x, &[&y[..], given].concat());
        if let RowOrder::Series { gap } = decided.order {
            let longest = self.lags.iter().copied().fold(self.history, usize::max);
            let most = largest_gap(kept.len(), plan.folds).unwrap_or(0);
            decided.order = RowOrder::Series { gap: gap.max(longest).min(most) };
        }
        estimate_given(x, y, given, &decided, engine, progress)
    }
}

/// The transfer entropy of one direction of many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferEntropy {
    /// The name of the source.
    pub from: String,
    /// The name of the target.
    pub to: String,
    /// The estimate; `None` if there is a problem.
    pub te_nats: Option<f64>,
    /// The lower end of its interval.
    pub ci_low: Option<f64>,
    /// The upper end of its interval.
    pub ci_high: Option<f64>,
    /// The p-value of the test that nothing is transferred.
    pub p_value: Option<f64>,
    /// The p-value adjusted for the number of directions, once all are known.
    #[serde(default)]
    pub p_adjusted: Option<f64>,
    /// The estimate less that of the opposite direction, once both are known.
    #[serde(default)]
    pub net_nats: Option<f64>,
    /// Whether the interval lies above that of the opposite direction, once both are known.
    #[serde(default)]
    pub is_stronger: Option<bool>,
    /// The number of past values of the target that were held fixed.
    pub history: usize,
    /// The lags of the source.
    pub lags: Vec<usize>,
    /// The number of instants with all values.
    pub n_rows: usize,
    /// The reliability according to the verdict.
    pub reliability: Option<String>,
    /// The codes of the verdict's reasons, separated by spaces.
    #[serde(default)]
    pub reasons: Option<String>,
    /// Why there is no estimate.
    pub problem: Option<String>,
}

impl TransferEntropy {
    /// Estimates one direction. A problem with it is part of the result, because it must not end the
    /// estimates of other directions; it names parameters in the words of `wording`. The only error
    /// is an interruption. The plan must have passed [`TransferPlan::check`].
    pub fn new(
        series: &TransferSeries,
        plan: &TransferPlan,
        reading: &Reading,
        wording: &dyn Wording,
        engine: &dyn Engine,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let past = Past::new(series, plan, progress)?;
        let table = series.instants(past.history, &past.lags, reading);
        let run = |table: &PairTable| past.estimate(table, &plan.estimate, engine, progress);
        let names = [series.source, series.target].map(|column| column.name.as_str());
        let found = PairEstimate::of_table(names, table, wording, run)?;
        Ok(TransferEntropy {
            from: found.x,
            to: found.y,
            te_nats: found.mi_nats,
            ci_low: found.ci_low,
            ci_high: found.ci_high,
            p_value: found.p_value,
            p_adjusted: None,
            net_nats: None,
            is_stronger: None,
            history: past.history,
            lags: past.lags,
            n_rows: found.n_rows,
            reliability: found.reliability,
            reasons: found.reasons,
            problem: found.problem,
        })
    }

    /// Compares all directions: adjusts their p-values for their number (Benjamini-Hochberg), and
    /// sets each against the opposite one.
    pub fn compare(directions: &mut [TransferEntropy]) {
        let p_values: Vec<Option<f64>> = directions.iter().map(|found| found.p_value).collect();
        let values: HashMap<(String, String), [Option<f64>; 2]> = directions
            .iter()
            .map(|found| ((found.from.clone(), found.to.clone()), [found.te_nats, found.ci_high]))
            .collect();
        for (found, adjusted) in directions.iter_mut().zip(benjamini_hochberg(&p_values)) {
            found.p_adjusted = adjusted;
            let opposite = values.get(&(found.to.clone(), found.from.clone()));
            let [te, high] = opposite.copied().unwrap_or_default();
            found.net_nats = found.te_nats.zip(te).map(|(te, opposite)| te - opposite);
            found.is_stronger = found.ci_low.zip(high).map(|(low, opposite)| low > opposite);
        }
    }

    /// Returns whether something is transferred: the estimate is above 0, and significant at a false
    /// discovery rate of 5%.
    pub fn is_significant(&self) -> bool {
        self.p_adjusted.is_some_and(|p| p <= 0.05) && self.te_nats.is_some_and(|te| te > 0.0)
    }
}

/// A finished direction, identified by the positions of its source and target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferRecord {
    /// The positions of the two.
    pub direction: (usize, usize),
    /// The estimate.
    pub found: TransferEntropy,
}

impl Entry for TransferRecord {
    type Key = (usize, usize);
    const LINE_START: &'static str = "{\"direction\":";

    fn key(&self) -> &(usize, usize) {
        &self.direction
    }
}

/// The directions that are finished, behind a [`SeriesHeading`](super::SeriesHeading) with a
/// [`TransferPlan`].
pub type TransferJournal = Journal<TransferRecord>;

#[cfg(test)]
mod tests {
    use super::super::progress::NoProgress;
    use super::super::serial::tests::numbers;
    use super::*;
    use crate::engine::CpuEngine;
    use crate::message::Neutral;
    use crate::random::{Purpose, stream};
    use nalgebra::{DMatrix, Matrix2};
    use rand_distr::{Distribution, StandardNormal};

    /// Returns x and y of a process z_t = A z_(t-1) + noise of this covariance's root.
    fn process(a: Matrix2<f64>, root: Matrix2<f64>, rows: usize, seed: u64) -> [Column; 2] {
        let mut rng = stream(seed, Purpose::Data, 0, 0);
        let mut z = nalgebra::Vector2::zeros();
        let [mut x, mut y] = [Vec::new(), Vec::new()];
        for t in 0..rows + 100 {
            let noise = [(); 2].map(|()| StandardNormal.sample(&mut rng));
            z = a * z + root * nalgebra::Vector2::from(noise);
            if t >= 100 {
                x.push(z[0]);
                y.push(z[1]);
            }
        }
        [numbers("x", x), numbers("y", y)]
    }

    /// Returns the transfer entropy from x to y in closed form: half the log ratio of the variances of
    /// y given its history, and given its history and x at lag 1.
    fn closed_form(a: Matrix2<f64>, root: Matrix2<f64>, history: usize) -> f64 {
        let noise = root * root.transpose();
        let sum = |sum: Matrix2<f64>, _| a * sum * a.transpose() + noise;
        let variance = (0..200).fold(noise, sum);
        // The covariance of z_t and z_(t-k) is A^k variance.
        let covariance = |k: usize| (0..k).fold(variance, |product, _| a * product);
        let between = |(i, s): (usize, usize), (j, t): (usize, usize)| match s <= t {
            true => covariance(t - s)[(i, j)],
            false => covariance(s - t)[(j, i)],
        };
        let unexplained = |past: &[(usize, usize)]| {
            let gram = DMatrix::from_fn(past.len(), past.len(), |i, j| between(past[i], past[j]));
            let cross = DMatrix::from_fn(past.len(), 1, |i, _| between((1, 0), past[i]));
            let solved = gram.cholesky().unwrap().solve(&cross);
            variance[(1, 1)] - cross.dot(&solved)
        };
        let own: Vec<(usize, usize)> = (1..=history).map(|lag| (1, lag)).collect();
        let both = [&own[..], &[(0, 1)]].concat();
        0.5 * (unexplained(&own) / unexplained(&both)).ln()
    }

    fn run(columns: &[Column; 2], plan: &TransferPlan, backwards: bool) -> Estimate {
        let timeline = Timeline::new(columns[0].len(), None, None).unwrap();
        let [x, y] = columns;
        let (source, target) = if backwards { (y, x) } else { (x, y) };
        let series = TransferSeries { source, target, timeline: &timeline };
        transfer_entropy(&series, plan, &CpuEngine::new(1), &NoProgress).unwrap()
    }

    fn copula(history: Option<usize>) -> TransferPlan {
        TransferPlan { history, ..TransferPlan::new(Method::GaussianCopula, Effort::Quick) }
    }

    #[test]
    fn agrees_with_the_closed_form_of_a_linear_process() {
        let a = Matrix2::new(0.5, 0.0, 0.4, 0.6);
        let root = Matrix2::new(1.0, 0.0, 0.5, 0.8);
        let columns = process(a, root, 3_000, 1);
        let found = run(&columns, &copula(Some(2)), false);
        let truth = closed_form(a, root, 2);
        assert!((found.mi.0 - truth).abs() < 0.02, "{truth}, found {}", found.mi.0);
        assert!(found.independence.unwrap().p_value <= 0.01);
        let back = run(&columns, &copula(Some(2)), true);
        assert!(back.mi.0 < 0.01 && back.interval.1 < found.interval.0);
    }

    /// Of 30 tests at alpha = .05, more than 6 reject with a probability of .0006 if the test is exact.
    #[test]
    fn no_direction_is_found_where_there_is_none() {
        let independent = Matrix2::identity();
        // A driver that both series share, and noise of their own: variances of 2, covariance of 1.
        let driven = Matrix2::new(2.0, 1.0, 1.0, 2.0).cholesky().unwrap().l();
        let mut rejected = 0;
        for (seed, root) in (0..15).flat_map(|seed| [(seed, independent), (seed, driven)]) {
            let columns = process(Matrix2::identity() * 0.6, root, 500, seed);
            let found = run(&columns, &copula(Some(1)), seed % 2 == 0);
            rejected += usize::from(found.independence.unwrap().p_value <= 0.05);
        }
        assert!(rejected <= 6, "{rejected} of 30");
    }

    #[test]
    fn the_history_is_the_shortest_that_predicts() {
        let mut rng = stream(3, Purpose::Data, 0, 0);
        let mut noise = || -> f64 { StandardNormal.sample(&mut rng) };
        let mut values = vec![0.0; 3];
        for t in 3..600 {
            values.push(0.3 * values[t - 1] - 0.5 * values[t - 3] + noise());
        }
        let white = (0..600).map(|_| noise()).collect();
        let chosen = |column: &Column| {
            let timeline = Timeline::new(column.len(), None, None).unwrap();
            let plan = copula(None).for_target(column, &timeline, &NoProgress).unwrap();
            (plan.history.unwrap(), plan.lags.unwrap())
        };
        assert_eq!(chosen(&numbers("y", values.clone())), (3, vec![1, 2, 3]));
        assert_eq!(chosen(&numbers("white", white)).0, 1);
        assert_eq!(chosen(&numbers("same", vec![1.0; 100])).0, 1);
        // Every fifth value is missing, so that no history of more than 3 steps is complete.
        values.iter_mut().step_by(5).for_each(|value| *value = f64::NAN);
        assert!(chosen(&numbers("gaps", values)).0 <= 3);
    }

    #[test]
    fn instants_need_all_values_and_stay_within_recordings() {
        let x = numbers("x", (0..100).map(f64::from).collect());
        let mut y = numbers("y", (0..100).map(|t| f64::from(1000 + t)).collect());
        let Values::Continuous(values) = &mut y.values else { panic!() };
        values[70] = f64::NAN;
        let group = numbers("trial", (0..100).map(|t| f64::from(t / 50)).collect());
        let timeline = Timeline::new(100, None, Some(&group)).unwrap();
        let series = TransferSeries { source: &x, target: &y, timeline: &timeline };
        let table = series.instants(2, &[1, 3], &Reading::default()).unwrap();
        let columns: Vec<&Column> = table.x.iter().chain(&table.y).chain(&table.given).collect();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["y", "x(t-1)", "x(t-3)", "y(t-1)", "y(t-2)"]);
        let expected: Vec<usize> =
            (3..50).chain(53..100).filter(|t| !(70..=72).contains(t)).collect();
        let centred = [&x, &y].map(|column| timeline.centred(column));
        for (column, (side, lag)) in columns.iter().zip([(1, 0), (0, 1), (0, 3), (1, 1), (1, 2)]) {
            let rows: Vec<usize> = expected.iter().map(|t| t - lag).collect();
            assert_eq!(column.values, centred[side].at(&rows).values, "{}", column.name);
        }
    }

    /// Independent series whose level differs between recordings: of 20 tests at 5%, at most 4 reject
    /// (alpha of .003, fixed seeds).
    #[test]
    fn levels_of_recordings_are_no_transfer() {
        let rejects = |seed: u64| {
            let mut columns =
                process(Matrix2::new(0.5, 0.0, 0.0, 0.5), Matrix2::identity(), 600, seed);
            for (side, column) in columns.iter_mut().enumerate() {
                let Values::Continuous(values) = &mut column.values else { panic!() };
                let level = |t: usize| 3.0 * ((t / 100 * 7 + side * 5) as f64).sin();
                values.iter_mut().enumerate().for_each(|(t, value)| *value += level(t));
            }
            let group = numbers("trial", (0..600).map(|t| f64::from(t / 100)).collect());
            let timeline = Timeline::new(600, None, Some(&group)).unwrap();
            let [source, target] = &columns;
            let series = TransferSeries { source, target, timeline: &timeline };
            let found = transfer_entropy(&series, &copula(None), &CpuEngine::new(1), &NoProgress);
            found.unwrap().independence.unwrap().p_value <= 0.05
        };
        assert!((0..20).filter(|seed| rejects(100 + seed)).count() <= 4);
    }

    #[test]
    fn impossible_plans_are_refused() {
        let timeline = Timeline::new(100, None, None).unwrap();
        let refusal = |change: &dyn Fn(&mut TransferPlan)| {
            let mut plan = copula(Some(1));
            plan.check(&timeline).unwrap();
            change(&mut plan);
            plan.check(&timeline).unwrap_err().to_string()
        };
        assert!(
            refusal(&|plan| plan.history = Some(0)).starts_with("history = 0: must be between 1")
        );
        assert!(
            refusal(&|plan| plan.history = Some(50)).contains("at most 49, half of the 100 steps")
        );
        assert!(refusal(&|plan| plan.lags = Some(vec![])).starts_with("lags = []: give at least"));
        assert!(refusal(&|plan| plan.lags = Some(vec![0, 1])).contains("at least 1"));
        assert!(refusal(&|plan| plan.lags = Some(vec![2, 1])).contains("ascending"));
        assert!(
            refusal(&|plan| plan.lags = Some(vec![99]))
                .starts_with("lags = 99: must be at most 49")
        );
        assert!(refusal(&|plan| plan.estimate.method = Method::Ksg).contains("use auto"));
        assert!(refusal(&|p| p.estimate.order = RowOrder::Exchangeable).contains("a series"));
    }

    #[test]
    fn directions_are_compared_with_their_opposites() {
        let columns = process(Matrix2::new(0.5, 0.0, 0.8, 0.2), Matrix2::identity(), 400, 4);
        let timeline = Timeline::new(400, None, None).unwrap();
        let [x, y] = &columns;
        let same = numbers("same", vec![1.0; 400]);
        let direction = |source, target| {
            let series = TransferSeries { source, target, timeline: &timeline };
            let (plan, engine) = (copula(Some(1)), CpuEngine::new(1));
            let reading = Reading::default();
            TransferEntropy::new(&series, &plan, &reading, &Neutral, &engine, &NoProgress).unwrap()
        };
        let mut found = vec![direction(x, y), direction(y, x), direction(&same, x)];
        TransferEntropy::compare(&mut found);
        assert!(found[0].is_significant() && !found[1].is_significant());
        assert_eq!(
            [&found[0], &found[1], &found[2]].map(|found| found.is_stronger),
            [Some(true), Some(false), None]
        );
        assert!(
            found[0].net_nats.unwrap() > 0.1
                && found[0].net_nats == found[1].net_nats.map(|net| -net)
        );
        assert!(found[0].p_adjusted >= found[0].p_value);
        assert!(found[2].problem.as_ref().unwrap().starts_with("same -> x: column"));
    }
}

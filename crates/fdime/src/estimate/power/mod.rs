//! How many rows does a study need? Tables with a known dependence are drawn and estimated; the share
//! of them in which the test of independence rejects is the power.

mod curve;
mod report;

pub use report::PowerRecord;

use super::plan::{EstimatePlan, MAX_PERMUTATIONS};
use super::progress::{OnlyChecks, Progress, advance};
use super::verdict::Reliability;
use super::{Method, estimate};
use crate::data::{Column, Values};
use crate::engine::{Engine, run_estimates};
use crate::error::{Error, Result, invalid};
use crate::message::{Message, Parameter};
use crate::nats::Nats;
use crate::random::{Purpose, stream};
use crate::scenario::{Level, PairSource, Scenario, ScenarioPlan, check_table};
use curve::{Counts, PowerCurve};
use rand::RngExt;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};
use std::collections::BTreeMap;

/// Tables between two decisions on the next number of rows.
const BATCH: usize = 20;

/// The most that the number of rows grows or shrinks beyond the sizes that were tried.
const MAX_STEP: f64 = 2.5;

/// The largest factor by which the answer of a search may exceed the most rows that were tried.
const MAX_BEYOND_TRIED: f64 = 1.5;

/// The largest number of rows that the search tries.
pub const MAX_STUDY_ROWS: usize = 200_000;

/// Everything that determines a study of power.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerPlan {
    /// The columns of x and y that share information.
    pub scenario: ScenarioPlan,
    /// How much information they share.
    pub level: Level,
    /// The numbers of columns of x and of y that are independent normal noise.
    pub noise_columns: (usize, usize),
    /// The sizes of the tables.
    pub size: StudySize,
    /// The test rejects if its p-value is at most this.
    pub alpha: f64,
    /// The number of simulated tables: in all for a search, else of each size.
    pub tables: usize,
    /// How each table is estimated; its seed is that of the first table.
    pub estimate: EstimatePlan,
}

/// The numbers of rows of simulated tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StudySize {
    /// The number of rows with this power is searched for.
    Search(f64),
    /// These numbers of rows.
    Rows(Vec<usize>),
}

impl PowerPlan {
    /// Returns the plan of a study of `columns` of x and of y. The information is shared by the
    /// columns of the scenario; all others are independent noise.
    ///
    /// # Errors
    /// If the scenario has more columns than the study, or does not support the level.
    pub fn new(
        scenario: ScenarioPlan,
        level: Level,
        columns: (usize, usize),
        size: StudySize,
        estimate: EstimatePlan,
    ) -> Result<Self> {
        let (x, y) = distribution(&scenario, level)?.dims();
        let (Some(x_noise), Some(y_noise)) = (columns.0.checked_sub(x), columns.1.checked_sub(y))
        else {
            let value = format!("{}+{}", columns.0, columns.1);
            let expected = format!("must be at least {x}+{y}, the columns that share information");
            return Err(invalid(Parameter::Dim, value, expected));
        };
        let noise_columns = (x_noise, y_noise);
        Ok(PowerPlan { scenario, level, noise_columns, size, alpha: 0.05, tables: 400, estimate })
    }

    /// Returns the number of columns of a table.
    fn columns(&self, scenario: &Scenario) -> usize {
        let ((x, y), (x_noise, y_noise)) = (scenario.dims(), self.noise_columns);
        x + y + x_noise + y_noise
    }

    /// Returns the smallest number of rows of a table.
    fn min_rows(&self) -> usize {
        (4 * self.estimate.folds).max(20)
    }

    /// Checks that the plan can be executed.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self) -> Result<()> {
        let scenario = distribution(&self.scenario, self.level)?;
        if !(self.alpha > 0.0 && self.alpha <= 0.5) {
            return Err(invalid(Parameter::Alpha, self.alpha, "must be above 0 and at most 0.5"));
        }
        let permutations = self.estimate.permutations;
        // With few rows two tests share the level, and the larger share is at least half of it, so the
        // smallest p-value of m permutations can be 2/(m + 1).
        let enough = (2.0 / self.alpha).ceil() as usize - 1;
        if enough > MAX_PERMUTATIONS {
            let expected =
                format!("must be at least 2/{}, the smallest p-value", MAX_PERMUTATIONS + 1);
            return Err(invalid(Parameter::Alpha, self.alpha, expected));
        }
        if permutations < enough {
            let expected = format!("must be at least {enough} for an alpha of {}", self.alpha);
            return Err(invalid(Parameter::Permutations, permutations, expected));
        }
        if self.estimate.method == Method::Ksg {
            return Err(Error::Incompatible {
                parameter: Parameter::Estimator,
                value: "ksg".into(),
                other: "a study of power".into(),
                reason: "it has no test of independence; use auto or copula".into(),
            });
        }
        let min_rows = self.min_rows();
        match &self.size {
            StudySize::Search(power) => {
                if !(*power > self.alpha && *power < 1.0) {
                    let expected =
                        format!("must be above alpha, which is {}, and below 1", self.alpha);
                    return Err(invalid(Parameter::Power, power, expected));
                }
                if scenario.mutual_information().0 <= 0.0 {
                    let expected = Message::from("there is no dependence to detect; use ")
                        .parameter(Parameter::Rows)
                        .text(" to measure how often the test rejects");
                    return Err(invalid(Parameter::Mi, mi_text(self.level), expected));
                }
                if self.tables < 2 * BATCH {
                    let expected = format!("must be at least {} for a search", 2 * BATCH);
                    return Err(invalid(Parameter::Tables, self.tables, expected));
                }
            }
            StudySize::Rows(sizes) => {
                if sizes.is_empty() {
                    return Err(invalid(Parameter::Rows, "[]", "give at least one number of rows"));
                }
                if let Some(rows) = sizes.iter().find(|rows| **rows < min_rows) {
                    let expected = format!("must be at least {min_rows} rows, 4 for each fold");
                    return Err(invalid(Parameter::Rows, rows, expected));
                }
                if self.tables == 0 {
                    return Err(invalid(Parameter::Tables, self.tables, "must be at least 1"));
                }
                let largest = sizes.iter().copied().max().unwrap_or(0);
                check_table(largest, self.columns(&scenario))?;
            }
        }
        self.estimate.check(min_rows)
    }
}

/// Returns the distribution of the tables. Errors name the level as the user of a study gives it.
fn distribution(scenario: &ScenarioPlan, level: Level) -> Result<Scenario> {
    scenario.at(level).map_err(|mut error| {
        if let Error::InvalidParameter { parameter, value, .. }
        | Error::Incompatible { parameter, value, .. } = &mut error
            && *parameter == Parameter::Levels
        {
            (*parameter, *value) = (Parameter::Mi, mi_text(level));
        }
        error
    })
}

/// Returns a level as the user of a study writes it: mutual information without its name.
fn mi_text(level: Level) -> String {
    match level {
        Level::Mi(nats) => nats.to_string(),
        other => other.to_string(),
    }
}

/// A study of power: what estimates of simulated tables would show.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PowerStudy {
    /// The mutual information of the tables.
    pub mi: Nats,
    /// The numbers of columns of x and of y.
    pub columns: (usize, usize),
    /// What was found with each number of rows, in ascending order.
    pub sizes: Vec<SizeFigures>,
    /// The number of rows that a study needs, if it was searched for.
    pub needed: Option<RowsNeeded>,
}

/// What estimates of tables with one number of rows show. Amounts are medians over tables, in nats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SizeFigures {
    /// The number of rows.
    pub rows: usize,
    /// The number of tables.
    pub tables: usize,
    /// In how many of them the test rejected.
    pub rejected: usize,
    /// The power: from a curve through all sizes if rows were searched for, else the share of tables
    /// in which the test rejected.
    pub power: f64,
    /// The estimate.
    pub mi_nats: f64,
    /// The low end of its interval.
    pub ci_low: f64,
    /// The high end of its interval.
    pub ci_high: f64,
    /// The width of its interval.
    pub width_nats: f64,
    /// The share of tables whose interval contains the true value.
    pub coverage: f64,
    /// The share of tables whose estimate has the verdict `good`.
    pub good: f64,
}

/// The number of rows that a study needs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RowsNeeded {
    /// The power that was asked for.
    pub power: f64,
    /// The number of rows.
    pub rows: usize,
    /// The ends of its 95% interval: it is uncertain because the number of simulated tables is finite.
    pub rows_low: usize,
    /// The high end.
    pub rows_high: usize,
    /// What estimates of about that many rows show.
    pub typical: SizeFigures,
}

/// The result of one table.
#[derive(Clone, Copy)]
struct Outcome {
    rejected: bool,
    mi: f64,
    interval: (f64, f64),
    is_good: bool,
}

/// Simulates a study and returns its power, and the number of rows that it needs.
///
/// ```
/// use fdime::estimate::{
///     Effort, EstimatePlan, Method, NoProgress, PowerPlan, StudySize, power_study,
/// };
/// use fdime::{CpuEngine, Level, ScenarioPlan};
///
/// let scenario = ScenarioPlan::new("gaussian", 1)?;
/// let estimate = EstimatePlan::new(Method::GaussianCopula, Effort::Quick);
/// let size = StudySize::Rows(vec![50, 400]);
/// let mut plan = PowerPlan::new(scenario, Level::Rho(0.3), (1, 1), size, estimate)?;
/// plan.tables = 40;
/// let study = power_study(&plan, &CpuEngine::new(2), &NoProgress)?;
/// assert!(study.sizes[0].power < study.sizes[1].power);
/// # Ok::<(), fdime::Error>(())
/// ```
///
/// # Errors
/// If the plan is invalid, or if more than [`MAX_STUDY_ROWS`] rows are needed.
pub fn power_study(
    plan: &PowerPlan,
    engine: &dyn Engine,
    progress: &dyn Progress,
) -> Result<PowerStudy> {
    plan.check()?;
    let simulation =
        Simulation { plan, scenario: distribution(&plan.scenario, plan.level)?, engine, progress };
    let mi = simulation.scenario.mutual_information();
    let (x, y) = simulation.scenario.dims();
    let columns = (x + plan.noise_columns.0, y + plan.noise_columns.1);
    let mut outcomes = BTreeMap::new();
    let mut needed = None;
    match &plan.size {
        StudySize::Rows(sizes) => {
            let sizes: std::collections::BTreeSet<usize> = sizes.iter().copied().collect();
            progress.begin((sizes.len() * plan.tables) as u64);
            for rows in sizes {
                outcomes.insert(rows, simulation.tables(rows, 0, plan.tables)?);
            }
        }
        StudySize::Search(power) => {
            progress.begin(plan.tables as u64);
            let curve = simulation.search(*power, columns, &mut outcomes)?;
            needed = Some((*power, curve));
        }
    }
    let sizes = outcomes.iter().map(|(rows, outcomes)| {
        let curve = needed.as_ref().map(|(_, curve)| curve);
        SizeFigures::new(*rows, outcomes.iter(), mi.0, curve)
    });
    Ok(PowerStudy {
        mi,
        columns,
        sizes: sizes.collect(),
        needed: needed
            .map(|(power, curve)| RowsNeeded::new(power, &curve, &outcomes, mi.0, plan.min_rows())),
    })
}

/// The tables of a study.
struct Simulation<'a> {
    plan: &'a PowerPlan,
    scenario: Scenario,
    engine: &'a dyn Engine,
    progress: &'a dyn Progress,
}

impl Simulation<'_> {
    /// Draws and estimates tables of this many rows, with numbers from `first` on.
    fn tables(&self, rows: usize, first: usize, count: usize) -> Result<Vec<Outcome>> {
        let concurrent = self.engine.concurrent_estimates(rows).min(count);
        check_table(rows, self.plan.columns(&self.scenario) * concurrent)?;
        let results = run_estimates(self.engine, rows, count, |index, engine| {
            let outcome = self.table(rows, (first + index) as u64, engine)?;
            advance(self.progress, 1)?;
            Ok(outcome)
        });
        results.into_iter().collect()
    }

    /// Draws and estimates one table.
    fn table(&self, rows: usize, number: u64, engine: &dyn Engine) -> Result<Outcome> {
        let plan = &self.plan.estimate;
        let mut rng = stream(plan.seed, Purpose::Data, rows as u64, number);
        let (mut x, mut y) = self.scenario.table(&mut rng, rows);
        let mut noise = |name: &str, columns: &mut Vec<Column>, count: usize| {
            columns.extend((0..count).map(|k| Column {
                name: format!("{name}_noise{}", k + 1),
                values: Values::Continuous((0..rows).map(|_| rng.sample(StandardNormal)).collect()),
            }));
        };
        noise("x", &mut x, self.plan.noise_columns.0);
        noise("y", &mut y, self.plan.noise_columns.1);
        let plan = EstimatePlan { seed: plan.seed.wrapping_add(number), ..plan.clone() };
        let plan = plan.for_data(&x, &y);
        let result = estimate(&x, &y, &plan, engine, &OnlyChecks(self.progress))?;
        let test = result.independence;
        Ok(Outcome {
            rejected: test.is_some_and(|test| test.p_value <= self.plan.alpha),
            mi: result.mi.0,
            interval: (result.interval.0.0, result.interval.1.0),
            is_good: result.verdict.reliability == Reliability::Good,
        })
    }

    /// Spends the tables where they tell most about the number of rows with this power: there, and
    /// where the power is lower and higher.
    fn search(
        &self,
        power: f64,
        columns: (usize, usize),
        outcomes: &mut BTreeMap<usize, Vec<Outcome>>,
    ) -> Result<PowerCurve> {
        let alpha = self.plan.alpha;
        let targets = [power, alpha + 0.6 * (power - alpha), 1.0 - (1.0 - power) / 3.0];
        let guess = rows_of_chi_squared_test(&self.scenario, columns, alpha, power);
        let check_possible = |rows: f64| match rows > MAX_STUDY_ROWS as f64 {
            true => {
                let expected = format!(
                    "to detect so little information with a power of {power}, more than \
                     {MAX_STUDY_ROWS} rows are needed"
                );
                Err(invalid(Parameter::Mi, mi_text(self.plan.level), expected))
            }
            false => Ok(()),
        };
        // Even the best test of Gaussians needs many more rows.
        check_possible(guess / MAX_STEP)?;
        let mut rows = self.allowed(guess);
        let mut batch = 0;
        loop {
            let tables = outcomes.entry(rows).or_default();
            let count = BATCH.min(self.plan.tables - batch * BATCH);
            tables.extend(self.tables(rows, tables.len(), count)?);
            let counts: Vec<Counts> = outcomes.iter().map(Counts::from).collect();
            let curve = PowerCurve::fit(alpha, &counts);
            batch += 1;
            let tried = (counts[0].rows as f64, counts[counts.len() - 1].rows as f64);
            let (needed, least, _) = curve.rows(power);
            if batch * BATCH >= self.plan.tables {
                check_possible(needed)?;
                if needed > MAX_BEYOND_TRIED * tried.1 {
                    let expected = format!(
                        "too few for a search: with {} rows, the most that were tried, the power is \
                         still lower than {power}; allow more tables",
                        tried.1
                    );
                    return Err(invalid(Parameter::Tables, self.plan.tables, expected));
                }
                return Ok(curve);
            }
            check_possible(least.min(tried.1 * MAX_STEP))?;
            let rows_of =
                |power: f64| curve.rows(power).0.clamp(tried.0 / MAX_STEP, tried.1 * MAX_STEP);
            rows = self.allowed(rows_of(targets[batch % targets.len()]));
        }
    }

    /// Returns the nearest of 20 allowed numbers of rows in each power of ten.
    fn allowed(&self, rows: f64) -> usize {
        let nearest = 10f64.powf((20.0 * rows.max(1.0).log10()).round() / 20.0);
        rounded(nearest).clamp(self.plan.min_rows(), MAX_STUDY_ROWS)
    }
}

/// Rounds a positive number to two significant digits.
fn rounded(rows: f64) -> usize {
    let unit = 10f64.powf((rows.max(1.0).log10().floor() - 1.0).max(0.0));
    ((rows / unit).round() * unit) as usize
}

/// Returns the number of rows that the likelihood ratio test of Gaussians would need. Its statistic
/// 2 n I has a chi-squared distribution with d_x d_y degrees of freedom, which 2 n I shifts.
fn rows_of_chi_squared_test(
    scenario: &Scenario,
    (x, y): (usize, usize),
    alpha: f64,
    power: f64,
) -> f64 {
    let normal = Normal::standard();
    let df = (x * y) as f64;
    // The normal approximation: (shift - z_alpha sqrt(2 df)) / sqrt(2 df + 4 shift) = z_power.
    let [z_alpha, z_power] = [1.0 - alpha, power].map(|p| normal.inverse_cdf(p));
    let is_reached = |shift: f64| {
        shift - z_alpha * (2.0 * df).sqrt() >= z_power * (2.0 * df + 4.0 * shift).sqrt()
    };
    let mut shift = 1.0;
    while !is_reached(shift) && shift < 1e12 {
        shift *= 1.1;
    }
    shift / (2.0 * scenario.mutual_information().0)
}

impl From<(&usize, &Vec<Outcome>)> for Counts {
    fn from((rows, outcomes): (&usize, &Vec<Outcome>)) -> Self {
        let rejected = outcomes.iter().filter(|outcome| outcome.rejected).count();
        Counts { rows: *rows, tables: outcomes.len(), rejected }
    }
}

impl SizeFigures {
    fn new<'a>(
        rows: usize,
        outcomes: impl Iterator<Item = &'a Outcome> + Clone,
        mi: f64,
        curve: Option<&PowerCurve>,
    ) -> Self {
        let tables = outcomes.clone().count();
        let count = |is_counted: fn(&Outcome, f64) -> bool| {
            outcomes.clone().filter(|outcome| is_counted(outcome, mi)).count()
        };
        let middle = |value: fn(&Outcome) -> f64| median(outcomes.clone().map(value).collect());
        let share = |count: usize| count as f64 / tables.max(1) as f64;
        let rejected = count(|outcome, _| outcome.rejected);
        SizeFigures {
            rows,
            tables,
            rejected,
            power: curve.map_or(share(rejected), |curve| curve.power(rows as f64)),
            mi_nats: middle(|outcome| outcome.mi),
            ci_low: middle(|outcome| outcome.interval.0),
            ci_high: middle(|outcome| outcome.interval.1),
            width_nats: middle(|outcome| outcome.interval.1 - outcome.interval.0),
            coverage: share(count(|o, mi| (o.interval.0..=o.interval.1).contains(&mi))),
            good: share(count(|outcome, _| outcome.is_good)),
        }
    }
}

impl RowsNeeded {
    fn new(
        power: f64,
        curve: &PowerCurve,
        outcomes: &BTreeMap<usize, Vec<Outcome>>,
        mi: f64,
        min_rows: usize,
    ) -> Self {
        let (rows, low, high) = curve.rows(power);
        let rounded = |rows: f64| rounded(rows).max(min_rows);
        // The size nearest to the answer, and those within a fifth of it.
        let distance = |size: &usize| (*size as f64 / rows).ln().abs();
        let nearest = outcomes.keys().map(distance).fold(f64::INFINITY, f64::min);
        let near = outcomes.iter().filter(|(size, _)| distance(size) <= nearest.max(0.2));
        let typical = near.flat_map(|(_, outcomes)| outcomes);
        let needed = rounded(rows);
        RowsNeeded {
            power,
            rows: needed,
            rows_low: rounded(low),
            rows_high: rounded(high),
            typical: SizeFigures::new(needed, typical, mi, Some(curve)),
        }
    }
}

/// Returns the median; NaN without values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => 0.5 * (values[count / 2 - 1] + values[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::CpuEngine;
    use crate::estimate::{Effort, NoProgress};

    fn plan(size: StudySize, level: Level, columns: (usize, usize)) -> Result<PowerPlan> {
        let estimate = EstimatePlan::new(Method::GaussianCopula, Effort::Quick);
        PowerPlan::new(ScenarioPlan::new("gaussian", 1)?, level, columns, size, estimate)
    }

    #[test]
    fn rows_are_rounded_to_two_digits() {
        let rows = [7.2, 64.4, 643.0, 12_345.0].map(rounded);
        assert_eq!(rows, [7, 64, 640, 12_000]);
    }

    /// For a correlation of .3, a t-test needs 85 rows for a power of .8. The test of copulas by
    /// cross-fitting needs more. The share of rejections with the rows found is .8; with 300 other
    /// tables and alpha = .001, between .72 and .88, and .03 more for the error of the search.
    #[test]
    fn the_rows_that_are_found_have_the_power() {
        let search = plan(StudySize::Search(0.8), Level::Rho(0.3), (1, 1)).unwrap();
        let study = power_study(&search, &CpuEngine::new(0), &NoProgress).unwrap();
        let needed = study.needed.unwrap();
        assert!((85..300).contains(&needed.rows), "{needed:?}");
        assert!(needed.rows_low < needed.rows && needed.rows < needed.rows_high, "{needed:?}");
        assert!(needed.typical.ci_low < study.mi.0 && study.mi.0 < needed.typical.ci_high);
        assert_eq!(study.sizes.iter().map(|size| size.tables).sum::<usize>(), 400);
        let mut check = plan(StudySize::Rows(vec![needed.rows]), Level::Rho(0.3), (1, 1)).unwrap();
        check.tables = 300;
        check.estimate.seed = 1000;
        let share = power_study(&check, &CpuEngine::new(0), &NoProgress).unwrap().sizes[0].power;
        assert!((0.69..0.91).contains(&share), "{share}");
    }

    /// Columns of noise hide the dependence, and independent columns are found dependent in 5%: of 200
    /// tables with alpha = .001, in at most 22.
    #[test]
    fn noise_costs_power_and_independence_has_the_level() {
        let rejected = |level, columns| {
            let mut plan = plan(StudySize::Rows(vec![150]), level, columns).unwrap();
            plan.tables = 200;
            power_study(&plan, &CpuEngine::new(0), &NoProgress).unwrap().sizes[0].rejected
        };
        let [alone, hidden] = [(1, 1), (6, 6)].map(|columns| rejected(Level::Rho(0.3), columns));
        assert!(alone > hidden + 30, "{alone}, {hidden}");
        assert!(rejected(Level::Mi(0.0), (2, 3)) <= 22);
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let mut plan = plan(StudySize::Search(0.8), Level::Rho(0.5), (2, 1)).unwrap();
        plan.tables = 100;
        let [one, three] = [1, 3]
            .map(|threads| power_study(&plan, &CpuEngine::new(threads), &NoProgress).unwrap());
        assert_eq!((one.sizes, one.needed), (three.sizes, three.needed));
    }

    #[test]
    fn impossible_studies_are_refused() {
        let search = |power| StudySize::Search(power);
        let refusal =
            |plan: Result<PowerPlan>| plan.and_then(|plan| plan.check()).unwrap_err().to_string();
        for (plan, expected) in [
            (plan(search(1.0), Level::Mi(0.1), (1, 1)), "power = 1: must be above alpha"),
            (plan(search(0.02), Level::Mi(0.1), (1, 1)), "power = 0.02: must be above alpha"),
            (plan(search(0.8), Level::Mi(0.0), (1, 1)), "mi = 0: there is no dependence"),
            (plan(StudySize::Rows(vec![]), Level::Mi(0.1), (1, 1)), "give at least one number"),
            (
                plan(StudySize::Rows(vec![7]), Level::Mi(0.1), (1, 1)),
                "rows = 7: must be at least 20",
            ),
            (
                plan(search(0.8), Level::Mi(0.1), (0, 1)),
                "dim = 0+1: must be at least 1+1, the columns that share",
            ),
        ] {
            let message = refusal(plan);
            assert!(message.contains(expected), "{message}");
        }
    }
}

//! The estimate for discrete columns, which are counted instead of learned.

use super::chained::ChainChoice;
use super::contingency::Contingencies;
use super::crossfit::Table;
use super::folds::RowOrder;
use super::independence::{FIRST_PERMUTATIONS, IndependenceTest, MANY_AS_LARGE};
use super::levels::{Levels, is_category};
use super::method::Method;
use super::plan::EstimatePlan;
use super::progress::{Progress, check};
use super::result::{Baselines, Estimate};
use super::serial::SerialDependence;
use super::standard_error;
use super::verdict::{Reason, Reliability, Verdict, reason};
use crate::data::Column;
use crate::error::Result;
use crate::message::{Message, Parameter, counted};
use crate::nats::Nats;

/// The shares of rows alone in their cell above which an estimate is fair and doubtful.
const MANY_ALONE: (f64, f64) = (0.1, 0.5);

/// Intervals from fewer rows than this get a warning.
const FEW_ROWS: usize = 50;

/// The difference below which two plug-in values are equal, which differ by rounding.
const ROUNDING: f64 = 1e-12;

/// Returns the table of counts if it answers better than critics: all columns are discrete, and
/// most cells can be expected to have several rows. A sparse table is counted if it compares one
/// category with another, because critics know no more about them than the counts; they do know
/// more about numbers and about several columns.
pub(super) fn countable(table: Table, plan: &EstimatePlan) -> Option<Contingencies> {
    // Counts need no chain, so whoever asks for one wants critics.
    if plan.method != Method::Auto || matches!(plan.chain, ChainChoice::Blocks(_)) {
        return None;
    }
    let counts = Contingencies::new(Levels::of(table.x)?, Levels::of(table.y)?);
    let single = |side: &[Column]| side.len() == 1 && side.iter().all(is_category);
    let categories = single(table.x) && single(table.y);
    (categories || counts.is_dense()).then_some(counts)
}

/// Returns the tables of x and y for each level of what is held fixed, and the table without that, if
/// they answer better than critics: all columns are discrete, and most cells can be expected to have
/// several rows. A shift of a series would move rows from one table to another.
pub(super) fn countable_given(
    table: Table,
    given: &[Column],
    plan: &EstimatePlan,
) -> Option<[Contingencies; 2]> {
    if plan.method != Method::Auto || plan.order != RowOrder::Exchangeable {
        return None;
    }
    let [x, y, z] = [Levels::of(table.x)?, Levels::of(table.y)?, Levels::of(given)?];
    let counts = Contingencies::given(&x, &y, &z);
    counts.is_dense().then(|| [counts, Contingencies::new(x, y)])
}

/// Estimates from the counts. There are no folds and no critics.
pub(super) fn estimate_from_counts(
    counts: &Contingencies,
    table: Table,
    plan: &EstimatePlan,
    progress: &dyn Progress,
) -> Result<Estimate> {
    let observed = counts.observed();
    let as_large =
        |null: &[f64]| null.iter().filter(|value| **value >= observed - ROUNDING).count();
    let permuted = |m: usize| {
        progress.begin(m as u64);
        counts.null(plan.order, m, plan.seed, progress)
    };
    let mut null = permuted(plan.permutations.min(FIRST_PERMUTATIONS))?;
    if plan.permutations > FIRST_PERMUTATIONS && as_large(&null) < MANY_AS_LARGE {
        null = permuted(plan.permutations)?;
    }
    let p_value = (as_large(&null) + 1) as f64 / (null.len() + 1) as f64;
    let mut pointwise = counts.pointwise();
    let error = |order| standard_error(&pointwise, &[], order);
    let inflation = (error(plan.order) / error(RowOrder::Exchangeable)).powi(2).max(1.0);
    let sampling = counts.sampling(&null, inflation);
    let unclipped = sampling.estimate(observed);
    let mi = unclipped.clamp(0.0, sampling.limit);
    let (low, high) = sampling.interval(observed, p_value);
    let shrink = if observed > 0.0 { mi / observed } else { 0.0 };
    pointwise.iter_mut().for_each(|ratio| *ratio *= shrink);
    Ok(Estimate {
        mi: Nats(mi),
        unclipped: Nats(unclipped),
        interval: (Nats(low), Nats(high)),
        independence: Some(IndependenceTest { p_value, observed, null }),
        pointwise,
        folds: Vec::new(),
        race: Vec::new(),
        lower_bound: None,
        baselines: Baselines::default(),
        verdict: verdict(counts, table, plan.order, progress)?,
        models: Vec::new(),
        chain: None,
        given: None,
        residuals: None,
    })
}

fn verdict(
    counts: &Contingencies,
    table: Table,
    order: RowOrder,
    progress: &dyn Progress,
) -> Result<Verdict> {
    let serial = SerialDependence::of(table.x, table.y, || check(progress))?.reason(order);
    let reasons = [sparse_table(counts), counted_numbers(table), few_rows(table.rows), serial];
    Ok(Verdict::of(reasons.into_iter().flatten().collect()))
}

fn sparse_table(counts: &Contingencies) -> Option<Reason> {
    let share = counts.share_alone();
    let limits_to = match share {
        share if share > MANY_ALONE.1 => Reliability::Doubtful,
        share if share > MANY_ALONE.0 => Reliability::Fair,
        _ => return None,
    };
    reason(
        "sparse-counts",
        limits_to,
        format!(
            "{:.0}% of the rows have a unique combination of x and y, for which counts are uninformative; merge rare categories, or use more rows",
            100.0 * share
        ),
    )
}

/// Numbers that were counted as categories.
fn counted_numbers(table: Table) -> Option<Reason> {
    let mut numbers = table.x.iter().chain(table.y).filter(|column| !is_category(column));
    let first = &numbers.next()?.name;
    let text = match numbers.count() + 1 {
        1 => format!(
            "column '{first}' has few distinct values and is treated as a category; to treat it as a \
             number, use "
        ),
        columns => format!(
            "{columns} columns have few distinct values and are treated as categories, such as \
             '{first}'; to treat them as numbers, use "
        ),
    };
    let advice = Message::from(text);
    reason("ties", Reliability::Good, advice.setting(Parameter::Estimator, "gan-dime"))
}

fn few_rows(rows: usize) -> Option<Reason> {
    if rows >= FEW_ROWS {
        return None;
    }
    let text = format!("only {}: the interval is only approximate", counted(rows, "row"));
    reason("few-rows", Reliability::Fair, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Values;
    use crate::estimate::{Effort, NoProgress};
    use crate::random::{Purpose, stream};
    use rand::RngExt;

    fn category(codes: Vec<u32>) -> Column {
        let most = codes.iter().max().copied().unwrap_or(0);
        let labels = (0..=most).map(|k| k.to_string()).collect();
        Column { name: "c".into(), values: Values::Discrete { codes, labels } }
    }

    fn numbers(codes: Vec<u32>) -> Column {
        let values = codes.into_iter().map(f64::from).collect();
        Column { name: "n".into(), values: Values::Continuous(values) }
    }

    fn plan(seed: u64) -> EstimatePlan {
        EstimatePlan { permutations: 99, seed, ..EstimatePlan::new(Method::Auto, Effort::Default) }
    }

    fn is_counted(x: &[Column], y: &[Column], plan: &EstimatePlan) -> bool {
        countable(Table { x, y, rows: x[0].len(), starts: &[] }, plan).is_some()
    }

    fn count(x: Column, y: Column, plan: &EstimatePlan) -> Estimate {
        let (x, y) = ([x], [y]);
        let table = Table { x: &x, y: &y, rows: x[0].len(), starts: &[] };
        let counts = countable(table, plan).expect("discrete columns");
        estimate_from_counts(&counts, table, plan, &NoProgress).unwrap()
    }

    /// Draws x from 0 to `levels` - 1; y is equal to x with this probability, else random.
    fn draw(levels: u32, rows: usize, equal: f64, seed: u64) -> (Vec<u32>, Vec<u32>) {
        let mut rng = stream(seed, Purpose::Data, 0, 0);
        let x: Vec<u32> = (0..rows).map(|_| rng.random_range(0..levels)).collect();
        let y = x.iter().map(|&x| match rng.random_bool(equal) {
            true => x,
            false => rng.random_range(0..levels),
        });
        let y = y.collect();
        (x, y)
    }

    /// Returns the exact value of [`draw`]: ln k + s ln s + (1 - s) ln((1 - s) / (k - 1)), where s is
    /// the probability that x and y are equal.
    fn exact(levels: u32, equal: f64) -> f64 {
        let k = f64::from(levels);
        let same = equal + (1.0 - equal) / k;
        let other = (1.0 - same) / (k - 1.0);
        let term = |p: f64| if p > 0.0 { p * p.ln() } else { 0.0 };
        k.ln() + term(same) + (k - 1.0) * term(other)
    }

    /// At a nominal 95%, 300 intervals contain the truth 285 +- 15 times, which is 4 standard
    /// deviations (alpha of about 6e-5 each, fixed seeds), and the low end is above it at most 18
    /// times instead of 7.5.
    #[test]
    fn intervals_contain_the_truth() {
        for (levels, rows) in [(2, 200), (3, 200), (3, 1000), (6, 1000)] {
            for equal in [0.0, 0.05, 0.5, 0.95] {
                let truth = exact(levels, equal);
                let (mut inside, mut too_high) = (0, 0);
                for seed in 0..300 {
                    let (x, y) = draw(levels, rows, equal, seed);
                    let (low, high) = count(category(x), category(y), &plan(seed)).interval;
                    inside += usize::from(low.0 <= truth + 1e-9 && truth <= high.0 + 1e-9);
                    too_high += usize::from(low.0 > truth + 1e-9);
                }
                let case = format!("{levels} levels, {rows} rows, {equal}: {inside}, {too_high}");
                assert!(inside >= 270 && too_high <= 18, "{case}");
            }
        }
    }

    /// Under independence p is uniform: of 400 tests at 10%, 40 +- 24 reject, which is 4 standard
    /// deviations (alpha of about 6e-5, fixed seeds); and weak dependence is found.
    #[test]
    fn the_test_of_independence_is_calibrated() {
        let p = |equal, seed| {
            let (x, y) = draw(3, 150, equal, seed);
            count(category(x), category(y), &plan(seed)).independence.unwrap().p_value
        };
        let rejected = (0..400).filter(|&seed| p(0.0, seed) <= 0.1).count();
        assert!((16..=64).contains(&rejected), "{rejected}");
        assert!((0..50).filter(|&seed| p(0.3, seed) <= 0.05).count() > 45);
    }

    /// Two independent chains that stay where they are for about ten rows have fewer independent
    /// rows than they seem to have. Shifts and blocks take that into account, permutations do not:
    /// of 200 tests at 10%, 20 +- 17 reject (4 standard deviations, fixed seeds).
    #[test]
    fn slow_series_are_not_taken_for_dependent() {
        let chain = |seed: u64, side: u64| -> Vec<u32> {
            let mut rng = stream(seed, Purpose::Data, 0, side);
            let mut state = 0;
            let mut next = |_| {
                if rng.random_bool(0.1) {
                    state = rng.random_range(0..3);
                }
                state
            };
            (0..500).map(&mut next).collect()
        };
        let rejections = |order| {
            let rejected = |seed: &u64| {
                let plan = EstimatePlan { order, ..plan(*seed) };
                let found = count(category(chain(*seed, 0)), category(chain(*seed, 1)), &plan);
                found.independence.unwrap().p_value <= 0.1
            };
            (0..200).filter(rejected).count()
        };
        let (series, rows) =
            (rejections(RowOrder::Series { gap: 20 }), rejections(RowOrder::Exchangeable));
        assert!(series <= 37 && rows > 100, "{series} {rows}");
    }

    fn count_given(x: Vec<u32>, y: Vec<u32>, z: Vec<u32>, plan: &EstimatePlan) -> Estimate {
        let (x, y, z) = ([category(x)], [category(y)], [category(z)]);
        let table = Table { x: &x, y: &y, rows: x[0].len(), starts: &[] };
        let [counts, _] = countable_given(table, &z, plan).expect("discrete columns");
        estimate_from_counts(&counts, table, plan, &NoProgress).unwrap()
    }

    /// z is a third variable with two levels, and x and y depend on it: they are independent given z,
    /// and p is uniform. Of 300 tests at 10%, 30 +- 21 reject (4 standard deviations, fixed seeds). The
    /// exclusive or of two coins tells ln 2 about one of them, given the other.
    #[test]
    fn strata_are_tested_and_estimated_together() {
        let draw = |seed: u64| {
            let mut rng = stream(seed, Purpose::Data, 0, 0);
            let z: Vec<u32> = (0..300).map(|_| rng.random_range(0..2)).collect();
            let mut side = || -> Vec<u32> {
                let of = |z: &u32| u32::from(rng.random_bool(if *z == 0 { 0.2 } else { 0.7 }));
                z.iter().map(of).collect()
            };
            let (x, y) = (side(), side());
            (x, y, z)
        };
        let mut estimates = Vec::new();
        let rejected = (0..300).filter(|&seed| {
            let (x, y, z) = draw(seed);
            let found = count_given(x, y, z, &plan(seed));
            estimates.push(found.unclipped.0);
            found.independence.unwrap().p_value <= 0.1
        });
        let rejected = rejected.count();
        assert!((9..=51).contains(&rejected), "{rejected}");
        let mean = estimates.iter().sum::<f64>() / 300.0;
        assert!(mean.abs() < 1e-3, "{mean}");
        let (x, _, z) = draw(7);
        let y = x.iter().zip(&z).map(|(x, z)| x ^ z).collect();
        let found = count_given(x.clone(), y, z.clone(), &plan(7));
        // H(x | z) at shares of .2 and .7.
        assert!((found.mi.0 - 0.555).abs() < 0.06, "{}", found.mi);
        let mean = found.pointwise.iter().sum::<f64>() / 300.0;
        assert!((mean - found.mi.0).abs() < 1e-9);
    }

    #[test]
    fn pointwise_values_average_to_the_estimate() {
        for (equal, seed) in [(0.5, 1), (0.0, 2), (1.0, 3)] {
            let (x, y) = draw(4, 300, equal, seed);
            let found = count(category(x), category(y), &plan(seed));
            let mean = found.pointwise.iter().sum::<f64>() / 300.0;
            assert!((mean - found.mi.0).abs() < 1e-9, "{mean} {}", found.mi);
            assert!(found.folds.is_empty() && found.models.is_empty());
        }
    }

    #[test]
    fn identifiers_have_no_countable_information() {
        let found = count(category((0..300).collect()), category((0..300).collect()), &plan(0));
        assert_eq!(found.independence.unwrap().p_value, 1.0);
        assert_eq!((found.mi.0, found.interval.0.0), (0.0, 0.0));
        assert!(found.interval.1.0 > 5.0, "anything up to ln 300 = 5.7 is possible");
        let verdict = found.verdict;
        assert_eq!(
            (verdict.reasons[0].code, verdict.reliability),
            ("sparse-counts", Reliability::Doubtful)
        );
    }

    /// Sparse tables of numbers or of several columns are left to critics.
    #[test]
    fn few_repeated_values_are_counted() {
        let (x, y) = draw(5, 500, 0.5, 7);
        let ratings = count(numbers(x.clone()), numbers(y.clone()), &plan(0));
        assert_eq!(ratings.verdict.reasons[0].code, "ties");
        assert_eq!(ratings.mi, count(category(x.clone()), category(y.clone()), &plan(0)).mi);
        let wide = |base: &[u32]| -> Vec<Column> {
            (1..5).map(|k| category(base.iter().map(|c| (c * k + k) % 5).collect())).collect()
        };
        let (random, _) = draw(5, 500, 0.0, 8);
        let x_columns = [wide(&x), wide(&random)].concat();
        let y_columns = [wide(&y), wide(&draw(5, 500, 0.0, 9).0)].concat();
        assert!(!is_counted(&x_columns, &y_columns, &plan(0)), "25 x 25 cells, 500 rows");
        assert!(is_counted(&wide(&x), &[category(y.clone())], &plan(0)), "5 x 5 cells");
        let trained = EstimatePlan::new("gan-dime".parse().unwrap(), Effort::Default);
        assert!(!is_counted(&[category(x)], &[category(y)], &trained));
    }
}

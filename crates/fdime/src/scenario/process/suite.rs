//! The tasks of `fdime suite transfer`.

use super::autoregression::Autoregression;
use crate::data::{Column, Values};
use crate::error::{Result, invalid};
use crate::message::Parameter;
use crate::nats::Nats;
use crate::random::Rng;
use crate::scenario::conditional::{Curve, JointGaussian, Model, PostNonlinear};
use crate::scenario::normal::Normal;
use crate::scenario::{Map, check_table};
use nalgebra::DMatrix;

/// The standard deviation of the noise of a coupled process.
const NOISE: f64 = 0.5;

/// The persistence of a coupled process.
const PERSISTENCE: f64 = 0.6;

/// A named pair of series: the transfer entropy from one, the source, to the other, the target.
#[derive(Clone, Debug, PartialEq)]
pub struct TransferTask {
    /// The task's name.
    pub name: &'static str,
    /// How the series depend on their past.
    pub description: &'static str,
    /// The number of past values of the target that are given.
    pub target_history: usize,
    /// The number of past values of the source.
    pub source_history: usize,
    process: Process,
    /// One-to-one maps of the source and of the target, which do not change the transfer entropy.
    maps: Option<[Map; 2]>,
}

/// A process with the role of its series.
#[derive(Clone, Debug, PartialEq)]
enum Process {
    /// A linear process; series beyond source and target are not observed.
    Linear { process: Autoregression, source: usize, target: usize },
    /// x is white noise, y_n = PERSISTENCE y_(n-1) + x_(n-1)^2 + NOISE e_n. Given y_(n-1), the other
    /// past values of y tell nothing about y_n, and x_(n-1) does not depend on any past of y, so the
    /// transfer entropy from x to y is I(X; X^2 + NOISE E), and that from y to x is 0.
    Squares { is_reverse: bool },
}

impl TransferTask {
    /// Returns the exact transfer entropy from the source to the target with the task's histories.
    pub fn transfer_entropy(&self) -> Result<Nats> {
        match &self.process {
            Process::Linear { .. } => Ok(Nats(self.joint()?.information())),
            Process::Squares { is_reverse: true } => Ok(Nats(0.0)),
            Process::Squares { is_reverse: false } => Ok(Nats(squares().information())),
        }
    }

    /// Returns the joint distribution of the present of the target, the past of the source and the
    /// past of the target, of a linear process.
    fn joint(&self) -> Result<JointGaussian> {
        let failure = || invalid(Parameter::Scenario, self.name, "the process is not stable");
        let Process::Linear { process, source, target } = &self.process else {
            return Err(failure());
        };
        let steps = 1 + self.longest_history();
        let at = |lag: usize, series: usize| lag * process.series() + series;
        let mut coordinates = vec![at(0, *target)];
        coordinates.extend((1..=self.source_history).map(|lag| at(lag, *source)));
        coordinates.extend((1..=self.target_history).map(|lag| at(lag, *target)));
        let covariance = process.covariance(steps).ok_or_else(failure)?;
        let covariance = covariance.select_rows(&coordinates).select_columns(&coordinates);
        let dims = [1, self.source_history, self.target_history];
        JointGaussian::new(&covariance, dims).ok_or_else(failure)
    }

    /// Returns the larger of both histories.
    fn longest_history(&self) -> usize {
        self.source_history.max(self.target_history)
    }

    /// Simulates `rows` steps of the source and of the target, from the stationary distribution.
    pub fn simulate(&self, rng: &mut Rng, rows: usize) -> [Vec<f64>; 2] {
        let mut both = match &self.process {
            Process::Linear { process, source, target } => {
                let steps = process.simulate(rng, rows);
                [*source, *target].map(|series| steps.iter().map(|values| values[series]).collect())
            }
            Process::Squares { is_reverse } => {
                let [x, y] = simulate_squares(rng, rows);
                if *is_reverse { [y, x] } else { [x, y] }
            }
        };
        if let Some(maps) = self.maps {
            for (series, map) in both.iter_mut().zip(maps) {
                for value in series {
                    let mut row = vec![*value];
                    map.apply(&mut row);
                    *value = row[0];
                }
            }
        }
        both
    }

    /// Simulates a table with `rows` rows: the present of the target, the past of the source and the
    /// past of the target. The transfer entropy is the information between the first two given the
    /// third.
    pub fn table(&self, rng: &mut Rng, rows: usize) -> [Vec<Column>; 3] {
        let history = self.longest_history();
        let [source, target] = self.simulate(rng, rows + history);
        let lagged = |name: &str, series: &[f64], lag: usize| Column {
            name: if lag == 0 { format!("{name}(t)") } else { format!("{name}(t-{lag})") },
            values: Values::Continuous(series[history - lag..history - lag + rows].to_vec()),
        };
        [
            vec![lagged("target", &target, 0)],
            (1..=self.source_history).map(|lag| lagged("source", &source, lag)).collect(),
            (1..=self.target_history).map(|lag| lagged("target", &target, lag)).collect(),
        ]
    }

    /// Checks that a table of this many rows fits into the memory that is free.
    pub fn check_rows(&self, rows: usize) -> Result<()> {
        check_table(rows, 1 + self.source_history + self.target_history)
    }
}

/// Returns the model y = x^2 + NOISE e with standard normal x, without any z.
fn squares() -> PostNonlinear {
    PostNonlinear::new(Model {
        x_curve: Curve::Square,
        y_curve: Curve::Identity,
        z_mean: 0.0,
        to_x: Vec::new(),
        to_y: Vec::new(),
        coupling: 1.0,
        noise: [1.0, NOISE],
    })
}

/// Simulates x and y of [`Process::Squares`].
fn simulate_squares(rng: &mut Rng, rows: usize) -> [Vec<f64>; 2] {
    const BURN_IN: usize = 100;
    let (mut x, mut y) = (vec![0.0], vec![0.0]);
    for step in 0..BURN_IN + rows {
        let coupled = PERSISTENCE * y[step] + x[step] * x[step];
        y.push(coupled + NOISE * Normal::STANDARD.draw(rng));
        x.push(Normal::STANDARD.draw(rng));
    }
    [x.split_off(BURN_IN + 1), y.split_off(BURN_IN + 1)]
}

/// Returns a linear process of order 1 or more with noise of variance 1 in each series.
fn linear(series: usize, coefficients: &[&[f64]]) -> Autoregression {
    Autoregression {
        coefficients: coefficients
            .iter()
            .map(|rows| DMatrix::from_row_slice(series, series, rows))
            .collect(),
        mixing: DMatrix::identity(series, series),
    }
}

/// Returns pairs of series with known transfer entropy. In those whose name contains `null` it is
/// 0.
pub fn transfer_suite() -> Vec<TransferTask> {
    [coupled_tasks(), unobserved_tasks(), nonlinear_tasks()].concat()
}

/// Creates the task of a linear process with source 0 and target 1, and equal histories.
fn task(
    name: &'static str,
    description: &'static str,
    process: Autoregression,
    history: usize,
) -> TransferTask {
    TransferTask {
        name,
        description,
        target_history: history,
        source_history: history,
        process: Process::Linear { process, source: 0, target: 1 },
        maps: None,
    }
}

/// Exchanges source and target.
fn reversed(mut task: TransferTask) -> TransferTask {
    match &mut task.process {
        Process::Linear { source, target, .. } => std::mem::swap(source, target),
        Process::Squares { is_reverse } => *is_reverse = !*is_reverse,
    }
    task
}

fn coupled_tasks() -> Vec<TransferTask> {
    let one_way = || linear(2, &[&[0.7, 0.0, 0.5, 0.6]]);
    let two_way = || linear(2, &[&[0.5, 0.3, 0.6, 0.4]]);
    let delayed = linear(2, &[&[0.6, 0.0, 0.0, 0.5], &[0.0; 4], &[0.0, 0.0, 0.6, -0.3]]);
    let pair = |a: f64| linear(2, &[&[a, 0.0, 0.0, a]]);
    vec![
        task("one-way", "x drives y after one step", one_way(), 1),
        reversed(task("one-way-null", "the reverse of one-way", one_way(), 1)),
        task("two-way", "x and y drive each other; x to y", two_way(), 1),
        reversed(task("two-way-back", "the reverse of two-way", two_way(), 1)),
        task("two-way-long", "two-way, with five past values of both", two_way(), 5),
        task("delayed", "x drives y after three steps", delayed, 3),
        task("independent-null", "independent series that fade by .5", pair(0.5), 1),
        task("slow-null", "independent series that fade by .95", pair(0.95), 1),
    ]
}

/// Returns tasks in which a third series, which is not observed, drives x and y.
fn unobserved_tasks() -> Vec<TransferTask> {
    // x_n = .5 x_(n-1) + w_n + e_n, y_n = .6 y_(n-1) + w_n + e'_n, with white noise w.
    let mut driven = linear(2, &[&[0.5, 0.0, 0.0, 0.6]]);
    driven.mixing = DMatrix::from_row_slice(2, 3, &[1.0, 0.0, 1.0, 0.0, 1.0, 1.0]);
    // The same, but w drives y one step later: the third series is w.
    let mut later = linear(3, &[&[0.5, 0.0, 0.0, 0.0, 0.6, 1.0, 0.0, 0.0, 0.0]]);
    later.mixing[(0, 2)] = 1.0;
    // x drives w, and w drives y.
    let indirect = linear(3, &[&[0.6, 0.0, 0.0, 0.0, 0.5, 0.7, 0.8, 0.0, 0.3]]);
    vec![
        task("driver-null", "white noise drives x and y at the same time", driven, 1),
        task("delayed-driver", "white noise drives x, and y one step later", later, 2),
        task("indirect", "x drives a series that drives y", indirect, 2),
    ]
}

fn nonlinear_tasks() -> Vec<TransferTask> {
    let one_way = linear(2, &[&[0.7, 0.0, 0.5, 0.6]]);
    let mut mapped = task("one-way-mapped", "one-way, after maps of x and of y", one_way, 1);
    mapped.maps = Some([Map::HalfCube, Map::Wiggle1]);
    let squares = |name, description| TransferTask {
        name,
        description,
        target_history: 1,
        source_history: 1,
        process: Process::Squares { is_reverse: false },
        maps: None,
    };
    vec![
        mapped,
        squares("squares", "the square of white noise x drives y"),
        reversed(squares("squares-null", "the reverse of squares")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, stream};
    use nalgebra::DVector;

    fn named(name: &str) -> TransferTask {
        transfer_suite().into_iter().find(|task| task.name == name).unwrap()
    }

    fn information(task: &TransferTask) -> f64 {
        task.transfer_entropy().unwrap().0
    }

    /// Returns the variance of component 0 that others do not explain.
    fn residual_variance(covariance: &DMatrix<f64>, others: &[usize]) -> f64 {
        let among = covariance.select_rows(others).select_columns(others);
        let with = DVector::from_iterator(others.len(), others.iter().map(|&k| covariance[(0, k)]));
        covariance[(0, 0)] - with.dot(&among.lu().solve(&with).unwrap())
    }

    /// Regression gives the same as determinants: 1/2 ln of the ratio of the residual variances
    /// without and with the past of the source. In one-way, the second of them is that of the noise.
    #[test]
    fn transfer_entropy_is_half_the_log_ratio_of_residual_variances() {
        for task in transfer_suite() {
            let Process::Linear { process, source, target } = &task.process else { continue };
            let (k, l) = (task.target_history, task.source_history);
            let covariance = process.covariance(1 + task.longest_history()).unwrap();
            let at = |lag: usize, series: usize| lag * process.series() + series;
            let mut order = vec![at(0, *target)];
            order.extend((1..=k).map(|lag| at(lag, *target)));
            order.extend((1..=l).map(|lag| at(lag, *source)));
            let covariance = covariance.select_rows(&order).select_columns(&order);
            let (own, all): (Vec<usize>, Vec<usize>) = ((1..=k).collect(), (1..=k + l).collect());
            let with_source = residual_variance(&covariance, &all);
            let by_regression = 0.5 * (residual_variance(&covariance, &own) / with_source).ln();
            assert!((information(&task) - by_regression).abs() < 1e-10, "{}", task.name);
            if task.name.starts_with("one-way") {
                assert!((with_source - 1.0).abs() < 1e-10);
            }
        }
    }

    #[test]
    fn tasks_have_known_transfer_entropy() {
        for task in transfer_suite() {
            assert_eq!(information(&task) == 0.0, task.name.contains("null"), "{}", task.name);
        }
        for (name, nats) in
            [("one-way", 0.164069), ("two-way-back", 0.080128), ("squares", 0.802703)]
        {
            assert!((information(&named(name)) - nats).abs() < 1e-6, "{name}");
        }
        assert_eq!(information(&named("one-way")), information(&named("one-way-mapped")));
    }

    /// Checks that the mean of log ratios of successive rows is the transfer entropy within 4
    /// standard errors, by the means of 50 blocks (alpha of about 2e-4 with 49 degrees of freedom).
    fn check_mean(name: &str, ratios: &[f64], truth: f64) {
        let length = ratios.len() / 50;
        let blocks = ratios.chunks_exact(length);
        let means: Vec<f64> = blocks.map(|b| b.iter().sum::<f64>() / length as f64).collect();
        let mean = means.iter().sum::<f64>() / 50.0;
        let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / 49.0;
        let error = 4.0 * (variance / 50.0).sqrt() + 1e-12;
        assert!((mean - truth).abs() < error, "{name}: {mean} {truth}");
    }

    #[test]
    fn the_mean_log_ratio_of_simulations_is_the_transfer_entropy() {
        let numbers = |column: &Column| match &column.values {
            Values::Continuous(values) => values.clone(),
            Values::Discrete { .. } => Vec::new(),
        };
        for mut task in transfer_suite() {
            task.maps = None;
            let columns = task.table(&mut stream(3, Purpose::Data, 0, 0), 5_000).concat();
            let columns: Vec<Vec<f64>> = columns.iter().map(numbers).collect();
            let rows = (0..5_000).map(|n| columns.iter().map(|c| c[n]).collect::<Vec<f64>>());
            let ratios: Vec<f64> = match &task.process {
                Process::Linear { .. } => {
                    let joint = task.joint().unwrap();
                    rows.map(|row| joint.log_ratio(&row)).collect()
                }
                Process::Squares { is_reverse: true } => continue,
                // Rows are y_n, x_(n-1), y_(n-1).
                Process::Squares { is_reverse: false } => {
                    let model = squares();
                    let ratio = |row: Vec<f64>| {
                        model.log_ratio(row[1] * row[1], row[0] - PERSISTENCE * row[2], &[])
                    };
                    rows.take(1_000).map(ratio).collect()
                }
            };
            check_mean(task.name, &ratios, information(&task));
        }
    }

    #[test]
    fn tables_hold_the_present_and_the_past() {
        let mut task = named("delayed");
        (task.source_history, task.target_history) = (3, 2);
        let rng = || stream(1, Purpose::Data, 0, 0);
        let [source, target] = task.simulate(&mut rng(), 13);
        let [x, y, given] = task.table(&mut rng(), 10);
        let names = |columns: &[Column]| -> Vec<String> {
            columns.iter().map(|column| column.name.clone()).collect()
        };
        assert_eq!(names(&x), ["target(t)"]);
        assert_eq!(names(&y), ["source(t-1)", "source(t-2)", "source(t-3)"]);
        assert_eq!(names(&given), ["target(t-1)", "target(t-2)"]);
        let is = |column: &Column, values: &[f64]| {
            assert_eq!(column.values, Values::Continuous(values.to_vec()));
        };
        is(&x[0], &target[3..]);
        is(&y[2], &source[..10]);
        is(&given[1], &target[1..11]);
    }
}

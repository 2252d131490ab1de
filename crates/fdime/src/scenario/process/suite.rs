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
            // A transfer entropy of 0 is missed by rounding.
            Process::Linear { .. } => Ok(Nats(self.joint()?.information().max(0.0))),
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

    #[test]
    fn print() {
        for task in transfer_suite() {
            println!("{:20} {}", task.name, task.transfer_entropy().unwrap().0);
        }
    }
}

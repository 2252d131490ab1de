//! The numbers of the paper's tables.

use super::results::{LevelResult, Results, StaircaseResult};
use crate::failure::Failure;
use serde::Deserialize;

macro_rules! table {
    ($name:literal) => {
        ($name, include_str!(concat!("../../experiments/paper/", $name, ".csv")))
    };
}

/// The tables as comma-separated values.
const TABLES: [(&str, &str); 4] = [
    table!("bias_variance_mse_d20_n64"),
    table!("bias_variance_mse_d5_d10_n64"),
    table!("bias_variance_mse_d20_n512_n1024"),
    table!("variance_d5_n64"),
];

/// One number of a table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Cell {
    pub scenario: String,
    pub dim: usize,
    pub batch: usize,
    pub estimator: String,
    pub statistic: Statistic,
    pub true_mi: f64,
    pub value: f64,
}

/// The statistic that a number is a value of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    Bias,
    Variance,
    Mse,
}

impl Statistic {
    pub const ALL: [Statistic; 3] = [Statistic::Bias, Statistic::Variance, Statistic::Mse];

    pub fn name(self) -> &'static str {
        match self {
            Statistic::Bias => "bias",
            Statistic::Variance => "variance",
            Statistic::Mse => "mse",
        }
    }
}

/// Returns the cells of a table; fails if there is no such table.
pub fn cells(table: &str) -> Result<Vec<Cell>, Failure> {
    let fail = |reason: String| Failure::Usage(format!("the paper's table {table}: {reason}"));
    let (_, text) = TABLES
        .iter()
        .find(|(name, _)| *name == table)
        .ok_or_else(|| fail("there is no such table".into()))?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().collect::<Result<_, _>>().map_err(|error| fail(error.to_string()))
}

impl Cell {
    /// Returns the measured level with the cell's parameters, or `None` if there is none.
    pub fn measured_level<'a>(&self, results: &'a Results) -> Option<&'a LevelResult> {
        let same = |staircase: &&StaircaseResult| {
            self.has_setting_of(staircase)
                && staircase.chain.is_none()
                && staircase.plan.scenario.name.to_string() == self.scenario
        };
        results.staircases.iter().find(same)?.at(self.true_mi)
    }

    /// Returns whether the estimator, dimension and batch size are those of the staircase.
    pub fn has_setting_of(&self, staircase: &StaircaseResult) -> bool {
        let plan = staircase.plan;
        (self.estimator.as_str(), self.dim, self.batch)
            == (staircase.estimator(), plan.scenario.dim, plan.training.batch)
    }
}

/// Returns whether a value differs from the paper's by at most relative * |paper| + absolute.
pub fn is_within(value: f64, paper: f64, relative: f64, absolute: f64) -> bool {
    (value - paper).abs() <= relative * paper.abs() + absolute
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_complete() {
        // Estimators x statistics x levels x settings.
        let sizes = [6 * 3 * 5, 6 * 3 * 5 * 2, 6 * 3 * 5 * 2, 6 * 5];
        for ((name, _), size) in TABLES.iter().zip(sizes) {
            assert_eq!(cells(name).unwrap().len(), size, "{name}");
        }
        assert!(cells("unknown").is_err());
    }

    #[test]
    fn tolerance_is_relative_plus_absolute() {
        assert!(is_within(1.29, 1.0, 0.25, 0.05) && !is_within(1.31, 1.0, 0.25, 0.05));
        assert!(is_within(0.0, 0.05, 0.25, 0.05));
    }
}

//! The numbers of the paper's tables.

use crate::failure::Failure;

macro_rules! table {
    ($name:literal) => {
        ($name, include_str!(concat!("../../experiments/paper/", $name, ".csv")))
    };
}

/// The tables, as comma-separated values.
const TABLES: [(&str, &str); 4] = [
    table!("bias_variance_mse_d20_n64"),
    table!("bias_variance_mse_d5_d10_n64"),
    table!("bias_variance_mse_d20_n512_n1024"),
    table!("variance_d5_n64"),
];

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub scenario: String,
    pub dim: usize,
    pub batch: usize,
    pub estimator: String,
    pub statistic: Statistic,
    pub true_mi: f64,
    pub value: f64,
}

/// What a number is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
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

/// The cells of a table.
pub fn cells(table: &str) -> Result<Vec<Cell>, Failure> {
    let fail = |reason: String| Failure::Usage(format!("the paper's table {table}: {reason}"));
    let (_, text) = TABLES
        .iter()
        .find(|(name, _)| *name == table)
        .ok_or_else(|| fail("there is no such table".into()))?;
    text.lines()
        .skip(1)
        .map(|line| cell(line).ok_or_else(|| fail(format!("malformed line '{line}'"))))
        .collect()
}

fn cell(line: &str) -> Option<Cell> {
    let fields: Vec<&str> = line.split(',').collect();
    let &[scenario, dim, batch, estimator, statistic, true_mi, value] = fields.as_slice() else {
        return None;
    };
    Some(Cell {
        scenario: scenario.into(),
        dim: dim.parse().ok()?,
        batch: batch.parse().ok()?,
        estimator: estimator.into(),
        statistic: Statistic::ALL.into_iter().find(|known| known.name() == statistic)?,
        true_mi: true_mi.parse().ok()?,
        value: value.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_whole() {
        // Estimators x statistics x levels x settings.
        let sizes = [6 * 3 * 5, 6 * 3 * 5 * 2, 6 * 3 * 5 * 2, 6 * 5];
        for ((name, _), size) in TABLES.iter().zip(sizes) {
            assert_eq!(cells(name).unwrap().len(), size, "{name}");
        }
    }
}

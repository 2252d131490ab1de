//! One pair of many: what a matrix of mutual information holds of it.

use super::plan::EstimatePlan;
use super::progress::Progress;
use super::{benjamini_hochberg, estimate};
use crate::data::{Frame, Reading, pairs_of};
use crate::error::{Error, Result};
use crate::message::Wording;
use serde::{Deserialize, Serialize};

/// One pair of columns or groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairFinding {
    /// The name of the one.
    pub x: String,
    /// The name of the other.
    pub y: String,
    /// The estimate.
    pub mi_nats: Option<f64>,
    /// Where its interval begins.
    pub ci_low: Option<f64>,
    /// Where its interval ends.
    pub ci_high: Option<f64>,
    /// Of the test of independence.
    pub p_value: Option<f64>,
    /// Adjusted for the number of pairs; filled in when all are there.
    #[serde(default)]
    pub p_adjusted: Option<f64>,
    /// The rows in which both have values.
    pub n_rows: usize,
    /// The verdict in a word.
    pub reliability: Option<String>,
    /// Why there is no estimate.
    pub problem: Option<String>,
}

impl PairFinding {
    /// Estimates a pair of named groups of columns. What is wrong with the pair is part of the
    /// finding, since it must not cost other pairs theirs; the only error is an interruption. `wording` names parameters in the
    /// text of a problem.
    pub fn new(
        frame: &Frame,
        (x_name, x): (&str, &[usize]),
        (y_name, y): (&str, &[usize]),
        plan: &EstimatePlan,
        reading: &Reading,
        wording: &dyn Wording,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let mut pair = PairFinding {
            x: x_name.into(),
            y: y_name.into(),
            mi_nats: None,
            ci_low: None,
            ci_high: None,
            p_value: None,
            p_adjusted: None,
            n_rows: 0,
            reliability: None,
            problem: None,
        };
        let result = pairs_of(frame, x, y, reading).and_then(|table| {
            pair.n_rows = table.kept.len();
            estimate(&table.x, &table.y, plan, progress)
        });
        match result {
            Ok(result) => {
                pair.mi_nats = Some(result.mi.0);
                pair.ci_low = Some(result.interval.0.0);
                pair.ci_high = Some(result.interval.1.0);
                pair.p_value = result.independence.map(|test| test.p_value);
                pair.reliability = Some(result.verdict.reliability.to_string());
            }
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => pair.problem = Some(error.render(wording)),
        }
        Ok(pair)
    }

    /// Adjusts the p-values of all pairs for their number (Benjamini-Hochberg).
    pub fn adjust(pairs: &mut [PairFinding]) {
        let p_values: Vec<Option<f64>> = pairs.iter().map(|pair| pair.p_value).collect();
        for (pair, adjusted) in pairs.iter_mut().zip(benjamini_hochberg(&p_values)) {
            pair.p_adjusted = adjusted;
        }
    }
}

//! Many pairs of columns: one estimate for each, and the journal of those that are finished.

use super::plan::EstimatePlan;
use super::progress::Progress;
use super::result::Estimate;
use super::{benjamini_hochberg, estimate};
use crate::data::{Frame, PairTable, Reading, pairs_of};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::journal::{Entry, Journal};
use crate::message::Wording;
use serde::{Deserialize, Serialize};

/// The estimate of one pair of columns or groups of columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairEstimate {
    /// The name of the first column or group.
    pub x: String,
    /// The name of the second column or group.
    pub y: String,
    /// The estimate; `None` if there is a problem.
    pub mi_nats: Option<f64>,
    /// The lower end of its interval.
    pub ci_low: Option<f64>,
    /// The upper end of its interval.
    pub ci_high: Option<f64>,
    /// The p-value of the test of independence.
    pub p_value: Option<f64>,
    /// The p-value adjusted for the number of pairs, once all pairs are known.
    #[serde(default)]
    pub p_adjusted: Option<f64>,
    /// The number of rows in which both have values.
    pub n_rows: usize,
    /// The reliability according to the verdict.
    pub reliability: Option<String>,
    /// The codes of the verdict's reasons, separated by spaces.
    #[serde(default)]
    pub reasons: Option<String>,
    /// Why there is no estimate.
    pub problem: Option<String>,
}

impl PairEstimate {
    /// Estimates a pair of named groups of columns. A problem with the pair is part of the result,
    /// because it must not end the estimates of other pairs; it names parameters in the words of
    /// `wording`. The only errors are an interruption and those of the device.
    #[expect(clippy::too_many_arguments, reason = "two groups, the settings and the engine")]
    pub fn new(
        frame: &Frame,
        (x_name, x): (&str, &[usize]),
        (y_name, y): (&str, &[usize]),
        plan: &EstimatePlan,
        reading: &Reading,
        wording: &dyn Wording,
        engine: &dyn Engine,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let run = |table: &PairTable| {
            let plan = plan.for_data(&table.x, &table.y);
            estimate(&table.x, &table.y, &plan, engine, progress)
        };
        Self::of_table([x_name, y_name], pairs_of(frame, x, y, reading), wording, run)
    }

    /// As [`new`](Self::new), for a table that was made and is estimated in another way.
    pub(super) fn of_table(
        [x_name, y_name]: [&str; 2],
        table: Result<PairTable>,
        wording: &dyn Wording,
        run: impl FnOnce(&PairTable) -> Result<Estimate>,
    ) -> Result<Self> {
        let mut pair = PairEstimate {
            x: x_name.into(),
            y: y_name.into(),
            mi_nats: None,
            ci_low: None,
            ci_high: None,
            p_value: None,
            p_adjusted: None,
            n_rows: 0,
            reliability: None,
            reasons: None,
            problem: None,
        };
        let result = table.and_then(|table| {
            pair.n_rows = table.kept.len();
            run(&table)
        });
        match result {
            Ok(result) => {
                pair.mi_nats = Some(result.mi.0);
                pair.ci_low = Some(result.interval.0.0);
                pair.ci_high = Some(result.interval.1.0);
                pair.p_value = result.independence.map(|test| test.p_value);
                pair.reliability = Some(result.verdict.reliability.to_string());
                let codes = result.verdict.reasons.iter().map(|reason| reason.code);
                pair.reasons = Some(codes.collect::<Vec<_>>().join(" "));
            }
            Err(error @ (Error::Interrupted | Error::Device { .. })) => return Err(error),
            Err(error) => pair.problem = Some(error.render(wording)),
        }
        Ok(pair)
    }

    /// Adjusts the p-values of all pairs for their number (Benjamini-Hochberg).
    pub fn adjust(pairs: &mut [PairEstimate]) {
        let p_values: Vec<Option<f64>> = pairs.iter().map(|pair| pair.p_value).collect();
        for (pair, adjusted) in pairs.iter_mut().zip(benjamini_hochberg(&p_values)) {
            pair.p_adjusted = adjusted;
        }
    }
}

/// A finished pair of a matrix, identified by the positions of its two columns or groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairRecord {
    /// The positions of the two.
    pub pair: (usize, usize),
    /// The estimate.
    pub found: PairEstimate,
}

impl Entry for PairRecord {
    type Key = (usize, usize);
    const LINE_START: &'static str = "{\"pair\":";

    fn key(&self) -> &(usize, usize) {
        &self.pair
    }
}

/// The pairs of a matrix that are finished, behind a [`MatrixHeading`].
pub type MatrixJournal = Journal<PairRecord>;

/// Everything that determines the numbers of a matrix. Only the same matrix continues a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatrixHeading {
    /// The names of what is compared, and the columns of each.
    pub groups: Vec<(String, Vec<usize>)>,
    /// The fingerprint of the columns: see [`Frame::fingerprint`].
    pub data: String,
    /// Whether rows with missing values are left out.
    pub drop_missing: bool,
    /// How each pair is estimated.
    pub plan: EstimatePlan,
    /// The version of this library.
    pub version: String,
}

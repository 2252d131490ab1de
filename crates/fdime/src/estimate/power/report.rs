//! The report of a study of power: a summary for people and a record for programs.

use super::{PowerPlan, PowerStudy, RowsNeeded, SizeFigures, StudySize};
use crate::estimate::report::{Paragraph, amount};
use crate::message::counted;
use crate::nats::Nats;
use serde::{Deserialize, Serialize};

/// A study of power as plain data: what `--json` prints, and what summaries and figures are made from.
/// docs/POWER.md describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PowerRecord {
    /// The mutual information of the simulated tables, in nats.
    pub mi_nats: f64,
    /// The numbers of columns of x and of y.
    pub columns: (usize, usize),
    /// The level of the test.
    pub alpha: f64,
    /// The number of rows that a study needs, if it was searched for.
    pub needed: Option<RowsNeeded>,
    /// What was found with each number of rows, in ascending order.
    pub sizes: Vec<SizeFigures>,
    /// Everything that determines the study.
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub plan: PowerPlan,
    /// The duration in seconds.
    pub seconds: f64,
    /// The version of fdime.
    pub version: String,
}

impl PowerRecord {
    /// Returns the record of a study that took this many seconds.
    pub fn new(plan: PowerPlan, study: PowerStudy, seconds: f64) -> Self {
        PowerRecord {
            mi_nats: study.mi.0,
            columns: study.columns,
            alpha: plan.alpha,
            needed: study.needed,
            sizes: study.sizes,
            plan,
            seconds,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    /// Returns the summary for people, in bits or in nats.
    pub fn summary(&self, bits: bool) -> Vec<Paragraph> {
        let mut paragraphs = self.answer(bits);
        paragraphs.push(Paragraph::Gap);
        paragraphs.extend(self.table(bits));
        paragraphs.push(Paragraph::Gap);
        let tables: usize = self.sizes.iter().map(|size| size.tables).sum();
        let plan = &self.plan.estimate;
        paragraphs.push(Paragraph::Text(format!(
            "{}; estimator {}; seed {}; {:.1} s",
            counted(tables, "simulated table"),
            plan.method,
            plan.seed,
            self.seconds
        )));
        paragraphs
    }

    /// Returns what was assumed, as in "0.100 nats between 5 + 5 columns (gaussian)".
    pub fn assumption(&self, bits: bool) -> String {
        let (x, y) = self.columns;
        let unit = if bits { "bits" } else { "nats" };
        let (x_noise, y_noise) = self.plan.noise_columns;
        let noise = match x_noise + y_noise {
            0 => String::new(),
            _ => format!(", {x_noise} + {y_noise} of them noise"),
        };
        let amount = amount(Nats(self.mi_nats), bits);
        // Two digits of a small amount.
        let digits = if amount > 0.0 { (1.0 - amount.log10().floor()).max(3.0) } else { 3.0 };
        format!(
            "{amount:.*} {unit} between {x} + {y} columns ({}{noise})",
            digits as usize, self.plan.scenario.name
        )
    }

    fn answer(&self, bits: bool) -> Vec<Paragraph> {
        let level = format!("{}%", 100.0 * self.alpha);
        let mut lines = Vec::new();
        match (&self.needed, &self.plan.size) {
            (Some(needed), StudySize::Search(power)) => {
                let typical = &needed.typical;
                let [low, high] =
                    [typical.ci_low, typical.ci_high].map(|end| amount(Nats(end), bits));
                lines.push(format!(
                    "about {} rows   95% interval {} to {}",
                    needed.rows, needed.rows_low, needed.rows_high
                ));
                lines.push(format!(
                    "With this many rows the test at the {level} level finds a dependence of {} with \
                     a probability of {power}.",
                    self.assumption(bits)
                ));
                lines.push(format!(
                    "The estimate then has a 95% interval of about {low:.3} to {high:.3}."
                ));
            }
            _ => lines
                .push(format!("power of the test at the {level} level: {}", self.assumption(bits))),
        }
        lines.into_iter().map(Paragraph::Text).collect()
    }

    /// Returns a line for each number of rows.
    fn table(&self, bits: bool) -> Vec<Paragraph> {
        let unit = if bits { "bits" } else { "nats" };
        let mut lines = vec![format!(
            "{:>8} {:>7} {:>9} {:>6} {:>9} {:>17} {:>5}",
            "rows", "tables", "rejected", "power", unit, "95% interval", "good"
        )];
        lines.extend(self.sizes.iter().map(|size| {
            let [mi, low, high] =
                [size.mi_nats, size.ci_low, size.ci_high].map(|nats| amount(Nats(nats), bits));
            format!(
                "{:>8} {:>7} {:>9} {:>6.2} {:>9.3} {:>17} {:>4.0}%",
                size.rows,
                size.tables,
                size.rejected,
                size.power,
                mi,
                format!("{low:.3} to {high:.3}"),
                100.0 * size.good
            )
        }));
        lines.into_iter().map(Paragraph::Text).collect()
    }
}

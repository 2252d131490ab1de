//! What people and programs are told of an estimate.

use super::plan::EstimatePlan;
use super::result::{Baselines, Estimate, FoldFigures, RaceEntry};
use super::verdict::Verdict;
use crate::data::{Column, PairTable, Values};
use crate::nats::Nats;
use serde::{Serialize, Serializer};
use std::fmt::Write;

/// An estimate beside what it was made from. It serializes to what `fdime estimate --json` prints;
/// docs/ESTIMATE.md describes it.
#[derive(Clone, Copy)]
pub struct Finding<'a> {
    /// The rows that were used.
    pub table: &'a PairTable,
    /// How it was made.
    pub plan: &'a EstimatePlan,
    /// What came out.
    pub estimate: &'a Estimate,
    /// How long it took.
    pub seconds: f64,
}

#[derive(Serialize)]
struct Json<'a> {
    mi_nats: f64,
    ci_low: f64,
    ci_high: f64,
    p_value: Option<f64>,
    n_rows: usize,
    n_dropped: usize,
    estimator: String,
    verdict: &'a Verdict,
    unclipped_nats: f64,
    lower_bound_nats: Option<f64>,
    baselines: &'a Baselines,
    folds: &'a [FoldFigures],
    race: &'a [RaceEntry],
    x: Vec<&'a str>,
    y: Vec<&'a str>,
    plan: &'a EstimatePlan,
    seconds: f64,
    seed: u64,
    version: &'static str,
}

impl Serialize for Finding<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names = |columns: &'_ [Column]| columns.iter().map(|c| c.name.clone()).collect();
        let (x, y): (Vec<String>, Vec<String>) = (names(&self.table.x), names(&self.table.y));
        let Estimate { mi, interval, independence, .. } = self.estimate;
        Json {
            mi_nats: mi.0,
            ci_low: interval.0.0,
            ci_high: interval.1.0,
            p_value: independence.as_ref().map(|test| test.p_value),
            n_rows: self.table.kept.len(),
            n_dropped: self.table.n_dropped(),
            estimator: self.plan.method.to_string(),
            verdict: &self.estimate.verdict,
            unclipped_nats: self.estimate.unclipped.0,
            lower_bound_nats: self.estimate.lower_bound.map(|mi| mi.0),
            baselines: &self.estimate.baselines,
            folds: &self.estimate.folds,
            race: &self.estimate.race,
            x: x.iter().map(String::as_str).collect(),
            y: y.iter().map(String::as_str).collect(),
            plan: self.plan,
            seconds: self.seconds,
            seed: self.plan.seed,
            version: env!("CARGO_PKG_VERSION"),
        }
        .serialize(serializer)
    }
}

impl Finding<'_> {
    /// The summary for people, in lines of at most 80 characters.
    pub fn summary(&self, bits: bool) -> String {
        let (unit, estimate) = (if bits { "bits" } else { "nats" }, self.estimate);
        let amount = |nats: Nats| if bits { nats.bits() } else { nats.0 };
        let (low, high) = estimate.interval;
        let mut lines = vec![format!(
            "I(x; y) = {:.3} {unit}   95% interval {:.3} to {:.3}",
            amount(estimate.mi),
            amount(low),
            amount(high)
        )];
        lines.push(match &estimate.independence {
            Some(test) if test.p_value <= 0.05 => {
                format!("dependent: p = {} (test of independence)", short_p(test.p_value))
            }
            Some(test) => format!("no dependence found: p = {}", short_p(test.p_value)),
            None => format!("{} has no test of independence", self.plan.method),
        });
        lines.push(format!("reliability: {}", estimate.verdict.reliability));
        for reason in &estimate.verdict.reasons {
            lines.push(wrapped(&reason.text, "  - ", "    "));
        }
        lines.push(String::new());
        lines.push(wrapped(&self.sides(), "", "   "));
        let dropped = match self.table.n_dropped() {
            0 => String::new(),
            dropped => format!(" ({dropped} more dropped for missing values)"),
        };
        lines.push(format!(
            "{} rows{dropped}; estimator {}; {:.1} s",
            self.table.kept.len(),
            self.plan.method,
            self.seconds
        ));
        let others: Vec<String> = [
            ("Gaussian copula", estimate.baselines.gaussian_copula_nats),
            ("KSG", estimate.baselines.ksg_nats),
            ("Donsker-Varadhan readout", estimate.lower_bound.map(|mi| mi.0)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} {:.3}", amount(Nats(value?)))))
        .collect();
        if !others.is_empty() {
            lines.push(format!("for comparison: {}", others.join(", ")));
        }
        let columns = self.table.x.iter().chain(&self.table.y);
        let levels: Vec<String> = columns
            .filter_map(|column| match &column.values {
                Values::Discrete { labels, .. } => {
                    Some(format!("{} ({})", column.name, labels.len()))
                }
                Values::Continuous(_) => None,
            })
            .collect();
        if !levels.is_empty() {
            let text = format!("categories (number of levels): {}", levels.join(", "));
            lines.push(wrapped(&text, "", "  "));
        }
        lines.join("\n")
    }

    /// "x: a, b; y: c"
    pub fn sides(&self) -> String {
        let mut text = String::new();
        for (side, columns) in [("x: ", &self.table.x), ("; y: ", &self.table.y)] {
            let shown: Vec<&str> = columns.iter().take(4).map(|c| c.name.as_str()).collect();
            let _ = write!(text, "{side}{}", shown.join(", "));
            if columns.len() > 4 {
                let _ = write!(text, ", ... ({} columns)", columns.len());
            }
        }
        text
    }
}

/// p-values as people write them.
pub fn short_p(p: f64) -> String {
    if p < 0.001 { format!("{p:.1e}") } else { format!("{p:.3}") }
}

/// Text broken at 80 columns.
fn wrapped(text: &str, first: &str, then: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), first.to_string());
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > 80 {
            lines.push(std::mem::replace(&mut line, then.to_string()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines.join("\n")
}

//! The report of an estimate: a summary for people and a record for programs.

use super::method::Method;
use super::plan::EstimatePlan;
use super::result::{
    Baselines, ChainFigures, Estimate, FoldFigures, GivenFigures, RaceEntry, TermFigures,
};
use super::verdict::RenderedVerdict;
use crate::data::{Column, PairTable, Values};
use crate::message::{Wording, counted};
use crate::nats::Nats;
use serde::Serialize;
use std::collections::BTreeMap;

/// The maximum number of columns of a side that are named.
const MAX_NAMED_COLUMNS: usize = 4;

/// An estimate with the data and the plan that it was made from.
#[derive(Clone, Copy)]
pub struct EstimateReport<'a> {
    /// The rows that were used.
    pub table: &'a PairTable,
    /// The plan that was executed.
    pub plan: &'a EstimatePlan,
    /// The estimate.
    pub estimate: &'a Estimate,
    /// The duration in seconds.
    pub seconds: f64,
    /// The name of the file, if the rows come from one.
    pub file: Option<&'a str>,
    /// Whether the critics are kept for new rows, in a file or with the result.
    pub keeps_critics: bool,
}

/// The record for programs; docs/ESTIMATE.md describes it.
#[derive(Serialize)]
struct Record<'a> {
    mi_nats: f64,
    ci_low: f64,
    ci_high: f64,
    p_value: Option<f64>,
    n_rows: usize,
    n_dropped: usize,
    estimator: String,
    verdict: RenderedVerdict,
    unclipped_nats: f64,
    lower_bound_nats: Option<f64>,
    baselines: &'a Baselines,
    folds: &'a [FoldFigures],
    race: &'a [RaceEntry],
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<&'a ChainFigures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    given: Option<&'a GivenFigures>,
    file: Option<&'a str>,
    x: Vec<&'a str>,
    y: Vec<&'a str>,
    levels: BTreeMap<&'a str, &'a [String]>,
    notes: Vec<String>,
    plan: &'a EstimatePlan,
    seconds: f64,
    seed: u64,
    version: &'static str,
}

/// A paragraph of a summary, not wrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paragraph {
    /// Text that starts a line.
    Text(String),
    /// An item of a list.
    Item(String),
    /// An empty line.
    Gap,
}

impl EstimateReport<'_> {
    /// Returns the data of the report for serialisation. `wording` names parameters in the verdict.
    pub fn record(&self, wording: &dyn Wording) -> impl Serialize {
        let Estimate { mi, interval, independence, .. } = self.estimate;
        Record {
            mi_nats: mi.0,
            ci_low: interval.0.0,
            ci_high: interval.1.0,
            p_value: independence.as_ref().map(|test| test.p_value),
            n_rows: self.table.kept.len(),
            n_dropped: self.table.n_dropped,
            estimator: self.plan.method.to_string(),
            verdict: self.estimate.verdict.render(wording),
            unclipped_nats: self.estimate.unclipped.0,
            lower_bound_nats: self.estimate.lower_bound.map(|mi| mi.0),
            baselines: &self.estimate.baselines,
            folds: &self.estimate.folds,
            race: &self.estimate.race,
            chain: self.estimate.chain.as_ref(),
            given: self.estimate.given.as_ref(),
            file: self.file,
            x: names(&self.table.x),
            y: names(&self.table.y),
            levels: self.levels().collect(),
            notes: self.notes(wording),
            plan: self.plan,
            seconds: self.seconds,
            seed: self.plan.seed,
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// Returns the summary for people, in bits or in nats. `wording` names parameters in the
    /// verdict.
    pub fn summary(&self, bits: bool, wording: &dyn Wording) -> Vec<Paragraph> {
        let Estimate { mi, interval: (low, high), verdict, .. } = self.estimate;
        let unit = if bits { "bits" } else { "nats" };
        let [mi, low, high] = [mi, low, high].map(|nats| amount(*nats, bits));
        let mut paragraphs = vec![
            Paragraph::Text(format!(
                "{} = {mi:.3} {unit}   95% interval {low:.3} to {high:.3}",
                self.quantity()
            )),
            Paragraph::Text(self.dependence(bits)),
            Paragraph::Text(format!("reliability: {}", verdict.reliability)),
        ];
        let reasons = verdict.render(wording).reasons.into_iter();
        paragraphs.extend(reasons.map(|reason| Paragraph::Item(reason.text)));
        paragraphs.push(Paragraph::Gap);
        paragraphs.push(Paragraph::Text(self.sides()));
        let dropped = match self.table.n_dropped {
            0 => String::new(),
            dropped => format!(" ({} with missing values left out)", counted(dropped, "row")),
        };
        paragraphs.push(Paragraph::Text(format!(
            "{}{dropped}; estimator {}; {:.1} s",
            counted(self.table.kept.len(), "row"),
            self.method(),
            self.seconds
        )));
        let optional =
            [self.given(bits), self.chain(bits), self.comparison(bits), self.categories()];
        paragraphs.extend(optional.into_iter().flatten());
        let notes = self.notes(wording).into_iter();
        paragraphs.extend(notes.map(|note| Paragraph::Text(format!("note: {note}"))));
        paragraphs
    }

    /// Returns remarks on how the table was read and on the critics that are kept.
    pub fn notes(&self, wording: &dyn Wording) -> Vec<String> {
        let are_without_chain = self.keeps_critics && self.estimate.chain.is_some();
        let critics = are_without_chain.then(|| {
            "critics for new rows are those of the estimate without the chain, so their log ratios \
             average to that estimate and not to the sum of the chain"
                .into()
        });
        self.table.notes.iter().map(|note| note.render(wording)).chain(critics).collect()
    }

    /// Returns the discrete columns with their levels.
    fn levels(&self) -> impl Iterator<Item = (&str, &[String])> {
        let columns = self.table.x.iter().chain(&self.table.y).chain(&self.table.given);
        columns.filter_map(|column| match &column.values {
            Values::Discrete { labels, .. } => Some((column.name.as_str(), labels.as_slice())),
            Values::Continuous(_) => None,
        })
    }

    /// Returns the method, and whether it counted instead of training critics.
    pub fn method(&self) -> String {
        match (&self.plan.method, self.estimate.folds.is_empty()) {
            (Method::Auto, true) => "auto (counts of discrete values)".into(),
            (method, _) => method.to_string(),
        }
    }

    /// Returns the result of the test of independence in words, with amounts in bits or in nats.
    pub fn dependence(&self, bits: bool) -> String {
        let Estimate { mi, interval, independence, .. } = self.estimate;
        match independence {
            Some(test) => {
                let test = (test.p_value, self.estimate.given.is_some());
                dependence(test, *mi, interval.1, bits)
            }
            None => format!("{} has no test of independence", self.plan.method),
        }
    }

    /// Returns what is estimated, as a formula.
    pub fn quantity(&self) -> &'static str {
        if self.estimate.given.is_some() { "I(x; y | z)" } else { "I(x; y)" }
    }

    /// Returns what the columns that are held fixed tell about x and y.
    fn given(&self, bits: bool) -> Option<Paragraph> {
        let figures = self.estimate.given.as_ref()?;
        let without = amount(figures.unconditional_nats, bits);
        let shares: Vec<String> = [("x", figures.explained_x), ("y", figures.explained_y)]
            .into_iter()
            .filter_map(|(side, share)| Some(format!("{:.0}% of {side}", 100.0 * share?)))
            .collect();
        let explained = match shares.is_empty() {
            true => String::new(),
            false => format!("; z explains {} (variance)", shares.join(" and ")),
        };
        Some(Paragraph::Text(format!("without z: I(x; y) = {without:.3}{explained}")))
    }

    /// Returns the values of other estimators, if there are any.
    fn comparison(&self, bits: bool) -> Option<Paragraph> {
        let Baselines { gaussian_copula_nats, ksg_nats } = self.estimate.baselines;
        let values: Vec<String> = [
            ("Gaussian copula", gaussian_copula_nats),
            ("KSG", ksg_nats),
            ("without the chain", self.estimate.chain.as_ref().map(|chain| chain.direct_nats.0)),
            (
                "lower bound from the same critics",
                self.estimate.separate_lower_bound().map(|mi| mi.0),
            ),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} {:.3}", amount(Nats(value?), bits))))
        .collect();
        let text = || Paragraph::Text(format!("for comparison: {}", values.join(", ")));
        (!values.is_empty()).then(text)
    }

    /// Returns what each block of a chain adds to the estimate.
    fn chain(&self, bits: bool) -> Option<Paragraph> {
        let ChainFigures { side, blocks, terms, .. } = self.estimate.chain.as_ref()?;
        let value = |term: &TermFigures| amount(Nats(term.mi_nats.max(0.0)), bits);
        let added = |block: usize| -> String {
            let of_block = terms.iter().filter(|term| term.block == block + 1);
            let signed: Vec<String> = of_block
                .map(|term| format!("{}{:.3}", if term.is_added { "" } else { "- " }, value(term)))
                .collect();
            signed.join(" ")
        };
        let sums: Vec<String> = (0..blocks.len()).map(added).collect();
        let text = format!("chain over {} blocks of {side}: {}", blocks.len(), sums.join(" + "));
        Some(Paragraph::Text(text))
    }

    /// Returns the discrete columns with their numbers of levels, if there are any.
    fn categories(&self) -> Option<Paragraph> {
        let count = |(name, labels): (&str, &[String])| format!("{name} ({})", labels.len());
        let levels: Vec<String> = self.levels().map(count).collect();
        let text = || format!("categories (number of levels): {}", levels.join(", "));
        (!levels.is_empty()).then(|| Paragraph::Text(text()))
    }

    /// Returns the columns of both sides and of z, as in "x: a, b; y: c".
    pub fn sides(&self) -> String {
        let given = match self.table.given.is_empty() {
            true => String::new(),
            false => format!("; z: {}", shown_names(&self.table.given)),
        };
        format!("x: {}; y: {}{given}", shown_names(&self.table.x), shown_names(&self.table.y))
    }
}

/// Returns the names of a side's columns, of many only the first.
pub(super) fn shown_names(columns: &[Column]) -> String {
    let shown = &columns[..columns.len().min(MAX_NAMED_COLUMNS)];
    let rest = match columns.len() {
        count if count > MAX_NAMED_COLUMNS => format!(", ... ({count} columns)"),
        _ => String::new(),
    };
    format!("{}{rest}", names(shown).join(", "))
}

/// Returns the result of a test of (conditional) independence in words. A test can detect a dependence whose
/// estimate is 0 to three decimals; then the words give the upper end of the interval, so that 0 is
/// not read as independence.
fn dependence((p, is_given): (f64, bool), mi: Nats, high: Nats, bits: bool) -> String {
    let p_value = format_p_value(p);
    let (given, test) = match is_given {
        true => (" given z", "conditional independence"),
        false => ("", "independence"),
    };
    if p > 0.05 {
        return format!("no dependence found{given}: p = {p_value}");
    }
    let found = format!("dependent{given}: p = {p_value} (test of {test})");
    let unit = if bits { "bits" } else { "nats" };
    match [mi, high].map(|nats| amount(nats, bits)) {
        [mi, _] if mi >= 0.0005 => found,
        [_, high] if high >= 0.0005 => {
            format!("{found}, but too weakly to measure: at most about {high:.3} {unit}")
        }
        _ => format!("{found}, but too weakly to measure: below 0.001 {unit}"),
    }
}

pub(super) fn names(columns: &[Column]) -> Vec<&str> {
    columns.iter().map(|column| column.name.as_str()).collect()
}

pub(super) fn amount(nats: Nats, bits: bool) -> f64 {
    if bits { nats.bits() } else { nats.0 }
}

/// Formats a p-value with three decimals, or in scientific notation if it is below 0.001.
pub fn format_p_value(p: f64) -> String {
    if p < 0.001 { format!("{p:.1e}") } else { format!("{p:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_of_zero_is_not_worded_as_independence() {
        let words = |p, mi, high| dependence((p, false), Nats(mi), Nats(high), false);
        assert_eq!(words(0.001, 0.2, 0.3), "dependent: p = 0.001 (test of independence)");
        assert_eq!(words(0.4, 0.0, 0.01), "no dependence found: p = 0.400");
        assert_eq!(
            words(0.001, 0.0, 0.013),
            "dependent: p = 0.001 (test of independence), but too weakly to measure: at most about \
             0.013 nats"
        );
        assert!(words(0.001, 0.0, 0.0001).ends_with("too weakly to measure: below 0.001 nats"));
        // 0.0004 nats are 0.0006 bits, which are written as 0.001.
        assert!(!dependence((0.001, false), Nats(0.0004), Nats(0.01), true).contains("measure"));
        let conditional = dependence((0.2, true), Nats(0.0), Nats(0.1), false);
        assert_eq!(conditional, "no dependence found given z: p = 0.200");
    }
}

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
use serde::{Deserialize, Serialize};
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

/// An estimate as plain data, in the words of a front end: what `--json` prints, and what summaries
/// and reports are made from. docs/ESTIMATE.md describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EstimateRecord {
    /// The estimate in nats.
    pub mi_nats: f64,
    /// The low end of its 95% interval.
    pub ci_low: f64,
    /// The high end of its 95% interval.
    pub ci_high: f64,
    /// The p-value of the test of (conditional) independence; null if the method has none.
    pub p_value: Option<f64>,
    /// The number of rows that were used.
    pub n_rows: usize,
    /// The number of rows that were left out because a value was missing.
    pub n_dropped: usize,
    /// The method: `auto`, or the name of an estimator.
    pub estimator: String,
    /// The reliability, with reasons.
    pub verdict: RenderedVerdict,
    /// The estimate before it was limited to 0 and to the entropy of a discrete side.
    pub unclipped_nats: f64,
    /// The mean of normalised log ratios, a lower bound; null if the method has none.
    pub lower_bound_nats: Option<f64>,
    /// Classical estimates of the same rows.
    pub baselines: Baselines,
    /// The results of each fold; none if values were counted.
    pub folds: Vec<FoldFigures>,
    /// The result of the race between recipes, best first.
    pub race: Vec<RaceEntry>,
    /// The terms of the chain rule, if the estimate is their sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainFigures>,
    /// The columns that are held fixed, if the estimate is conditional, and what they tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<GivenFigures>,
    /// The name of the file, if the rows come from one.
    pub file: Option<String>,
    /// The names of the columns of x.
    pub x: Vec<String>,
    /// The names of the columns of y.
    pub y: Vec<String>,
    /// The levels of each discrete column.
    pub levels: BTreeMap<String, Vec<String>>,
    /// Remarks on how the table was read and on the critics that are kept.
    pub notes: Vec<String>,
    /// Everything that determines the estimate, except the data.
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub plan: EstimatePlan,
    /// The duration in seconds.
    pub seconds: f64,
    /// The seed of folds, networks and permutations.
    pub seed: u64,
    /// The version of fdime.
    pub version: String,
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
    /// Returns the report as plain data. `wording` names parameters in the verdict.
    pub fn record(&self, wording: &dyn Wording) -> EstimateRecord {
        let Estimate { mi, interval, independence, .. } = self.estimate;
        EstimateRecord {
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
            baselines: self.estimate.baselines.clone(),
            folds: self.estimate.folds.clone(),
            race: self.estimate.race.clone(),
            chain: self.estimate.chain.clone(),
            given: self.estimate.given.clone(),
            file: self.file.map(str::to_string),
            x: names(&self.table.x),
            y: names(&self.table.y),
            levels: self.levels(),
            notes: self.notes(wording),
            plan: self.plan.clone(),
            seconds: self.seconds,
            seed: self.plan.seed,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    /// Returns remarks on how the table was read and on the critics that are kept.
    fn notes(&self, wording: &dyn Wording) -> Vec<String> {
        let are_without_chain = self.keeps_critics && self.estimate.chain.is_some();
        let critics = are_without_chain.then(|| {
            "critics for new rows are those of the estimate without the chain, so their log ratios \
             average to that estimate and not to the sum of the chain"
                .into()
        });
        self.table.notes.iter().map(|note| note.render(wording)).chain(critics).collect()
    }

    /// Returns the levels of each discrete column.
    fn levels(&self) -> BTreeMap<String, Vec<String>> {
        let columns = self.table.x.iter().chain(&self.table.y).chain(&self.table.given);
        let levels = columns.filter_map(|column| match &column.values {
            Values::Discrete { labels, .. } => Some((column.name.clone(), labels.clone())),
            Values::Continuous(_) => None,
        });
        levels.collect()
    }
}

impl EstimateRecord {
    /// Returns the summary for people, in bits or in nats.
    pub fn summary(&self, bits: bool) -> Vec<Paragraph> {
        let unit = if bits { "bits" } else { "nats" };
        let [mi, low, high] =
            [self.mi_nats, self.ci_low, self.ci_high].map(|nats| amount(Nats(nats), bits));
        let mut paragraphs = vec![
            Paragraph::Text(format!(
                "{} = {mi:.3} {unit}   95% interval {low:.3} to {high:.3}",
                self.quantity()
            )),
            Paragraph::Text(self.dependence(bits)),
            Paragraph::Text(format!("reliability: {}", self.verdict.reliability)),
        ];
        let reasons = self.verdict.reasons.iter();
        paragraphs.extend(reasons.map(|reason| Paragraph::Item(reason.text.clone())));
        paragraphs.push(Paragraph::Gap);
        paragraphs.push(Paragraph::Text(self.sides()));
        paragraphs.push(Paragraph::Text(format!("{}; {:.1} s", self.source(), self.seconds)));
        let optional =
            [self.explained(bits), self.terms(bits), self.comparison(bits), self.categories()];
        paragraphs.extend(optional.into_iter().flatten());
        paragraphs.extend(self.notes.iter().map(|note| Paragraph::Text(format!("note: {note}"))));
        paragraphs
    }

    /// Returns the number of rows and the method, and whether that counted instead of training critics.
    pub fn source(&self) -> String {
        let dropped = match self.n_dropped {
            0 => String::new(),
            dropped => format!(" ({} with missing values left out)", counted(dropped, "row")),
        };
        let counts = match self.plan.method == Method::Auto && self.folds.is_empty() {
            true => " (counts of discrete values)",
            false => "",
        };
        let rows = counted(self.n_rows, "row");
        format!("{rows}{dropped}; estimator {}{counts}", self.estimator)
    }

    /// Returns the result of the test of independence in words, with amounts in bits or in nats.
    pub fn dependence(&self, bits: bool) -> String {
        match self.p_value {
            Some(p) => {
                let test = (p, self.given.is_some());
                dependence(test, Nats(self.mi_nats), Nats(self.ci_high), bits)
            }
            None => format!("{} has no test of independence", self.estimator),
        }
    }

    /// Returns what is estimated, as a formula.
    pub fn quantity(&self) -> &'static str {
        if self.given.is_some() { "I(x; y | z)" } else { "I(x; y)" }
    }

    /// Returns the lower bound unless it is the estimate itself.
    pub fn separate_lower_bound(&self) -> Option<f64> {
        self.lower_bound_nats.filter(|bound| (bound - self.unclipped_nats).abs() > 1e-6)
    }

    /// Returns what the lower bound is of.
    pub fn lower_bound_name(&self) -> &'static str {
        let is_trained = |method: Method| !method.needs_numbers();
        match self.estimator.parse().is_ok_and(is_trained) {
            true => "lower bound from the same critics",
            false => "lower bound from held-out rows",
        }
    }

    /// Returns what the columns that are held fixed tell about x and y.
    fn explained(&self, bits: bool) -> Option<Paragraph> {
        let figures = self.given.as_ref()?;
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
        let Baselines { gaussian_copula_nats, ksg_nats } = self.baselines;
        let values: Vec<String> = [
            ("Gaussian copula", gaussian_copula_nats),
            ("KSG", ksg_nats),
            ("without the chain", self.chain.as_ref().map(|chain| chain.direct_nats.0)),
            (self.lower_bound_name(), self.separate_lower_bound()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} {:.3}", amount(Nats(value?), bits))))
        .collect();
        let text = || Paragraph::Text(format!("for comparison: {}", values.join(", ")));
        (!values.is_empty()).then(text)
    }

    /// Returns what each block of a chain adds to the estimate.
    fn terms(&self, bits: bool) -> Option<Paragraph> {
        let ChainFigures { side, blocks, terms, .. } = self.chain.as_ref()?;
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
        let given = self.given.iter().flat_map(|given| &given.columns);
        let columns = self.x.iter().chain(&self.y).chain(given);
        let count = |name| Some(format!("{name} ({})", self.levels.get(name)?.len()));
        let levels: Vec<String> = columns.filter_map(count).collect();
        let text = || format!("categories (number of levels): {}", levels.join(", "));
        (!levels.is_empty()).then(|| Paragraph::Text(text()))
    }

    /// Returns the columns of both sides and of z, as in "x: a, b; y: c".
    pub fn sides(&self) -> String {
        let given = match &self.given {
            None => String::new(),
            Some(given) => format!("; z: {}", shown_names(&given.columns)),
        };
        format!("x: {}; y: {}{given}", shown_names(&self.x), shown_names(&self.y))
    }
}

/// Returns the names of a side's columns, of many only the first.
pub(super) fn shown_names(names: &[String]) -> String {
    let shown = &names[..names.len().min(MAX_NAMED_COLUMNS)];
    let rest = match names.len() {
        count if count > MAX_NAMED_COLUMNS => format!(", ... ({count} columns)"),
        _ => String::new(),
    };
    format!("{}{rest}", shown.join(", "))
}

/// A dependence that may be stronger than this, in nats or bits, is not called weak.
const MAX_WEAK: f64 = 0.1;

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
        [_, high] if high >= MAX_WEAK => {
            format!("{found}, but too few rows to measure it: at most about {high:.3} {unit}")
        }
        [_, high] if high >= 0.0005 => {
            format!("{found}, but too weak to measure: at most about {high:.3} {unit}")
        }
        _ => format!("{found}, but too weak to measure: below 0.001 {unit}"),
    }
}

pub(super) fn names(columns: &[Column]) -> Vec<String> {
    columns.iter().map(|column| column.name.clone()).collect()
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
            "dependent: p = 0.001 (test of independence), but too weak to measure: at most about \
             0.013 nats"
        );
        assert!(words(0.001, 0.0, 0.0001).ends_with("too weak to measure: below 0.001 nats"));
        let few = words(0.01, 0.0, 1.2);
        assert!(few.ends_with("but too few rows to measure it: at most about 1.200 nats"), "{few}");
        // 0.0004 nats are 0.0006 bits, which are written as 0.001.
        assert!(!dependence((0.001, false), Nats(0.0004), Nats(0.01), true).contains("measure"));
        let conditional = dependence((0.2, true), Nats(0.0), Nats(0.1), false);
        assert_eq!(conditional, "no dependence found given z: p = 0.200");
    }
}

//! The report of a capacity: a summary for people and a record for programs.

use super::super::plan::EstimatePlan;
use super::super::report::{Paragraph, amount, names, shown_names};
use super::super::verdict::RenderedVerdict;
use super::ChannelCapacity;
use crate::data::PairTable;
use crate::message::{Wording, counted, printable};
use crate::nats::Nats;
use serde::{Deserialize, Serialize};

/// The maximum numbers of levels, and of characters of their names, that a summary shows.
const MAX_SHOWN_LEVELS: usize = 20;
const MAX_SHOWN_NAME: usize = 24;

/// A capacity with the data and the plan that it was made from.
#[derive(Clone, Copy)]
pub struct CapacityReport<'a> {
    /// The rows that were used: x is the input, y the output.
    pub table: &'a PairTable,
    /// The plan that was executed.
    pub plan: &'a EstimatePlan,
    /// The capacity.
    pub capacity: &'a ChannelCapacity,
    /// The duration in seconds.
    pub seconds: f64,
    /// The name of the file, if the rows come from one.
    pub file: Option<&'a str>,
}

/// A capacity as plain data, in the words of a front end: what `--json` prints, and what summaries and
/// figures are made from. docs/CAPACITY.md describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapacityRecord {
    /// The capacity in nats.
    pub capacity_nats: f64,
    /// The low end of its 95% interval.
    pub ci_low: f64,
    /// The high end of its 95% interval.
    pub ci_high: f64,
    /// The mutual information at the observed input distribution.
    pub mi_nats: f64,
    /// The low end of its 95% interval.
    pub mi_ci_low: f64,
    /// The high end of its 95% interval.
    pub mi_ci_high: f64,
    /// The p-value of the test of independence of input and output.
    pub p_value: Option<f64>,
    /// The levels of the input.
    pub levels: Vec<LevelRecord>,
    /// For each pair of levels the information in bits about a fair choice between them.
    pub discriminability_bits: Vec<Vec<f64>>,
    /// The number of rows that were used.
    pub n_rows: usize,
    /// The number of rows that were left out because a value was missing.
    pub n_dropped: usize,
    /// The method: `auto`, or the name of an estimator.
    pub estimator: String,
    /// Whether discrete values were counted instead of training critics.
    pub counted: bool,
    /// The reliability, with reasons.
    pub verdict: RenderedVerdict,
    /// The name of the file, if the rows come from one.
    pub file: Option<String>,
    /// The names of the columns of the input.
    pub input: Vec<String>,
    /// The names of the columns of the output.
    pub output: Vec<String>,
    /// Remarks on how the table was read.
    pub notes: Vec<String>,
    /// Everything that determines the capacity, except the data.
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub plan: EstimatePlan,
    /// The duration in seconds.
    pub seconds: f64,
    /// The seed of folds, networks and permutations.
    pub seed: u64,
    /// The version of fdime.
    pub version: String,
}

/// A level of the input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelRecord {
    /// Its name.
    pub level: String,
    /// The number of its rows.
    pub rows: usize,
    /// Its share of the rows.
    pub share: f64,
    /// Its share in the distribution that reaches the capacity.
    pub optimal_share: f64,
    /// The divergence between its outputs and those of all levels with optimal shares.
    pub divergence_nats: f64,
}

impl CapacityReport<'_> {
    /// Returns the report as plain data. `wording` names parameters in the verdict.
    pub fn record(&self, wording: &dyn Wording) -> CapacityRecord {
        let ChannelCapacity { capacity, interval, levels, discriminability, estimate, verdict } =
            self.capacity;
        let level = levels.iter().map(|level| LevelRecord {
            level: level.name.clone(),
            rows: level.rows,
            share: level.share,
            optimal_share: level.optimal_share,
            divergence_nats: level.divergence.0,
        });
        let rows = discriminability.chunks_exact(levels.len());
        CapacityRecord {
            capacity_nats: capacity.0,
            ci_low: interval.0.0,
            ci_high: interval.1.0,
            mi_nats: estimate.mi.0,
            mi_ci_low: estimate.interval.0.0,
            mi_ci_high: estimate.interval.1.0,
            p_value: estimate.independence.as_ref().map(|test| test.p_value),
            levels: level.collect(),
            discriminability_bits: rows.map(<[f64]>::to_vec).collect(),
            n_rows: self.table.kept.len(),
            n_dropped: self.table.n_dropped,
            estimator: self.plan.method.to_string(),
            counted: estimate.models.is_empty(),
            verdict: verdict.render(wording),
            file: self.file.map(str::to_string),
            input: names(&self.table.x),
            output: names(&self.table.y),
            notes: self.table.notes.iter().map(|note| note.render(wording)).collect(),
            plan: self.plan.clone(),
            seconds: self.seconds,
            seed: self.plan.seed,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

impl CapacityRecord {
    /// Returns the summary for people, in bits or in nats.
    pub fn summary(&self, bits: bool) -> Vec<Paragraph> {
        let unit = if bits { "bits" } else { "nats" };
        let amounts = |values: [f64; 3]| values.map(|nats| amount(Nats(nats), bits));
        let [capacity, low, high] = amounts([self.capacity_nats, self.ci_low, self.ci_high]);
        let [mi, mi_low, mi_high] = amounts([self.mi_nats, self.mi_ci_low, self.mi_ci_high]);
        let mut paragraphs = vec![
            Paragraph::Text(format!(
                "capacity = {capacity:.3} {unit}   95% interval {low:.3} to {high:.3}"
            )),
            Paragraph::Text(format!(
                "I(input; output) = {mi:.3} {unit} as observed   95% interval {mi_low:.3} to \
                 {mi_high:.3}"
            )),
            Paragraph::Text(format!("reliability: {}", self.verdict.reliability)),
        ];
        let reasons = self.verdict.reasons.iter();
        paragraphs.extend(reasons.map(|reason| Paragraph::Item(reason.text.clone())));
        paragraphs.push(Paragraph::Gap);
        paragraphs.extend(self.table_of_levels(bits));
        paragraphs.extend(self.pairs());
        paragraphs.push(Paragraph::Gap);
        paragraphs.extend(self.source());
        paragraphs
    }

    /// Returns a line for each level.
    fn table_of_levels(&self, bits: bool) -> Vec<Paragraph> {
        let levels = &self.levels;
        let shown = &levels[..levels.len().min(MAX_SHOWN_LEVELS)];
        let names: Vec<String> = shown.iter().map(|level| short(&level.level)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(5);
        let unit = if bits { "bits" } else { "nats" };
        let mut lines = vec![Paragraph::Text(format!(
            "{:width$} {:>9} {:>9} {:>9} {:>12}",
            "level", "rows", "observed", "optimal", unit
        ))];
        lines.extend(shown.iter().zip(&names).map(|(level, name)| {
            Paragraph::Text(format!(
                "{name:width$} {:>9} {:>9.3} {:>9.3} {:>12.3}",
                level.rows,
                level.share,
                level.optimal_share,
                amount(Nats(level.divergence_nats), bits)
            ))
        }));
        if levels.len() > shown.len() {
            let rest = counted(levels.len() - shown.len(), "more level");
            lines.push(Paragraph::Text(format!("... and {rest}")));
        }
        lines
    }

    /// Returns the pairs of levels that are hardest and easiest to tell apart.
    fn pairs(&self) -> Option<Paragraph> {
        let levels = &self.levels;
        let count = levels.len();
        let pairs = (0..count).flat_map(|s| (0..s).map(move |t| (t, s)));
        let value = |&(t, s): &(usize, usize)| self.discriminability_bits[t][s];
        let mut pairs: Vec<(usize, usize)> = pairs.collect();
        pairs.sort_by(|a, b| value(a).total_cmp(&value(b)));
        let words = |pair: &(usize, usize)| {
            let (one, other) = (short(&levels[pair.0].level), short(&levels[pair.1].level));
            format!("{one} and {other} ({:.3} of 1 bit)", value(pair))
        };
        let text = match (pairs.first()?, pairs.last()?) {
            (only, last) if only == last => format!("told apart: {}", words(only)),
            (hardest, easiest) => {
                format!("hardest to tell apart: {}; easiest: {}", words(hardest), words(easiest))
            }
        };
        Some(Paragraph::Text(text))
    }

    /// Returns the columns, the rows and the method.
    fn source(&self) -> Vec<Paragraph> {
        let (input, output) = (shown_names(&self.input), shown_names(&self.output));
        let dropped = match self.n_dropped {
            0 => String::new(),
            dropped => format!(" ({} with missing values left out)", counted(dropped, "row")),
        };
        let rows = counted(self.n_rows, "row");
        let method = match self.counted {
            true => format!("{} (counts of discrete values)", self.estimator),
            false => self.estimator.clone(),
        };
        let mut lines = vec![
            Paragraph::Text(format!("input (x): {input}; output (y): {output}")),
            Paragraph::Text(format!("{rows}{dropped}; estimator {method}; {:.1} s", self.seconds)),
        ];
        lines.extend(self.notes.iter().map(|note| Paragraph::Text(format!("note: {note}"))));
        lines
    }
}

/// Returns the name of a level, cut if it is long.
fn short(name: &str) -> String {
    let name = printable(name);
    match name.chars().count() > MAX_SHOWN_NAME {
        true => name.chars().take(MAX_SHOWN_NAME - 3).chain("...".chars()).collect(),
        false => name.into_owned(),
    }
}

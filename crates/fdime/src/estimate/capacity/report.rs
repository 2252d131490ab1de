//! The report of a capacity: a summary for people and a record for programs.

use super::super::plan::EstimatePlan;
use super::super::report::{Paragraph, amount, names, shown_names};
use super::super::verdict::RenderedVerdict;
use super::ChannelCapacity;
use crate::data::PairTable;
use crate::message::{Wording, counted, printable};
use serde::Serialize;

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

/// The record for programs; docs/CAPACITY.md describes it.
#[derive(Serialize)]
struct Record<'a> {
    capacity_nats: f64,
    ci_low: f64,
    ci_high: f64,
    mi_nats: f64,
    mi_ci_low: f64,
    mi_ci_high: f64,
    p_value: Option<f64>,
    levels: Vec<LevelRecord<'a>>,
    discriminability_bits: Vec<&'a [f64]>,
    n_rows: usize,
    n_dropped: usize,
    estimator: String,
    verdict: RenderedVerdict,
    file: Option<&'a str>,
    input: Vec<&'a str>,
    output: Vec<&'a str>,
    notes: Vec<String>,
    plan: &'a EstimatePlan,
    seconds: f64,
    seed: u64,
    version: &'static str,
}

#[derive(Serialize)]
struct LevelRecord<'a> {
    level: &'a str,
    rows: usize,
    share: f64,
    optimal_share: f64,
    divergence_nats: f64,
}

impl CapacityReport<'_> {
    /// Returns the data of the report for serialisation. `wording` names parameters in the verdict.
    pub fn record(&self, wording: &dyn Wording) -> impl Serialize {
        let ChannelCapacity { capacity, interval, levels, discriminability, estimate, verdict } =
            self.capacity;
        let level = levels.iter().map(|level| LevelRecord {
            level: &level.name,
            rows: level.rows,
            share: level.share,
            optimal_share: level.optimal_share,
            divergence_nats: level.divergence.0,
        });
        Record {
            capacity_nats: capacity.0,
            ci_low: interval.0.0,
            ci_high: interval.1.0,
            mi_nats: estimate.mi.0,
            mi_ci_low: estimate.interval.0.0,
            mi_ci_high: estimate.interval.1.0,
            p_value: estimate.independence.as_ref().map(|test| test.p_value),
            levels: level.collect(),
            discriminability_bits: discriminability.chunks_exact(levels.len()).collect(),
            n_rows: self.table.kept.len(),
            n_dropped: self.table.n_dropped,
            estimator: self.plan.method.to_string(),
            verdict: verdict.render(wording),
            file: self.file,
            input: names(&self.table.x),
            output: names(&self.table.y),
            notes: self.table.notes.iter().map(|note| note.render(wording)).collect(),
            plan: self.plan,
            seconds: self.seconds,
            seed: self.plan.seed,
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// Returns the summary for people, in bits or in nats. `wording` names parameters in the verdict.
    pub fn summary(&self, bits: bool, wording: &dyn Wording) -> Vec<Paragraph> {
        let ChannelCapacity { capacity, interval, estimate, verdict, .. } = self.capacity;
        let unit = if bits { "bits" } else { "nats" };
        let [capacity, low, high] =
            [*capacity, interval.0, interval.1].map(|nats| amount(nats, bits));
        let [mi, mi_low, mi_high] =
            [estimate.mi, estimate.interval.0, estimate.interval.1].map(|nats| amount(nats, bits));
        let mut paragraphs = vec![
            Paragraph::Text(format!(
                "capacity = {capacity:.3} {unit}   95% interval {low:.3} to {high:.3}"
            )),
            Paragraph::Text(format!(
                "I(input; output) = {mi:.3} {unit} as observed   95% interval {mi_low:.3} to \
                 {mi_high:.3}"
            )),
            Paragraph::Text(format!("reliability: {}", verdict.reliability)),
        ];
        let reasons = verdict.render(wording).reasons.into_iter();
        paragraphs.extend(reasons.map(|reason| Paragraph::Item(reason.text)));
        paragraphs.push(Paragraph::Gap);
        paragraphs.extend(self.table_of_levels(bits));
        paragraphs.extend(self.pairs());
        paragraphs.push(Paragraph::Gap);
        paragraphs.extend(self.source(wording));
        paragraphs
    }

    /// Returns a line for each level.
    fn table_of_levels(&self, bits: bool) -> Vec<Paragraph> {
        let levels = &self.capacity.levels;
        let shown = &levels[..levels.len().min(MAX_SHOWN_LEVELS)];
        let names: Vec<String> = shown.iter().map(|level| short(&level.name)).collect();
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
                amount(level.divergence, bits)
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
        let ChannelCapacity { levels, discriminability, .. } = self.capacity;
        let count = levels.len();
        let pairs = (0..count).flat_map(|s| (0..s).map(move |t| (t, s)));
        let value = |&(t, s): &(usize, usize)| discriminability[t * count + s];
        let mut pairs: Vec<(usize, usize)> = pairs.collect();
        pairs.sort_by(|a, b| value(a).total_cmp(&value(b)));
        let words = |pair: &(usize, usize)| {
            let (one, other) = (short(&levels[pair.0].name), short(&levels[pair.1].name));
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
    fn source(&self, wording: &dyn Wording) -> Vec<Paragraph> {
        let (input, output) = (shown_names(&self.table.x), shown_names(&self.table.y));
        let dropped = match self.table.n_dropped {
            0 => String::new(),
            dropped => format!(" ({} with missing values left out)", counted(dropped, "row")),
        };
        let rows = counted(self.table.kept.len(), "row");
        let method = match self.capacity.estimate.models.is_empty() {
            true => format!("{} (counts of discrete values)", self.plan.method),
            false => self.plan.method.to_string(),
        };
        let mut lines = vec![
            Paragraph::Text(format!("input (x): {input}; output (y): {output}")),
            Paragraph::Text(format!("{rows}{dropped}; estimator {method}; {:.1} s", self.seconds)),
        ];
        let notes = self.table.notes.iter().map(|note| note.render(wording));
        lines.extend(notes.map(|note| Paragraph::Text(format!("note: {note}"))));
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

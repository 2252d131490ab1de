//! The commands, one in each file, and the functions that they share.

pub mod apply;
pub mod bench;
pub mod capacity;
pub mod completions;
pub mod devices;
pub mod estimate;
pub mod lag;
pub mod list;
pub mod man;
pub mod matrix;
pub mod power;
pub mod report;
pub mod reproduce;
pub mod sample;
pub mod schema;
pub mod select;
mod series;
pub mod staircase;
pub mod suite;
pub mod transfer;
mod unfinished;

use crate::args::{Estimation, Execution, Notation, Reading, Series};
use crate::console::{is_quiet, note};
use crate::failure::{Failure, Outcome};
use crate::summary::wrap;
use fdime::data::{self, TextFormat, write_whole};
use fdime::estimate::Paragraph;
use fdime::estimate::{CriticRecipe, Effort, EstimatePlan, Progress, Reliability, RowOrder};
use fdime::{Activation, Engine, Nats, counted};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Returns the engine for `--device`, `--precision` and `--threads` on this machine.
fn engine(execution: &Execution, activation: Activation) -> Result<Box<dyn Engine>, Failure> {
    let Execution { device, precision, threads } = *execution;
    let notice = |text: &str| note(&format!("note: {text}"));
    Ok(device.engine(precision, threads, activation, notice)?)
}

/// Returns the engine for estimates from tables.
fn estimation_engine(execution: &Execution) -> Result<Box<dyn Engine>, Failure> {
    engine(execution, CriticRecipe::ACTIVATION)
}

/// Returns an amount of information in bits or in nats.
pub(crate) fn amount(nats: Nats, bits: bool) -> f64 {
    if bits { nats.bits() } else { nats.0 }
}

/// Returns a p-value for a column of a table, nothing if there is none.
fn p_cell(p: Option<f64>) -> String {
    match p {
        Some(p) if p < 0.0005 => "<0.001".into(),
        Some(p) => format!("{p:.3}"),
        None => String::new(),
    }
}

/// Returns a paragraph that says which reasons limit the reliability of results of a table, and of how
/// many; nothing if all are reliable. A result is its reliability and the codes of its reasons; `noun`
/// is its name.
fn limits<'a>(
    noun: &str,
    results: impl Iterator<Item = (&'a Option<String>, &'a Option<String>)>,
) -> String {
    let (mut limited, mut counts) = (0, BTreeMap::new());
    for (reliability, reasons) in results {
        if reliability.as_deref().is_some_and(|text| text != Reliability::Good.to_string()) {
            limited += 1;
            for code in reasons.iter().flat_map(|codes| codes.split_whitespace()) {
                *counts.entry(code).or_insert(0) += 1;
            }
        }
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let counts: Vec<String> =
        counts.iter().map(|(code, count)| format!("{code} ({count})")).collect();
    if limited == 0 {
        return String::new();
    }
    let limited = counted(limited, noun);
    let text = format!("fair or doubtful: {limited}; reasons: {}", counts.join(", "));
    format!("\n{}\n", wrap(&[Paragraph::Text(text)]))
}

/// Prints JSON to stdout.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Run(format!("cannot write JSON: {error}")))?;
    Ok(writeln!(std::io::stdout().lock(), "{text}")?)
}

/// The time between two lines of progress where there is no bar.
const LINE_INTERVAL: Duration = Duration::from_secs(30);

/// Returns a bar on stderr with the remaining time. If stderr is not a terminal, the bar is hidden, and
/// long work prints a line now and then.
pub(crate) fn progress_bar(length: u64) -> ProgressBar {
    if is_quiet() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template(
        "{bar:24} {percent:>3}%  {elapsed} elapsed, {eta} left  {wide_msg}",
    ) {
        bar.set_style(style);
    }
    if bar.is_hidden() {
        let bar = bar.downgrade();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(LINE_INTERVAL);
                match bar.upgrade() {
                    Some(bar) if !bar.is_finished() => print_progress(&bar),
                    _ => break,
                }
            }
        });
    }
    bar
}

fn print_progress(bar: &ProgressBar) {
    let (done, total) = (bar.position(), bar.length().unwrap_or(0));
    if 0 < done && done < total {
        let left = bar.elapsed().mul_f64((total - done) as f64 / done as f64);
        note(&format!("{}% done, about {} left", 100 * done / total, HumanDuration(left)));
    }
}

/// Returns the flag that is set by Ctrl-C.
pub(crate) fn interrupt_flag() -> Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let flag = FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&flag);
        // Without a handler Ctrl-C still ends the process, but without a message.
        let _ = ctrlc::set_handler(move || set.store(true, Ordering::Relaxed));
        flag
    });
    Arc::clone(flag)
}

/// Ends an estimate on Ctrl-C, without showing progress.
struct Interruptible(Arc<AtomicBool>);

impl Progress for Interruptible {
    fn begin(&self, _total: u64) {}

    fn advance(&self, _units: u64) -> ControlFlow<()> {
        match self.0.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Shows the progress of an estimate, and ends it on Ctrl-C.
struct Watch {
    bar: ProgressBar,
    interrupted: Interruptible,
}

impl Watch {
    fn new(message: &str) -> Self {
        let bar = progress_bar(0);
        bar.set_message(message.to_string());
        Watch { bar, interrupted: Interruptible(interrupt_flag()) }
    }
}

impl Progress for Watch {
    fn begin(&self, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(0);
    }

    fn advance(&self, units: u64) -> ControlFlow<()> {
        self.bar.inc(units);
        self.interrupted.advance(units)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Estimation {
    /// Returns the plan that the flags describe.
    fn plan(&self, default_effort: Effort) -> EstimatePlan {
        let effort = self.effort.unwrap_or(default_effort);
        let mut plan = EstimatePlan::new(self.estimator.clone(), effort);
        plan.folds = self.folds;
        plan.permutations = self.permutations;
        plan.seed = self.seed;
        plan
    }
}

impl Reading {
    /// Returns the library's options for reading a table.
    fn options(&self) -> data::Reading<'_> {
        data::Reading {
            discrete: self.discrete.as_deref(),
            numeric: self.numeric.as_deref(),
            missing: self.missing,
            constant: self.constant,
            sample_rows: self.sample_rows,
            ..self.notation.options()
        }
    }
}

impl Notation {
    /// Returns the library's options for reading a table that is written in this notation.
    fn options(&self) -> data::Reading<'_> {
        let Notation { na, decimal, delimiter, header, comment, skip_lines, max_memory } = self;
        let text = TextFormat {
            na,
            decimal: *decimal,
            delimiter: *delimiter,
            header: *header,
            comment: *comment,
            skip_lines: *skip_lines,
        };
        data::Reading { text, max_memory: *max_memory, ..data::Reading::default() }
    }
}

impl Series {
    /// Returns the order of the rows.
    fn order(&self) -> RowOrder {
        match self.blocks {
            None => RowOrder::Exchangeable,
            Some(None) => RowOrder::AutomaticSeries,
            Some(Some(gap)) => RowOrder::Series { gap },
        }
    }
}

/// Writes one line for each row of the input, without a value for rows that were dropped.
fn write_pointwise(path: &Path, values: &[f64], kept: &[usize], input_rows: usize) -> Outcome {
    Ok(write_whole(path, |file| {
        writeln!(file, "row,log_ratio_nats")?;
        let mut scored = kept.iter().zip(values).peekable();
        for row in 0..input_rows {
            match scored.next_if(|(kept, _)| **kept == row) {
                Some((_, value)) => writeln!(file, "{},{value}", row + 1)?,
                None => writeln!(file, "{},", row + 1)?,
            }
        }
        Ok(())
    })?)
}

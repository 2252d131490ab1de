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
use fdime::data::{self, TextFormat, write_whole};
use fdime::estimate::{CriticRecipe, Effort, EstimatePlan, Progress, RowOrder};
use fdime::{Activation, Engine, Nats};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

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

/// Prints JSON to stdout.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Run(format!("cannot write JSON: {error}")))?;
    Ok(writeln!(std::io::stdout().lock(), "{text}")?)
}

/// Returns a bar on stderr with the remaining time; it is hidden if stderr is not a terminal.
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
    bar
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

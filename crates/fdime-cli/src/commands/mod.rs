//! One file a command.

pub mod apply;
pub mod bench;
pub mod devices;
pub mod estimate;
pub mod list;
pub mod matrix;
pub mod reproduce;
pub mod sample;
pub mod staircase;
pub mod suite;

use crate::args::{Estimation, Reading};
use crate::failure::Failure;
use fdime::data::{self, ConstantColumns, MissingRows, check_writable, write_whole};
use fdime::engine::engine_named;
use fdime::estimate::{Effort, EstimatePlan, Progress};
use fdime::{Activation, CriticPlan, Engine};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Hidden widths from `256,256` or a preset's name.
fn parse_hidden(text: &str) -> Result<Vec<usize>, Failure> {
    if let Some((_, widths)) = CriticPlan::PRESETS.iter().find(|(name, _)| *name == text) {
        return Ok(widths.to_vec());
    }
    text.split(',')
        .map(|width| width.trim().parse::<usize>().ok().filter(|width| *width > 0))
        .collect::<Option<Vec<usize>>>()
        .ok_or_else(|| {
            let presets = CriticPlan::PRESETS.map(|(name, _)| name).join(" or ");
            Failure::Usage(format!(
                "--hidden {text}: write positive widths such as 256,256, or a preset: {presets}"
            ))
        })
}

/// What `--device` and `--precision` stand for on this machine.
fn engine(
    device: &str,
    precision: Option<&str>,
    threads: usize,
    activation: Activation,
) -> Result<Box<dyn Engine>, Failure> {
    let notice = |text: &str| eprintln!("note: {text}");
    Ok(engine_named(device, precision, threads, activation, notice)?)
}

/// Prints JSON to stdout.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Run(format!("cannot write JSON: {error}")))?;
    Ok(writeln!(std::io::stdout().lock(), "{text}")?)
}

/// A bar on stderr with the time left; it is not there when stderr is no terminal.
pub(crate) fn progress_bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template(
        "{bar:24} {percent:>3}%  {elapsed} elapsed, {eta} left  {wide_msg}",
    ) {
        bar.set_style(style);
    }
    bar
}

/// A flag that Ctrl-C sets.
pub(crate) fn interrupt_flag() -> Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let flag = FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&flag);
        // Without a handler Ctrl-C still ends the process, only less politely.
        let _ = ctrlc::set_handler(move || set.store(true, Ordering::Relaxed));
        flag
    });
    Arc::clone(flag)
}

/// Ends an estimate at Ctrl-C, and shows nothing.
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

/// Shows an estimate's progress, and ends it at Ctrl-C.
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
    /// The plan that the flags describe.
    fn plan(&self, default_effort: Effort) -> Result<EstimatePlan, Failure> {
        let effort = match &self.effort {
            Some(effort) => effort.parse()?,
            None => default_effort,
        };
        let mut plan = EstimatePlan::new(self.estimator.parse()?, effort);
        plan.folds = self.folds;
        plan.permutations = self.permutations;
        plan.seed = self.seed;
        Ok(plan)
    }

    /// Runs `work` on the threads asked for.
    fn on_threads<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(self.threads)
            .build()
            .map_err(|error| Failure::Usage(format!("--threads {}: {error}", self.threads)))?;
        Ok(pool.install(work))
    }
}

impl Reading {
    /// What the flags say.
    fn parse(&self) -> Result<data::Reading<'_>, Failure> {
        let constant = match self.constant.as_str() {
            "drop" => ConstantColumns::Drop,
            "error" => ConstantColumns::Refuse,
            other => {
                return Err(Failure::Usage(format!("--constant {other}: write drop or error")));
            }
        };
        Ok(data::Reading {
            discrete: self.discrete.as_deref(),
            numeric: self.numeric.as_deref(),
            missing: missing_rows(&self.missing)?,
            constant,
        })
    }
}

/// What `--missing` says.
fn missing_rows(text: &str) -> Result<MissingRows, Failure> {
    match text {
        "drop" => Ok(MissingRows::Drop),
        "error" => Ok(MissingRows::Refuse),
        _ => Err(Failure::Usage(format!("--missing {text}: write drop or error"))),
    }
}

/// Refuses outputs that could not be written, that are the input, or that are each other.
fn check_outputs<'a>(
    input: &Path,
    outputs: impl IntoIterator<Item = Option<&'a PathBuf>>,
) -> Result<(), Failure> {
    let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let mut taken = vec![resolved(input)];
    for path in outputs.into_iter().flatten() {
        check_writable(path).map_err(|error| Failure::Usage(error.to_string()))?;
        let special = path.exists() && !path.is_file();
        if !special && taken.contains(&resolved(path)) {
            let message = "it is the input, or another output; name another file";
            return Err(Failure::Usage(format!("{}: {message}", path.display())));
        }
        taken.push(resolved(path));
    }
    Ok(())
}

/// Writes one value for every row of the input; rows that were dropped have none.
fn write_pointwise(
    path: &Path,
    values: &[f64],
    kept: &[usize],
    input_rows: usize,
) -> Result<(), Failure> {
    write_whole(path, |file| {
        writeln!(file, "row,log_ratio_nats")?;
        let mut scored = kept.iter().zip(values).peekable();
        for row in 0..input_rows {
            match scored.next_if(|(kept, _)| **kept == row) {
                Some((_, value)) => writeln!(file, "{},{value}", row + 1)?,
                None => writeln!(file, "{},", row + 1)?,
            }
        }
        Ok(())
    })?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

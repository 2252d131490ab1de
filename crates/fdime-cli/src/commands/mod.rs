//! One file a command.

pub mod bench;
pub mod list;
pub mod sample;
pub mod staircase;

use crate::failure::Failure;
use fdime::CriticPlan;
use indicatif::{ProgressBar, ProgressStyle};

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

/// Prints JSON to stdout.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    use std::io::Write;
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Run(format!("cannot write JSON: {error}")))?;
    Ok(writeln!(std::io::stdout().lock(), "{text}")?)
}

/// A bar on stderr with the time left; it is not there when stderr is no terminal.
fn progress_bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template(
        "{bar:24} {percent:>3}%  {elapsed} elapsed, {eta} left  {wide_msg}",
    ) {
        bar.set_style(style);
    }
    bar
}

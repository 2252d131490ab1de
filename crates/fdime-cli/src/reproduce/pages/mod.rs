//! The written results of recipes: numbers as CSV, and a report as Markdown and as HTML.

mod html;
mod markdown;
mod numbers;
mod tables;

pub use html::html;
pub use markdown::markdown;

use super::claims::Verdict;
use super::paper::Cell;
use super::recipe::Recipe;
use super::results::Results;
use super::summary::Graded;
use serde::Serialize;

/// A recipe with everything that is shown about it.
pub struct Page<'a> {
    pub recipe: &'a Recipe,
    pub results: &'a Results<'a>,
    pub cells: &'a [Cell],
    pub verdicts: &'a [Verdict],
    pub graded: &'a [Graded],
    pub svg: Option<&'a str>,
}

/// Where, when and with which version the results were computed.
#[derive(Serialize)]
pub struct Environment {
    pub version: &'static str,
    /// The dates of the runs in ascending order.
    pub dates: Vec<String>,
    /// The devices that runs were executed on, each with the number of its runs.
    pub devices: Vec<(String, usize)>,
    /// The machine that wrote the report.
    pub machine: String,
    pub quick: bool,
}

impl Environment {
    fn sentence(&self) -> String {
        let devices: Vec<String> =
            self.devices.iter().map(|(device, runs)| format!("{runs} runs on {device}")).collect();
        let dates = match (self.dates.first(), self.dates.last()) {
            (Some(first), Some(last)) if first == last => first.clone(),
            (Some(first), Some(last)) => format!("{first} to {last}"),
            _ => "no runs yet".into(),
        };
        format!(
            "fdime {}{}; {dates}; {}; report written on {}",
            self.version,
            if self.quick { ", quick settings" } else { "" },
            devices.join(", "),
            self.machine
        )
    }
}

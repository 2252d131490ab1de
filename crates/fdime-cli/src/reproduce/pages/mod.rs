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
use fdime::counted;
use serde::Serialize;
use std::fmt::Write;

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

/// Returns the address of a file next to the report, or of a part of the page. Letters, digits and
/// a few signs stand for themselves, so that a name is neither a scheme nor markup.
fn address(name: &str) -> String {
    let mut address = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                address.push(char::from(byte));
            }
            other => {
                let _ = write!(address, "%{other:02X}");
            }
        }
    }
    address
}

impl Environment {
    fn sentence(&self) -> String {
        let runs_on =
            |(device, runs): &(String, usize)| format!("{} on {device}", counted(*runs, "run"));
        let devices: Vec<String> = self.devices.iter().map(runs_on).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_neither_schemes_nor_markup() {
        assert_eq!(address("errors-d20_n64.csv"), "errors-d20_n64.csv");
        assert_eq!(address("javascript:a(1)"), "javascript%3Aa%281%29");
        assert_eq!(address("ü\">"), "%C3%BC%22%3E");
    }
}

//! The report as Markdown.

use super::super::recipe::Recipe;
use super::tables::Table;
use super::{Environment, Page};
use std::fmt::Write;

/// Returns the report.
pub fn markdown(pages: &[Page], environment: &Environment) -> String {
    let mut text =
        format!("# The paper's experiments, run again\n\n{}.\n\n", environment.sentence());
    for page in pages {
        text.push_str(&section(page));
    }
    text
}

fn section(page: &Page) -> String {
    let Recipe { name, title, paper, claim, notes, .. } = page.recipe;
    let mut text = format!("## {title}\n\n*{paper}.* {claim}\n\n");
    if page.svg.is_some() {
        let _ = writeln!(text, "![{title}]({name}.svg)\n");
    }
    for verdict in page.verdicts {
        let sign = if verdict.passed { "holds" } else { "does not hold" };
        let _ = writeln!(text, "- **{sign}**: {}. {}", verdict.text, verdict.detail);
    }
    if !page.verdicts.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "{note}\n");
    }
    for Table { title, header, rows } in page.tables() {
        let _ = writeln!(text, "{title}:\n\n| {} |", header.join(" | "));
        let _ = writeln!(text, "|{}", " --- |".repeat(header.len()));
        for row in rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "Raw numbers: [{name}.csv]({name}.csv)\n");
    text
}

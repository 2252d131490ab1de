//! The report as Markdown.

use super::super::recipe::Recipe;
use super::tables::Table;
use super::{Environment, Page, address};
use crate::printable::printable;
use std::fmt::Write;

/// Returns the report.
pub fn markdown(pages: &[Page], environment: &Environment) -> String {
    let mut text = format!(
        "# The paper's experiments, run again\n\n{}.\n\n",
        escaped(&environment.sentence())
    );
    for page in pages {
        text.push_str(&section(page));
    }
    printable(&text)
}

/// Returns the text without markup: of Markdown, and of the HTML that it may contain.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => {
                escaped.extend(['\\', character]);
            }
            other => escaped.push(other),
        }
    }
    escaped
}

fn section(page: &Page) -> String {
    let Recipe { title, paper, claim, notes, .. } = page.recipe;
    let [title, paper, claim] = [title, paper, claim].map(|text| escaped(text));
    let mut text = format!("## {title}\n\n*{paper}.* {claim}\n\n");
    if page.svg.is_some() {
        let _ = writeln!(text, "![{title}]({})\n", address(&page.recipe.file("svg")));
    }
    for verdict in page.verdicts {
        let sign = if verdict.passed { "holds" } else { "does not hold" };
        let [claim, numbers] = [&verdict.text, &verdict.detail].map(|text| escaped(text));
        let _ = writeln!(text, "- **{sign}**: {claim}. {numbers}");
    }
    if !page.verdicts.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "{}\n", escaped(note));
    }
    for Table { title, header, rows } in page.tables() {
        let line = |cells: &[String]| {
            cells.iter().map(|cell| escaped(cell)).collect::<Vec<_>>().join(" | ")
        };
        let _ = writeln!(text, "{}:\n\n| {} |", escaped(&title), line(&header));
        let _ = writeln!(text, "|{}", " --- |".repeat(header.len()));
        for row in rows {
            let _ = writeln!(text, "| {} |", line(&row));
        }
        text.push('\n');
    }
    let numbers = page.recipe.file("csv");
    let _ = writeln!(text, "Raw numbers: [{}]({})\n", escaped(&numbers), address(&numbers));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_texts_is_shown_as_text() {
        assert_eq!(escaped("d = 20, N = 64: 10^11 (.5)"), "d = 20, N = 64: 10^11 (.5)");
        assert_eq!(escaped("<b>*a*|[x](y)"), "&lt;b&gt;\\*a\\*\\|\\[x\\](y)");
    }
}

//! The report as one HTML file.

use super::super::claims::Verdict;
use super::super::recipe::Recipe;
use super::tables::Table;
use super::{Environment, Page, address};
use crate::printable::printable;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// Returns the report.
pub fn html(pages: &[Page], environment: &Environment) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                title { "fdime: the paper's experiments" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "The paper's experiments, run again" }
                    p { (environment.sentence()) }
                    nav {
                        @for page in pages {
                            a href={ "#" (address(&page.recipe.name)) } class=(outcome(page.verdicts)) {
                                (page.recipe.title)
                            }
                        }
                    }
                }
                main { @for page in pages { (section(page)) } }
                div #hint hidden {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    printable(&page.into_string())
}

/// Returns the class of a recipe: whether all its claims hold, or "open" if it has none.
fn outcome(verdicts: &[Verdict]) -> &'static str {
    match verdicts {
        [] => "open",
        verdicts if verdicts.iter().all(|verdict| verdict.passed) => "yes",
        _ => "no",
    }
}

fn section(page: &Page) -> Markup {
    let Recipe { name, title, paper, claim, notes, .. } = page.recipe;
    html! {
        section id=(name) {
            h2 { (title) }
            p.claim { i { (paper) "." } " " (claim) }
            @if let Some(svg) = page.svg {
                div.toggles {}
                div.figure { (PreEscaped(svg)) }
            }
            (claims(page.verdicts))
            @for note in notes { p { (note) } }
            @for table in page.tables() { (table_markup(&table)) }
            p.files {
                a href=(address(&page.recipe.file("csv"))) { "numbers (CSV)" }
                @if page.svg.is_some() { " " a href=(address(&page.recipe.file("svg"))) { "figure (SVG)" } }
                " " a href="runs.jsonl" { "all runs (JSON lines)" }
            }
        }
    }
}

fn claims(verdicts: &[Verdict]) -> Markup {
    html! {
        @if !verdicts.is_empty() {
            ul {
                @for verdict in verdicts {
                    li {
                        @if verdict.passed { b.yes { "holds" } } @else { b.no { "does not hold" } }
                        " " (verdict.text)
                        details { summary { "numbers" } (verdict.detail) }
                    }
                }
            }
        }
    }
}

fn table_markup(table: &Table) -> Markup {
    html! {
        details open {
            summary { (table.title) }
            div.wide {
                table {
                    tr { @for cell in &table.header { th { (cell) } } }
                    @for row in &table.rows {
                        tr {
                            @for cell in row {
                                @let class = cell.ends_with('*').then_some("off");
                                td class=[class] { (cell) }
                            }
                        }
                    }
                }
            }
        }
    }
}

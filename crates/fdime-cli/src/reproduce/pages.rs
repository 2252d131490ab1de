//! What a reader gets: raw numbers as CSV, a report in Markdown, and one in HTML.

use super::claims::Verdict;
use super::figures::{STAIRCASE_STEPS, consistency_view, time_name};
use super::paper::{Cell, Statistic, is_within};
use super::recipe::Recipe;
use super::results::{ImageRun, Measured, Results};
use super::summary::{COLUMNS, Graded};
use crate::report::svg::escape;
use serde::Serialize;
use std::fmt::Write;

/// A recipe with everything that is to be shown of it.
pub struct Page<'a> {
    pub recipe: &'a Recipe,
    pub results: &'a Results<'a>,
    pub cells: &'a [Cell],
    pub verdicts: &'a [Verdict],
    pub graded: &'a [Graded],
    pub svg: Option<&'a str>,
}

/// What the results were made with.
#[derive(Serialize)]
pub struct Environment {
    pub version: &'static str,
    /// Of the runs, from the first to the last.
    pub dates: Vec<String>,
    /// Where runs were executed, and how many there.
    pub devices: Vec<(String, usize)>,
    /// The machine that wrote the report.
    pub machine: String,
    pub quick: bool,
}

/// A table: a header and rows of cells.
struct Table {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

fn shown(value: f64) -> String {
    match value.abs() {
        size if !value.is_finite() => {
            if size.is_nan() {
                "-".into()
            } else {
                "∞".into()
            }
        }
        size if size >= 1000.0 => format!("{value:.1e}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size < 0.095 && size > 0.0 => format!("{value:.3}"),
        _ => format!("{value:.2}"),
    }
}

fn with_spread(measured: Measured) -> String {
    match measured.spread {
        Some(spread) => format!("{} ± {}", shown(measured.value), shown(spread)),
        None => shown(measured.value),
    }
}

impl Page<'_> {
    /// Every number measured, one line each.
    pub fn csv(&self) -> String {
        let mut csv = String::new();
        let results = self.results;
        if !results.staircases.is_empty() {
            csv.push_str(
                "scenario,dim,batch,estimator,critic,pairing,hidden,iterations,last,seed,true_mi,mean,\
                 bias,variance,mse,device,version\n",
            );
        }
        for staircase in &results.staircases {
            let plan = staircase.plan;
            for run in &staircase.runs {
                for level in run.levels {
                    let bias = (level.mean - level.true_mi).abs();
                    let _ = writeln!(
                        csv,
                        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},\"{}\",{}",
                        plan.scenario.name,
                        plan.scenario.dim,
                        plan.batch,
                        plan.estimator.name(),
                        if plan.estimator.has_critic() { plan.critic.kind.name() } else { "njee" },
                        plan.pairing,
                        widths(&plan.critic.hidden),
                        plan.schedule.iterations,
                        staircase.last,
                        run.seed,
                        level.true_mi,
                        level.mean,
                        bias,
                        level.variance,
                        bias * bias + level.variance,
                        run.logged.engine,
                        run.logged.version,
                    );
                }
            }
        }
        if !results.images.is_empty() {
            csv.push_str("images,view,rows,estimator,critic,hidden,batch,pairing,iterations,last,seed,mean,variance,device,version\n");
        }
        for result in &results.images {
            let plan = result.plan;
            for ImageRun { seed, mean, variance, logged } in &result.runs {
                let _ = writeln!(
                    csv,
                    "{},{},{},{},{},{},{},{},{},{},{seed},{mean},{variance},\"{}\",{}",
                    plan.images,
                    plan.view,
                    plan.rows,
                    plan.estimator.name(),
                    plan.critic.kind,
                    widths(&plan.critic.hidden),
                    plan.batch,
                    plan.pairing,
                    plan.iterations,
                    result.last,
                    logged.engine,
                    logged.version,
                );
            }
        }
        if !results.times.is_empty() {
            csv.push_str("estimator,critic,pairing,dim,batch,hidden,threads,steps,median_ms,fastest_ms,staircase_seconds,device,version\n");
        }
        for time in &results.times {
            let plan = time.plan;
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{},{},{},{},{},{},\"{}\",{}",
                plan.estimator.name(),
                if plan.estimator.has_critic() { plan.critic.kind.name() } else { "njee" },
                plan.pairing,
                plan.scenario.dim,
                plan.batch,
                widths(&plan.critic.hidden),
                time.threads,
                time.steps,
                time.median_ms,
                time.fastest_ms,
                time.median_ms * STAIRCASE_STEPS / 1e3,
                time.logged.engine,
                time.logged.version,
            );
        }
        csv
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        if !self.graded.is_empty() {
            tables.push(self.grades());
        } else if !self.cells.is_empty() {
            tables.extend(self.beside_the_paper());
        } else {
            tables.extend(self.levels());
        }
        tables.extend(self.ratios());
        tables.extend(self.times());
        tables
    }

    /// Ours and in brackets the paper's, an estimator a row.
    fn beside_the_paper(&self) -> Vec<Table> {
        let mut tables: Vec<Table> = Vec::new();
        let mut levels: Vec<f64> = self.cells.iter().map(|cell| cell.true_mi).collect();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        for statistic in Statistic::ALL {
            let of_statistic = || self.cells.iter().filter(move |cell| cell.statistic == statistic);
            let mut rows: Vec<(&Cell, Vec<String>)> = Vec::new();
            for cell in of_statistic() {
                let known = rows.iter().any(|(other, _)| {
                    (&other.estimator, other.dim, other.batch)
                        == (&cell.estimator, cell.dim, cell.batch)
                });
                if known || cell.measured_level(self.results).is_none() {
                    continue;
                }
                let mut row = vec![cell.estimator.clone()];
                for level in &levels {
                    let paper = of_statistic().find(|other| {
                        (&other.estimator, other.dim, other.batch, other.true_mi)
                            == (&cell.estimator, cell.dim, cell.batch, *level)
                    });
                    row.push(paper.map_or(String::new(), |paper| {
                        paper.measured_level(self.results).map_or("-".into(), |level| {
                            let own = level.statistic(statistic);
                            let mark = match is_within(own.value, paper.value, 0.25, 0.05) {
                                true => "",
                                false => " *",
                            };
                            format!("{} ({}){mark}", with_spread(own), paper.value)
                        })
                    }));
                }
                rows.push((cell, row));
            }
            if !rows.is_empty() {
                tables.push(Table {
                    title: format!(
                        "{}: ours, in brackets the paper's; * beyond 25% + .05 of it",
                        statistic.name()
                    ),
                    header: ["estimator".to_string()]
                        .into_iter()
                        .chain(levels.iter().map(|level| format!("MI {level}")))
                        .collect(),
                    rows: rows.into_iter().map(|(_, row)| row).collect(),
                });
            }
        }
        tables
    }

    /// Means, and variances, by level.
    fn levels(&self) -> Option<Table> {
        let most = self.results.staircases.iter().map(|s| s.plan.schedule.levels.len()).max()?;
        let rows = self.results.staircases.iter().map(|staircase| {
            let plan = staircase.plan;
            let mut row = vec![
                plan.scenario.name.to_string(),
                plan.scenario.dim.to_string(),
                plan.batch.to_string(),
                staircase.estimator().to_string(),
                staircase.label(),
            ];
            for index in 0..most {
                if index >= plan.schedule.levels.len() {
                    row.push(String::new());
                    continue;
                }
                row.push(staircase.levels.get(index).map_or("diverged".into(), |level| {
                    let finished = match staircase.runs.len() - level.runs {
                        0 => String::new(),
                        _ => format!(" ({} of {} runs)", level.runs, staircase.runs.len()),
                    };
                    format!(
                        "{}: {}, {}{finished}",
                        shown(level.true_mi),
                        with_spread(level.mean),
                        shown(level.variance.value)
                    )
                }));
            }
            row
        });
        let names = ["scenario", "d", "N", "estimator", "critic"].map(String::from).into_iter();
        Some(Table {
            title: "true MI: mean of the estimates, their variance".into(),
            header: names.chain((1..=most).map(|level| format!("level {level}"))).collect(),
            rows: rows.collect(),
        })
    }

    fn ratios(&self) -> Option<Table> {
        let ratios = self.results.ratios(consistency_view(self.results));
        let mut rows: Vec<usize> =
            ratios.iter().flat_map(|r| r.by_rows.iter().map(|(rows, _)| *rows)).collect();
        rows.sort_unstable();
        rows.dedup();
        (!rows.is_empty()).then(|| Table {
            title: "ratio by visible rows".into(),
            header: ["images", "estimator"]
                .map(String::from)
                .into_iter()
                .chain(rows.iter().map(|t| format!("t = {t}")))
                .collect(),
            rows: ratios
                .iter()
                .map(|ratios| {
                    let at = |t: &usize| {
                        let found = ratios.by_rows.iter().find(|(rows, _)| rows == t);
                        found.map_or("-".into(), |(_, ratio)| with_spread(*ratio))
                    };
                    [ratios.images.clone(), ratios.name()]
                        .into_iter()
                        .chain(rows.iter().map(at))
                        .collect()
                })
                .collect(),
        })
    }

    fn times(&self) -> Option<Table> {
        let times = &self.results.times;
        (!times.is_empty()).then(|| Table {
            title: format!("a step, and a staircase of {STAIRCASE_STEPS} of them"),
            header: ["critic", "d", "N", "ms a step", "seconds a staircase"]
                .map(String::from)
                .into(),
            rows: times
                .iter()
                .map(|time| {
                    let plan = time.plan;
                    vec![
                        time_name(plan),
                        plan.scenario.dim.to_string(),
                        plan.batch.to_string(),
                        format!("{:.3}", time.median_ms),
                        format!("{:.0}", time.median_ms * STAIRCASE_STEPS / 1e3),
                    ]
                })
                .collect(),
        })
    }

    fn grades(&self) -> Table {
        Table {
            title: "our grade and the value behind it, in brackets the paper's grade".into(),
            header: ["estimator"].into_iter().chain(COLUMNS).map(String::from).collect(),
            rows: self
                .graded
                .iter()
                .map(|row| {
                    let cells = row.cells.iter().zip(row.paper).map(|((own, value), paper)| {
                        format!("{} {} ({})", own.sign(), shown(*value), paper.sign())
                    });
                    [row.estimator.clone()].into_iter().chain(cells).collect()
                })
                .collect(),
        }
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let Recipe { name, title, paper, claim, notes, .. } = self.recipe;
        let mut text = format!("## {title}\n\n*{paper}.* {claim}\n\n");
        if self.svg.is_some() {
            let _ = writeln!(text, "![{title}]({name}.svg)\n");
        }
        for finding in self.verdicts {
            let sign = if finding.passed { "holds" } else { "does not hold" };
            let _ = writeln!(text, "- **{sign}**: {}. {}", finding.text, finding.detail);
        }
        if !self.verdicts.is_empty() {
            text.push('\n');
        }
        for note in notes {
            let _ = writeln!(text, "{note}\n");
        }
        for table in self.tables() {
            let _ = writeln!(text, "{}:\n\n| {} |", table.title, table.header.join(" | "));
            let _ = writeln!(text, "|{}", " --- |".repeat(table.header.len()));
            for row in table.rows {
                let _ = writeln!(text, "| {} |", row.join(" | "));
            }
            text.push('\n');
        }
        let _ = writeln!(text, "Raw numbers: [{name}.csv]({name}.csv)\n");
        text
    }

    /// As a section of the HTML report.
    fn html(&self) -> String {
        let Recipe { name, title, paper, claim, notes, .. } = self.recipe;
        let mut html = format!(
            "<section id=\"{name}\"><h2>{}</h2><p class=\"claim\"><i>{}.</i> {}</p>",
            escape(title),
            escape(paper),
            escape(claim)
        );
        if let Some(svg) = self.svg {
            let _ = write!(html, "<div class=\"toggles\"></div><div class=\"figure\">{svg}</div>");
        }
        if !self.verdicts.is_empty() {
            html.push_str("<ul>");
            for finding in self.verdicts {
                let (class, sign) =
                    if finding.passed { ("yes", "holds") } else { ("no", "does not hold") };
                let _ = write!(
                    html,
                    "<li><b class=\"{class}\">{sign}</b> {}<details><summary>numbers</summary>{}</details></li>",
                    escape(&finding.text),
                    escape(&finding.detail)
                );
            }
            html.push_str("</ul>");
        }
        for note in notes {
            let _ = write!(html, "<p>{}</p>", escape(note));
        }
        for table in self.tables() {
            let _ = write!(
                html,
                "<details open><summary>{}</summary><div class=\"wide\"><table><tr>",
                escape(&table.title)
            );
            for cell in &table.header {
                let _ = write!(html, "<th>{}</th>", escape(cell));
            }
            html.push_str("</tr>");
            for row in &table.rows {
                html.push_str("<tr>");
                for cell in row {
                    let class = if cell.ends_with('*') { " class=\"off\"" } else { "" };
                    let _ = write!(html, "<td{class}>{}</td>", escape(cell));
                }
                html.push_str("</tr>");
            }
            html.push_str("</table></div></details>");
        }
        let _ = write!(
            html,
            "<p class=\"files\"><a href=\"{name}.csv\">numbers (CSV)</a>{} \
             <a href=\"runs.jsonl\">all runs (JSON lines)</a></p></section>",
            self.svg.map_or(String::new(), |_| format!(" <a href=\"{name}.svg\">figure (SVG)</a>"))
        );
        html
    }
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

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// The report in Markdown.
pub fn markdown(pages: &[Page], environment: &Environment) -> String {
    let mut text =
        format!("# The paper's experiments, run again\n\n{}.\n\n", environment.sentence());
    for page in pages {
        text.push_str(&page.markdown());
    }
    text
}

/// The report as one self-contained file.
pub fn html(pages: &[Page], environment: &Environment) -> String {
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>fdime: the paper's experiments</title><style>{STYLE}</style></head><body>\
         <header><h1>The paper's experiments, run again</h1><p>{}</p><nav>",
        escape(&environment.sentence())
    );
    for page in pages {
        let class = match page.verdicts {
            [] => "open",
            findings if findings.iter().all(|finding| finding.passed) => "yes",
            _ => "no",
        };
        let _ = write!(
            html,
            "<a href=\"#{}\" class=\"{class}\">{}</a>",
            page.recipe.name,
            escape(&page.recipe.title)
        );
    }
    html.push_str("</nav></header><main>");
    for page in pages {
        html.push_str(&page.html());
    }
    let _ = write!(
        html,
        "</main><div id=\"hint\" hidden></div><script>{SCRIPT}</script></body></html>"
    );
    html
}

fn widths(hidden: &[usize]) -> String {
    hidden.iter().map(ToString::to_string).collect::<Vec<_>>().join("-")
}

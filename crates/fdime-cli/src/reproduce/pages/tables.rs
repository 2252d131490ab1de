//! The tables of a report.

use super::super::figures::{STAIRCASE_STEPS, consistency_view, time_name};
use super::super::paper::{Cell, Statistic, is_within};
use super::super::results::{LevelResult, Measured, Ratios, StaircaseResult};
use super::super::summary::COLUMNS;
use super::Page;

/// A title, a header and rows of cells.
pub struct Table {
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// Formats a number with two or three significant digits.
fn shown(value: f64) -> String {
    match value.abs() {
        size if size.is_nan() => "-".into(),
        size if size.is_infinite() => "∞".into(),
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

/// Returns the fixed names of a header followed by computed ones.
fn header<const N: usize>(names: [&str; N], more: impl Iterator<Item = String>) -> Vec<String> {
    names.map(String::from).into_iter().chain(more).collect()
}

impl Page<'_> {
    /// Returns the tables that the results of the recipe fill.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        if !self.graded.is_empty() {
            tables.push(self.grades());
        } else if !self.cells.is_empty() {
            tables.extend(Statistic::ALL.into_iter().filter_map(|s| self.beside_the_paper(s)));
        } else {
            tables.extend(self.levels());
        }
        tables.extend(self.ratios());
        tables.extend(self.times());
        tables
    }

    /// Returns our values with the paper's in parentheses, one estimator in each row; `None` if
    /// none of the paper's estimators was run.
    fn beside_the_paper(&self, statistic: Statistic) -> Option<Table> {
        let mut levels: Vec<f64> = self.cells.iter().map(|cell| cell.true_mi).collect();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        let mut firsts: Vec<&Cell> = Vec::new();
        for cell in self.cells.iter().filter(|cell| cell.statistic == statistic) {
            let listed = firsts.iter().any(|first| same_setting(first, cell));
            if !listed && cell.measured_level(self.results).is_some() {
                firsts.push(cell);
            }
        }
        let row = |first: &&Cell| {
            let cells = levels.iter().map(|level| self.comparison(first, *level));
            [first.estimator.clone()].into_iter().chain(cells).collect()
        };
        (!firsts.is_empty()).then(|| Table {
            title: format!(
                "{}: ours, with the paper's in parentheses; * marks differences of more than 25% + 0.05",
                statistic.name()
            ),
            header: header(["estimator"], levels.iter().map(|level| format!("MI {level}"))),
            rows: firsts.iter().map(row).collect(),
        })
    }

    /// Returns our value and the paper's for the setting of a cell at a level, marked with * if
    /// they differ; empty if the paper has no value there.
    fn comparison(&self, first: &Cell, level: f64) -> String {
        let paper = self.cells.iter().find(|cell| {
            cell.statistic == first.statistic && same_setting(cell, first) && cell.true_mi == level
        });
        let Some(paper) = paper else { return String::new() };
        let Some(level) = paper.measured_level(self.results) else { return "-".into() };
        let own = level.statistic(paper.statistic);
        let mark = if is_within(own.value, paper.value, 0.25, 0.05) { "" } else { " *" };
        format!("{} ({}){mark}", with_spread(own), paper.value)
    }

    /// Returns means and variances by level; `None` without staircases.
    fn levels(&self) -> Option<Table> {
        let staircases = &self.results.staircases;
        let count = staircases.iter().map(|s| s.plan.schedule.levels.len()).max()?;
        let row = |staircase: &StaircaseResult| {
            let plan = staircase.plan;
            let mut row = vec![
                plan.scenario.name.to_string(),
                plan.scenario.dim.to_string(),
                plan.training.batch.to_string(),
                staircase.estimator().to_string(),
                staircase.label(),
            ];
            row.extend((0..count).map(|index| match staircase.levels.get(index) {
                Some(level) => level_cell(level, staircase.runs.len()),
                None if index < plan.schedule.levels.len() => "diverged".into(),
                None => String::new(),
            }));
            row
        };
        let levels = (1..=count).map(|level| format!("level {level}"));
        Some(Table {
            title: "true MI: mean and variance of the estimates".into(),
            header: header(["scenario", "d", "N", "estimator", "critic"], levels),
            rows: staircases.iter().map(row).collect(),
        })
    }

    fn ratios(&self) -> Option<Table> {
        let ratios = self.results.ratios(consistency_view(self.results));
        let mut visible: Vec<usize> =
            ratios.iter().flat_map(|r| r.by_rows.iter().map(|(rows, _)| *rows)).collect();
        visible.sort_unstable();
        visible.dedup();
        let row = |ratios: &Ratios| {
            let cell = |rows: &usize| {
                let found = ratios.by_rows.iter().find(|(other, _)| other == rows);
                found.map_or("-".into(), |(_, ratio)| with_spread(*ratio))
            };
            let names = [ratios.images.clone(), ratios.name()];
            names.into_iter().chain(visible.iter().map(cell)).collect()
        };
        (!visible.is_empty()).then(|| Table {
            title: "ratio by visible rows".into(),
            header: header(["images", "estimator"], visible.iter().map(|t| format!("t = {t}"))),
            rows: ratios.iter().map(row).collect(),
        })
    }

    fn times(&self) -> Option<Table> {
        let times = &self.results.times;
        let rows = times.iter().map(|time| {
            vec![
                time_name(time.plan),
                time.plan.scenario.dim.to_string(),
                time.plan.training.batch.to_string(),
                format!("{:.3}", time.median_ms),
                format!("{:.0}", time.median_ms * STAIRCASE_STEPS / 1e3),
            ]
        });
        (!times.is_empty()).then(|| Table {
            title: format!("time of a step, and of a staircase of {STAIRCASE_STEPS} steps"),
            header: header(
                ["critic", "d", "N", "ms per step", "seconds per staircase"],
                std::iter::empty(),
            ),
            rows: rows.collect(),
        })
    }

    fn grades(&self) -> Table {
        let rows = self.graded.iter().map(|row| {
            let cells = row.cells.iter().zip(row.paper).map(|((own, value), paper)| {
                format!("{} {} ({})", own.sign(), shown(*value), paper.sign())
            });
            [row.estimator.clone()].into_iter().chain(cells).collect()
        });
        Table {
            title: "our grade and its value, with the paper's grade in parentheses".into(),
            header: header(["estimator"], COLUMNS.map(String::from).into_iter()),
            rows: rows.collect(),
        }
    }
}

/// Returns whether two values of the paper have the same estimator, dimension and batch size.
fn same_setting(left: &Cell, right: &Cell) -> bool {
    (&left.estimator, left.dim, left.batch) == (&right.estimator, right.dim, right.batch)
}

/// Returns true MI, mean and variance, and the number of runs if some did not finish the level.
fn level_cell(level: &LevelResult, runs: usize) -> String {
    let finished = match runs - level.runs {
        0 => String::new(),
        _ => format!(" ({} of {runs} runs)", level.runs),
    };
    let (mean, variance) = (with_spread(level.mean), shown(level.variance.value));
    format!("{}: {mean}, {variance}{finished}", shown(level.true_mi))
}

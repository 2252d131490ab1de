//! The tables of a report.

use super::super::consistency::View;
use super::super::figures::{STAIRCASE_STEPS, consistency_views, distinct, time_name};
use super::super::jobs::TermMeasure;
use super::super::paper::{Cell, Statistic, is_within};
use super::super::results::{
    ImageResult, LevelResult, Measured, Ratios, StaircaseResult, chain_name, label,
};
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
        } else if self.results.staircases.iter().any(|staircase| staircase.chain.is_some()) {
            tables.push(self.direct_and_chained());
        } else {
            tables.extend(self.levels());
        }
        let views = consistency_views(self.results);
        tables.extend(views.into_iter().filter_map(|view| self.ratios(view)));
        tables.extend(self.terms());
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

    /// Returns direct and chained estimates side by side, one level in each row.
    fn direct_and_chained(&self) -> Table {
        let staircases = &self.results.staircases;
        let chains = distinct(staircases.iter().map(|s| chain_name(s.chain)));
        let setting = |s: &StaircaseResult| {
            let (scenario, training) = (&s.plan.scenario, &s.plan.training);
            [
                scenario.name.to_string(),
                scenario.dim.to_string(),
                training.batch.to_string(),
                s.estimator().to_string(),
                label(s.plan),
            ]
        };
        let mut rows = Vec::new();
        for of_row in distinct(staircases.iter().map(setting)) {
            let same = |s: &&StaircaseResult| setting(s) == of_row;
            let levels = staircases.iter().filter(same).map(|s| s.plan.schedule.levels.len());
            for index in 0..levels.max().unwrap_or(0) {
                let of_chain = |chain: &String| {
                    let found =
                        staircases.iter().filter(same).find(|s| chain_name(s.chain) == *chain);
                    found.map_or("-".into(), |s| match s.levels.get(index) {
                        Some(level) => relative_cell(level, s.runs.len()),
                        None => "diverged".into(),
                    })
                };
                let level = staircases.iter().filter(same).find_map(|s| s.levels.get(index));
                let true_mi = level.map_or("-".into(), |level| shown(level.true_mi));
                let cells = chains.iter().map(of_chain);
                rows.push(of_row.iter().cloned().chain([true_mi]).chain(cells).collect());
            }
        }
        Table {
            title: "estimates, mean over seeds ± standard deviation, with the relative error"
                .into(),
            header: header(
                ["scenario", "d", "N", "estimator", "critic", "true MI"],
                chains.into_iter(),
            ),
            rows,
        }
    }

    /// Returns the terms of chains over two images, whose signed sum is the estimate; `None` without
    /// chains.
    fn terms(&self) -> Option<Table> {
        let chained: Vec<&ImageResult> =
            self.results.images.iter().filter(|result| result.plan.chain).collect();
        let row = |result: &&ImageResult| {
            let term = |block: usize, with_x: bool| {
                let found = |terms: &[TermMeasure]| {
                    let same = |t: &&TermMeasure| (t.block, t.with_x) == (block, with_x);
                    Some(terms.iter().find(same)?.mean)
                };
                let means: Vec<f64> =
                    result.runs.iter().filter_map(|run| found(run.terms)).collect();
                with_spread(Measured::mean(&means))
            };
            let means: Vec<f64> = result.runs.iter().map(|run| run.mean).collect();
            vec![
                result.plan.images.clone(),
                result.plan.view.to_string(),
                result.plan.rows.to_string(),
                result.estimator().to_string(),
                term(1, true),
                term(2, true),
                term(2, false),
                with_spread(Measured::mean(&means)),
            ]
        };
        let columns = ["images", "view", "t", "estimator"];
        let terms = ["I(X;Y_1)", "I(X,Y_1;Y_2)", "I(Y_1;Y_2)", "sum"].map(String::from);
        (!chained.is_empty()).then(|| Table {
            title: "terms of the chains: first + second - third".into(),
            header: header(columns, terms.into_iter()),
            rows: chained.iter().map(row).collect(),
        })
    }

    /// Returns the ratios of a view; `None` if there are none.
    fn ratios(&self, view: View) -> Option<Table> {
        let ratios = self.results.ratios(view);
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
            title: format!("{} by visible rows", view.ratio()),
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

/// Returns the number of runs that finished a level if some did not.
fn unfinished(level: &LevelResult, runs: usize) -> String {
    match runs - level.runs {
        0 => String::new(),
        _ => format!(" ({} of {runs} runs)", level.runs),
    }
}

/// Returns the mean and its relative error, and the number of runs if some did not finish the level.
fn relative_cell(level: &LevelResult, runs: usize) -> String {
    let error = level
        .ratio()
        .map_or(String::new(), |ratio| format!(", {:+.1}%", 100.0 * (ratio.value - 1.0)));
    format!("{}{error}{}", with_spread(level.mean), unfinished(level, runs))
}

/// Returns true MI, mean and variance, and the number of runs if some did not finish the level.
fn level_cell(level: &LevelResult, runs: usize) -> String {
    let finished = unfinished(level, runs);
    let (mean, variance) = (with_spread(level.mean), shown(level.variance.value));
    format!("{}: {mean}, {variance}{finished}", shown(level.true_mi))
}

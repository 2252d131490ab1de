//! The figures of recipes.

use super::claims::lemma_variance;
use super::paper::{Cell, Statistic};
use super::recipe::{Figure, Recipe};
use super::results::{
    LevelResult, Measured, ROUNDING, Ratios, Results, StaircaseResult, TimeResult, label,
};
use crate::report::chart::{Chart, Panel, Point, Series, Shape};
use crate::report::staircase::{self, Line};
use crate::reproduce::consistency::View;
use fdime::{Chain, Pairing, RunPlan};

/// The number of steps of the paper's staircase, for which times are reported.
pub const STAIRCASE_STEPS: f64 = 20_000.0;

/// Returns the figure as an SVG file; `None` if the recipe has none or its runs are missing.
pub fn draw(recipe: &Recipe, results: &Results, cells: &[Cell]) -> Option<String> {
    let panels = match recipe.figure {
        Figure::Stairs => {
            let panels = stairs(results);
            return (!panels.is_empty()).then(|| staircase::render(&panels, &recipe.title));
        }
        Figure::Bars => bars(results, cells, &Statistic::ALL),
        Figure::VarianceBars => bars(results, cells, &[Statistic::Variance]),
        Figure::VarianceAgainstN => variance_against_n(results),
        Figure::Time => {
            [Against::N, Against::D].into_iter().filter_map(|axis| time(results, axis)).collect()
        }
        Figure::Consistency => consistency(results),
        Figure::EstimateAgainstBlocks => estimate_against_blocks(results),
        Figure::Grades => Vec::new(),
    };
    let title = recipe.title.clone();
    (!panels.is_empty()).then(|| Chart { title, panels }.to_svg())
}

impl Point {
    fn measured(x: f64, Measured { value, spread }: Measured) -> Self {
        Point { x, y: value, spread, paper: None }
    }
}

/// Returns the distinct values in the order of their first occurrence.
pub fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// Returns a panel for each scenario and estimator; critics and pairings are lines in it.
fn stairs<'a>(results: &'a Results) -> Vec<staircase::Panel<'a>> {
    let scenarios = distinct(results.staircases.iter().map(|s| s.plan.scenario.name.to_string()));
    let mut panels = Vec::new();
    for scenario in &scenarios {
        let of_scenario =
            || results.staircases.iter().filter(|s| s.plan.scenario.name.to_string() == *scenario);
        for estimator in distinct(of_scenario().map(StaircaseResult::estimator)) {
            let shown: Vec<&StaircaseResult> =
                of_scenario().filter(|s| s.estimator() == estimator).collect();
            let title = match scenarios.len() {
                1 => estimator.to_string(),
                _ => format!("{scenario}: {estimator}"),
            };
            let batch = shown.first().map_or(0, |staircase| staircase.plan.training.batch);
            let lines = shown.into_iter().filter_map(line).collect();
            panels.push(staircase::Panel { title, batch, lines, terms: None });
        }
    }
    panels
}

/// Returns the line of the first run; `None` without runs.
fn line<'a>(staircase: &'a StaircaseResult) -> Option<Line<'a>> {
    let label = staircase.label();
    let hint = |level: &LevelResult| {
        format!(
            "{label}, true MI {:.3}: mean {:.3}, variance {:.4} (last {} iterations)",
            level.true_mi, level.mean.value, level.variance.value, staircase.last
        )
    };
    let hints = staircase.levels.iter().map(hint).collect();
    Some(Line { curve: staircase.runs.first()?.curve, hints, label })
}

/// Returns a panel for each statistic; estimators are bars, with the paper's values marked on them.
fn bars(results: &Results, cells: &[Cell], statistics: &[Statistic]) -> Vec<Panel> {
    if results.staircases.is_empty() {
        return Vec::new();
    }
    let series = |statistic: Statistic, staircase: &StaircaseResult| {
        let points = staircase.levels.iter().map(|level| Point {
            paper: paper_value(cells, staircase, statistic, level.true_mi),
            ..Point::measured(level.true_mi, level.statistic(statistic))
        });
        let name = staircase.name();
        Series { name, points: points.collect(), theory: false }
    };
    let panel = |statistic: &Statistic| Panel {
        title: statistic.name().to_string(),
        x_name: "true MI (nats)".into(),
        y_name: format!("{} (logarithmic)", statistic.name()),
        logarithmic: (false, true),
        include: vec![0.01],
        shape: Shape::Bars,
        series: results.staircases.iter().map(|s| series(*statistic, s)).collect(),
    };
    statistics.iter().map(panel).collect()
}

fn paper_value(
    cells: &[Cell],
    staircase: &StaircaseResult,
    statistic: Statistic,
    true_mi: f64,
) -> Option<f64> {
    cells
        .iter()
        .find(|cell| {
            cell.estimator == staircase.estimator()
                && staircase.chain.is_none()
                && cell.dim == staircase.plan.scenario.dim
                && cell.batch == staircase.plan.training.batch
                && cell.statistic == statistic
                && (cell.true_mi - true_mi).abs() < ROUNDING
        })
        .map(|cell| cell.value)
}

/// Returns a panel for each level: the variance against N, and the value of Lemma 4.2, which falls
/// as 1/N.
fn variance_against_n(results: &Results) -> Vec<Panel> {
    let Some(first) = results.staircases.first() else { return Vec::new() };
    let estimators = distinct(results.staircases.iter().map(StaircaseResult::estimator));
    let mut sizes: Vec<usize> = results.staircases.iter().map(|s| s.plan.training.batch).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let measured = |estimator: &str, mi: f64| {
        let points = results.staircases_of(estimator).filter_map(|staircase| {
            Some(Point::measured(staircase.plan.training.batch as f64, staircase.at(mi)?.variance))
        });
        Series::measured(estimator.to_string(), points.collect())
    };
    let panel = |mi: f64| {
        let dim = first.plan.scenario.dim;
        let theory = Series {
            name: "Lemma 4.2, ~ 1/N".into(),
            points: sizes
                .iter()
                .map(|&n| Point::new(n as f64, lemma_variance(mi, dim, n)))
                .collect(),
            theory: true,
        };
        let series = estimators.iter().map(|estimator| measured(estimator, mi));
        Panel {
            title: format!("true MI {mi:.0}"),
            x_name: "batch size N".into(),
            y_name: "variance".into(),
            logarithmic: (true, true),
            include: Vec::new(),
            shape: Shape::Lines,
            series: series.chain([theory]).collect(),
        }
    };
    first.levels.iter().map(|level| panel(level.true_mi)).collect()
}

impl Series {
    /// Returns measured points in the order of x.
    fn measured(name: String, mut points: Vec<Point>) -> Self {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series { name, points, theory: false }
    }
}

/// Returns the name of the critic that was timed.
pub fn time_name(plan: &RunPlan) -> String {
    let learner = &plan.training.learner;
    match learner.pairing() {
        Some(Pairing::Derangement) => "deranged, random".into(),
        Some(_) => label(plan),
        None => learner.estimator_name().into(),
    }
}

/// The quantity on the x axis of a figure of times; the other quantity is fixed.
#[derive(Clone, Copy)]
enum Against {
    N,
    D,
}

/// Returns the time of a whole staircase against the batch size or the dimension; `None` without
/// measurements.
fn time(results: &Results, against: Against) -> Option<Panel> {
    type Size = fn(&RunPlan) -> usize;
    let (varied, fixed, x_name): (Size, Size, _) = match against {
        Against::N => (|plan| plan.training.batch, |plan| plan.scenario.dim, "batch size N"),
        Against::D => (|plan| plan.scenario.dim, |plan| plan.training.batch, "dimension d"),
    };
    // The fixed value is the one with the most measurements, the last of equals.
    let count = |value: &usize| results.times.iter().filter(|t| fixed(t.plan) == *value).count();
    let fixed_size =
        distinct(results.times.iter().map(|t| fixed(t.plan))).into_iter().max_by_key(count)?;
    let shown = || results.times.iter().filter(|t| fixed(t.plan) == fixed_size);
    let point = |time: &TimeResult| {
        Point::new(varied(time.plan) as f64, time.median_ms * STAIRCASE_STEPS / 1e3)
    };
    let series = distinct(shown().map(|time| time_name(time.plan))).into_iter().map(|name| {
        let points = shown().filter(|time| time_name(time.plan) == name).map(point).collect();
        Series::measured(name, points)
    });
    let symbol = if let Against::N = against { "d" } else { "N" };
    Some(Panel {
        title: format!("{symbol} = {fixed_size}"),
        x_name: x_name.into(),
        y_name: "seconds of a staircase".into(),
        logarithmic: (true, true),
        include: Vec::new(),
        shape: Shape::Lines,
        series: series.collect(),
    })
}

/// Returns a panel for each scenario and estimator: the estimate at the last level, as a multiple of
/// the true MI, against the number of blocks; one block is a direct estimate.
fn estimate_against_blocks(results: &Results) -> Vec<Panel> {
    type Of = (String, String);
    let of = |s: &StaircaseResult| -> Of {
        (s.plan.scenario.name.to_string(), s.estimator().to_string())
    };
    let blocks = |s: &StaircaseResult| s.chain.map_or(1, Chain::len) as f64;
    let (low, high) = crate::plot::finite_range(results.staircases.iter().map(blocks));
    let panel = |(scenario, estimator): Of| {
        let shown =
            || results.staircases.iter().filter(|s| of(s) == (scenario.clone(), estimator.clone()));
        let measured = |dim: usize| {
            let points = shown().filter(|s| s.plan.scenario.dim == dim).filter_map(|s| {
                let ratio = s.levels.last()?.ratio()?;
                Some(Point::measured(blocks(s), ratio))
            });
            Series::measured(format!("d = {dim}"), points.collect())
        };
        let mut series: Vec<Series> =
            distinct(shown().map(|s| s.plan.scenario.dim)).into_iter().map(measured).collect();
        let points = vec![Point::new(low, 1.0), Point::new(high, 1.0)];
        series.push(Series { name: "true MI".into(), points, theory: true });
        Panel {
            title: format!("{scenario}: {estimator}"),
            x_name: "blocks of y".into(),
            y_name: "estimate / true MI".into(),
            logarithmic: (true, false),
            include: vec![0.0, 1.1],
            shape: Shape::Lines,
            series,
        }
    };
    distinct(results.staircases.iter().map(of)).into_iter().map(panel).collect()
}

/// Returns the views whose ratios a recipe reports. A recipe about one test reports its ratio only,
/// not that of the single images that it divides by; a recipe about several reports all.
pub fn consistency_views(results: &Results) -> Vec<View> {
    let views = distinct(results.images.iter().map(|result| result.plan.view));
    match views.iter().filter(|view| **view != View::Single).count() {
        1 => views.into_iter().filter(|view| *view != View::Single).collect(),
        _ => views,
    }
}

/// Returns a panel for each view and data set: ratios against the visible rows.
fn consistency(results: &Results) -> Vec<Panel> {
    consistency_views(results).into_iter().flat_map(|view| consistency_of(results, view)).collect()
}

fn consistency_of(results: &Results, view: View) -> Vec<Panel> {
    let ratios = results.ratios(view);
    let (include, ideal) = match view {
        View::Single => (vec![0.0, 1.0], None),
        View::Processed => (vec![0.8, 1.2], Some(1.0)),
        View::Pair => (vec![1.0, 2.1], Some(2.0)),
    };
    let measured = |ratios: &Ratios| {
        let points = ratios.by_rows.iter().map(|(rows, r)| Point::measured(*rows as f64, *r));
        Series::measured(ratios.name(), points.collect())
    };
    let panel = |images: &str| {
        let of_images = ratios.iter().filter(|ratios| ratios.images == images);
        let mut series: Vec<Series> = of_images.map(measured).collect();
        if let Some(ideal) = ideal {
            let xs = series.iter().flat_map(|s| s.points.iter().map(|point| point.x));
            let (low, high) = crate::plot::finite_range(xs);
            let points = vec![Point::new(low, ideal), Point::new(high, ideal)];
            series.push(Series { name: "consistent".into(), points, theory: true });
        }
        Panel {
            title: images.to_string(),
            x_name: "visible rows t".into(),
            y_name: view.ratio().into(),
            logarithmic: (false, false),
            include: include.clone(),
            shape: Shape::Lines,
            series,
        }
    };
    distinct(ratios.iter().map(|ratios| ratios.images.as_str())).into_iter().map(panel).collect()
}

//! The picture of a recipe.

use super::claims::lemma_variance;
use super::paper::{Cell, Statistic};
use super::recipe::{Figure, Recipe};
use super::results::{LevelResult, ROUNDING, Results, StaircaseResult, label};
use crate::report::chart::{Chart, Panel, Point, Series, Shape};
use crate::report::staircase::{self, Line};
use fdime::consistency::View;
use fdime::{Pairing, RunPlan};

/// Steps of the paper's staircase, which times are given for.
pub const STAIRCASE_STEPS: f64 = 20_000.0;

/// The figure as SVG; nothing if there is none, or nothing to draw.
pub fn draw(recipe: &Recipe, results: &Results, cells: &[Cell]) -> Option<String> {
    match recipe.figure {
        Figure::Stairs => stairs(recipe, results),
        Figure::Bars => bars(recipe, results, cells, &Statistic::ALL),
        Figure::VarianceBars => bars(recipe, results, cells, &[Statistic::Variance]),
        Figure::VarianceAgainstN => variance_against_n(recipe, results),
        Figure::Time => time(recipe, results),
        Figure::Consistency => consistency(recipe, results),
        Figure::Grades => None,
    }
}

/// A panel for every scenario and estimator; critics and pairings are lines in it.
fn stairs(recipe: &Recipe, results: &Results) -> Option<String> {
    let mut panels: Vec<(String, staircase::Panel)> = Vec::new();
    let scenarios = results.staircases.iter().map(|s| s.plan.scenario.name.to_string());
    let several = scenarios.clone().any(|name| Some(name) != scenarios.clone().next());
    for staircase in &results.staircases {
        let run = staircase.runs.first()?;
        let label = staircase.label();
        let hint = |level: &LevelResult| {
            format!(
                "{label}, true MI {:.3}: mean {:.3}, variance {:.4} (last {} iterations)",
                level.true_mi, level.mean.value, level.variance.value, staircase.last
            )
        };
        let line = Line {
            label: label.clone(),
            curve: run.curve,
            hints: staircase.levels.iter().map(hint).collect(),
        };
        let title = match several {
            true => format!("{}: {}", staircase.plan.scenario.name, staircase.estimator()),
            false => staircase.estimator().to_string(),
        };
        match panels.iter_mut().find(|(known, _)| *known == title) {
            Some((_, panel)) => panel.lines.push(line),
            None => {
                let batch = staircase.plan.batch;
                let panel = staircase::Panel { title: title.clone(), batch, lines: vec![line] };
                panels.push((title, panel));
            }
        }
    }
    // Scenarios one after the other.
    let order = |title: &str| {
        let scenario = title.split(':').next().unwrap_or_default();
        scenarios.clone().position(|name| name == scenario)
    };
    panels.sort_by_key(|(title, _)| order(title));
    let panels: Vec<staircase::Panel> = panels.into_iter().map(|(_, panel)| panel).collect();
    Some(staircase::render(&panels, &recipe.title))
}

/// A panel for every setting and statistic; estimators are bars, and the paper's values marks on them.
fn bars(
    recipe: &Recipe,
    results: &Results,
    cells: &[Cell],
    statistics: &[Statistic],
) -> Option<String> {
    results.staircases.first()?;
    let mut panels = Vec::new();
    for statistic in statistics {
        let series = results.staircases.iter().map(|staircase| Series {
            name: staircase.estimator().to_string(),
            theory: false,
            points: staircase
                .levels
                .iter()
                .map(|level| {
                    let measured = level.statistic(*statistic);
                    Point {
                        x: level.true_mi,
                        y: measured.value,
                        spread: measured.spread,
                        paper: paper_value(cells, staircase, *statistic, level.true_mi),
                    }
                })
                .collect(),
        });
        panels.push(Panel {
            title: statistic.name().to_string(),
            x_name: "true MI (nats)".into(),
            y_name: format!("{} (logarithmic)", statistic.name()),
            logarithmic: (false, true),
            include: vec![0.01],
            shape: Shape::Bars,
            series: series.collect(),
        });
    }
    Some(Chart { title: recipe.title.clone(), panels }.render())
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
                && cell.dim == staircase.plan.scenario.dim
                && cell.batch == staircase.plan.batch
                && cell.statistic == statistic
                && (cell.true_mi - true_mi).abs() < ROUNDING
        })
        .map(|cell| cell.value)
}

/// A panel for every level: the variance against N, and Lemma 4.2's value, which falls as 1/N.
fn variance_against_n(recipe: &Recipe, results: &Results) -> Option<String> {
    let levels: Vec<f64> =
        results.staircases.first()?.levels.iter().map(|level| level.true_mi).collect();
    let mut estimators: Vec<&str> = Vec::new();
    for staircase in &results.staircases {
        if !estimators.contains(&staircase.estimator()) {
            estimators.push(staircase.estimator());
        }
    }
    let mut panels = Vec::new();
    for &mi in &levels {
        let mut series = Vec::new();
        for estimator in &estimators {
            let mut points: Vec<Point> = results
                .staircases_of(estimator)
                .filter_map(|staircase| {
                    let variance = staircase.at(mi)?.variance;
                    let x = staircase.plan.batch as f64;
                    Some(Point { x, y: variance.value, spread: variance.spread, paper: None })
                })
                .collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            series.push(Series { name: estimator.to_string(), points, theory: false });
        }
        let mut sizes: Vec<usize> = results.staircases.iter().map(|s| s.plan.batch).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let dim = results.staircases.first()?.plan.scenario.dim;
        series.push(Series {
            name: "Lemma 4.2, ~ 1/N".into(),
            points: sizes
                .iter()
                .map(|&n| Point::new(n as f64, lemma_variance(mi, dim, n)))
                .collect(),
            theory: true,
        });
        panels.push(Panel {
            title: format!("true MI {mi:.0}"),
            x_name: "batch size N".into(),
            y_name: "variance".into(),
            logarithmic: (true, true),
            include: Vec::new(),
            shape: Shape::Lines,
            series,
        });
    }
    Some(Chart { title: recipe.title.clone(), panels }.render())
}

/// What a time is of.
pub fn time_name(plan: &RunPlan) -> String {
    match plan.estimator.has_critic() {
        true if plan.pairing == Pairing::Derangement => "deranged, random".into(),
        true => label(plan),
        false => plan.estimator.name().into(),
    }
}

/// The time of a whole staircase against N, and against d.
fn time(recipe: &Recipe, results: &Results) -> Option<String> {
    results.times.first()?;
    let mut panels = Vec::new();
    for against_n in [true, false] {
        let mut series: Vec<Series> = Vec::new();
        let fixed = |plan: &RunPlan| match against_n {
            true => plan.scenario.dim,
            false => plan.batch,
        };
        // The value held fixed: the one that most measurements have.
        let mut counts: Vec<(usize, usize)> = Vec::new();
        for time in &results.times {
            match counts.iter_mut().find(|(value, _)| *value == fixed(time.plan)) {
                Some((_, count)) => *count += 1,
                None => counts.push((fixed(time.plan), 1)),
            }
        }
        let (held, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        for time in results.times.iter().filter(|time| fixed(time.plan) == held) {
            let x = if against_n { time.plan.batch } else { time.plan.scenario.dim } as f64;
            let point = Point::new(x, time.median_ms * STAIRCASE_STEPS / 1e3);
            let name = time_name(time.plan);
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => series.push(Series { name, points: vec![point], theory: false }),
            }
        }
        for series in &mut series {
            series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
        let (title, x_name) = match against_n {
            true => (format!("d = {held}"), "batch size N"),
            false => (format!("N = {held}"), "dimension d"),
        };
        panels.push(Panel {
            title,
            x_name: x_name.into(),
            y_name: "seconds of a staircase".into(),
            logarithmic: (true, true),
            include: Vec::new(),
            shape: Shape::Lines,
            series,
        });
    }
    Some(Chart { title: recipe.title.clone(), panels }.render())
}

/// The ratio that a recipe is about: the one of its last view.
pub fn consistency_view(results: &Results) -> View {
    let mut views = results.images.iter().map(|result| result.plan.view);
    views.rfind(|view| *view != View::Single).unwrap_or(View::Single)
}

/// A panel for every data set: ratios against the visible rows.
fn consistency(recipe: &Recipe, results: &Results) -> Option<String> {
    let view = consistency_view(results);
    let ratios = results.ratios(view);
    let (wanted, name) = match view {
        View::Single => (vec![0.0, 1.0], "I(X;Y) / I(X;X)"),
        View::Processed => (vec![0.8, 1.2], "I([X,X];[Y,h(Y)]) / I(X;Y)"),
        View::Pair => (vec![1.0, 2.1], "I([X,X'];[Y,Y']) / I(X;Y)"),
    };
    let ideal = match view {
        View::Single => None,
        View::Processed => Some(1.0),
        View::Pair => Some(2.0),
    };
    let mut sets: Vec<&str> = Vec::new();
    for ratios in &ratios {
        if !sets.contains(&ratios.images.as_str()) {
            sets.push(&ratios.images);
        }
    }
    let mut panels = Vec::new();
    for set in sets {
        let mut series: Vec<Series> = ratios
            .iter()
            .filter(|ratios| ratios.images == set)
            .map(|ratios| {
                let mut points: Vec<Point> = ratios
                    .by_rows
                    .iter()
                    .map(|(rows, ratio)| Point {
                        x: *rows as f64,
                        y: ratio.value,
                        spread: ratio.spread,
                        paper: None,
                    })
                    .collect();
                points.sort_by(|a, b| a.x.total_cmp(&b.x));
                Series { name: ratios.name(), points, theory: false }
            })
            .collect();
        if let Some(ideal) = ideal {
            let ends = series.iter().flat_map(|s| s.points.iter().map(|point| point.x));
            let (low, high) = ends.fold((f64::INFINITY, 0f64), |(a, b), x| (a.min(x), b.max(x)));
            let points = vec![Point::new(low, ideal), Point::new(high, ideal)];
            series.push(Series { name: "consistent".into(), points, theory: true });
        }
        panels.push(Panel {
            title: set.to_string(),
            x_name: "visible rows t".into(),
            y_name: name.into(),
            logarithmic: (false, false),
            include: wanted.clone(),
            shape: Shape::Lines,
            series,
        });
    }
    (!panels.is_empty()).then(|| Chart { title: recipe.title.clone(), panels }.render())
}

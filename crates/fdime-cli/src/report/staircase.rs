//! The staircase plot: panels with the estimates, their moving average, the true mutual information
//! and the line ln N; beside each panel of a chain, its terms.

use super::terms;
use crate::plot::marks::{self, Band, Rule, Zones};
use crate::plot::{self, Axis, COLUMNS, Dash, Figure, Ink, Key, Stroke};
use fdime::Trace;
use fdime::train::TermSummary;
use serde::{Deserialize, Serialize};

/// One panel.
pub struct Panel<'a> {
    pub title: String,
    /// The batch size, whose logarithm is drawn.
    pub batch: usize,
    pub lines: Vec<Line<'a>>,
    /// The terms of a chain at each level that was finished; `None` for direct runs.
    pub terms: Option<Vec<Vec<TermSummary>>>,
}

/// A run within a panel.
pub struct Line<'a> {
    /// The name that distinguishes it from the others; empty if it is the only one.
    pub label: String,
    pub curve: &'a Curve,
    /// A text for each level, shown under the mouse pointer.
    pub hints: Vec<String>,
}

/// A trace thinned for plotting: for each stretch of `every` iterations the lowest and the highest
/// estimate, and the moving average over about 100 iterations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    pub true_mi: Vec<f32>,
    pub iterations: usize,
    pub every: usize,
    pub low: Vec<f32>,
    pub high: Vec<f32>,
    pub smooth: Vec<f32>,
}

impl Curve {
    /// Returns the curve of a trace, with at most this many points.
    pub fn new(trace: &Trace, points: usize) -> Self {
        let total = trace.true_mi.len() * trace.iterations;
        let every = total.div_ceil(points).max(1);
        let mut curve = Curve {
            true_mi: trace.true_mi.iter().map(|mi| mi.0 as f32).collect(),
            iterations: trace.iterations,
            every,
            low: Vec::new(),
            high: Vec::new(),
            smooth: Vec::new(),
        };
        // Three decimals are more than a figure can show.
        let rounded = |value: f64| ((value * 1e3).round() / 1e3) as f32;
        let mut average = trace.steps.first().map_or(0.0, |step| step.estimate.0);
        for steps in trace.steps.chunks(every) {
            let estimates = || steps.iter().map(|step| step.estimate.0);
            curve.low.push(rounded(estimates().fold(f64::INFINITY, f64::min)));
            curve.high.push(rounded(estimates().fold(f64::NEG_INFINITY, f64::max)));
            estimates().for_each(|estimate| average += 0.01 * (estimate - average));
            curve.smooth.push(rounded(average));
        }
        curve
    }
}

/// Points of a curve in the plot of the command `staircase`.
pub const POINTS: usize = 600;

pub const TRUTH: Stroke = Stroke { ink: Ink::Truth, dash: Dash::Dashed };
const CAP: Stroke = Stroke { ink: Ink::Limit, dash: Dash::Dotted };

/// Returns the plot as an SVG file. Lines with the same label have the same colour.
pub fn render(panels: &[Panel], title: &str) -> String {
    let lines = || panels.iter().flat_map(|panel| &panel.lines);
    let mut labels: Vec<&str> = Vec::new();
    for line in lines() {
        if !labels.contains(&line.label.as_str()) {
            labels.push(&line.label);
        }
    }
    let true_mi = lines().flat_map(|line| &line.curve.true_mi).map(|mi| f64::from(*mi));
    let highest = true_mi.fold(0.0, f64::max);
    let cap = panels.iter().map(Panel::cap).fold(0.0, f64::max);
    let top = (1.3 * highest).max(1.08 * cap);
    let chained = panels.iter().any(|panel| panel.terms.is_some());
    let terms = panels.iter().flat_map(|panel| &panel.terms);
    let terms_range = terms::range(terms.flatten(), panels.iter().flat_map(Panel::true_mi));
    let width = if panels.len() == 1 && !chained { 640.0 } else { 320.0 };
    let plot = |panel: &Panel| {
        let stairs = panel.to_plot(&labels, (-0.08 * top, top));
        let true_mi: Vec<f64> = panel.true_mi().collect();
        let terms = panel.terms.as_ref();
        let terms = terms.map(|terms| terms::panel(terms, &true_mi, terms_range, width));
        [Some(stairs), terms]
    };
    Figure {
        title: title.to_string(),
        legend: legend(&labels, panels),
        panel_size: (width, 232.0),
        columns: if chained { 2 } else { COLUMNS },
        panels: panels.iter().flat_map(plot).flatten().collect(),
    }
    .to_svg()
}

fn legend(labels: &[&str], panels: &[Panel]) -> Vec<Key> {
    let terms = panels.iter().flat_map(|panel| &panel.terms).flatten().flatten();
    let blocks = terms.map(|term| term.block).max().unwrap_or(0);
    let mut keys = match labels {
        [] | [""] => {
            let estimate = Stroke { ink: Ink::Series(0), dash: Dash::Pale };
            let average = Stroke::solid(Ink::Series(0));
            match blocks {
                0 => vec![Key::new(estimate, "estimate"), Key::new(average, "moving average")],
                _ => vec![Key::new(estimate, "sum of the terms"), Key::new(average, "its average")],
            }
        }
        _ => {
            let colours = (0..).map(|index| Stroke::solid(Ink::Series(index)));
            colours.zip(labels).map(|(stroke, label)| Key::new(stroke, *label)).collect()
        }
    };
    keys.push(Key::new(TRUTH, "true MI"));
    let batch = panels.first().map_or(0, |panel| panel.batch);
    let same = panels.iter().all(|panel| panel.batch == batch);
    keys.push(Key::new(CAP, if same { format!("ln {batch}") } else { "ln N".into() }));
    keys.extend(terms::legend(blocks));
    keys
}

impl Panel<'_> {
    fn cap(&self) -> f64 {
        (self.batch as f64).ln()
    }

    /// Returns the true mutual information of each level.
    fn true_mi(&self) -> impl Iterator<Item = f64> {
        let levels = self.lines.first().map_or(&[][..], |line| &line.curve.true_mi);
        levels.iter().map(|mi| f64::from(*mi))
    }

    fn to_plot(&self, labels: &[&str], y_range: (f64, f64)) -> plot::Panel {
        let levels = self.lines.first().map_or(&[][..], |line| &line.curve.true_mi);
        let iterations = self.lines.first().map_or(1, |line| line.curve.iterations) as f64;
        let total = levels.len() as f64 * iterations;
        let x = Axis::linear("iteration", (0.0, total));
        let mut panel = plot::Panel::new(&self.title, x, Axis::linear("nats", y_range));
        let ink = |line: &Line| {
            Ink::Series(labels.iter().position(|label| *label == line.label).unwrap_or(0))
        };
        for line in &self.lines {
            panel.add(line.series(), line.curve.band(ink(line)));
        }
        panel.add(None, marks::Line::steps(TRUTH, self.true_mi(), iterations));
        panel.add(None, Rule::horizontal(CAP, self.cap()));
        for line in &self.lines {
            panel.add(line.series(), line.curve.average(ink(line)));
        }
        let hints = (0..levels.len()).map(|level| {
            let hints = self.lines.iter().filter_map(|line| line.hints.get(level).cloned());
            hints.collect::<Vec<_>>().join("\n")
        });
        panel.add(None, Zones { length: iterations, hints: hints.collect() });
        panel
    }
}

impl Line<'_> {
    fn series(&self) -> Option<&str> {
        Some(self.label.as_str()).filter(|label| !label.is_empty())
    }
}

impl Curve {
    fn band(&self, ink: Ink) -> Band {
        let ends = self.low.iter().zip(&self.high).enumerate();
        let range = |(index, (low, high)): (usize, (&f32, &f32))| {
            ((index * self.every) as f64, f64::from(*low), f64::from(*high))
        };
        Band { ink, ranges: ends.map(range).collect() }
    }

    fn average(&self, ink: Ink) -> marks::Line {
        let values = self.smooth.iter().enumerate();
        let point =
            |(index, value): (usize, &f32)| (((index + 1) * self.every) as f64, f64::from(*value));
        marks::Line { stroke: Stroke::solid(ink), points: values.map(point).collect() }
    }
}

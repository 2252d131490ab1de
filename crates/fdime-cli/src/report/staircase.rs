//! The staircase plot: panels with the raw estimates, their moving average, the true mutual
//! information and the line ln N.

use super::svg::{Scale, escape, number, polyline};
use fdime::Trace;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// One panel.
pub struct Panel<'a> {
    pub title: String,
    /// The batch size, whose logarithm is drawn.
    pub batch: usize,
    pub lines: Vec<Line<'a>>,
}

/// A run within a panel.
pub struct Line<'a> {
    /// What tells it from the others; empty if it is alone.
    pub label: String,
    pub curve: &'a Curve,
    /// What is shown when the mouse rests on a level.
    pub hints: Vec<String>,
}

/// A trace thinned to what a picture shows: for every run of `every` iterations the lowest and the
/// highest estimate, and the moving average over about 100 iterations.
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
    /// A trace in at most so many points.
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
        // Three decimals are more than a picture shows.
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

/// Points of a curve that fill a panel of the command `staircase`.
pub const POINTS: usize = 600;

const HEIGHT: f64 = 220.0;
const LEFT: f64 = 38.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 38.0;
const GAP: f64 = 14.0;
const HEADER: f64 = 64.0;

/// Plain colours first, for rasterisers that know no more; then those for dark surroundings.
const STYLE: &str = "\
.back{fill:#fff}text{font:12px system-ui,sans-serif;fill:#1f2430}\
.soft{fill:#6b7280;font-size:11px}.title{font-weight:600;font-size:13px}\
.grid{stroke:#e5e7eb}.raw{fill:none;stroke-width:1}.smooth{fill:none;stroke-width:1.8}\
.raw0{stroke:#a9c7ee}.smooth0{stroke:#1d4ed8}.raw1{stroke:#f5cf9f}.smooth1{stroke:#b45309}\
.raw2{stroke:#a8dcc3}.smooth2{stroke:#047857}.raw3{stroke:#dcb9f5}.smooth3{stroke:#7e22ce}\
.true{stroke:#111827;fill:none;stroke-width:1.4;stroke-dasharray:6 3}\
.cap{stroke:#be123c;fill:none;stroke-width:1.2;stroke-dasharray:2 3}.hint{fill:transparent}\
@media(prefers-color-scheme:dark){.back{fill:#14171c}text{fill:#e5e7eb}.soft{fill:#9ca3af}\
.grid{stroke:#333a45}.raw0{stroke:#36598f}.smooth0{stroke:#8ab4ff}.raw1{stroke:#7c4a12}\
.smooth1{stroke:#fbbf6b}.raw2{stroke:#14603f}.smooth2{stroke:#4fd8a0}\
.raw3{stroke:#5b3a80}.smooth3{stroke:#d0a2ff}.true{stroke:#f9fafb}\
.cap{stroke:#fb7185}}";

/// Colours there are.
const COLOURS: usize = 4;

/// The picture of all panels, with a headline and a legend. Lines of equal label have one colour.
pub fn render(panels: &[Panel], headline: &str) -> String {
    let columns = panels.len().clamp(1, 3);
    let panel_width = if columns == 1 { 612.0 } else { 300.0 };
    let rows = panels.len().div_ceil(columns);
    let width = columns as f64 * (panel_width + GAP) + GAP;
    let height = HEADER + rows as f64 * (HEIGHT + GAP);
    let lines = || panels.iter().flat_map(|panel| &panel.lines);
    let highest =
        lines().flat_map(|line| line.curve.true_mi.iter()).fold(0f64, |m, v| m.max(f64::from(*v)));
    let cap = panels.iter().map(|panel| (panel.batch as f64).ln()).fold(0.0, f64::max);
    let top = (1.3 * highest).max(1.08 * cap);
    let range = (-0.08 * top, top);
    let mut labels: Vec<&str> = Vec::new();
    for line in lines() {
        if !labels.contains(&line.label.as_str()) {
            labels.push(&line.label);
        }
    }
    let mut svg = String::new();
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\"><title>{title}</title>\
         <style>{STYLE}</style><rect width=\"100%\" height=\"100%\" class=\"back\"/>\
         <text class=\"title\" x=\"{GAP}\" y=\"24\">{title}</text>",
        title = escape(headline)
    );
    legend(&mut svg, &labels, panels);
    for (index, panel) in panels.iter().enumerate() {
        let left = GAP + (index % columns) as f64 * (panel_width + GAP);
        let top = HEADER + (index / columns) as f64 * (HEIGHT + GAP);
        let frame = Frame { left, top, width: panel_width, range };
        frame.draw(&mut svg, panel, &labels);
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String, labels: &[&str], panels: &[Panel]) {
    let mut entries = Vec::new();
    match labels {
        [] | [""] => {
            entries.push(("raw raw0".to_string(), "estimate".to_string()));
            entries.push(("smooth smooth0".into(), "moving average".into()));
        }
        _ => {
            for (index, label) in labels.iter().enumerate() {
                entries.push((format!("smooth smooth{}", index % COLOURS), label.to_string()));
            }
        }
    }
    entries.push(("true".into(), "true MI".into()));
    let batch = panels.first().map_or(0, |panel| panel.batch);
    let cap = match panels.iter().all(|panel| panel.batch == batch) {
        true => format!("ln {batch}"),
        false => "ln N".into(),
    };
    entries.push(("cap".into(), cap));
    let mut x = GAP;
    for (class, text) in entries {
        let _ = write!(
            svg,
            "<path class=\"{class}\" d=\"M{x} 44h26\"/><text class=\"soft\" x=\"{}\" y=\"48\">{}</text>",
            x + 32.0,
            escape(&text)
        );
        x += 56.0 + 7.0 * text.len() as f64;
    }
}

/// Where a panel is, and its scale.
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    range: (f64, f64),
}

impl Frame {
    fn draw(&self, svg: &mut String, panel: &Panel, labels: &[&str]) {
        let Frame { left, top, width, range } = *self;
        let cap = (panel.batch as f64).ln();
        let Some(first) = panel.lines.first() else { return };
        let (true_mi, iterations) = (&first.curve.true_mi, first.curve.iterations as f64);
        let total = true_mi.len() as f64 * iterations;
        let x = Scale { data: (0.0, total), picture: (left + LEFT, left + width) };
        let y = Scale { data: range, picture: (top + HEIGHT - BOTTOM, top + TOP) };
        let _ = write!(
            svg,
            "<text class=\"title\" x=\"{}\" y=\"{}\">{}</text>",
            left + LEFT,
            top + 18.0,
            escape(&panel.title)
        );
        for tick in y.ticks(5) {
            let (at, right) = (y.at(tick), left + width);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{:.1} {at:.1}H{right:.1}\"/>\
                 <text class=\"soft\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                left + LEFT,
                left + LEFT - 6.0,
                at + 4.0,
                number(tick)
            );
        }
        for tick in x.ticks(4) {
            let _ = write!(
                svg,
                "<text class=\"soft\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x.at(tick),
                top + HEIGHT - BOTTOM + 16.0,
                number(tick)
            );
        }
        let _ = write!(
            svg,
            "<text class=\"soft\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">iteration</text>\
             <text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">nats</text>",
            (left + LEFT + left + width) / 2.0,
            top + HEIGHT - 6.0,
            left + LEFT - 6.0,
            top + 18.0,
        );
        let clip = |value: f32| y.at(f64::from(value).clamp(range.0, range.1));
        let colour = |line: &Line| {
            labels.iter().position(|label| *label == line.label).unwrap_or(0) % COLOURS
        };
        let series = |line: &Line| match line.label.as_str() {
            "" => String::new(),
            label => format!(" data-series=\"{}\"", escape(label)),
        };
        for line in &panel.lines {
            let Curve { low, high, every, .. } = line.curve;
            let strokes = low.iter().zip(high).enumerate().flat_map(|(index, (low, high))| {
                let at = x.at((index * every) as f64);
                [(at, clip(*low)), (at, clip(*high))]
            });
            let (path, c, series) = (polyline(strokes), colour(line), series(line));
            let _ = write!(svg, "<path class=\"raw raw{c}\"{series} d=\"{path}\"/>");
        }
        let stairs = true_mi.iter().enumerate().flat_map(|(level, mi)| {
            let start = level as f64 * iterations;
            [(x.at(start), clip(*mi)), (x.at(start + iterations), clip(*mi))]
        });
        let _ = write!(svg, "<path class=\"true\" d=\"{}\"/>", polyline(stairs));
        let (from, to) = (x.picture.0, x.picture.1);
        let _ = write!(svg, "<path class=\"cap\" d=\"M{from:.1} {0:.1}H{to:.1}\"/>", y.at(cap));
        for line in &panel.lines {
            let points = line.curve.smooth.iter().enumerate().map(|(index, value)| {
                (x.at(((index + 1) * line.curve.every) as f64).min(to), clip(*value))
            });
            let (path, c, series) = (polyline(points), colour(line), series(line));
            let _ = write!(svg, "<path class=\"smooth smooth{c}\"{series} d=\"{path}\"/>");
        }
        for level in 0..true_mi.len() {
            let hints: Vec<&str> = panel
                .lines
                .iter()
                .filter_map(|line| line.hints.get(level).map(String::as_str))
                .collect();
            if !hints.is_empty() {
                let _ = write!(
                    svg,
                    "<rect class=\"hint\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
                     <title>{}</title></rect>",
                    x.at(level as f64 * iterations),
                    y.picture.1,
                    x.at(iterations) - x.at(0.0),
                    y.picture.0 - y.picture.1,
                    escape(&hints.join("\n"))
                );
            }
        }
    }
}

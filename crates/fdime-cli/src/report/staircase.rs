//! The staircase plot: one panel an estimator, with the raw estimates, their moving average, the
//! true mutual information and the line ln N.

use super::svg::{Scale, escape, number, polyline};
use fdime::Trace;
use std::fmt::Write;

/// One panel.
pub struct Panel<'a> {
    pub title: String,
    pub trace: &'a Trace,
}

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
.grid{stroke:#e5e7eb}.raw{stroke:#a9c7ee;fill:none;stroke-width:1}\
.smooth{stroke:#1d4ed8;fill:none;stroke-width:1.8}\
.true{stroke:#111827;fill:none;stroke-width:1.4;stroke-dasharray:6 3}\
.cap{stroke:#c2410c;fill:none;stroke-width:1.2;stroke-dasharray:2 3}\
@media(prefers-color-scheme:dark){.back{fill:#14171c}text{fill:#e5e7eb}.soft{fill:#9ca3af}\
.grid{stroke:#333a45}.raw{stroke:#36598f}.smooth{stroke:#8ab4ff}.true{stroke:#f9fafb}\
.cap{stroke:#fb923c}}";

/// The picture of all panels, with a headline and a legend.
pub fn render(panels: &[Panel], headline: &str, batch: usize) -> String {
    let columns = panels.len().clamp(1, 3);
    let panel_width = if columns == 1 { 612.0 } else { 300.0 };
    let rows = panels.len().div_ceil(columns);
    let width = columns as f64 * (panel_width + GAP) + GAP;
    let height = HEADER + rows as f64 * (HEIGHT + GAP);
    let cap = (batch as f64).ln();
    let highest = panels
        .iter()
        .flat_map(|panel| panel.trace.true_mi.iter().map(|mi| mi.0))
        .fold(0.0, f64::max);
    let top = (1.3 * highest).max(1.08 * cap);
    let range = (-0.08 * top, top);
    let mut svg = String::new();
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\"><title>{title}</title>\
         <style>{STYLE}</style><rect width=\"100%\" height=\"100%\" class=\"back\"/>\
         <text class=\"title\" x=\"{GAP}\" y=\"24\">{title}</text>",
        title = escape(headline)
    );
    legend(&mut svg, batch);
    for (index, panel) in panels.iter().enumerate() {
        let left = GAP + (index % columns) as f64 * (panel_width + GAP);
        let top = HEADER + (index / columns) as f64 * (HEIGHT + GAP);
        draw_panel(&mut svg, panel, (left, top), panel_width, range, cap);
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String, batch: usize) {
    let entries = [
        ("raw", "estimate".to_string()),
        ("smooth", "moving average".to_string()),
        ("true", "true MI".to_string()),
        ("cap", format!("ln {batch}")),
    ];
    let mut x = GAP;
    for (class, text) in entries {
        let _ = write!(
            svg,
            "<path class=\"{class}\" d=\"M{x} 44h26\"/><text class=\"soft\" x=\"{}\" y=\"48\">{text}</text>",
            x + 32.0
        );
        x += 56.0 + 7.0 * text.len() as f64;
    }
}

fn draw_panel(
    svg: &mut String,
    panel: &Panel,
    (left, top): (f64, f64),
    width: f64,
    range: (f64, f64),
    cap: f64,
) {
    let trace = panel.trace;
    let total = (trace.true_mi.len() * trace.iterations) as f64;
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
    let clip = |value: f64| y.at(value.clamp(range.0, range.1));
    let estimates: Vec<f64> = trace.steps.iter().map(|step| step.estimate.0).collect();
    let _ = write!(svg, "<path class=\"raw\" d=\"{}\"/>", envelope(&estimates, &x, clip));
    let stairs = trace.true_mi.iter().enumerate().flat_map(|(level, mi)| {
        let start = (level * trace.iterations) as f64;
        [(x.at(start), clip(mi.0)), (x.at(start + trace.iterations as f64), clip(mi.0))]
    });
    let _ = write!(svg, "<path class=\"true\" d=\"{}\"/>", polyline(stairs));
    let (from, to) = (x.picture.0, x.picture.1);
    let _ = write!(svg, "<path class=\"cap\" d=\"M{from:.1} {0:.1}H{to:.1}\"/>", y.at(cap));
    let smooth = smoothed(&estimates).into_iter().map(|(at, value)| (x.at(at), clip(value)));
    let _ = write!(svg, "<path class=\"smooth\" d=\"{}\"/>", polyline(smooth));
}

/// The raw estimates: at every half pixel a stroke from the lowest to the highest of those that
/// fall there, which looks the same as drawing them all and is far smaller.
fn envelope(estimates: &[f64], x: &Scale, y: impl Fn(f64) -> f64) -> String {
    let pixels = 2.0 * (x.picture.1 - x.picture.0) / (x.data.1 - x.data.0);
    let per_stroke = (1.0 / pixels).ceil().max(1.0) as usize;
    let strokes = estimates.chunks(per_stroke).enumerate().flat_map(|(index, run)| {
        let low = run.iter().copied().fold(f64::INFINITY, f64::min);
        let high = run.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let at = x.at((index * per_stroke) as f64);
        [(at, y(low)), (at, y(high))]
    });
    polyline(strokes)
}

/// An exponential moving average over about 100 iterations, at no more than 600 points.
fn smoothed(estimates: &[f64]) -> Vec<(f64, f64)> {
    let every = estimates.len().div_ceil(600).max(1);
    let mut average = estimates.first().copied().unwrap_or(0.0);
    let mut points = Vec::new();
    for (iteration, estimate) in estimates.iter().enumerate() {
        average += 0.01 * (estimate - average);
        if iteration % every == 0 {
            points.push((iteration as f64, average));
        }
    }
    points
}

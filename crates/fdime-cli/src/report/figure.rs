//! Figures of the HTML report: a frame with axes, and what is drawn into it. Colours are classes
//! that the page defines for light and dark.

use super::svg::{Scale, escape, number, shortened};
use std::fmt::Write;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;
/// Letters that fit beside an axis.
const LONGEST_NAME: usize = 36;

/// A figure in the making.
pub struct Figure {
    pub x: Scale,
    pub y: Scale,
    body: String,
}

/// Ranges with no width or with values that are no numbers would break every scale.
fn usable((low, high): (f64, f64)) -> (f64, f64) {
    match (low.is_finite(), high.is_finite()) {
        (true, true) if high - low > 1e-12 * low.abs().max(high.abs()) => (low, high),
        (true, _) => (low - 0.5 * low.abs().max(1.0), low + 0.5 * low.abs().max(1.0)),
        _ => (0.0, 1.0),
    }
}

/// The smallest and the largest of finite values.
pub fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

/// The same with a margin of a twentieth on either side.
pub fn padded((low, high): (f64, f64)) -> (f64, f64) {
    let margin = 0.05 * (high - low);
    (low - margin, high + margin)
}

impl Figure {
    /// Axes over these ranges.
    pub fn new(x_range: (f64, f64), y_range: (f64, f64)) -> Self {
        Figure {
            x: Scale { data: usable(x_range), picture: (LEFT, WIDTH - RIGHT) },
            y: Scale { data: usable(y_range), picture: (HEIGHT - BOTTOM, TOP) },
            body: String::new(),
        }
    }

    /// Anything in picture coordinates.
    pub fn draw(&mut self, markup: std::fmt::Arguments) {
        let _ = self.body.write_fmt(markup);
    }

    /// A line through points in data coordinates; gaps where values are not finite.
    pub fn line(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let mut path = String::new();
        let mut broken = true;
        for (x, y) in points {
            if !(x.is_finite() && y.is_finite()) {
                broken = true;
                continue;
            }
            let command = if broken { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", self.x.at(x), self.y.at(y));
            broken = false;
        }
        self.draw(format_args!("<path class=\"{class}\" d=\"{path}\"/>"));
    }

    /// A vertical line across the figure, with a word beside it.
    pub fn mark(&mut self, class: &str, at: f64, label: &str) {
        let at = self.x.at(at.clamp(self.x.data.0, self.x.data.1));
        // The word stands on the side that has room.
        let (anchor, offset) = if at > WIDTH / 2.0 { ("end", -6.0) } else { ("start", 6.0) };
        self.draw(format_args!(
            "<path class=\"{class}\" d=\"M{at:.1} {TOP}V{}\"/>\
             <text class=\"soft\" text-anchor=\"{anchor}\" x=\"{:.1}\" y=\"{}\">{}</text>",
            HEIGHT - BOTTOM,
            at + offset,
            TOP + 12.0,
            escape(label)
        ));
    }

    /// Bars of equal width: counts of the values over the x range.
    pub fn histogram(values: &[f64], bins: usize, x_range: (f64, f64)) -> Self {
        let x_range = usable(x_range);
        let mut counts = vec![0usize; bins];
        for value in values.iter().filter(|value| value.is_finite()) {
            let share = (value - x_range.0) / (x_range.1 - x_range.0);
            let bin = (share * bins as f64).clamp(0.0, bins as f64 - 1.0);
            counts[bin as usize] += 1;
        }
        let highest = counts.iter().copied().max().unwrap_or(0).max(1);
        let mut figure = Figure::new(x_range, (0.0, 1.18 * highest as f64));
        let width = (figure.x.picture.1 - figure.x.picture.0) / bins as f64;
        for (bin, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            let (left, top) = (LEFT + bin as f64 * width, figure.y.at(count as f64));
            figure.draw(format_args!(
                "<rect class=\"bar\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
                 height=\"{:.1}\"><title>{count}</title></rect>",
                (width - 0.6).max(0.5),
                HEIGHT - BOTTOM - top
            ));
        }
        figure
    }

    /// The finished figure with axes and their names; `title` is what a screen reader says.
    pub fn finish(self, title: &str, x_name: &str, y_name: &str) -> String {
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(title)
        );
        let bottom = HEIGHT - BOTTOM;
        for tick in self.y.ticks(5) {
            let at = self.y.at(tick);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{}\"/>\
                 <text class=\"soft\" text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                number(tick)
            );
        }
        for tick in self.x.ticks(6) {
            let _ = write!(
                svg,
                "<text class=\"soft\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{}\">{}</text>",
                self.x.at(tick),
                bottom + 16.0,
                number(tick)
            );
        }
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{LEFT} {bottom}H{}\"/>\
             <text class=\"soft\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>\
             <text class=\"soft\" text-anchor=\"middle\" transform=\"translate(12 {}) rotate(-90)\">{}</text>",
            WIDTH - RIGHT,
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 6.0,
            escape(&shortened(x_name, LONGEST_NAME)),
            (TOP + bottom) / 2.0,
            escape(&shortened(y_name, LONGEST_NAME))
        );
        svg + &self.body + "</svg>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_survive_empty_constant_and_endless_data() {
        for values in
            [vec![], vec![1.0; 5], vec![1e20; 5], vec![f64::NAN, f64::INFINITY], vec![-1.0, 2.0]]
        {
            let range = padded(range(values.iter().copied()));
            let mut figure = Figure::histogram(&values, 10, range);
            figure.mark("observed", 0.3, "<here>");
            figure.line("train", values.iter().map(|v| (*v, *v)));
            let svg = figure.finish("a & b", "x", "y");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(svg.contains("&lt;here&gt;") && svg.contains("a &amp; b"));
        }
    }
}

use super::super::{Ink, Stroke, px};
use super::{Dot, Frame, Mark};
use maud::{Markup, html};

/// Bars that stand on the low end of the y axis.
pub struct Bars {
    /// The width of a bar in units of x.
    pub width: f64,
    pub ink: Ink,
    pub dots: Vec<Dot>,
}

impl Bars {
    /// Returns a bar for each count of a bin. The bins have equal widths and fill the range.
    pub fn counted(counts: &[usize], (low, high): (f64, f64)) -> Self {
        let width = (high - low) / counts.len() as f64;
        let bars = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let dots = bars.map(|(bin, count)| Dot {
            hint: Some(count.to_string()),
            ..Dot::new(low + (bin as f64 + 0.5) * width, *count as f64)
        });
        Bars { width, ink: Ink::Count, dots: dots.collect() }
    }

    /// Returns the height of the highest bar.
    pub fn max(&self) -> f64 {
        self.dots.iter().map(|dot| dot.y).fold(0.0, f64::max)
    }
}

/// Counts values in bins of equal width over a range. Values outside it are counted in the outermost
/// bins.
pub fn count_in_bins(values: &[f64], bins: usize, (low, high): (f64, f64)) -> Vec<usize> {
    let width = (high - low) / bins as f64;
    let mut counts = vec![0; bins];
    for value in values.iter().filter(|value| value.is_finite()) {
        let bin = ((value - low) / width).clamp(0.0, bins as f64 - 1.0);
        counts[bin as usize] += 1;
    }
    counts
}

impl Mark for Bars {
    fn draw(&self, frame: &Frame) -> Markup {
        html! {
            @for dot in self.dots.iter().filter(|dot| !dot.y.is_nan()) {
                @let (left, right) = (dot.x - self.width / 2.0, dot.x + self.width / 2.0);
                @let (left, right, top) = (frame.x(left), frame.x(right), frame.y(dot.y));
                @let width = px((right - left - 0.8).max(0.6));
                rect class=(self.ink.fill()) x=(px(left)) y=(px(top)) width=(width)
                    height=(px((frame.bottom - top).max(0.6))) {
                    @if let Some(hint) = &dot.hint { title { (hint) } }
                }
                (dot.draw_whisker(frame))
                @if let Some(reference) = dot.reference {
                    path class=(Stroke::solid(Ink::Truth).class())
                        d={ "M" (px(left)) " " (px(frame.y(reference))) "h" (width) } {}
                }
            }
        }
    }
}

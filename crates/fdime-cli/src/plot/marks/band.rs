use super::super::{Dash, Ink, Stroke};
use super::{Frame, Line, Mark};
use maud::Markup;

/// The range between low and high values, drawn as one pale stroke up and down.
pub struct Band {
    pub ink: Ink,
    /// x, and the lowest and highest value there.
    pub ranges: Vec<(f64, f64, f64)>,
}

impl Mark for Band {
    fn draw(&self, frame: &Frame) -> Markup {
        let ends = self.ranges.iter().flat_map(|&(x, low, high)| [(x, low), (x, high)]);
        let stroke = Stroke { ink: self.ink, dash: Dash::Pale };
        Line { stroke, points: ends.collect() }.draw(frame)
    }
}

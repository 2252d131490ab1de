use super::super::{Stroke, px};
use super::{Frame, Mark};
use maud::{Markup, html};
use std::fmt::Write;

/// Points joined by straight lines, with gaps where a coordinate is not a number.
pub struct Line {
    pub stroke: Stroke,
    pub points: Vec<(f64, f64)>,
}

impl Line {
    /// Returns a staircase: each level holds over a stretch of x of the same length.
    pub fn steps(stroke: Stroke, levels: impl Iterator<Item = f64>, length: f64) -> Self {
        let points = levels.enumerate().flat_map(|(index, level)| {
            let start = index as f64 * length;
            [(start, level), (start + length, level)]
        });
        Line { stroke, points: points.collect() }
    }
}

impl Mark for Line {
    fn draw(&self, frame: &Frame) -> Markup {
        let mut path = String::new();
        let mut command = 'M';
        for (x, y) in &self.points {
            if x.is_nan() || y.is_nan() {
                command = 'M';
                continue;
            }
            let _ = write!(path, "{command}{} {}", px(frame.x(*x)), px(frame.y(*y)));
            command = 'L';
        }
        html! { path class=(self.stroke.class()) d=(path) {} }
    }
}

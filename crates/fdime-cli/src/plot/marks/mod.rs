//! Marks: shapes in a panel, in data coordinates.

mod band;
mod bars;
mod boxes;
mod cells;
mod line;
mod points;
mod rule;
mod zones;

pub use band::Band;
pub use bars::{Bars, count_in_bins};
pub use boxes::{Block, Boxes};
pub use cells::{Cells, ColourBar};
pub use line::Line;
pub use points::Points;
pub use rule::Rule;
pub use zones::Zones;

pub use super::panel::Frame;
use super::px;
use maud::{Markup, html};

/// A shape in a panel.
pub trait Mark {
    /// Returns the shape as SVG elements.
    fn draw(&self, frame: &Frame) -> Markup;
}

/// A value, drawn as a point or as a bar.
#[derive(Clone, Default)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    /// The text shown under the mouse pointer.
    pub hint: Option<String>,
    /// The uncertainty of y, drawn above and below it.
    pub whisker: Option<f64>,
    /// Another value of y to compare with, drawn as a short line across a bar.
    pub reference: Option<f64>,
    /// The colour, as `#rrggbb`, if it differs from that of the series.
    pub colour: Option<String>,
}

impl Dot {
    /// Returns a value without further properties.
    pub fn new(x: f64, y: f64) -> Self {
        Dot { x, y, ..Dot::default() }
    }

    fn draw_whisker(&self, frame: &Frame) -> Markup {
        let whisker = self.whisker.filter(|whisker| *whisker > 0.0);
        let ends = whisker.map(|w| (frame.y(self.y - w), frame.y(self.y + w)));
        html! {
            @if let Some((low, high)) = ends {
                path class="axis" d={ "M" (px(frame.x(self.x))) " " (px(low)) "V" (px(high)) } {}
            }
        }
    }
}

use super::super::{Stroke, px};
use super::{Frame, Mark};
use maud::{Markup, html};

/// A straight line across the panel.
pub struct Rule {
    stroke: Stroke,
    place: Place,
    label: String,
}

enum Place {
    X(f64),
    Y(f64),
}

impl Rule {
    /// Returns the line of all points with this y.
    pub fn horizontal(stroke: Stroke, y: f64) -> Self {
        Rule { stroke, place: Place::Y(y), label: String::new() }
    }

    /// Returns the line of all points with this x, with a label beside it.
    pub fn vertical(stroke: Stroke, x: f64, label: &str) -> Self {
        Rule { stroke, place: Place::X(x), label: label.into() }
    }
}

impl Mark for Rule {
    fn draw(&self, frame: &Frame) -> Markup {
        let class = self.stroke.class();
        let x = match self.place {
            Place::X(x) => frame.x(x),
            Place::Y(y) => {
                let (left, right) = (px(frame.left), px(frame.right));
                let path = format!("M{left} {}H{right}", px(frame.y(y)));
                return html! { path class=(class) d=(path) {} };
            }
        };
        // The label stands on the side that has more room.
        let (anchor, offset) = match x > (frame.left + frame.right) / 2.0 {
            true => ("end", -6.0),
            false => ("start", 6.0),
        };
        html! {
            path class=(class)
                d={ "M" (px(x)) " " (px(frame.top)) "V" (px(frame.bottom)) } {}
            @if !self.label.is_empty() {
                text class="soft" text-anchor=(anchor)
                    x=(px(x + offset)) y=(px(frame.top + 12.0)) { (self.label) }
            }
        }
    }
}

use super::super::{Ink, px};
use super::{Frame, Mark};
use maud::{Markup, html};

/// Rectangles around values of x, each from one value of y to another.
pub struct Boxes {
    /// The width of a rectangle in units of x.
    pub width: f64,
    pub boxes: Vec<Block>,
}

/// One rectangle.
pub struct Block {
    pub x: f64,
    pub y: (f64, f64),
    pub ink: Ink,
    /// Whether the background shines through.
    pub pale: bool,
    /// The text shown under the mouse pointer.
    pub hint: String,
}

impl Mark for Boxes {
    fn draw(&self, frame: &Frame) -> Markup {
        let known = |block: &&Block| !block.y.0.is_nan() && !block.y.1.is_nan();
        html! {
            @for block in self.boxes.iter().filter(known) {
                @let left = frame.x(block.x - self.width / 2.0);
                @let right = frame.x(block.x + self.width / 2.0);
                @let (from, to) = (frame.y(block.y.0), frame.y(block.y.1));
                // A gap separates boxes that touch.
                @let gap = (0.25 * (from - to).abs()).min(0.8);
                @let height = (from - to).abs() - gap;
                rect class=(block.ink.fill()) fill-opacity=[block.pale.then_some(".4")]
                    x=(px(left)) y=(px(from.min(to) + gap / 2.0)) width=(px(right - left))
                    height=(px(height)) { title { (block.hint) } }
            }
        }
    }
}

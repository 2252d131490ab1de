use super::super::px;
use super::{Frame, Mark};
use maud::{Markup, html};

/// Invisible stretches of the x axis that show a text under the mouse pointer.
pub struct Zones {
    /// The length of each zone in units of x; the first begins at 0.
    pub length: f64,
    pub hints: Vec<String>,
}

impl Mark for Zones {
    fn draw(&self, frame: &Frame) -> Markup {
        html! {
            @for (index, hint) in self.hints.iter().enumerate() {
                @let left = frame.x(index as f64 * self.length);
                @let right = frame.x((index + 1) as f64 * self.length);
                @if !hint.is_empty() {
                    rect class="hint" x=(px(left)) y=(px(frame.top)) width=(px(right - left))
                        height=(px(frame.bottom - frame.top)) { title { (hint) } }
                }
            }
        }
    }
}

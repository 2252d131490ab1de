use super::super::{Ink, px};
use super::{Dot, Frame, Mark};
use maud::{Markup, html};

/// Dots.
pub struct Points {
    pub radius: f64,
    pub ink: Ink,
    pub dots: Vec<Dot>,
}

impl Mark for Points {
    fn draw(&self, frame: &Frame) -> Markup {
        html! {
            @for dot in self.dots.iter().filter(|dot| !dot.x.is_nan() && !dot.y.is_nan()) {
                @let class = dot.colour.is_none().then(|| self.ink.fill());
                @let opacity = dot.colour.as_ref().map(|_| ".75");
                circle class=[class] fill=[&dot.colour] fill-opacity=[opacity]
                    cx=(px(frame.x(dot.x))) cy=(px(frame.y(dot.y))) r=(self.radius) {
                    @if let Some(hint) = &dot.hint { title { (hint) } }
                }
                (dot.draw_whisker(frame))
            }
        }
    }
}

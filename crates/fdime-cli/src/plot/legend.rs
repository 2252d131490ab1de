//! Legends: names with a sample of the mark for each.

use super::{Ink, Stroke, px};
use maud::{Markup, html};

/// An entry of a legend.
pub struct Key {
    sample: Sample,
    text: String,
}

enum Sample {
    Line(Stroke),
    Bar(Ink),
    Dot(Ink),
}

impl Key {
    /// Returns the entry of a line.
    pub fn new(stroke: Stroke, text: impl Into<String>) -> Self {
        Key { sample: Sample::Line(stroke), text: text.into() }
    }

    /// Returns the entry of bars.
    pub fn bar(ink: Ink, text: impl Into<String>) -> Self {
        Key { sample: Sample::Bar(ink), text: text.into() }
    }

    /// Returns the entry of dots.
    pub fn dot(ink: Ink, text: impl Into<String>) -> Self {
        Key { sample: Sample::Dot(ink), text: text.into() }
    }

    fn draw_sample(&self, x: f64, y: f64) -> Markup {
        match self.sample {
            Sample::Line(stroke) => html! {
                path class=(stroke.class()) d={ "M" (px(x)) " " (px(y)) "h24" } {}
            },
            Sample::Bar(ink) => html! {
                rect class=(ink.fill()) x=(px(x + 6.0)) y=(px(y - 6.0)) width="12" height="12" {}
            },
            Sample::Dot(ink) => html! {
                circle class=(ink.fill()) cx=(px(x + 12.0)) cy=(px(y)) r="3.2" {}
            },
        }
    }
}

/// Returns the entries in as many lines as they need, and the height of those lines.
pub fn draw(keys: &[Key], (left, top): (f64, f64), right: f64) -> (Markup, f64) {
    const LINE: f64 = 18.0;
    let (mut x, mut y) = (left, top);
    let mut places = Vec::new();
    for key in keys {
        let width = 52.0 + 6.6 * key.text.chars().count() as f64;
        if x > left && x + width > right {
            (x, y) = (left, y + LINE);
        }
        places.push((x, y, key));
        x += width;
    }
    let markup = html! {
        @for (x, y, key) in places {
            (key.draw_sample(x, y))
            text class="soft" x=(px(x + 30.0)) y=(px(y + 4.0)) { (key.text) }
        }
    };
    (markup, if keys.is_empty() { 0.0 } else { y - top + LINE })
}

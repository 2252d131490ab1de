//! Legends: names with a sample of the line for each.

use super::{Stroke, px};
use maud::{Markup, html};

/// An entry of a legend.
pub struct Key {
    stroke: Stroke,
    text: String,
}

impl Key {
    pub fn new(stroke: Stroke, text: impl Into<String>) -> Self {
        Key { stroke, text: text.into() }
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
            path class=(key.stroke.class()) d={ "M" (px(x)) " " (px(y)) "h24" } {}
            text class="soft" x=(px(x + 30.0)) y=(px(y + 4.0)) { (key.text) }
        }
    };
    (markup, if keys.is_empty() { 0.0 } else { y - top + LINE })
}

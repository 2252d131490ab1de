//! Figures as SVG: axes, legends, marks and colours for light and dark backgrounds.
//!
//! A [`Figure`] is a grid of [`Panel`]s under a title and a legend. A panel has two [`Axis`] and
//! [`marks`], which are given in data coordinates.

mod axis;
mod legend;
pub mod marks;
mod panel;
mod style;

pub use axis::{Axis, finite_range, number};
pub use legend::Key;
pub use panel::{Margins, Panel};
pub use style::{Dash, Gradient, Ink, Stroke, stylesheet};

use crate::printable::printable;
use maud::{Markup, PreEscaped, html};

/// The space between panels and around them.
const GAP: f64 = 14.0;
/// The usual number of panels next to each other.
pub const COLUMNS: usize = 3;

/// A complete figure: panels in a grid under a title and a legend.
pub struct Figure {
    pub title: String,
    pub legend: Vec<Key>,
    /// Width and height of each panel.
    pub panel_size: (f64, f64),
    /// The most panels next to each other.
    pub columns: usize,
    pub panels: Vec<Panel>,
}

impl Figure {
    /// Returns the SVG file.
    pub fn to_svg(&self) -> String {
        let (panel_width, panel_height) = self.panel_size;
        let columns = self.panels.len().clamp(1, self.columns);
        let rows = self.panels.len().div_ceil(columns);
        let title_width = 7.6 * self.title.chars().count() as f64 + 2.0 * GAP;
        let width = (columns as f64 * (panel_width + GAP) + GAP).max(title_width).ceil();
        let (legend, legend_height) = legend::draw(&self.legend, (GAP, 46.0), width - GAP);
        let header = 44.0 + legend_height;
        let height = (header + rows as f64 * (panel_height + GAP)).ceil();
        let corner = |index: usize| {
            let (row, column) = ((index / columns) as f64, (index % columns) as f64);
            (GAP + column * (panel_width + GAP), header + row * (panel_height + GAP))
        };
        let svg = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (height) }
                width=(width) height=(height) role="img" {
                title { (self.title) }
                style { (maud::PreEscaped(stylesheet())) }
                rect width="100%" height="100%" class="back" {}
                text class="title" x=(GAP) y="24" { (self.title) }
                (legend)
                @for (index, panel) in self.panels.iter().enumerate() {
                    (panel.draw(corner(index), self.panel_size))
                }
            }
        };
        well_formed(svg).into_string() + "\n"
    }
}

/// Returns the markup without characters that XML does not allow. Every figure goes through here;
/// what is markup in a text is escaped before.
fn well_formed(svg: Markup) -> Markup {
    PreEscaped(printable(&svg.into_string()))
}

/// Returns a panel under a legend as part of an HTML page that includes the [`stylesheet`]. A
/// screen reader reads out the label.
pub fn inline(panel: &Panel, legend: &[Key], label: &str, (width, height): (f64, f64)) -> Markup {
    let (legend, top) = legend::draw(legend, (panel.margins.left, 8.0), width);
    well_formed(html! {
        svg viewBox={ "0 0 " (width) " " (height + top) } role="img" aria-label=(label) {
            (legend)
            (panel.draw((0.0, top), (width, height)))
        }
    })
}

/// Returns a coordinate with the precision of a tenth of a pixel.
fn px(value: f64) -> String {
    format!("{value:.1}")
}

/// Returns the text, cut to at most `max_length` characters with an ellipsis at the end.
pub fn shortened(text: &str, max_length: usize) -> String {
    if text.chars().count() <= max_length {
        return text.to_string();
    }
    text.chars().take(max_length - 1).chain(['…']).collect()
}

/// Returns labels of places along an axis of this length: cut where they are long, and only every
/// k-th of them where places are narrow. The others are empty.
pub fn place_labels<'a>(
    names: impl ExactSizeIterator<Item = &'a str>,
    length: f64,
    max_length: usize,
) -> Vec<String> {
    const LABEL_HEIGHT: f64 = 11.0;
    let every = (LABEL_HEIGHT * names.len() as f64 / length).ceil().max(1.0) as usize;
    let label = |(index, name): (usize, &str)| match index % every {
        0 => shortened(name, max_length),
        _ => String::new(),
    };
    names.enumerate().map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::marks::{Bars, Dot, Line, Points, Rule, count_in_bins};
    use super::*;

    fn panel(values: &[f64], logarithmic: bool) -> Panel {
        let axis = |name: &str| Axis::fitted(name, values.iter().copied(), logarithmic);
        let mut panel = Panel::new("a < b", axis("x & y"), axis("z"));
        let dots =
            || values.iter().map(|v| Dot { whisker: Some(0.1), ..Dot::new(*v, *v) }).collect();
        let stroke = Stroke::solid(Ink::Series(0));
        let points = values.iter().map(|v| (*v, *v)).collect();
        panel.add(Some("<one>"), Line { stroke, points });
        panel.add(None, Points { radius: 3.0, ink: Ink::Muted, dots: dots() });
        panel.add(None, Bars { width: 0.5, ink: Ink::Series(12), dots: dots() });
        let range = finite_range(values.iter().copied());
        panel.add(None, Bars::counted(&count_in_bins(values, 10, range), range));
        panel.add(None, Rule::vertical(stroke, 0.3, "<here>"));
        panel
    }

    #[test]
    fn figures_of_empty_constant_negative_and_infinite_data_have_finite_coordinates() {
        let lists = [
            &[][..],
            &[1.0; 5],
            &[1e20; 5],
            &[0.0, -1.0, 3.0],
            &[f64::NAN, f64::INFINITY],
            &[1e-9, 1e9],
        ];
        for values in lists {
            for logarithmic in [false, true] {
                let figure = Figure {
                    title: "t & u".into(),
                    legend: vec![Key::new(Stroke::solid(Ink::Truth), "<key>")],
                    panel_size: (300.0, 200.0),
                    columns: COLUMNS,
                    panels: vec![panel(values, logarithmic)],
                };
                let svg = figure.to_svg();
                for text in ["a &lt; b", "x &amp; y", "t &amp; u", "&lt;key&gt;", "&lt;here&gt;"] {
                    assert!(svg.contains(text), "{text}");
                }
                assert!(svg.contains("data-series=\"&lt;one&gt;\""));
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn long_text_is_shortened() {
        assert_eq!((shortened("abcd", 4), shortened("abcde", 4)), ("abcd".into(), "abc…".into()));
    }

    /// Panics if the text is not well-formed XML, as far as figures use it: elements with quoted
    /// attributes, the references of escaped characters, and the characters that XML allows.
    fn check_xml(text: &str) {
        let allowed =
            |c: char| matches!(c, '\n' | '\t') || (' '..'\u{fffe}').contains(&c) || c > '\u{ffff}';
        assert!(text.chars().all(allowed), "{text:?}");
        for part in text.split('&').skip(1) {
            let known = ["lt;", "gt;", "amp;", "quot;"].iter().any(|name| part.starts_with(name));
            assert!(known, "&{part}");
        }
        let mut open: Vec<&str> = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find('<') {
            let tag = &rest[start + 1..];
            let mut quoted = false;
            let end = tag.find(|c| {
                quoted ^= c == '"';
                assert!(c != '<', "{tag}");
                c == '>' && !quoted
            });
            let (tag, after) = tag.split_at(end.expect("a tag ends"));
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name)),
                None => open.push(tag.split(' ').next().unwrap()),
            }
            rest = &after[1..];
        }
        assert!(open.is_empty(), "{open:?}");
    }

    proptest::proptest! {
        #[test]
        fn figures_are_well_formed_whatever_names_contain(
            name in proptest::collection::vec(proptest::prelude::any::<char>(), 0..12),
            bad in "[\u{0}-\u{9f}\u{202a}-\u{202e}\u{2066}-\u{2069}\u{fffe}\u{ffff}<>&\"']{0,8}",
        ) {
            let name = name.into_iter().collect::<String>() + &bad;
            let axis = || Axis::categories(&name, vec![name.clone(), shortened(&name, 3)]);
            let mut panel = Panel::new(&name, axis(), axis());
            let dot = Dot { hint: Some(name.clone()), ..Dot::new(0.0, 1.0) };
            panel.add(Some(&name), Points { radius: 2.0, ink: Ink::Muted, dots: vec![dot] });
            panel.add(None, Rule::vertical(Stroke::solid(Ink::Truth), 0.5, &name));
            let key = || vec![Key::new(Stroke::solid(Ink::Truth), &name)];
            check_xml(&inline(&panel, &key(), &name, (300.0, 200.0)).into_string());
            let panels = vec![panel];
            let figure = Figure { title: name.clone(), legend: key(), panel_size: (300.0, 200.0), columns: COLUMNS, panels };
            check_xml(&figure.to_svg());
        }
    }
}

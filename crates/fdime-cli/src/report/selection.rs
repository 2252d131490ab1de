//! The gains of selected features beside what each tells alone.

use crate::plot::marks::{Bars, Dot, Line};
use crate::plot::{Axis, Dash, Figure, Ink, Key, Margins, Panel, Stroke, place_labels};
use fdime::estimate::SelectedFeature;

const GAIN: Ink = Ink::Series(0);
const ALONE: Ink = Ink::Muted;
const BAR_WIDTH: f64 = 0.36;
/// The width of the place of a feature, and the range of the widths of all.
const PLACE: f64 = 64.0;
const WIDTHS: (f64, f64) = (320.0, 900.0);
const LABEL_LENGTH: usize = 18;

/// Returns the chart as an SVG file.
pub fn render(features: &[SelectedFeature], title: &str) -> String {
    let width = (PLACE * features.len() as f64).clamp(WIDTHS.0, WIDTHS.1);
    let names = features.iter().map(|feature| feature.feature.as_str());
    let x = Axis::categories("", place_labels(names, width, LABEL_LENGTH));
    let room = x.label_width();
    let ends = features.iter().flat_map(|feature| [feature.ci_high, feature.alone_nats]);
    let top = ends.fold(0.0, f64::max).max(1e-3);
    let mut panel = Panel::new("", x, Axis::linear("nats", (0.0, 1.06 * top)));
    panel.vertical_labels = true;
    panel.margins = Margins { top: 8.0, bottom: room + 20.0, ..Margins::default() };
    let bars = |ink: Ink, shift: f64, kind: &str, value: fn(&SelectedFeature) -> f64| {
        let dot = |(place, feature): (usize, &SelectedFeature)| Dot {
            hint: Some(format!("{}, {kind}: {:.3} nats", feature.feature, value(feature))),
            ..Dot::new(place as f64 + shift, value(feature))
        };
        let dots = features.iter().enumerate().map(dot).collect();
        Bars { width: BAR_WIDTH, ink, dots }
    };
    panel.add(Some("alone"), bars(ALONE, BAR_WIDTH / 2.0, "alone", |f| f.alone_nats));
    panel.add(Some("gain"), bars(GAIN, -BAR_WIDTH / 2.0, "gain", |f| f.gain_nats));
    let intervals = features.iter().enumerate().flat_map(|(place, feature)| {
        let middle = place as f64 - BAR_WIDTH / 2.0;
        [(middle, feature.ci_low), (middle, feature.ci_high), (f64::NAN, f64::NAN)]
    });
    let stroke = Stroke { ink: Ink::Truth, dash: Dash::Solid };
    panel.add(None, Line { stroke, points: intervals.collect() });
    let margins = panel.margins;
    let panel_size = (width + margins.left + margins.right, 220.0 + margins.top + margins.bottom);
    let legend = vec![
        Key::bar(GAIN, "gain given the features before, 95% interval"),
        Key::bar(ALONE, "alone"),
    ];
    Figure { title: title.to_string(), legend, panel_size, columns: 1, panels: vec![panel] }
        .to_svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_two_bars() {
        let feature = |rank: usize, name: &str| SelectedFeature {
            rank,
            feature: name.into(),
            column: rank,
            gain_nats: 0.5 / rank as f64,
            ci_low: 0.2 / rank as f64,
            ci_high: 0.7,
            alone_nats: 0.5,
            redundancy_nats: 0.5 - 0.5 / rank as f64,
            p_value: 0.001,
            p_adjusted: 0.01,
            score_nats: 0.5,
            partner: None,
        };
        let svg = render(&[feature(1, "<a>"), feature(2, "b")], "Features");
        assert_eq!(svg.matches("nats</title>").count(), 4);
        assert!(svg.contains("&lt;a&gt;, gain: 0.500 nats") && !svg.contains("<a>"));
        assert!(render(&[], "Features").contains("</svg>"), "none is not an error");
    }
}

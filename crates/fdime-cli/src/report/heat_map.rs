//! A heat map of a symmetric matrix.

use super::svg::{escape, number, shortened};
use std::fmt::Write;

/// Plain colours first, for rasterisers that know no more; then those for dark surroundings.
const STYLE: &str = "\
.back{fill:#fff}text{font:11px system-ui,sans-serif;fill:#1f2430}.title{font-weight:600;\
font-size:13px}.none{fill:#eceef1}\
@media(prefers-color-scheme:dark){.back{fill:#14171c}text{fill:#e5e7eb}.none{fill:#262b33}}";

/// From little to much: yellow over green to blue, readable without telling red from green.
fn colour(share: f64) -> String {
    const STOPS: [[f64; 3]; 4] =
        [[247.0, 244.0, 215.0], [127.0, 205.0, 187.0], [44.0, 127.0, 184.0], [20.0, 40.0, 110.0]];
    let at = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let low = (at as usize).min(STOPS.len() - 2);
    let mix = |k: usize| {
        (STOPS[low][k] + (STOPS[low + 1][k] - STOPS[low][k]) * (at - low as f64)).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

/// The map: `cells[i * n + j]` is the value of names i and j, nothing where there is none.
pub fn render(names: &[String], cells: &[Option<f64>], title: &str) -> String {
    let n = names.len();
    let cell = (640.0 / n as f64).clamp(8.0, 44.0);
    // Every name is written as long as the cells leave room for letters.
    let every = (11.0 / cell).ceil().max(1.0) as usize;
    let shown = |name: &String| shortened(name, 18);
    let longest = names.iter().map(|name| shown(name).chars().count()).max().unwrap_or(0);
    let margin = 20.0 + 6.4 * longest as f64;
    let side = cell * n as f64;
    let (width, height) = (margin + side + 90.0, 40.0 + side + margin);
    let largest = cells.iter().flatten().copied().fold(0.0, f64::max).max(1e-6);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\"><title>{title}</title>\
         <style>{STYLE}</style><rect width=\"100%\" height=\"100%\" class=\"back\"/>\
         <text class=\"title\" x=\"14\" y=\"24\">{title}</text>",
        title = escape(title)
    );
    let top = 40.0;
    for (i, name) in names.iter().enumerate() {
        for (j, other) in names.iter().enumerate() {
            let (x, y) = (margin + j as f64 * cell, top + i as f64 * cell);
            let value = cells[i * n + j];
            let (style, words) = match value {
                Some(value) => {
                    (format!("fill=\"{}\"", colour(value / largest)), format!("{value:.3}"))
                }
                None => ("class=\"none\"".into(), "none".into()),
            };
            let _ = write!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{0:.1}\" height=\"{0:.1}\" {style}>\
                 <title>{1}, {2}: {words}</title></rect>",
                cell - 1.0,
                escape(name),
                escape(other)
            );
            if cell >= 34.0
                && let Some(value) = value
            {
                let ink = if value / largest > 0.45 { "#ffffff" } else { "#1f2430" };
                let _ = write!(
                    svg,
                    "<text text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\" \
                     style=\"fill:{ink}\">{value:.2}</text>",
                    x + (cell - 1.0) / 2.0,
                    y + cell / 2.0 + 4.0
                );
            }
        }
        if i % every == 0 {
            let middle = top + (i as f64 + 0.5) * cell + 4.0;
            let below = margin + (i as f64 + 0.5) * cell + 4.0;
            let _ = write!(
                svg,
                "<text text-anchor=\"end\" x=\"{:.1}\" y=\"{middle:.1}\">{name}</text>\
                 <text text-anchor=\"end\" transform=\"translate({below:.1} {:.1}) rotate(-90)\">{name}</text>",
                margin - 6.0,
                top + side + 6.0,
                name = escape(&shown(name))
            );
        }
    }
    let steps = 40;
    let (left, tall) = (margin + side + 18.0, side.clamp(60.0, 220.0));
    for step in 0..steps {
        let share = (step as f64 + 0.5) / steps as f64;
        let _ = write!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"14\" height=\"{:.2}\" fill=\"{}\"/>",
            top + tall * (1.0 - (step + 1) as f64 / steps as f64),
            tall / steps as f64 + 0.5,
            colour(share)
        );
    }
    for (share, value) in [(0.0, 0.0), (0.5, largest / 2.0), (1.0, largest)] {
        let rounded = (value * 100.0).round() / 100.0;
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left + 20.0,
            top + tall * (1.0 - share) + 4.0,
            number(rounded)
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_cells_without_a_value_are_shown_as_such() {
        let names = ["<a>".to_string(), "b".to_string()];
        let svg = render(&names, &[None, Some(0.5), Some(0.5), None], "MI & more");
        assert!(svg.contains("&lt;a&gt;") && !svg.contains("<a>"));
        assert!(svg.contains("MI &amp; more") && svg.contains("0.50"));
        assert_eq!(svg.matches("class=\"none\"").count(), 2);
    }

    #[test]
    fn many_names_stay_within_the_picture() {
        let names: Vec<String> = (0..200).map(|k| format!("column_{k}")).collect();
        let svg = render(&names, &vec![Some(1.0); 200 * 200], "MI");
        assert!(svg.matches("<text").count() < 2 * 110 + 10, "labels are thinned out");
    }
}

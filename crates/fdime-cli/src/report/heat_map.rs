//! A heat map of a matrix.

use crate::plot::marks::{Cells, ColourBar};
use crate::plot::{Axis, COLUMNS, Figure, Margins, Panel, place_labels};

/// The smallest cell that a value of two decimals fits into.
const MIN_LABELLED_CELL: f64 = 34.0;

/// The space of the name of an axis.
const AXIS_NAME: f64 = 20.0;

/// Returns the map as an SVG file. `cells[i * n + j]` is the value of names i and j, or `None`.
pub fn render(names: &[String], cells: &[Option<f64>], title: &str) -> String {
    draw(names, cells, title, None)
}

/// As [`render`], for values from name i to name j.
pub fn render_directed(names: &[String], cells: &[Option<f64>], title: &str) -> String {
    draw(names, cells, title, Some(["to", "from"]))
}

/// Returns the map with these names of its axes.
fn draw(names: &[String], cells: &[Option<f64>], title: &str, axes: Option<[&str; 2]>) -> String {
    let n = names.len() as f64;
    let max = cells.iter().flatten().copied().fold(0.0, f64::max).max(1e-6);
    let side = n * (640.0 / n).clamp(8.0, 44.0);
    let panel = panel_with_axes("", names, cells, (max, side), axes);
    let Margins { left, right, bottom, .. } = panel.margins;
    Figure {
        title: title.to_string(),
        legend: Vec::new(),
        panel_size: (left + side + right, side + bottom),
        columns: COLUMNS,
        panels: vec![panel],
    }
    .to_svg()
}

/// Returns the map as a panel whose cells fill a square with this side; `max` is the value of the
/// full colour. Margins have room for names and colours.
pub fn panel(title: &str, names: &[String], cells: &[Option<f64>], max: f64, side: f64) -> Panel {
    panel_with_axes(title, names, cells, (max, side), None)
}

fn panel_with_axes(
    title: &str,
    names: &[String],
    cells: &[Option<f64>],
    (max, side): (f64, f64),
    axes: Option<[&str; 2]>,
) -> Panel {
    let n = names.len();
    let labels = place_labels(names.iter().map(String::as_str), side, 18);
    let hints = cells.iter().enumerate().map(|(index, value)| {
        let value = value.map_or("none".to_string(), |value| format!("{value:.3}"));
        let between = if axes.is_some() { " →" } else { "," };
        format!("{}{between} {}: {value}", names[index / n], names[index % n])
    });

    let [x_name, y_name] = axes.unwrap_or_default();
    let x = Axis::categories(x_name, labels.clone());
    let margin = 10.0 + x.label_width() + axes.map_or(0.0, |_| AXIS_NAME);
    let y = Axis::categories(y_name, labels.into_iter().rev().collect());
    let mut panel = Panel::new(title, x, y);
    panel.vertical_labels = true;
    panel.margins = Margins { left: margin, right: 76.0, top: 0.0, bottom: margin };
    panel.add(
        None,
        Cells {
            columns: n,
            values: cells.to_vec(),
            hints: hints.collect(),
            max,
            labelled: side / n as f64 >= MIN_LABELLED_CELL,
        },
    );
    panel.add(None, ColourBar { max });
    panel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_cells_without_a_value_are_marked() {
        let names = ["<a>".to_string(), "b".to_string()];
        let svg = render(&names, &[None, Some(0.5), Some(0.5), None], "MI & more");
        assert!(svg.contains("&lt;a&gt;") && !svg.contains("<a>"));
        assert!(svg.contains("MI &amp; more") && svg.contains("0.50"));
        assert_eq!(svg.matches("class=\"none\"").count(), 2);
    }

    #[test]
    fn many_names_are_thinned_out() {
        let names: Vec<String> = (0..200).map(|k| format!("column_{k}")).collect();
        let svg = render(&names, &vec![Some(1.0); 200 * 200], "MI");
        assert!(svg.matches("<text").count() < 2 * 110 + 10);
    }
}

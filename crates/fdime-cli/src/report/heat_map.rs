//! A heat map of a matrix.

use crate::plot::marks::{Cells, ColourBar};
use crate::plot::{Axis, COLUMNS, Figure, Margins, Panel, place_labels};

/// The smallest cell that a value of two decimals fits into.
const MIN_LABELLED_CELL: f64 = 34.0;

/// The smallest height of a map, which that of the colours beside it needs.
const MIN_HEIGHT: f64 = 66.0;

/// The space of the name of an axis.
const AXIS_NAME: f64 = 20.0;

/// A matrix of values.
pub struct HeatMap<'a> {
    pub rows: &'a [String],
    pub columns: &'a [String],
    /// The values row by row; `None` is drawn in grey.
    pub cells: &'a [Option<f64>],
    /// The names of the horizontal and the vertical axis, for values from a row to a column.
    pub axes: Option<[&'a str; 2]>,
}

impl<'a> HeatMap<'a> {
    /// Returns the map of values between any two of these names.
    pub fn square(names: &'a [String], cells: &'a [Option<f64>]) -> Self {
        HeatMap { rows: names, columns: names, cells, axes: None }
    }

    /// Returns the map as an SVG file.
    pub fn to_svg(&self, title: &str) -> String {
        let max = self.cells.iter().flatten().copied().fold(0.0, f64::max).max(1e-6);
        let cell = (640.0 / self.rows.len().max(self.columns.len()) as f64).clamp(8.0, 44.0);
        let panel = self.panel("", max, cell);
        let Margins { left, right, bottom, .. } = panel.margins;
        let width = cell * self.columns.len() as f64;
        // The colours need some height, too.
        let height = (cell * self.rows.len() as f64).max(MIN_HEIGHT);
        Figure {
            title: title.to_string(),
            legend: Vec::new(),
            panel_size: (left + width + right, height + bottom),
            columns: COLUMNS,
            panels: vec![panel],
        }
        .to_svg()
    }

    /// Returns the map as a panel for cells of this size; `max` is the value of the full colour.
    /// Margins have room for names and colours.
    pub fn panel(&self, title: &str, max: f64, cell: f64) -> Panel {
        let HeatMap { rows, columns, cells, axes } = self;
        let labels = |names: &[String]| {
            place_labels(names.iter().map(String::as_str), cell * names.len() as f64, 18)
        };
        let hints = cells.iter().enumerate().map(|(index, value)| {
            let value = value.map_or("none".to_string(), |value| format!("{value:.3}"));
            let between = if axes.is_some() { " →" } else { "," };
            let (row, column) = (&rows[index / columns.len()], &columns[index % columns.len()]);
            format!("{row}{between} {column}: {value}")
        });

        let [x_name, y_name] = axes.unwrap_or_default();
        let x = Axis::categories(x_name, labels(columns));
        let y = Axis::categories(y_name, labels(rows).into_iter().rev().collect());
        let margin = |axis: &Axis| 10.0 + axis.label_width() + axes.map_or(0.0, |_| AXIS_NAME);
        let (left, bottom) = (margin(&y), margin(&x));
        let mut panel = Panel::new(title, x, y);
        panel.vertical_labels = true;
        panel.margins = Margins { left, right: 76.0, top: 0.0, bottom };
        panel.add(
            None,
            Cells {
                columns: columns.len(),
                values: cells.to_vec(),
                hints: hints.collect(),
                max,
                labelled: cell >= MIN_LABELLED_CELL,
            },
        );
        panel.add(None, ColourBar { max });
        panel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_cells_without_a_value_are_marked() {
        let names = ["<a>".to_string(), "b".to_string()];
        let cells = [None, Some(0.5), Some(0.5), None];
        let svg = HeatMap::square(&names, &cells).to_svg("MI & more");
        assert!(svg.contains("&lt;a&gt;") && !svg.contains("<a>"));
        assert!(svg.contains("MI &amp; more") && svg.contains("0.50"));
        assert_eq!(svg.matches("class=\"none\"").count(), 2);
    }

    #[test]
    fn rows_and_columns_may_differ() {
        let names =
            |names: &[&str]| -> Vec<String> { names.iter().map(|n| n.to_string()).collect() };
        let (rows, columns) = (names(&["r"]), names(&["a", "b", "c"]));
        let cells = [Some(0.1), None, Some(0.3)];
        let svg =
            HeatMap { rows: &rows, columns: &columns, cells: &cells, axes: None }.to_svg("MI");
        for hint in ["r, a: 0.100", "r, b: none", "r, c: 0.300"] {
            assert!(svg.contains(hint), "{svg}");
        }
    }

    #[test]
    fn many_names_are_thinned_out() {
        let names: Vec<String> = (0..200).map(|k| format!("column_{k}")).collect();
        let svg = HeatMap::square(&names, &vec![Some(1.0); 200 * 200]).to_svg("MI");
        assert!(svg.matches("<text").count() < 2 * 110 + 10);
    }
}

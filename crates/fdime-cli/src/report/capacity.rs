//! The figure of a capacity: the best input distribution, what each level contributes, and which
//! levels can be told apart.

use super::heat_map::HeatMap;
use crate::commands::amount;
use crate::plot::marks::{Bars, Dot, Points, Rule};
use crate::plot::{Axis, COLUMNS, Dash, Figure, Ink, Key, Margins, Panel, Stroke, place_labels};
use fdime::Nats;
use fdime::estimate::{CapacityRecord, LevelRecord};

/// Width and height of a panel.
const PANEL: (f64, f64) = (400.0, 330.0);

/// The most characters of a level's name.
const MAX_NAME: usize = 14;

/// Returns the figure as an SVG file, with amounts in bits or in nats.
pub fn render(capacity: &CapacityRecord, bits: bool) -> String {
    let value = amount(Nats(capacity.capacity_nats), bits);
    let unit = if bits { "bits" } else { "nats" };
    let legend = vec![
        Key::bar(Ink::Series(0), "share that reaches the capacity"),
        Key::new(Stroke::solid(Ink::Truth), "observed share"),
        Key::new(CAPACITY, format!("capacity: {value:.3} {unit}")),
    ];
    Figure {
        title: match &capacity.file {
            Some(file) => format!("Capacity of the channel in {file}"),
            None => "Capacity of the channel".into(),
        },
        legend,
        panel_size: PANEL,
        columns: COLUMNS,
        panels: vec![
            shares(&capacity.levels),
            divergences(capacity, bits),
            discriminability(capacity),
        ],
    }
    .to_svg()
}

const CAPACITY: Stroke = Stroke { ink: Ink::Limit, dash: Dash::Dashed };

/// Returns a panel with a place for each level.
fn panel(title: &str, levels: &[LevelRecord], y: Axis) -> Panel {
    let mut margins = Margins::default();
    let length = PANEL.0 - margins.left - margins.right;
    let labels = place_labels(levels.iter().map(|level| level.level.as_str()), length, MAX_NAME);
    let x = Axis::categories("input", labels);
    let is_vertical = !x.labels_fit(length);
    if is_vertical {
        margins.bottom += x.label_width();
    }
    let mut panel = Panel::new(title, x, y);
    panel.vertical_labels = is_vertical;
    panel.margins = margins;
    panel
}

fn shares(levels: &[LevelRecord]) -> Panel {
    let largest = levels.iter().flat_map(|level| [level.share, level.optimal_share]);
    let y = Axis::linear("share", (0.0, 1.08 * largest.fold(0.0, f64::max)));
    let mut panel = panel("Input distribution", levels, y);
    let dots = levels.iter().enumerate().map(|(place, level)| Dot {
        hint: Some(format!(
            "{}: {:.3}, observed {:.3}",
            level.level, level.optimal_share, level.share
        )),
        reference: Some(level.share),
        ..Dot::new(place as f64, level.optimal_share)
    });
    panel.add(None, Bars { width: 0.7, ink: Ink::Series(0), dots: dots.collect() });
    panel
}

/// Returns D_s of each level, which is the capacity for levels in use.
fn divergences(capacity: &CapacityRecord, bits: bool) -> Panel {
    let unit = if bits { "bits" } else { "nats" };
    let values = capacity.levels.iter().map(|level| amount(Nats(level.divergence_nats), bits));
    let capacity_line = amount(Nats(capacity.capacity_nats), bits);
    let largest = values.clone().fold(capacity_line, f64::max);
    let y = Axis::linear(unit, (0.0, 1.15 * largest.max(1e-3)));
    let mut panel = panel("Information of each level", &capacity.levels, y);
    panel.add(None, Rule::horizontal(CAPACITY, capacity_line));
    let dots = values.zip(&capacity.levels).enumerate().map(|(place, (value, level))| Dot {
        hint: Some(format!("{}: {value:.3} {unit}", level.level)),
        ..Dot::new(place as f64, value)
    });
    panel.add(None, Points { radius: 4.5, ink: Ink::Series(0), dots: dots.collect() });
    panel
}

/// Returns the information about a fair choice between two levels, from 0 to 1 bit.
fn discriminability(capacity: &CapacityRecord) -> Panel {
    let names: Vec<String> = capacity.levels.iter().map(|level| level.level.clone()).collect();
    let levels = names.len();
    let value = |(index, bits): (usize, &f64)| (index / levels != index % levels).then_some(*bits);
    let cells = capacity.discriminability_bits.iter().flatten().enumerate().map(value);
    let cells: Vec<Option<f64>> = cells.collect();
    let (width, height) = PANEL;
    let top = Margins::default().top;
    // Squares, with room for names on the left and below, and for the colours on the right.
    let cell = 0.62 * height / levels as f64;
    let map = HeatMap::square(&names, &cells);
    let mut panel = map.panel("Bits about a choice between two", 1.0, cell);
    let Margins { left, right, .. } = panel.margins;
    let side = (width - left - right).min(height - top - left);
    panel.margins = Margins { left, right: width - left - side, top, bottom: height - top - side };
    panel
}

//! The figure of a study of power: power and intervals against the number of rows.

use crate::commands::amount;
use crate::plot::marks::{Dot, Line, Points, Rule};
use crate::plot::{Axis, Dash, Figure, Ink, Key, Panel, Stroke, finite_range};
use fdime::Nats;
use fdime::estimate::{PowerRecord, SizeFigures, StudySize};

const SIMULATED: Ink = Ink::Series(0);
const TARGET: Stroke = Stroke { ink: Ink::Limit, dash: Dash::Dashed };
const TRUTH: Stroke = Stroke { ink: Ink::Truth, dash: Dash::Dashed };

/// Returns the figure as an SVG file, with amounts in bits or in nats.
pub fn render(report: &PowerRecord, bits: bool) -> String {
    let mut legend = vec![
        Key::new(Stroke::solid(SIMULATED), "simulated tables, with 95% intervals"),
        Key::new(TRUTH, "true value"),
    ];
    if let Some(needed) = &report.needed {
        legend.push(Key::new(TARGET, format!("power {} with {} rows", needed.power, needed.rows)));
    }
    Figure {
        title: format!("How many rows for {}", report.assumption(bits)),
        legend,
        panel_size: (430.0, 290.0),
        columns: 2,
        panels: vec![power(report), intervals(report, bits)],
    }
    .to_svg()
}

/// Returns an axis over the numbers of rows.
fn rows_axis(report: &PowerRecord) -> Axis {
    let rows = || report.sizes.iter().map(|size| size.rows as f64);
    let (fewest, most) = finite_range(rows());
    // A logarithmic axis over less than a power of ten has hardly any ticks.
    Axis::fitted("rows", rows(), most >= 10.0 * fewest)
}

/// Returns the panel of the shares of tables in which the test rejected, and the curve through them.
fn power(report: &PowerRecord) -> Panel {
    let mut panel =
        Panel::new("Power of the test", rows_axis(report), Axis::linear("power", (0.0, 1.0)));
    let sizes = &report.sizes;
    if let (StudySize::Search(power), Some(needed)) = (&report.plan.size, &report.needed) {
        panel.add(None, Rule::horizontal(TARGET, *power));
        panel.add(None, Rule::vertical(TARGET, needed.rows as f64, ""));
        let curve = sizes.iter().map(|size| (size.rows as f64, size.power));
        let stroke = Stroke { ink: SIMULATED, dash: Dash::Pale };
        panel.add(None, Line { stroke, points: curve.collect() });
    }
    let dots = sizes.iter().map(|size| {
        let (tables, share) = (size.tables as f64, size.rejected as f64 / size.tables as f64);
        // Agresti and Coull: the standard error of a share with two successes and failures added.
        let added = (size.rejected as f64 + 2.0) / (tables + 4.0);
        Dot {
            whisker: Some(1.96 * (added * (1.0 - added) / (tables + 4.0)).sqrt()),
            hint: Some(format!("{} rows: {} of {} tables", size.rows, size.rejected, size.tables)),
            ..Dot::new(size.rows as f64, share)
        }
    });
    panel.add(None, Points { radius: 3.2, ink: SIMULATED, dots: dots.collect() });
    panel
}

/// Returns the panel of the medians of estimates and of the ends of their intervals.
fn intervals(report: &PowerRecord, bits: bool) -> Panel {
    let value = |nats: f64| amount(Nats(nats), bits);
    let sizes = &report.sizes;
    let truth = amount(Nats(report.mi_nats), bits);
    let highest = sizes.iter().map(|size| value(size.ci_high)).fold(truth, f64::max);
    let y = Axis::linear(if bits { "bits" } else { "nats" }, (0.0, 1.06 * highest.max(1e-3)));
    let mut panel = Panel::new("Estimates (medians)", rows_axis(report), y);
    panel.add(None, Rule::horizontal(TRUTH, truth));
    let interval = |size: &SizeFigures| {
        let rows = size.rows as f64;
        [(rows, value(size.ci_low)), (rows, value(size.ci_high)), (f64::NAN, f64::NAN)]
    };
    let points = sizes.iter().flat_map(interval).collect();
    panel.add(None, Line { stroke: Stroke { ink: SIMULATED, dash: Dash::Pale }, points });
    let dots = sizes.iter().map(|size| Dot {
        hint: Some(format!(
            "{} rows: {:.3} ({:.3} to {:.3})",
            size.rows,
            value(size.mi_nats),
            value(size.ci_low),
            value(size.ci_high)
        )),
        ..Dot::new(size.rows as f64, value(size.mi_nats))
    });
    panel.add(None, Points { radius: 3.2, ink: SIMULATED, dots: dots.collect() });
    panel
}

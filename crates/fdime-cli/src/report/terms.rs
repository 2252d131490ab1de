//! The terms of a chain at each level of a staircase, stacked: what is added stands on 0, and what
//! is subtracted hangs below it.

use super::staircase::TRUTH;
use crate::plot::marks::{Block, Boxes, Line, Rule};
use crate::plot::{
    Axis, Dash, Ink, Key, Margins, Panel, Stroke, finite_range, number, place_labels,
};
use fdime::train::TermSummary;

const BAR_WIDTH: f64 = 0.62;
const LABEL_LENGTH: usize = 8;

/// The stroke of the sum of all terms.
const SUM: Stroke = Stroke { ink: Ink::Series(0), dash: Dash::Solid };
/// The inks of blocks, which repeat. The sum has the ink 0, and the ink 4 is that of the line ln N,
/// so it comes last.
const INKS: [usize; 8] = [1, 2, 3, 5, 6, 7, 8, 4];

/// Returns the ink of a block, counted from 1.
fn ink(block: usize) -> Ink {
    Ink::Series(INKS[(block - 1) % INKS.len()])
}

/// Returns the legend of this many blocks.
pub fn legend(blocks: usize) -> Vec<Key> {
    let solid = |block| Stroke::solid(ink(block));
    // More blocks share inks, so a legend could not name them.
    if blocks > INKS.len() {
        return vec![Key::new(solid(1), format!("blocks 1 to {blocks}, the first next to 0"))];
    }
    (1..=blocks).map(|block| Key::new(solid(block), format!("block {block}"))).collect()
}

/// Returns the stacked terms of a level: those that raise the sum upwards from 0, and those that
/// lower it downwards. Subtracted terms are pale.
fn stack(level: usize, terms: &[TermSummary]) -> Vec<Block> {
    let (mut up, mut down) = (0.0, 0.0);
    let mut block = |term: &TermSummary| {
        let end = if term.contribution() >= 0.0 { &mut up } else { &mut down };
        let start = *end;
        *end += term.contribution();
        let role = if term.with_x { "added" } else { "subtracted" };
        Block {
            x: level as f64,
            y: (start, *end),
            ink: ink(term.block),
            pale: !term.with_x,
            hint: format!("{} = {:.3}, {role}", term.term, term.mean),
        }
    };
    terms.iter().map(&mut block).collect()
}

/// Returns the range of y that holds all stacks and true values.
pub fn range<'a>(
    levels: impl Iterator<Item = &'a Vec<TermSummary>>,
    true_mi: impl Iterator<Item = f64>,
) -> (f64, f64) {
    let ends = levels.flat_map(|terms| stack(0, terms)).map(|block| block.y.1);
    let (low, high) = finite_range(ends.chain(true_mi).chain([0.0]));
    let margin = 0.06 * (high - low);
    (if low < 0.0 { low - margin } else { 0.0 }, high + margin)
}

/// Returns the panel of the terms of each level that was finished; `width` is that of the panel.
pub fn panel(
    levels: &[Vec<TermSummary>],
    true_mi: &[f64],
    y_range: (f64, f64),
    width: f64,
) -> Panel {
    let rounded = |mi: &f64| number((mi * 100.0).round() / 100.0);
    let mut labels: Vec<String> = true_mi.iter().map(rounded).collect();
    let axis = |labels| Axis::categories("true MI of the level", labels);
    let margins = Margins::default();
    let length = width - margins.left - margins.right;
    let vertical = !axis(labels.clone()).labels_fit(length);
    if vertical {
        labels = place_labels(labels.iter().map(String::as_str), length, LABEL_LENGTH);
    }
    let y = Axis::linear("nats", y_range);
    let x = axis(labels);
    let room = x.label_width();
    let mut panel = Panel::new("terms (pale: subtracted)", x, y);
    if vertical {
        panel.vertical_labels = true;
        panel.margins.bottom = room + 32.0;
    }
    let stacks = levels.iter().enumerate().flat_map(|(level, terms)| stack(level, terms));
    panel.add(None, Boxes { width: BAR_WIDTH, boxes: stacks.collect() });
    panel.add(None, Rule::horizontal(Stroke { ink: Ink::Muted, dash: Dash::Pale }, 0.0));
    let sums = levels.iter().map(|terms| terms.iter().map(TermSummary::contribution).sum());
    panel.add(None, across(SUM, sums, 0.9));
    panel.add(None, across(TRUTH, true_mi.iter().copied(), 1.0));
    panel
}

/// Returns a separate stroke of this width for the value of each level.
fn across(stroke: Stroke, values: impl Iterator<Item = f64>, width: f64) -> Line {
    let ends = values.enumerate().flat_map(|(level, value)| {
        let middle = level as f64;
        [(middle - width / 2.0, value), (middle + width / 2.0, value), (f64::NAN, f64::NAN)]
    });
    Line { stroke, points: ends.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(block: usize, with_x: bool, mean: f64) -> TermSummary {
        TermSummary { term: format!("term {block}"), block, with_x, mean, variance: 0.0 }
    }

    /// The height above 0 less the depth below it is the sum.
    #[test]
    fn stacks_show_the_sum() {
        let terms = [term(1, true, 2.0), term(2, true, -0.5), term(2, false, 1.0)];
        let stack = stack(0, &terms);
        assert_eq!(
            stack.iter().map(|block| block.y).collect::<Vec<_>>(),
            [(0.0, 2.0), (0.0, -0.5), (-0.5, -1.5)]
        );
        let (low, high) = range([terms.to_vec()].iter(), [1.0].into_iter());
        assert!((low, high) < (-1.5, 2.3) && low > -1.8 && high > 2.0);
    }
}

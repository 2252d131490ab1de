use super::super::{Gradient, number, px};
use super::{Frame, Mark};
use maud::{Markup, html};

/// Coloured squares, the first row at the top.
pub struct Cells {
    pub columns: usize,
    /// Row by row; `None` is drawn in grey.
    pub values: Vec<Option<f64>>,
    /// The text of each cell under the mouse pointer.
    pub hints: Vec<String>,
    /// The value of the full colour.
    pub max: f64,
    /// Whether values are written into the cells.
    pub labelled: bool,
}

impl Mark for Cells {
    fn draw(&self, frame: &Frame) -> Markup {
        let rows = self.values.len() / self.columns;
        html! {
            @for (index, (value, hint)) in self.values.iter().zip(&self.hints).enumerate() {
                @let (row, column) = (rows - 1 - index / self.columns, index % self.columns);
                (self.cell(frame, (column as f64, row as f64), *value, hint))
            }
        }
    }
}

impl Cells {
    fn cell(&self, frame: &Frame, (x, y): (f64, f64), value: Option<f64>, hint: &str) -> Markup {
        let (left, right) = (frame.x(x - 0.5), frame.x(x + 0.5));
        let (top, bottom) = (frame.y(y + 0.5), frame.y(y - 0.5));
        let share = value.map(|value| value / self.max);
        let class = value.is_none().then_some("none");
        let fill = share.map(|share| Gradient::AMOUNT.colour(share));
        // White is readable on the dark half of the colours.
        let ink = if share > Some(0.45) { "fill:#ffffff" } else { "fill:#1f2430" };
        html! {
            rect class=[class] fill=[fill] x=(px(left)) y=(px(top))
                width=(px(right - left - 1.0)) height=(px(bottom - top - 1.0)) { title { (hint) } }
            @if let Some(value) = value.filter(|_| self.labelled) {
                text text-anchor="middle" style=(ink) x=(px((left + right - 1.0) / 2.0))
                    y=(px((top + bottom) / 2.0 + 4.0)) { (format!("{value:.2}")) }
            }
        }
    }
}

/// The scale of the colours of [`Cells`], to the right of the panel.
pub struct ColourBar {
    pub max: f64,
}

impl Mark for ColourBar {
    fn draw(&self, frame: &Frame) -> Markup {
        const STEPS: usize = 40;
        let left = frame.right + 18.0;
        let height = (frame.bottom - frame.top).clamp(60.0, 220.0);
        let y = |share: f64| frame.top + height * (1.0 - share);
        html! {
            @for step in 0..STEPS {
                @let high = (step + 1) as f64 / STEPS as f64;
                rect x=(px(left)) y=(px(y(high))) width="14"
                    height=(px(height / STEPS as f64 + 0.5))
                    fill=(Gradient::AMOUNT.colour(high - 0.5 / STEPS as f64)) {}
            }
            @for share in [0.0, 0.5, 1.0] {
                text class="soft" x=(px(left + 20.0)) y=(px(y(share) + 4.0)) {
                    (number((share * self.max * 100.0).round() / 100.0))
                }
            }
        }
    }
}

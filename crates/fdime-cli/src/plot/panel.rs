//! A coordinate system with its grid, labels and marks.

use super::marks::Mark;
use super::{Axis, px, shortened};
use maud::{Markup, html};

/// The space around the area that marks are drawn in.
#[derive(Clone, Copy)]
pub struct Margins {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Default for Margins {
    fn default() -> Self {
        Margins { left: 52.0, right: 10.0, top: 34.0, bottom: 42.0 }
    }
}

/// One coordinate system.
pub struct Panel {
    title: String,
    x: Axis,
    y: Axis,
    marks: Vec<(Option<String>, Box<dyn Mark>)>,
    pub margins: Margins,
    /// Whether labels of the x axis are written upwards.
    pub vertical_labels: bool,
}

/// The area that marks are drawn in, and its axes.
pub struct Frame<'a> {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    x: &'a Axis,
    y: &'a Axis,
}

impl Frame<'_> {
    /// Returns the horizontal coordinate of a value of x.
    pub fn x(&self, value: f64) -> f64 {
        self.left + self.x.share(value) * (self.right - self.left)
    }

    /// Returns the vertical coordinate of a value of y.
    pub fn y(&self, value: f64) -> f64 {
        self.bottom - self.y.share(value) * (self.bottom - self.top)
    }
}

impl Panel {
    /// Returns a panel without marks.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        let title = title.into();
        let margins = Margins::default();
        Panel { title, x, y, marks: Vec::new(), margins, vertical_labels: false }
    }

    /// Adds a mark, drawn over earlier ones. Marks of a named series can be hidden in reports.
    pub fn add(&mut self, series: Option<&str>, mark: impl Mark + 'static) {
        self.marks.push((series.map(str::to_string), Box::new(mark)));
    }

    /// Returns the panel with its upper left corner at the given position.
    pub(super) fn draw(&self, (left, top): (f64, f64), (width, height): (f64, f64)) -> Markup {
        let frame = Frame {
            left: left + self.margins.left,
            right: left + width - self.margins.right,
            top: top + self.margins.top,
            bottom: top + height - self.margins.bottom,
            x: &self.x,
            y: &self.y,
        };
        html! {
            @if !self.title.is_empty() {
                text class="title" x=(px(frame.left)) y=(px(top + 18.0)) { (self.title) }
            }
            (self.y_labels(&frame))
            (self.x_labels(&frame))
            (self.axis_names(&frame, left, top + height))
            @for (series, mark) in &self.marks {
                g data-series=[series.as_ref()] { (mark.draw(&frame)) }
            }
        }
    }

    fn y_labels(&self, frame: &Frame) -> Markup {
        let count = ((frame.bottom - frame.top) / 30.0).max(2.0) as usize;
        html! {
            @for (value, label) in self.y.ticks(count) {
                @if self.y.is_numeric() {
                    path class="grid" d={
                        "M" (px(frame.left)) " " (px(frame.y(value))) "H" (px(frame.right))
                    } {}
                }
                text class="soft" text-anchor="end"
                    x=(px(frame.left - 6.0)) y=(px(frame.y(value) + 4.0)) { (label) }
            }
        }
    }

    fn x_labels(&self, frame: &Frame) -> Markup {
        let count = ((frame.right - frame.left) / 55.0).max(2.0) as usize;
        html! {
            @for (value, label) in self.x.ticks(count) {
                @if self.vertical_labels {
                    @let (x, y) = (px(frame.x(value) + 4.0), px(frame.bottom + 6.0));
                    text class="soft" text-anchor="end"
                        transform={ "translate(" (x) " " (y) ") rotate(-90)" } { (label) }
                } @else {
                    text class="soft" text-anchor="middle"
                        x=(px(frame.x(value))) y=(px(frame.bottom + 16.0)) { (label) }
                }
            }
            @if self.y.is_numeric() {
                path class="axis" d={
                    "M" (px(frame.left)) " " (px(frame.bottom)) "H" (px(frame.right))
                } {}
            }
        }
    }

    /// Returns the names below and beside the axes, cut to their length.
    fn axis_names(&self, frame: &Frame, left: f64, bottom: f64) -> Markup {
        let fit = |name: &str, length: f64| shortened(name, (length / 6.0).max(4.0) as usize);
        let (x, y) = ((frame.left + frame.right) / 2.0, (frame.top + frame.bottom) / 2.0);
        html! {
            @if !self.x.name.is_empty() {
                text class="soft" text-anchor="middle" x=(px(x)) y=(px(bottom - 8.0)) {
                    (fit(&self.x.name, frame.right - frame.left))
                }
            }
            @if !self.y.name.is_empty() {
                text class="soft" text-anchor="middle"
                    transform={ "translate(" (px(left + 11.0)) " " (px(y)) ") rotate(-90)" } {
                    (fit(&self.y.name, frame.bottom - frame.top))
                }
            }
        }
    }
}

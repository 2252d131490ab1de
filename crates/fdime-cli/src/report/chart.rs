//! Line and bar charts of several series, in panels side by side.

use super::svg::{Scale, escape, number, polyline};
use std::fmt::Write;

/// A picture of panels that share their series.
pub struct Chart {
    pub title: String,
    pub panels: Vec<Panel>,
}

/// One coordinate system.
pub struct Panel {
    pub title: String,
    pub x_name: String,
    pub y_name: String,
    /// Whether x and y are drawn by their logarithms.
    pub logarithmic: (bool, bool),
    /// Values that the y axis must reach.
    pub include: Vec<f64>,
    pub shape: Shape,
    pub series: Vec<Series>,
}

/// How points are drawn.
#[derive(Clone, Copy, PartialEq)]
pub enum Shape {
    Lines,
    /// At every x a bar for each series.
    Bars,
}

/// Points of one colour.
pub struct Series {
    pub name: String,
    pub points: Vec<Point>,
    /// A line that was not measured but calculated.
    pub theory: bool,
}

/// A value, its spread over seeds, and what the paper has in its place.
#[derive(Clone, Copy)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub spread: Option<f64>,
    pub paper: Option<f64>,
}

impl Point {
    pub fn new(x: f64, y: f64) -> Self {
        Point { x, y, spread: None, paper: None }
    }
}

const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 42.0;
const GAP: f64 = 12.0;
const COLUMNS: usize = 3;

/// Dark enough for white, and after them their counterparts for dark surroundings.
const COLOURS: [(&str, &str); 9] = [
    ("#1d4ed8", "#8ab4ff"),
    ("#b45309", "#fbbf6b"),
    ("#047857", "#4fd8a0"),
    ("#be123c", "#fb7185"),
    ("#7e22ce", "#d0a2ff"),
    ("#0e7490", "#5fd4ea"),
    ("#4d7c0f", "#b5d96b"),
    ("#a21caf", "#f29cf7"),
    ("#57534e", "#c7c2bd"),
];

fn style() -> String {
    let mut light = String::from(
        ".back{fill:#fff}text{font:12px system-ui,sans-serif;fill:#1f2430}.soft{fill:#6b7280;\
         font-size:11px}.title{font-weight:600;font-size:13px}.grid{stroke:#e5e7eb}\
         .axis{stroke:#9ca3af}.paper{stroke:#111827;stroke-width:2;fill:none}\
         .line{fill:none;stroke-width:1.8}.theory{stroke-dasharray:5 3}.error{stroke-width:1}",
    );
    let mut dark = String::from(
        ".back{fill:#14171c}text{fill:#e5e7eb}.soft{fill:#9ca3af}.grid{stroke:#333a45}\
         .axis{stroke:#6b7280}.paper{stroke:#f9fafb}",
    );
    for (index, (on_white, on_black)) in COLOURS.iter().enumerate() {
        let _ = write!(light, ".c{index}{{stroke:{on_white}}}.f{index}{{fill:{on_white}}}");
        let _ = write!(dark, ".c{index}{{stroke:{on_black}}}.f{index}{{fill:{on_black}}}");
    }
    format!("{light}@media(prefers-color-scheme:dark){{{dark}}}")
}

impl Chart {
    pub fn render(&self) -> String {
        let mut names: Vec<(&str, bool)> = Vec::new();
        for series in self.panels.iter().flat_map(|panel| &panel.series) {
            if !names.iter().any(|(name, _)| *name == series.name) {
                names.push((&series.name, series.theory));
            }
        }
        let paper = self
            .panels
            .iter()
            .flat_map(|panel| &panel.series)
            .any(|series| series.points.iter().any(|point| point.paper.is_some()));
        let columns = self.panels.len().clamp(1, COLUMNS);
        let rows = self.panels.len().div_ceil(columns);
        let width = (columns as f64 * (WIDTH + GAP) + GAP).max(2.0 * (WIDTH + GAP) + GAP);
        let (legend, legend_height) = legend(&names, paper, width);
        let header = 40.0 + legend_height;
        let height = header + rows as f64 * (HEIGHT + GAP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\"><title>{title}</title>\
             <style>{}</style><rect width=\"100%\" height=\"100%\" class=\"back\"/>\
             <text class=\"title\" x=\"{GAP}\" y=\"24\">{title}</text>{legend}",
            style(),
            title = escape(&self.title)
        );
        for (index, panel) in self.panels.iter().enumerate() {
            let left = GAP + (index % columns) as f64 * (WIDTH + GAP);
            let top = header + (index / columns) as f64 * (HEIGHT + GAP);
            panel.draw(&mut svg, (left, top), &names);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// Names with their colours, in as many lines as they need, and the height of those.
fn legend(names: &[(&str, bool)], paper: bool, width: f64) -> (String, f64) {
    let mut svg = String::new();
    let (mut x, mut y) = (GAP, 46.0);
    let entries = names.iter().enumerate().map(|(index, (name, theory))| {
        let class = if *theory { "line theory" } else { "line" };
        (format!("{class} c{}", index % COLOURS.len()), *name)
    });
    for (class, name) in entries.chain(paper.then(|| ("paper".to_string(), "the paper's"))) {
        let needed = 48.0 + 7.0 * name.chars().count() as f64;
        if x + needed > width {
            (x, y) = (GAP, y + 18.0);
        }
        let _ = write!(
            svg,
            "<path class=\"{class}\" d=\"M{x} {y}h22\"/><text class=\"soft\" x=\"{}\" y=\"{}\">{}</text>",
            x + 28.0,
            y + 4.0,
            escape(name)
        );
        x += needed;
    }
    (svg, y - 28.0)
}

/// A linear or logarithmic scale.
struct Axis {
    scale: Scale,
    logarithmic: bool,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, logarithmic: bool, picture: (f64, f64)) -> Self {
        let usable = values.filter(|v| v.is_finite() && (!logarithmic || *v > 0.0));
        let seen = usable.map(|v| if logarithmic { v.log10() } else { v });
        let (low, high) = seen
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let room = 0.06 * (high - low).max(0.1);
        Axis { scale: Scale { data: (low - room, high + room), picture }, logarithmic }
    }

    /// Where a value is; what cannot be shown is at the lower end.
    fn at(&self, value: f64) -> f64 {
        let (low, high) = self.scale.data;
        let value = match self.logarithmic {
            true if value > 0.0 => value.log10(),
            true => low,
            false => value,
        };
        self.scale.at(if value.is_nan() { low } else { value.clamp(low, high) })
    }

    fn ticks(&self, count: usize) -> Vec<f64> {
        if !self.logarithmic {
            return self.scale.ticks(count);
        }
        let (low, high) = self.scale.data;
        let steps: &[f64] = if high - low < 1.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let skip = (((high - low) / count as f64).ceil() as i32).max(1);
        (low.floor() as i32..=high.ceil() as i32)
            .filter(|power| power % skip == 0)
            .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
            .filter(|tick| (low..=high).contains(&tick.log10()))
            .collect()
    }
}

impl Panel {
    fn draw(&self, svg: &mut String, (left, top): (f64, f64), names: &[(&str, bool)]) {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let (x_log, y_log) = self.logarithmic;
        let bars = self.shape == Shape::Bars;
        let mut places: Vec<f64> = points().map(|point| point.x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let x_picture = (left + LEFT, left + WIDTH - RIGHT);
        let x = if bars {
            // Bars stand in groups of equal width.
            let data = (-0.5, places.len() as f64 - 0.5);
            Axis { scale: Scale { data, picture: x_picture }, logarithmic: false }
        } else {
            Axis::new(places.iter().copied(), x_log, x_picture)
        };
        let ends = points().flat_map(|point| {
            let spread = point.spread.unwrap_or(0.0);
            [Some(point.y - spread), Some(point.y + spread), point.paper]
        });
        let zero = (bars && !y_log).then_some(0.0);
        let include = self.include.iter().copied().chain(zero);
        let y_picture = (top + HEIGHT - BOTTOM, top + TOP);
        let y = Axis::new(ends.flatten().chain(include), y_log, y_picture);

        let _ = write!(
            svg,
            "<text class=\"title\" x=\"{}\" y=\"{}\">{}</text>",
            left + LEFT,
            top + 18.0,
            escape(&self.title)
        );
        for tick in y.ticks(5) {
            let at = y.at(tick);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{:.1} {at:.1}H{:.1}\"/>\
                 <text class=\"soft\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x_picture.0,
                x_picture.1,
                left + LEFT - 6.0,
                at + 4.0,
                number(tick)
            );
        }
        let x_ticks: Vec<(f64, f64)> = if bars {
            places.iter().enumerate().map(|(index, place)| (x.at(index as f64), *place)).collect()
        } else {
            x.ticks(6).into_iter().map(|tick| (x.at(tick), tick)).collect()
        };
        for (at, tick) in x_ticks {
            let _ = write!(
                svg,
                "<text class=\"soft\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
                y_picture.0 + 16.0,
                number(tick)
            );
        }
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{:.1} {:.1}H{:.1}\"/>\
             <text class=\"soft\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"soft\" text-anchor=\"middle\" transform=\"translate({:.1} {:.1}) rotate(-90)\">{}</text>",
            x_picture.0,
            y_picture.0,
            x_picture.1,
            (x_picture.0 + x_picture.1) / 2.0,
            top + HEIGHT - 8.0,
            escape(&self.x_name),
            left + 10.0,
            (y_picture.0 + y_picture.1) / 2.0,
            escape(&self.y_name)
        );
        let group_width = 0.8 * (x_picture.1 - x_picture.0) / places.len().max(1) as f64;
        let bar_width = group_width / self.series.len().max(1) as f64;
        for (number_in_panel, series) in self.series.iter().enumerate() {
            let index = names.iter().position(|(name, _)| *name == series.name).unwrap_or(0);
            let colour = index % COLOURS.len();
            let _ = write!(svg, "<g data-series=\"{}\">", escape(&series.name));
            if self.shape == Shape::Lines {
                let path = polyline(series.points.iter().map(|p| (x.at(p.x), y.at(p.y))));
                let class = if series.theory { "line theory" } else { "line" };
                let _ = write!(svg, "<path class=\"{class} c{colour}\" d=\"{path}\"/>");
            }
            for point in series.points.iter().filter(|_| !series.theory) {
                let at = if bars {
                    let place = places.iter().position(|place| *place == point.x).unwrap_or(0);
                    x.at(place as f64) - group_width / 2.0
                        + (number_in_panel as f64 + 0.5) * bar_width
                } else {
                    x.at(point.x)
                };
                self.mark(svg, series, point, at, &y, (bar_width, colour));
            }
            svg.push_str("</g>");
        }
    }

    /// A bar or a dot with its spread and the paper's value; the numbers show under the mouse.
    fn mark(
        &self,
        svg: &mut String,
        series: &Series,
        point: &Point,
        at: f64,
        y: &Axis,
        (bar_width, colour): (f64, usize),
    ) {
        let mut hint = format!("{}, {} {}: {:.4}", series.name, self.x_name, point.x, point.y);
        if let Some(spread) = point.spread {
            let _ = write!(hint, " ± {spread:.4} over seeds");
        }
        if let Some(paper) = point.paper {
            let _ = write!(hint, "; the paper: {paper}");
        }
        let hint = escape(&hint);
        let top = y.at(point.y);
        let _ = if self.shape == Shape::Bars {
            let bottom = y.scale.picture.0;
            write!(
                svg,
                "<rect class=\"f{colour}\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
                 height=\"{:.1}\"><title>{hint}</title></rect>",
                at - bar_width / 2.0,
                (bar_width - 0.8).max(0.6),
                (bottom - top).max(0.6)
            )
        } else {
            write!(
                svg,
                "<circle class=\"f{colour}\" cx=\"{at:.1}\" cy=\"{top:.1}\" r=\"3.2\">\
                 <title>{hint}</title></circle>"
            )
        };
        if let Some(spread) = point.spread.filter(|spread| *spread > 0.0) {
            let (from, to) = (y.at(point.y - spread), y.at(point.y + spread));
            let _ = write!(svg, "<path class=\"axis error\" d=\"M{at:.1} {from:.1}V{to:.1}\"/>");
        }
        if let Some(paper) = point.paper {
            let _ = write!(
                svg,
                "<path class=\"paper\" d=\"M{:.1} {:.1}h{:.1}\"/>",
                at - bar_width / 2.0,
                y.at(paper),
                (bar_width - 0.8).max(0.6)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(shape: Shape, logarithmic: (bool, bool), values: &[f64]) -> Panel {
        let points = values
            .iter()
            .enumerate()
            .map(|(k, &y)| Point { x: k as f64, y, spread: Some(0.1), paper: Some(y) })
            .collect();
        Panel {
            title: "a < b".into(),
            x_name: "x".into(),
            y_name: "y".into(),
            logarithmic,
            include: vec![1.0],
            shape,
            series: vec![Series { name: "one".into(), points, theory: false }],
        }
    }

    #[test]
    fn charts_survive_empty_zero_negative_and_endless_values() {
        for shape in [Shape::Lines, Shape::Bars] {
            for logarithmic in [(false, false), (true, true)] {
                for values in [&[][..], &[0.0, -1.0, 3.0], &[f64::NAN, f64::INFINITY], &[1e-9, 1e9]]
                {
                    let panels = vec![panel(shape, logarithmic, values)];
                    let svg = Chart { title: "t & u".into(), panels }.render();
                    assert!(svg.contains("a &lt; b") && svg.contains("t &amp; u"));
                    let drawn = svg.replace("inf over", "").replace("<title>", "");
                    assert!(!drawn.contains("\"NaN") && !drawn.contains("\"inf"), "{svg}");
                }
            }
        }
    }

    #[test]
    fn logarithmic_ticks_are_powers_or_between_them() {
        let axis = |values: &[f64]| Axis::new(values.iter().copied(), true, (0.0, 1.0)).ticks(6);
        assert_eq!(axis(&[64.0, 1024.0]), [100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(axis(&[0.01, 100.0]), [0.01, 0.1, 1.0, 10.0, 100.0]);
    }
}

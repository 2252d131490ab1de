//! Charts of measured series, as lines or as bars, in panels that share colours and a legend.

use crate::plot::marks::{Bars, Dot, Line, Points};
use crate::plot::{self, Axis, COLUMNS, Dash, Figure, Ink, Key, Stroke, number};

/// A figure of panels that share their series.
pub struct Chart {
    pub title: String,
    pub panels: Vec<Panel>,
}

/// One coordinate system.
pub struct Panel {
    pub title: String,
    pub x_name: String,
    pub y_name: String,
    /// Whether the x axis and the y axis are logarithmic.
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
    /// Groups of bars of equal width at each x, with one bar for each series.
    Bars,
}

/// Points of one colour.
pub struct Series {
    pub name: String,
    pub points: Vec<Point>,
    /// Whether the values were calculated, not measured: a dashed line without points.
    pub theory: bool,
}

/// A value, its standard deviation over seeds, and the value that the paper reports.
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

impl Series {
    fn stroke(&self, index: usize) -> Stroke {
        let dash = if self.theory { Dash::Dashed } else { Dash::Solid };
        Stroke { ink: Ink::Series(index), dash }
    }

    /// Returns the point for a panel, at another x if the axis has places for groups of bars.
    fn dot(&self, point: &Point, x_name: &str, x: f64) -> Dot {
        let mut hint = format!("{}, {x_name} {}: {:.4}", self.name, point.x, point.y);
        if let Some(spread) = point.spread {
            hint += &format!(" ± {spread:.4} over seeds");
        }
        if let Some(paper) = point.paper {
            hint += &format!("; the paper: {paper}");
        }
        let Point { y, spread: whisker, paper: reference, .. } = *point;
        Dot { x, y, hint: Some(hint), whisker, reference, colour: None }
    }
}

impl Chart {
    /// Returns the chart as an SVG file.
    pub fn to_svg(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        let mut legend = Vec::new();
        for series in self.panels.iter().flat_map(|panel| &panel.series) {
            if !names.contains(&series.name.as_str()) {
                legend.push(Key::new(series.stroke(names.len()), &series.name));
                names.push(&series.name);
            }
        }
        let mut points = self.panels.iter().flat_map(Panel::points);
        if points.any(|point| point.paper.is_some()) {
            legend.push(Key::new(Stroke::solid(Ink::Truth), "the paper's"));
        }
        Figure {
            title: self.title.clone(),
            legend,
            panel_size: (380.0, 270.0),
            columns: COLUMNS,
            panels: self.panels.iter().map(|panel| panel.to_plot(&names)).collect(),
        }
        .to_svg()
    }
}

impl Panel {
    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    /// Returns the panel; the position of a series among all names determines its colour.
    fn to_plot(&self, names: &[&str]) -> plot::Panel {
        let ends = self.points().flat_map(|point| {
            let spread = point.spread.unwrap_or(0.0);
            [Some(point.y - spread), Some(point.y + spread), point.paper]
        });
        let (x_logarithmic, y_logarithmic) = self.logarithmic;
        let zero = (self.shape == Shape::Bars && !y_logarithmic).then_some(0.0);
        let include = self.include.iter().copied().chain(zero);
        let y = Axis::fitted(&self.y_name, ends.flatten().chain(include), y_logarithmic);
        let colour = |series: &Series| names.iter().position(|name| *name == series.name);
        match self.shape {
            Shape::Lines => {
                let xs = self.points().map(|point| point.x);
                let x = Axis::fitted(&self.x_name, xs, x_logarithmic);
                let mut panel = plot::Panel::new(&self.title, x, y);
                for series in &self.series {
                    self.add_line(&mut panel, series, colour(series).unwrap_or(0));
                }
                panel
            }
            Shape::Bars => {
                let mut places: Vec<f64> = self.points().map(|point| point.x).collect();
                places.sort_by(f64::total_cmp);
                places.dedup();
                let labels = places.iter().map(|place| number(*place)).collect();
                let x = Axis::categories(&self.x_name, labels);
                let mut panel = plot::Panel::new(&self.title, x, y);
                for (index, series) in self.series.iter().enumerate() {
                    let ink = Ink::Series(colour(series).unwrap_or(0));
                    panel.add(Some(&series.name), self.bars(series, index, &places, ink));
                }
                panel
            }
        }
    }

    fn add_line(&self, panel: &mut plot::Panel, series: &Series, colour: usize) {
        let points = series.points.iter().map(|point| (point.x, point.y)).collect();
        panel.add(Some(&series.name), Line { stroke: series.stroke(colour), points });
        if !series.theory {
            let dots = series.points.iter().map(|p| series.dot(p, &self.x_name, p.x)).collect();
            let points = Points { radius: 3.2, ink: Ink::Series(colour), dots };
            panel.add(Some(&series.name), points);
        }
    }

    /// Returns the bars of one series, next to those of the other series in each group.
    fn bars(&self, series: &Series, index: usize, places: &[f64], ink: Ink) -> Bars {
        const GROUP: f64 = 0.8;
        let width = GROUP / self.series.len() as f64;
        let offset = (index as f64 + 0.5) * width - GROUP / 2.0;
        let place = |x: f64| places.iter().position(|place| *place == x).unwrap_or(0) as f64;
        let points = series.points.iter();
        let dots = points.map(|p| series.dot(p, &self.x_name, place(p.x) + offset)).collect();
        Bars { width, ink, dots }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(shape: Shape, theory: bool) -> String {
        let points = [2.0, 4.0].map(|x| Point { x, y: x, spread: Some(0.5), paper: Some(x) });
        let series = Series { name: "one, two".into(), points: points.into(), theory };
        let panel = Panel {
            title: "a < b".into(),
            x_name: "x".into(),
            y_name: "y".into(),
            logarithmic: (false, true),
            include: vec![1.0],
            shape,
            series: vec![series],
        };
        Chart { title: "t & u".into(), panels: vec![panel] }.to_svg()
    }

    #[test]
    fn series_are_drawn_with_their_spread_and_the_values_of_the_paper() {
        let hint = "one, two, x 2: 2.0000 ± 0.5000 over seeds; the paper: 2";
        let lines = chart(Shape::Lines, false);
        assert_eq!(lines.matches("<circle").count(), 2);
        assert!(lines.contains(hint) && lines.contains("the paper's"));
        let bars = chart(Shape::Bars, false);
        assert_eq!(bars.matches("class=\"fill-0\"").count(), 2);
        assert_eq!(bars.matches("line-truth\"").count(), 3, "two values and the legend");
        assert!(bars.contains(hint));
        let theory = chart(Shape::Lines, true);
        assert!(theory.contains("dashed line-0") && !theory.contains("<circle"));
    }
}

//! Just enough SVG: escaped text, scales with round ticks, and colours for light and dark.

use std::fmt::Write;

/// A linear map from data to picture coordinates.
#[derive(Clone, Copy)]
pub struct Scale {
    pub data: (f64, f64),
    pub picture: (f64, f64),
}

impl Scale {
    pub fn at(&self, value: f64) -> f64 {
        let share = (value - self.data.0) / (self.data.1 - self.data.0);
        self.picture.0 + share * (self.picture.1 - self.picture.0)
    }

    /// About `count` round numbers within the data range.
    pub fn ticks(&self, count: usize) -> Vec<f64> {
        let raw = (self.data.1 - self.data.0) / count as f64;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= raw * 0.999)
            .unwrap_or(10.0 * power);
        let first = (self.data.0 / step).ceil() as i64;
        let last = (self.data.1 / step + 1e-9).floor() as i64;
        (first..=last).map(|k| k as f64 * step).collect()
    }
}

/// Text that may hold anything, for use inside SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The path through points, drawn with straight lines.
pub fn polyline(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (index, (x, y)) in points.into_iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{x:.1} {y:.1}");
    }
    path
}

/// A name cut to at most `most` letters.
pub fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_string();
    }
    name.chars().take(most - 1).chain(['…']).collect()
}

/// A round number as people write it.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if !(1e-4..1e6).contains(&size) => format!("{value:.1e}"),
        size if size >= 1000.0 && value % 1000.0 == 0.0 => format!("{}k", value / 1000.0),
        _ => format!("{}", (value * 1e6).round() / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let scale = |low, high| Scale { data: (low, high), picture: (0.0, 1.0) };
        assert_eq!(scale(0.0, 11.0).ticks(5), [0.0, 5.0, 10.0]);
        assert_eq!(scale(-0.3, 2.0).ticks(5), [0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(scale(0.0, 20000.0).ticks(4), [0.0, 5000.0, 10000.0, 15000.0, 20000.0]);
    }

    #[test]
    fn text_is_escaped_and_numbers_are_short() {
        assert_eq!((shortened("abcd", 4), shortened("abcde", 4)), ("abcd".into(), "abc…".into()));
        assert_eq!(escape("<script>&\""), "&lt;script&gt;&amp;&quot;");
        assert_eq!((number(20000.0), number(0.1 + 0.2)), ("20k".into(), "0.3".into()));
        assert_eq!((number(2e-7), number(-3e20)), ("2.0e-7".into(), "-3.0e20".into()));
    }
}

//! Axes: maps from data to a fraction of the axis length, and labelled ticks at round numbers.

/// A named range of values.
pub struct Axis {
    pub name: String,
    /// The range, in logarithms to base 10 if the axis is logarithmic.
    range: (f64, f64),
    kind: Kind,
}

enum Kind {
    Linear,
    Logarithmic,
    /// Labels of the values 0, 1, 2 and so on; empty labels are not shown.
    Categories(Vec<String>),
}

/// Returns the smallest and the largest of the finite values; (∞, -∞) if there are none.
pub fn finite_range(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    values
        .into_iter()
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

/// Returns the range, widened if it has no width, and (0, 1) if it is not finite.
fn usable((low, high): (f64, f64)) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    match low.is_finite() && high.is_finite() {
        true if high - low > 1e-12 * size => (low, high),
        true => (low - 0.5 * size.max(1.0), low + 0.5 * size.max(1.0)),
        false => (0.0, 1.0),
    }
}

impl Axis {
    /// Returns a linear axis over exactly this range.
    pub fn linear(name: impl Into<String>, range: (f64, f64)) -> Self {
        Axis { name: name.into(), range: usable(range), kind: Kind::Linear }
    }

    /// Returns an axis over the values that it can show, with a margin on either side.
    pub fn fitted(
        name: impl Into<String>,
        values: impl IntoIterator<Item = f64>,
        logarithmic: bool,
    ) -> Self {
        let shown = |value: f64| if logarithmic { value.log10() } else { value };
        let (low, high) = usable(finite_range(values.into_iter().map(shown)));
        let margin = 0.06 * (high - low);
        let kind = if logarithmic { Kind::Logarithmic } else { Kind::Linear };
        Axis { name: name.into(), range: (low - margin, high + margin), kind }
    }

    /// Returns an axis with a place of width 1 for each label.
    pub fn categories(name: impl Into<String>, labels: Vec<String>) -> Self {
        let range = (-0.5, labels.len().max(1) as f64 - 0.5);
        Axis { name: name.into(), range, kind: Kind::Categories(labels) }
    }

    /// Returns whether the axis shows numbers, not categories.
    pub fn is_numeric(&self) -> bool {
        !matches!(self.kind, Kind::Categories(_))
    }

    /// Returns the width of the longest name of a category; 0 for numbers.
    pub fn label_width(&self) -> f64 {
        let Kind::Categories(labels) = &self.kind else { return 0.0 };
        let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        6.4 * longest as f64
    }

    /// Returns whether the names of categories fit next to each other along this length.
    pub fn labels_fit(&self, length: f64) -> bool {
        match &self.kind {
            Kind::Categories(labels) => labels.len() as f64 * (self.label_width() + 8.0) <= length,
            _ => true,
        }
    }

    /// Returns the position of a value, from 0 at the low end to 1 at the high end. Values outside
    /// the range are at its ends, and values without a position at the low end.
    pub fn share(&self, value: f64) -> f64 {
        let (low, high) = self.range;
        let value = match self.kind {
            Kind::Logarithmic if value > 0.0 => value.log10(),
            Kind::Logarithmic => low,
            _ => value,
        };
        if value.is_nan() { 0.0 } else { (value.clamp(low, high) - low) / (high - low) }
    }

    /// Returns about `count` values with their labels.
    pub fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        let numbers = match &self.kind {
            Kind::Linear => linear_ticks(self.range, count),
            Kind::Logarithmic => logarithmic_ticks(self.range, count),
            Kind::Categories(labels) => {
                let shown = labels.iter().enumerate().filter(|(_, label)| !label.is_empty());
                return shown.map(|(index, label)| (index as f64, label.clone())).collect();
            }
        };
        numbers.into_iter().map(|tick| (tick, number(tick))).collect()
    }
}

/// Returns the multiples of 1, 2 or 5 times a power of ten within the range.
fn linear_ticks((low, high): (f64, f64), count: usize) -> Vec<f64> {
    let raw = (high - low) / count as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= raw * 0.999)
        .unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|k| k as f64 * step).collect()
}

/// Returns the powers of ten within the range; if the range is short, also 2 and 5 times them.
fn logarithmic_ticks((low, high): (f64, f64), count: usize) -> Vec<f64> {
    let factors: &[f64] = if high - low < 1.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let skip = (((high - low) / count as f64).ceil() as i32).max(1);
    (low.floor() as i32..=high.ceil() as i32)
        .filter(|power| power % skip == 0)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
        .filter(|tick| (low..=high).contains(&tick.log10()))
        .collect()
}

/// Formats a round number in few characters.
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
        assert_eq!(linear_ticks((0.0, 11.0), 5), [0.0, 5.0, 10.0]);
        assert_eq!(linear_ticks((-0.3, 2.0), 5), [0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(linear_ticks((0.0, 2e4), 4), [0.0, 5000.0, 10000.0, 15000.0, 20000.0]);
    }

    #[test]
    fn logarithmic_ticks_are_powers_or_between_them() {
        let labels = |values: [f64; 2]| -> Vec<String> {
            let ticks = Axis::fitted("", values, true).ticks(6);
            ticks.into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(labels([64.0, 1024.0]), ["100", "200", "500", "1k"]);
        assert_eq!(labels([0.01, 100.0]), ["0.01", "0.1", "1", "10", "100"]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!((number(20000.0), number(0.1 + 0.2)), ("20k".into(), "0.3".into()));
        assert_eq!((number(2e-7), number(-3e20)), ("2.0e-7".into(), "-3.0e20".into()));
    }
}

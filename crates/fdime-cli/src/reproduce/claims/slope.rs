/// Returns the slope of the least-squares line.
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let (mut xy, mut xx) = (0.0, 0.0);
    for point in points {
        xy += (point.0 - x) * (point.1 - y);
        xx += (point.0 - x).powi(2);
    }
    xy / xx
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_of_a_line_is_exact() {
        let line: Vec<(f64, f64)> =
            (0..5).map(|k| (f64::from(k), 3.0 - 2.0 * f64::from(k))).collect();
        assert!((slope(&line) + 2.0).abs() < 1e-12);
    }
}

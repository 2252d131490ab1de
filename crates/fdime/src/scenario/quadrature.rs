//! Points and weights of numerical integrals.

/// The number of points on an interval of a [`GaussLegendre`] rule.
const POINTS: usize = 16;

/// The step of [`normal_grid`], in standard deviations.
const NORMAL_STEP: f64 = 0.2;

/// The number of standard deviations that [`normal_grid`] covers on each side.
const NORMAL_REACH: f64 = 7.0;

/// The rule of Gauss and Legendre on (-1, 1), exact for polynomials of degree 31.
pub(super) struct GaussLegendre {
    points: Vec<(f64, f64)>,
}

impl GaussLegendre {
    /// Computes the points, the roots of the Legendre polynomial P_n, by Newton's method, and the
    /// weights 2 / ((1 - t^2) P_n'(t)^2).
    pub(super) fn new() -> Self {
        let point = |k: usize| {
            let n = POINTS as f64;
            let mut t = (std::f64::consts::PI * (k as f64 + 0.75) / (n + 0.5)).cos();
            for _ in 0..100 {
                let (value, slope) = legendre(t);
                t -= value / slope;
            }
            let (_, slope) = legendre(t);
            (t, 2.0 / ((1.0 - t * t) * slope * slope))
        };
        GaussLegendre { points: (0..POINTS).map(point).collect() }
    }

    /// Returns the points and weights on (low, high), in parts at most `width` wide.
    pub(super) fn on(&self, low: f64, high: f64, width: f64) -> Vec<(f64, f64)> {
        let parts = ((high - low) / width).ceil().max(1.0) as usize;
        let half = 0.5 * (high - low) / parts as f64;
        let part = |k: usize| {
            let middle = low + (2 * k + 1) as f64 * half;
            self.points.iter().map(move |(t, weight)| (middle + half * t, half * weight))
        };
        (0..parts).flat_map(part).collect()
    }
}

/// Returns P_n(t) and P_n'(t) for n = [`POINTS`].
fn legendre(t: f64) -> (f64, f64) {
    let (mut before, mut value) = (1.0, t);
    for k in 2..=POINTS {
        let k = k as f64;
        (before, value) = (value, ((2.0 * k - 1.0) * t * value - (k - 1.0) * before) / k);
    }
    (value, POINTS as f64 * (t * value - before) / (t * t - 1.0))
}

/// Returns points and weights for the mean of a smooth function of a standard normal variable: the
/// trapezoidal rule, whose error decreases exponentially with the number of points.
pub(super) fn normal_grid() -> Vec<(f64, f64)> {
    let count = (NORMAL_REACH / NORMAL_STEP) as i32;
    let points = (-count..=count).map(|k| {
        let t = f64::from(k) * NORMAL_STEP;
        (t, (-0.5 * t * t).exp())
    });
    normalised(points.collect())
}

/// Divides the weights by their sum.
pub(super) fn normalised(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let sum: f64 = points.iter().map(|(_, weight)| weight).sum();
    points.iter_mut().for_each(|(_, weight)| *weight /= sum);
    points
}

/// Returns -p ln p, the integrand of an entropy, from the density p.
pub(super) fn entropy(density: f64) -> f64 {
    if density > 0.0 { -density * density.ln() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integral(points: &[(f64, f64)], f: impl Fn(f64) -> f64) -> f64 {
        points.iter().map(|(t, weight)| weight * f(*t)).sum()
    }

    #[test]
    fn polynomials_and_kinks_at_the_ends_are_integrated_exactly() {
        let rule = GaussLegendre::new();
        let once = rule.on(0.0, 2.0, 2.0);
        assert_eq!(once.len(), POINTS);
        assert!((integral(&once, |t| t.powi(31)) / (2f64.powi(32) / 32.0) - 1.0).abs() < 1e-12);
        let parts = rule.on(-1.0, 3.0, 0.9);
        assert_eq!(parts.len(), 5 * POINTS);
        assert!((integral(&parts, f64::exp) - (3f64.exp() - (-1f64).exp())).abs() < 1e-12);
    }

    #[test]
    fn moments_of_a_normal_variable_are_exact() {
        let grid = normal_grid();
        for (power, moment) in [(0, 1.0), (1, 0.0), (2, 1.0), (4, 3.0), (6, 15.0)] {
            assert!((integral(&grid, |t| t.powi(power)) - moment).abs() < 1e-6, "{power}");
        }
        assert!((integral(&grid, f64::cos) - (-0.5f64).exp()).abs() < 1e-11);
    }
}

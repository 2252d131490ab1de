//! The mutual information of mixtures, by integration over one or two variables.

use super::{Component, Normal, log_joint, log_sum_exp, log_x, log_y};
use crate::numerics::log_add_exp;

/// An interval with the points at which an integrand is evaluated.
#[derive(Clone, Copy)]
struct Grid {
    low: f64,
    high: f64,
    step: f64,
}

impl Grid {
    /// Returns a grid over 7 standard deviations around every mean. Its step is a third of the
    /// least standard deviation of one variable given the other.
    fn around(components: &[Component], normals: impl Fn(&Component) -> Normal) -> Self {
        let mut grid = Grid { low: f64::INFINITY, high: f64::NEG_INFINITY, step: f64::INFINITY };
        for component in components {
            let Normal { mean, deviation } = normals(component);
            let rho = component.rho.first().copied().unwrap_or(0.0);
            grid.low = grid.low.min(mean - 7.0 * deviation);
            grid.high = grid.high.max(mean + 7.0 * deviation);
            grid.step = grid.step.min(deviation * (1.0 - rho * rho).sqrt() / 3.0);
        }
        grid
    }

    /// Integrates by the trapezoidal rule, whose error for smooth functions that vanish at both
    /// ends decreases exponentially with the number of points.
    fn integrate(self, f: impl Fn(f64) -> f64) -> f64 {
        let count = ((self.high - self.low) / self.step) as usize;
        self.step * (0..=count).map(|k| f(self.low + k as f64 * self.step)).sum::<f64>()
    }
}

/// Returns -p ln p, the integrand of an entropy, from ln p.
fn entropy(log_density: f64) -> f64 {
    -log_density.exp() * log_density
}

/// Returns I = h(X) + h(Y) - h(X, Y) of a mixture on the plane, with h = -int p ln p.
pub(super) fn planar(components: &[Component]) -> f64 {
    let x_grid = Grid::around(components, |component| component.x[0]);
    let y_grid = Grid::around(components, |component| component.y[0]);
    let x_entropy = x_grid.integrate(|x| entropy(log_x(components, &[x])));
    let y_entropy = y_grid.integrate(|y| entropy(log_y(components, &[y])));
    let joint_entropy =
        x_grid.integrate(|x| y_grid.integrate(|y| entropy(log_joint(components, &[x], &[y]))));
    x_entropy + y_entropy - joint_entropy
}

/// Returns I(X; K) for K uniform on 1, ..., n and X ~ N(0, K^2) in d dimensions.
///
/// With |x| = k t, ln p(x|k) / p(x) = -ln 1/n sum_j (k/j)^d exp(t^2/2 (1 - k^2/j^2)). Given k, t
/// has the chi distribution with d degrees of freedom. The density of v = ln t / sqrt d is
/// proportional to exp(d (v + 1/2 - e^{2v}/2)), which is below e^-40 outside of the grid.
pub(super) fn concentric(dim: usize, count: usize) -> f64 {
    let (d, n) = (dim as f64, count as f64);
    let bound = 40.0 / d;
    let (low, high) = (-bound - (2.0 * bound).sqrt(), bound.sqrt());
    let grid = Grid { low, high, step: (high - low) / 1000.0 };
    let weight = |v: f64| (d * (v + 0.5 - 0.5 * (2.0 * v).exp())).exp();
    let log_ratio = |k: f64, v: f64| {
        let half_square = 0.5 * d * (2.0 * v).exp();
        let term = |j: f64| d * (k / j).ln() + half_square * (1.0 - (k / j).powi(2));
        n.ln() - log_sum_exp((1..=count).map(|j| term(j as f64)))
    };
    let mean = |v: f64| (1..=count).map(|k| log_ratio(k as f64, v)).sum::<f64>() / n;
    grid.integrate(|v| weight(v) * mean(v)) / grid.integrate(weight)
}

/// Returns the mutual information of two pairs with correlation rho of which a fraction q of the
/// samples is replaced by independent x and y of the same distributions.
///
/// The log ratio of the pairs alone is s = -ln(1 - rho^2) + t, where t has the Laplace distribution
/// of scale rho (it is rho/2 times the difference of two chi-squared variables with 2 degrees of
/// freedom). For independent x and y its density is multiplied by e^{-s}, so
///
/// I = E[(1 - q + q e^{-s}) ln((1 - q) e^s + q)].
///
/// The integrals over t > 0 and t < 0 are taken over ln |t|.
pub(super) fn inliers(rho: f64, fraction: f64) -> f64 {
    let grid = Grid { low: -40.0, high: (40.0 / (1.0 / rho - 1.0)).ln(), step: 0.02 };
    let integrand = |t: f64| {
        let s = t - (1.0 - rho * rho).ln();
        let density = (-t.abs() / rho).exp() / (2.0 * rho);
        let tilted = (-s - t.abs() / rho).exp() / (2.0 * rho);
        let log_ratio = log_add_exp((1.0 - fraction).ln() + s, fraction.ln());
        ((1.0 - fraction) * density + fraction * tilted) * log_ratio
    };
    grid.integrate(|u| u.exp() * (integrand(u.exp()) + integrand(-u.exp())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A single Gaussian has I = -1/2 ln(1 - rho^2) at any scale.
    #[test]
    fn one_component_has_the_mutual_information_of_a_gaussian() {
        for rho in [0.0, 0.75, -0.99] {
            let (x, y) = (vec![Normal::new(3.0, 0.01)], vec![Normal::new(-1.0, 100.0)]);
            let one = Component { weight: 1.0, x, y, rho: vec![rho] };
            let exact = -0.5 * (1.0f64 - rho * rho).ln();
            assert!((planar(&[one]) - exact).abs() < 1e-7, "{rho}");
        }
        assert!(concentric(3, 1).abs() < 1e-12);
    }

    /// In many dimensions the length of x tells its component.
    #[test]
    fn concentric_gaussians_of_high_dimension_are_distinct() {
        assert!((concentric(5_000, 4) - 4.0f64.ln()).abs() < 1e-9);
    }

    /// Few inliers leave -ln(1 - rho^2) of two pairs, and inliers alone nothing.
    #[test]
    fn inliers_remove_the_mutual_information() {
        assert!((inliers(0.8, 1e-9) + 0.36f64.ln()).abs() < 1e-6);
        assert!(inliers(0.8, 1.0 - 1e-9).abs() < 1e-6);
    }
}

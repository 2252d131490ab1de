//! The power of a test as a function of the number of rows.

use nalgebra::{Matrix2, Vector2};
use statrs::distribution::{Continuous, ContinuousCDF, Normal};

/// Prior mean and standard deviation of the slope. For chi-squared tests with one to fifty degrees of
/// freedom, the slope is between 2.8 and 5; the prior only matters while there are few tables.
const SLOPE: (f64, f64) = (3.8, 1.2);

/// The smallest slope: power grows with the number of rows.
const MIN_SLOPE: f64 = 0.6;

/// The smallest solution for the root of the number of rows, in units of the origin.
const MIN_ROOT: f64 = 0.05;

/// Tables of one size: their number, and in how many of them the test rejected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Counts {
    pub rows: usize,
    pub tables: usize,
    pub rejected: usize,
}

/// power(n) = alpha + (1 - alpha) Phi(location + slope (sqrt(n / origin) - 1)), because the statistic of a
/// test grows with the root of the number of rows.
#[derive(Clone, Debug)]
pub(super) struct PowerCurve {
    alpha: f64,
    origin: f64,
    /// (location, slope)
    parameters: Vector2<f64>,
    /// The covariance matrix of the parameters.
    covariance: Matrix2<f64>,
}

fn normal() -> Normal {
    Normal::standard()
}

impl PowerCurve {
    /// Fits the curve by maximum likelihood, with Fisher's scoring.
    pub(super) fn fit(alpha: f64, counts: &[Counts]) -> Self {
        let tables: f64 = counts.iter().map(|size| size.tables as f64).sum();
        let logs = counts.iter().map(|size| size.tables as f64 * (size.rows as f64).ln());
        let origin = (logs.sum::<f64>() / tables.max(1.0)).exp();
        let mut curve = PowerCurve {
            alpha,
            origin,
            parameters: Vector2::new(0.0, SLOPE.0),
            covariance: Matrix2::identity(),
        };
        for _ in 0..60 {
            let (score, information) = curve.score_and_information(counts);
            curve.covariance = information.try_inverse().unwrap_or_else(Matrix2::identity);
            // Small steps keep the iteration stable while all tests reject, or none.
            let step = curve.covariance * score;
            let step = step * (1.0 / step.norm()).min(1.0);
            curve.parameters += step;
            curve.parameters[1] = curve.parameters[1].max(MIN_SLOPE);
            if step.norm() < 1e-9 {
                break;
            }
        }
        curve
    }

    /// Returns the gradient of the logarithm of the posterior, and Fisher's information.
    fn score_and_information(&self, counts: &[Counts]) -> (Vector2<f64>, Matrix2<f64>) {
        let precision = 1.0 / (SLOPE.1 * SLOPE.1);
        let mut score = Vector2::new(0.0, -(self.parameters[1] - SLOPE.0) * precision);
        // A little information on the location, so that it stays finite if all tests reject or none.
        let mut information = Matrix2::new(1e-3, 0.0, 0.0, precision);
        score[0] -= 1e-3 * self.parameters[0];
        for size in counts {
            let inputs = self.inputs(size.rows as f64);
            let eta = self.parameters.dot(&inputs);
            let power = self.of_eta(eta).clamp(1e-9, 1.0 - 1e-9);
            let slope = (1.0 - self.alpha) * normal().pdf(eta);
            let variance = power * (1.0 - power);
            let residual = size.rejected as f64 - size.tables as f64 * power;
            score += inputs * (residual * slope / variance);
            let weight = size.tables as f64 * slope * slope / variance;
            information += inputs * inputs.transpose() * weight;
        }
        (score, information)
    }

    fn inputs(&self, rows: f64) -> Vector2<f64> {
        Vector2::new(1.0, (rows / self.origin).sqrt() - 1.0)
    }

    fn of_eta(&self, eta: f64) -> f64 {
        self.alpha + (1.0 - self.alpha) * normal().cdf(eta)
    }

    /// Returns the power with this many rows.
    pub(super) fn power(&self, rows: f64) -> f64 {
        self.of_eta(self.parameters.dot(&self.inputs(rows)))
    }

    /// Returns the number of rows for this power, above alpha and below 1, and the ends of its 95%
    /// interval.
    pub(super) fn rows(&self, power: f64) -> (f64, f64, f64) {
        let [location, slope] = [self.parameters[0], self.parameters[1]];
        let eta = normal().inverse_cdf((power - self.alpha) / (1.0 - self.alpha));
        let input = (eta - location) / slope;
        let gradient = Vector2::new(-1.0 / slope, -input / slope);
        let variance = (gradient.transpose() * self.covariance * gradient)[0];
        let margin = 1.96 * variance.max(0.0).sqrt();
        let rows = |input: f64| self.origin * (1.0 + input).max(MIN_ROOT).powi(2);
        (rows(input), rows(input - margin), rows(input + margin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, stream};
    use rand::RngExt;

    /// The power of the two-sided z-test of a mean .1 with n rows and variance 1.
    fn z_test(rows: usize) -> f64 {
        let shift = 0.1 * (rows as f64).sqrt();
        normal().cdf(shift - 1.96) + normal().cdf(-shift - 1.96)
    }

    #[test]
    fn the_curve_of_exact_shares_is_that_of_the_z_test() {
        let sizes = [200, 400, 600, 800, 1100];
        let counts = sizes.map(|rows| {
            let tables = 1_000_000;
            Counts { rows, tables, rejected: (z_test(rows) * tables as f64) as usize }
        });
        let curve = PowerCurve::fit(0.05, &counts);
        for rows in [200, 300, 500, 785, 1100] {
            let (fitted, exact) = (curve.power(rows as f64), z_test(rows));
            assert!((fitted - exact).abs() < 0.015, "{rows}: {fitted}, {exact}");
        }
        let (rows, low, high) = curve.rows(0.8);
        assert!((rows / 785.0 - 1.0).abs() < 0.03 && low < rows && rows < high, "{rows}");
    }

    /// 200 studies of 100 tables each: the interval of the rows contains the truth in 95%; with
    /// alpha = .001 for each end, in at least 178.
    #[test]
    fn intervals_of_the_number_of_rows_contain_it() {
        let truth = PowerCurve::fit(
            0.05,
            &[200, 400, 800, 1200].map(|rows| Counts {
                rows,
                tables: 1_000_000,
                rejected: (z_test(rows) * 1e6) as usize,
            }),
        );
        let (exact, ..) = truth.rows(0.8);
        let mut rng = stream(1, Purpose::Data, 0, 0);
        let contained = (0..200).filter(|_| {
            let counts = [350, 600, 800, 1100].map(|rows| {
                let power = truth.power(rows as f64);
                let rejected = (0..25).filter(|_| rng.random::<f64>() < power).count();
                Counts { rows, tables: 25, rejected }
            });
            let (_, low, high) = PowerCurve::fit(0.05, &counts).rows(0.8);
            (low..high).contains(&exact)
        });
        let contained = contained.count();
        assert!(contained >= 178, "{contained}");
    }

    #[test]
    fn shares_of_0_and_1_leave_everything_finite() {
        for rejected in [0, 20] {
            let curve = PowerCurve::fit(0.05, &[Counts { rows: 500, tables: 20, rejected }]);
            let (rows, ..) = curve.rows(0.8);
            assert!(rows.is_finite() && rows > 0.0, "{rows}");
            assert_eq!(rows < 500.0, rejected == 20);
        }
    }
}

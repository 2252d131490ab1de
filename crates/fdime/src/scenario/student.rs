//! The multivariate Student distribution.

use super::{Distribution, Generator, Level, bisect, geometric_mean};
use crate::error::Result;
use crate::nats::Nats;
use crate::random::Rng;
use rand_distr::{ChiSquared, Distribution as _, StandardNormal};
use statrs::function::gamma::{digamma, ln_gamma};

/// (X, Y) = z sqrt(v / w) with z standard normal in 2d dimensions and w chi-squared with v degrees
/// of freedom: uncorrelated, yet dependent through the common scale.
pub(super) struct Student {
    dim: usize,
    df: f64,
    chi_squared: ChiSquared<f64>,
}

/// Returns I = s(dx) + s(dy) - s(dx+dy) - s(0) with s(n) = (v+n)/2 psi((v+n)/2) - ln G((v+n)/2).
fn information(df: f64, dim: usize) -> f64 {
    let s = |n: usize| {
        let half = (df + n as f64) / 2.0;
        half * digamma(half) - ln_gamma(half)
    };
    2.0 * s(dim) - s(2 * dim) - s(0)
}

/// With fewer degrees of freedom, some samples overflow single precision.
const MIN_DF: f64 = 0.3;
const MAX_DF: f64 = 1e4;

/// Returns the degrees of freedom at which the mutual information, a decreasing function of them,
/// is `target`. Fails if there are none in range.
fn solve_df(level: Level, target: f64, dim: usize) -> Result<f64> {
    let (min_mi, max_mi) = (information(MAX_DF, dim), information(MIN_DF, dim));
    if target > max_mi || target < min_mi {
        return Err(level.out_of_range(&format!(
            "a Student distribution of this dim has between {min_mi:.4} and {max_mi:.4} nats"
        )));
    }
    Ok(bisect((MIN_DF, MAX_DF), 200, geometric_mean, |df| information(df, dim) > target).1)
}

impl Student {
    pub(super) fn at(level: Level, dim: usize) -> Result<Self> {
        let df = match level {
            Level::Df(df) if (MIN_DF..=MAX_DF).contains(&df) => df,
            Level::Df(_) => {
                return Err(level.out_of_range("degrees of freedom must lie between 0.3 and 10000"));
            }
            Level::Mi(mi) if mi > 0.0 && mi.is_finite() => solve_df(level, mi, dim)?,
            Level::Mi(_) => {
                return Err(
                    level.out_of_range("mutual information must be finite and positive here")
                );
            }
            _ => {
                return Err(level.unsupported("student", "MI (nats) or df"));
            }
        };
        match ChiSquared::new(df) {
            Ok(chi_squared) => Ok(Student { dim, df, chi_squared }),
            Err(_) => Err(level.out_of_range("degrees of freedom must be positive")),
        }
    }
}

impl Distribution for Student {
    fn draw(&self, rng: &mut Rng, x: &mut [f64], y: &mut [f64]) {
        let scale = (self.df / self.chi_squared.sample(rng)).sqrt();
        for value in x.iter_mut().chain(y) {
            let z: f64 = StandardNormal.sample(rng);
            *value = scale * z;
        }
    }

    fn generator(&self) -> Option<Generator> {
        Some(Generator::Student { df: self.df })
    }

    fn mutual_information(&self) -> Nats {
        Nats(information(self.df, self.dim))
    }

    /// For z in n dimensions, ln p(z) = ln G((v+n)/2) - ln G(v/2) - n/2 ln(v pi) -
    /// (v+n)/2 ln(1 + |z|^2/v). The terms in ln(v pi) cancel in the ratio.
    fn log_ratio(&self, x: &[f64], y: &[f64]) -> f64 {
        let (v, d) = (self.df, self.dim as f64);
        let square = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
        let log_density = |n: f64, square: f64| {
            ln_gamma((v + n) / 2.0) - ln_gamma(v / 2.0) - (v + n) / 2.0 * (square / v).ln_1p()
        };
        let (xx, yy) = (square(x), square(y));
        log_density(2.0 * d, xx + yy) - log_density(d, xx) - log_density(d, yy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_and_inversion() {
        for (dim, df, expected) in [
            (5, 3.0, 0.2985),
            (5, 2.0, 0.4482),
            (5, 1.0, 0.8013),
            (1, 1.0, 0.2242),
            (2, 2.0, 0.1931),
        ] {
            assert!((information(df, dim) - expected).abs() < 1e-4, "d={dim} df={df}");
            let inverted = solve_df(Level::Mi(0.0), information(df, dim), dim).unwrap();
            assert!((inverted / df - 1.0).abs() < 1e-6, "d={dim} df={df}");
        }
    }

    #[test]
    fn impossible_levels_are_refused() {
        for level in
            [Level::Df(0.0), Level::Df(-1.0), Level::Mi(0.0), Level::Mi(100.0), Level::Rho(0.5)]
        {
            assert!(Student::at(level, 2).is_err(), "{level}");
        }
    }
}

//! Additive uniform noise.

use super::{Distribution, Generator, Level, bisect, geometric_mean};
use crate::error::Result;
use crate::nats::Nats;
use crate::random::Rng;
use rand::RngExt;

/// Independent components X ~ U(0,1), Y = X + U(-e, e). The mutual information of one component is
/// I = e - ln(2e) for e <= 1/2, else 1/(4e).
pub(super) struct Uniform {
    dim: usize,
    epsilon: f64,
}

/// The maximum noise, at which the mutual information is almost 0.
const MAX_EPSILON: f64 = 1e6;

/// Returns the mutual information of one component.
fn information(epsilon: f64) -> f64 {
    if epsilon <= 0.5 { epsilon - (2.0 * epsilon).ln() } else { 0.25 / epsilon }
}

/// Returns the epsilon at which one component has this mutual information, which decreases from
/// infinity to 0 as epsilon grows.
fn solve_epsilon(target: f64) -> f64 {
    if target <= 0.5 {
        return 0.25 / target;
    }
    // e - ln(2e) = I has its root between e^{-I}/2, the root of -ln(2e) = I, and 1/2.
    let bounds = (0.5 * (-target).exp(), 0.5);
    bisect(bounds, 200, geometric_mean, |epsilon| information(epsilon) > target).1
}

impl Uniform {
    pub(super) fn at(level: Level, dim: usize) -> Result<Self> {
        let epsilon = match level {
            Level::Epsilon(epsilon) if epsilon > 0.0 && epsilon <= MAX_EPSILON => epsilon,
            Level::Epsilon(_) => {
                return Err(level.out_of_range("epsilon must be positive and at most a million"));
            }
            // Above 14 nats per component, epsilon is below the resolution of single precision.
            Level::Mi(mi)
                if mi >= information(MAX_EPSILON) * dim as f64 && mi <= 14.0 * dim as f64 =>
            {
                solve_epsilon(mi / dim as f64)
            }
            Level::Mi(_) => {
                return Err(level.out_of_range(
                    "mutual information must lie between 2.5e-7 and 14 nats per dimension here",
                ));
            }
            _ => {
                return Err(level.unsupported("uniform", "MI (nats) or eps"));
            }
        };
        if epsilon < 1e-6 {
            return Err(level.out_of_range(
                "x and y would be equal to within single precision; use a lower level or a higher dim",
            ));
        }
        Ok(Uniform { dim, epsilon })
    }
}

impl Distribution for Uniform {
    fn draw(&self, rng: &mut Rng, x: &mut [f64], y: &mut [f64]) {
        for (x, y) in x.iter_mut().zip(y) {
            *x = rng.random();
            *y = *x + rng.random_range(-self.epsilon..self.epsilon);
        }
    }

    fn generator(&self) -> Option<Generator> {
        Some(Generator::Uniform { epsilon: self.epsilon })
    }

    fn mutual_information(&self) -> Nats {
        Nats(self.dim as f64 * information(self.epsilon))
    }

    /// p(y|x) = 1/(2e) and p(y) = overlap/(2e), with the overlap of (y-e, y+e) and (0, 1).
    fn log_ratio(&self, _x: &[f64], y: &[f64]) -> f64 {
        y.iter()
            .map(|y| {
                let overlap = (y + self.epsilon).min(1.0) - (y - self.epsilon).max(0.0);
                -overlap.ln()
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_and_inversion() {
        let mi = |epsilon| Uniform::at(Level::Epsilon(epsilon), 1).unwrap().mutual_information().0;
        assert!((mi(0.1) - 1.7094).abs() < 1e-4);
        assert!((mi(0.75) - 0.3333).abs() < 1e-4);
        for epsilon in [2.0, 0.5, 0.4999, 0.1, 0.001] {
            assert!(
                (solve_epsilon(information(epsilon)) / epsilon - 1.0).abs() < 1e-9,
                "{epsilon}"
            );
        }
    }

    #[test]
    fn impossible_levels_are_refused() {
        for level in [
            Level::Epsilon(0.0),
            Level::Epsilon(-1.0),
            Level::Mi(0.0),
            Level::Mi(-2.0),
            Level::Mi(50.0),
            Level::Mi(800.0),
            Level::Mi(1e-309),
            Level::Epsilon(1e308),
            Level::Df(1.0),
        ] {
            assert!(Uniform::at(level, 1).is_err(), "{level}");
        }
    }
}

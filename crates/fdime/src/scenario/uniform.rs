//! Additive uniform noise.

use super::{Distribution, Generator, Level};
use crate::error::Result;
use crate::nats::Nats;
use crate::random::Rng;
use rand::RngExt;

/// Each component: X ~ U(0,1), Y = X + U(-e, e);
/// I = e - ln(2e) for e <= 1/2, else 1/(4e).
pub(super) struct Uniform {
    dim: usize,
    epsilon: f64,
}

/// The widest noise; there is next to no information left.
const WIDEST: f64 = 1e6;

/// I of one component.
fn information(epsilon: f64) -> f64 {
    if epsilon <= 0.5 { epsilon - (2.0 * epsilon).ln() } else { 0.25 / epsilon }
}

/// The epsilon with this information; it falls from infinity to 0 as epsilon grows.
fn epsilon_of(information_wanted: f64) -> f64 {
    if information_wanted <= 0.5 {
        return 0.25 / information_wanted;
    }
    // e - ln(2e) = I has its root between e^{-I}/2 (where e = 0 is left out) and 1/2.
    let (mut low, mut high) = (0.5 * (-information_wanted).exp(), 0.5);
    for _ in 0..200 {
        let middle = (low * high).sqrt();
        if information(middle) > information_wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

impl Uniform {
    pub(super) fn at(level: Level, dim: usize) -> Result<Self> {
        let epsilon = match level {
            Level::Epsilon(epsilon) if epsilon > 0.0 && epsilon <= WIDEST => epsilon,
            Level::Epsilon(_) => {
                return Err(level.out_of_range("epsilon is positive and at most a million"));
            }
            // Beyond 14 nats a component, epsilon is below what single precision can tell.
            Level::Mi(mi) if mi >= information(WIDEST) * dim as f64 && mi <= 14.0 * dim as f64 => {
                epsilon_of(mi / dim as f64)
            }
            Level::Mi(_) => {
                return Err(level.out_of_range(
                    "here mutual information lies between 2.5e-7 and 14 nats for each dimension",
                ));
            }
            Level::Rho(_) | Level::Df(_) => {
                return Err(level.not_for("uniform", "MI (nats) or eps"));
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

    fn generator(&self) -> Generator {
        Generator::Uniform { epsilon: self.epsilon }
    }

    fn mutual_information(&self) -> Nats {
        Nats(self.dim as f64 * information(self.epsilon))
    }

    /// p(y|x) = 1/(2e); p(y) = (length of x in (0,1) within e of y) / (2e)
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
            assert!((epsilon_of(information(epsilon)) / epsilon - 1.0).abs() < 1e-9, "{epsilon}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
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

//! A Gaussian in which all components have the same correlation.

use super::{Distribution, Generator, Level, arithmetic_mean, bisect};
use crate::error::Result;
use crate::nats::Nats;
use crate::random::Rng;
use rand_distr::{Distribution as _, StandardNormal};

/// Any two of the 2d components have correlation rho >= 0: component i is
/// sqrt(rho) z_0 + sqrt(1 - rho) z_i. The covariance matrix of k components has the determinant
/// (1 - rho)^(k-1) (1 + (k-1) rho), hence
///
/// I = 1/2 ln( (1 + (d-1) rho)^2 / ((1 - rho) (1 + (2d-1) rho)) )
pub(super) struct DenseGaussian {
    dim: usize,
    rho: f64,
}

/// Returns the mutual information.
fn information(rho: f64, dim: usize) -> f64 {
    let d = dim as f64;
    0.5 * (2.0 * ((d - 1.0) * rho).ln_1p() - (-rho).ln_1p() - ((2.0 * d - 1.0) * rho).ln_1p())
}

/// The maximum rho; the determinant is 0 at 1.
const MAX_RHO: f64 = 1.0 - 1e-9;

impl DenseGaussian {
    pub(super) fn at(level: Level, dim: usize) -> Result<Self> {
        let rho = match level {
            Level::Rho(rho) if (0.0..=MAX_RHO).contains(&rho) => rho,
            Level::Rho(_) => {
                return Err(level.out_of_range("rho must be at least 0 and less than 1 here"));
            }
            Level::Mi(mi) if (0.0..=information(MAX_RHO, dim)).contains(&mi) => {
                let is_below = |rho: f64| information(rho, dim) < mi;
                bisect((0.0, MAX_RHO), 200, arithmetic_mean, is_below).1
            }
            Level::Mi(_) => {
                return Err(level.out_of_range("must be between 0 and about 10 nats here"));
            }
            _ => {
                return Err(level.unsupported("dense-gaussian", "MI (nats) or rho"));
            }
        };
        Ok(DenseGaussian { dim, rho })
    }

    /// Returns v' C^-1 v of k components: (|v|^2 - rho (sum v)^2 / (1 + (k-1) rho)) / (1 - rho).
    fn quadratic(&self, values: impl Iterator<Item = f64> + Clone) -> f64 {
        let k = values.clone().count() as f64;
        let sum: f64 = values.clone().sum();
        let squares: f64 = values.map(|v| v * v).sum();
        (squares - self.rho * sum * sum / (1.0 + (k - 1.0) * self.rho)) / (1.0 - self.rho)
    }
}

impl Distribution for DenseGaussian {
    fn draw(&self, rng: &mut Rng, x: &mut [f64], y: &mut [f64]) {
        let shared: f64 = StandardNormal.sample(rng);
        for value in x.iter_mut().chain(y) {
            let own: f64 = StandardNormal.sample(rng);
            *value = self.rho.sqrt() * shared + (1.0 - self.rho).sqrt() * own;
        }
    }

    fn generator(&self) -> Option<Generator> {
        Some(Generator::Dense { rho: self.rho })
    }

    fn mutual_information(&self) -> Nats {
        Nats(information(self.rho, self.dim))
    }

    fn log_ratio(&self, x: &[f64], y: &[f64]) -> f64 {
        let (x, y) = (x.iter().copied(), y.iter().copied());
        let separate = self.quadratic(x.clone()) + self.quadratic(y.clone());
        information(self.rho, self.dim) + 0.5 * (separate - self.quadratic(x.chain(y)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutual_information_matches_the_published_values() {
        for (dim, mi) in [(2, 0.2939), (3, 0.4133), (5, 0.5928), (25, 1.2922), (50, 1.6243)] {
            let at = DenseGaussian::at(Level::Rho(0.5), dim).unwrap();
            assert!((at.mutual_information().0 - mi).abs() < 1e-4, "d = {dim}");
            let back = DenseGaussian::at(Level::Mi(at.mutual_information().0), dim).unwrap();
            assert!((back.rho - 0.5).abs() < 1e-9);
        }
        assert!(DenseGaussian::at(Level::Rho(-0.1), 2).is_err());
        assert!(DenseGaussian::at(Level::Mi(1e9), 2).is_err());
    }
}

//! A Gaussian with correlated pairs of components.

use super::{Distribution, Generator, Level};
use crate::error::{Result, invalid};
use crate::message::Parameter;
use crate::nats::Nats;
use crate::random::Rng;
use rand_distr::{Distribution as _, StandardNormal};

/// d independent pairs of components with correlation rho: I = -d/2 ln(1 - rho^2). All further
/// components are independent noise.
///
/// Normalised, y = rho x + sqrt(1 - rho^2) n. As a channel, y = x + n with noise of variance
/// (1 - rho^2) / rho^2: the same dependence, with y scaled by 1 / rho.
pub(super) struct Gaussian {
    /// The number d of correlated pairs, which are the first components.
    pairs: usize,
    rho: f64,
    /// sqrt(1 - rho^2), stored separately because computing it from rho loses all digits near 1.
    noise: f64,
    channel: bool,
}

impl Gaussian {
    pub(super) fn at(level: Level, dim: usize, pairs: usize, channel: bool) -> Result<Self> {
        if dim < pairs {
            return Err(invalid(
                Parameter::Dim,
                dim,
                format!("must be at least {pairs} for this scenario"),
            ));
        }
        let (rho, noise) = match level {
            Level::Mi(mi) if mi >= 0.0 && mi.is_finite() => {
                // 1 - rho^2 = e^{-2 I / d}
                let exponent = -2.0 * mi / pairs as f64;
                ((-exponent.exp_m1()).sqrt(), (exponent / 2.0).exp())
            }
            Level::Mi(_) => {
                return Err(
                    level.out_of_range("mutual information must be finite and not negative")
                );
            }
            Level::Rho(rho) if rho.abs() < 1.0 => (rho, (1.0 - rho * rho).sqrt()),
            Level::Rho(_) => {
                return Err(level.out_of_range("rho must lie strictly between -1 and 1"));
            }
            _ => {
                return Err(level.unsupported("gaussian", "MI (nats) or rho"));
            }
        };
        if noise < 1e-7 {
            return Err(level.out_of_range(
                "x and y would be equal to within single precision; use a lower level or a higher dim",
            ));
        }
        if channel && rho == 0.0 {
            return Err(level.out_of_range("a channel y = x + n always carries information"));
        }
        Ok(Gaussian { pairs, rho, noise, channel })
    }

    /// Returns the factor of the normalised y.
    fn scale(&self) -> f64 {
        if self.channel { 1.0 / self.rho } else { 1.0 }
    }
}

impl Distribution for Gaussian {
    fn draw(&self, rng: &mut Rng, x: &mut [f64], y: &mut [f64]) {
        let scale = self.scale();
        for (k, (x, y)) in x.iter_mut().zip(y).enumerate() {
            *x = StandardNormal.sample(rng);
            let n: f64 = StandardNormal.sample(rng);
            *y = if k < self.pairs { scale * (self.rho * *x + self.noise * n) } else { n };
        }
    }

    fn generator(&self) -> Option<Generator> {
        let Gaussian { pairs, rho, noise, .. } = *self;
        Some(Generator::Gaussian { pairs, rho, noise, scale: self.scale() })
    }

    fn mutual_information(&self) -> Nats {
        // Adding 0 turns -0, the result for independent x and y, into 0.
        Nats(-(self.pairs as f64) * self.noise.ln() + 0.0)
    }

    /// Sums -ln sqrt(1 - rho^2) + y^2/2 - (y - rho x)^2 / (2 (1 - rho^2)) over the pairs.
    fn log_ratio(&self, x: &[f64], y: &[f64]) -> f64 {
        let scale = self.scale();
        let component = |(x, y): (&f64, &f64)| {
            let y = y / scale;
            let residual = (y - self.rho * x) / self.noise;
            -self.noise.ln() + 0.5 * (y * y - residual * residual)
        };
        x.iter().zip(y).take(self.pairs).map(component).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_by_mi_and_by_rho_agree() {
        for channel in [false, true] {
            let by_rho = Gaussian::at(Level::Rho(0.6), 5, 5, channel).unwrap();
            let by_mi =
                Gaussian::at(Level::Mi(by_rho.mutual_information().0), 5, 5, channel).unwrap();
            assert!((by_mi.rho - 0.6).abs() < 1e-12);
        }
        let one = Gaussian::at(Level::Rho(0.75), 1, 1, false).unwrap().mutual_information().0;
        assert!((one - 0.4133).abs() < 1e-4);
    }

    #[test]
    fn impossible_levels_are_refused() {
        for (level, words) in [
            (Level::Mi(-1.0), "not negative"),
            (Level::Mi(f64::NAN), "not negative"),
            (Level::Rho(1.0), "strictly between"),
            (Level::Rho(-1.5), "strictly between"),
            (Level::Mi(1000.0), "single precision"),
            (Level::Df(3.0), "MI (nats) or rho"),
        ] {
            let error = Gaussian::at(level, 1, 1, false).err().unwrap().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(Gaussian::at(Level::Mi(0.0), 1, 1, true).is_err());
        let independent = Gaussian::at(Level::Mi(0.0), 1, 1, false).unwrap().mutual_information();
        assert_eq!(independent.to_string(), "0 nats");
    }
}

//! A Gaussian channel that z shifts or makes noisy: the linear models of Mukherjee, Asnani and
//! Kannan (*CCMI*, UAI 2019).

use super::Triples;
use crate::random::Rng;
use crate::scenario::normal::Normal;
use rand::RngExt;

/// The standard deviation of constant noise.
const NOISE: f64 = 0.1;

/// What z is, and does to the channel.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    /// z ~ U(-.5, .5), noise N(z_1, .01): CCMI's model I, category F of its code.
    Shift,
    /// z ~ N(0, I), noise N(w'z, .01) with these weights: CCMI's model II, category G of its code.
    WeightedShift(Vec<f64>),
    /// z ~ U(.5, 1.5), noise N(0, z_1^2): category A (d = 1) and B (d > 1) of CCMI's code.
    NoiseLevel,
}

/// x ~ N(0, 1), y = x + noise, whose distribution is normal given z. With noise of standard
/// deviation s(z), I(X; Y | Z) = E 1/2 ln(1 + 1 / s(Z)^2).
pub(super) struct Channel {
    pub(super) condition: Condition,
    pub(super) z_dim: usize,
}

impl Channel {
    /// Returns the distribution of the noise given z.
    fn noise(&self, z: &[f64]) -> Normal {
        match &self.condition {
            Condition::Shift => Normal { mean: z[0], deviation: NOISE },
            Condition::WeightedShift(weights) => {
                let mean = z.iter().zip(weights).map(|(z, weight)| z * weight).sum();
                Normal { mean, deviation: NOISE }
            }
            Condition::NoiseLevel => Normal { mean: 0.0, deviation: z[0] },
        }
    }

    fn draw_condition(&self, rng: &mut Rng) -> f64 {
        match self.condition {
            Condition::Shift => rng.random_range(-0.5..0.5),
            Condition::WeightedShift(_) => Normal::STANDARD.draw(rng),
            Condition::NoiseLevel => rng.random_range(0.5..1.5),
        }
    }
}

impl Triples for Channel {
    fn dims(&self) -> [usize; 3] {
        [1, 1, self.z_dim]
    }

    fn draw(&self, rng: &mut Rng, [x, y, z]: &mut [Vec<f64>; 3]) {
        z.iter_mut().for_each(|value| *value = self.draw_condition(rng));
        x[0] = Normal::STANDARD.draw(rng);
        y[0] = x[0] + self.noise(z).draw(rng);
    }

    /// For noise of level z ~ U(.5, 1.5), 1/2 ln(1 + 1/z^2) has the primitive
    /// z/2 ln(1 + 1/z^2) + arctan z.
    fn information(&self) -> f64 {
        match self.condition {
            Condition::Shift | Condition::WeightedShift(_) => 0.5 * (1.0 / (NOISE * NOISE)).ln_1p(),
            Condition::NoiseLevel => {
                let primitive = |z: f64| 0.5 * z * (1.0 / (z * z)).ln_1p() + z.atan();
                primitive(1.5) - primitive(0.5)
            }
        }
    }

    /// p(y | x, z) is the density of the noise at y - x, and p(y | z) is normal with variance 1 more.
    fn log_ratio(&self, [x, y, z]: &[Vec<f64>; 3]) -> f64 {
        let noise = self.noise(z);
        let output = Normal::new(noise.mean, 1.0 + noise.deviation * noise.deviation);
        noise.log_density(y[0] - x[0]) - output.log_density(y[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::quadrature::GaussLegendre;

    /// CCMI's published values are KSG estimates of 50,000 rows: 2.319 and 2.319 for d = 20.
    #[test]
    fn information_agrees_with_quadrature_and_with_published_values() {
        let information = |condition| Channel { condition, z_dim: 1 }.information();
        let points = GaussLegendre::new().on(0.5, 1.5, 1.0);
        let integral: f64 =
            points.iter().map(|(z, weight)| weight * 0.5 * (1.0 / (z * z)).ln_1p()).sum();
        assert!((information(Condition::NoiseLevel) - integral).abs() < 1e-12);
        for condition in [Condition::Shift, Condition::WeightedShift(vec![1.0])] {
            assert!((information(condition) - 2.319).abs() < 0.02);
        }
    }
}

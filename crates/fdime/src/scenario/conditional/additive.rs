//! Correlated noise around functions of z.

use super::Triples;
use crate::random::Rng;
use crate::scenario::normal::Normal;

/// The standard deviation of the noise.
const NOISE: f64 = 0.5;

/// The functions of z that x and y depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Means {
    /// f = tanh 2u and g = u^2 with u = (z_1 + z_2 + ...) / sqrt d.
    Smooth,
    /// f = sin 4 z_1 and g = cos 4 z_1.
    Waves,
}

/// z ~ N(0, I), x = f(z) + NOISE e, y = g(z) + NOISE e' where e and e' are standard normal with
/// correlation rho. Given z, x and y are Gaussian with this correlation:
/// I(X; Y | Z) = -1/2 ln(1 - rho^2), whatever f and g are.
pub(super) struct Additive {
    pub(super) means: Means,
    pub(super) z_dim: usize,
    pub(super) rho: f64,
}

impl Additive {
    /// Returns f(z) and g(z).
    fn means(&self, z: &[f64]) -> [f64; 2] {
        match self.means {
            Means::Smooth => {
                let u = z.iter().sum::<f64>() / (z.len() as f64).sqrt();
                [(2.0 * u).tanh(), u * u]
            }
            Means::Waves => [(4.0 * z[0]).sin(), (4.0 * z[0]).cos()],
        }
    }

    /// Returns the distribution of e' given e.
    fn second_given(&self, first: f64) -> Normal {
        Normal::new(self.rho * first, 1.0 - self.rho * self.rho)
    }
}

impl Triples for Additive {
    fn dims(&self) -> [usize; 3] {
        [1, 1, self.z_dim]
    }

    fn draw(&self, rng: &mut Rng, [x, y, z]: &mut [Vec<f64>; 3]) {
        z.iter_mut().for_each(|value| *value = Normal::STANDARD.draw(rng));
        let [f, g] = self.means(z);
        let e = Normal::STANDARD.draw(rng);
        x[0] = f + NOISE * e;
        y[0] = g + NOISE * self.second_given(e).draw(rng);
    }

    fn information(&self) -> f64 {
        // Adding 0 turns -0, the result for rho = 0, into 0.
        -0.5 * (-self.rho * self.rho).ln_1p() + 0.0
    }

    fn log_ratio(&self, [x, y, z]: &[Vec<f64>; 3]) -> f64 {
        let [f, g] = self.means(z);
        let (first, second) = ((x[0] - f) / NOISE, (y[0] - g) / NOISE);
        self.second_given(first).log_density(second) - Normal::STANDARD.log_density(second)
    }
}

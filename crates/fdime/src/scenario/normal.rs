//! The normal distribution on the line.

use crate::random::Rng;
use rand_distr::{Distribution as _, StandardNormal};

/// A normal distribution on the line.
#[derive(Clone, Copy)]
pub(super) struct Normal {
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

impl Normal {
    pub(super) const STANDARD: Normal = Normal { mean: 0.0, deviation: 1.0 };

    pub(super) fn new(mean: f64, variance: f64) -> Self {
        Normal { mean, deviation: variance.sqrt() }
    }

    pub(super) fn draw(self, rng: &mut Rng) -> f64 {
        let z: f64 = StandardNormal.sample(rng);
        self.mean + self.deviation * z
    }

    pub(super) fn standardise(self, value: f64) -> f64 {
        (value - self.mean) / self.deviation
    }

    pub(super) fn log_density(self, value: f64) -> f64 {
        let z = self.standardise(value);
        -0.5 * (z * z + std::f64::consts::TAU.ln()) - self.deviation.ln()
    }

    pub(super) fn density(self, value: f64) -> f64 {
        self.log_density(value).exp()
    }
}

//! Mixtures of Gaussians. Bent by maps, they are the Bend and Mix Models of Czyz, Grabowski, Vogt,
//! Beerenwinkel and Marx (*On the Properties and Estimation of Pointwise Mutual Information
//! Profiles*, TMLR 2025).

mod information;
mod shapes;

pub(super) use shapes::{concentric, letter_x, letters_ai, stripes, two_balls, two_pair_inliers};

use super::Distribution;
use super::normal::Normal;
use crate::nats::Nats;
use crate::numerics::log_add_exp;
use crate::random::Rng;
use rand::RngExt;

/// sum_k w_k N(m_k, C_k). Given the component k, the coordinates of (x, y) are independent, except
/// that x_j and y_j may be correlated.
pub(super) struct GaussianMixture {
    components: Vec<Component>,
    information: f64,
}

/// One Gaussian of a mixture.
struct Component {
    weight: f64,
    x: Vec<Normal>,
    y: Vec<Normal>,
    /// The correlations of (x_1, y_1), (x_2, y_2), ...; those of further pairs are 0.
    rho: Vec<f64>,
}

impl Component {
    /// Returns the distributions of y_1, y_2, ... given x: for correlated coordinates
    /// N(m_y + rho s_y (x - m_x) / s_x, (1 - rho^2) s_y^2).
    fn y_given<'a>(&'a self, x: &'a [f64]) -> impl Iterator<Item = Normal> + 'a {
        self.y.iter().enumerate().map(|(j, y)| match self.rho.get(j) {
            None => *y,
            Some(rho) => Normal {
                mean: y.mean + rho * y.deviation * self.x[j].standardise(x[j]),
                deviation: y.deviation * (1.0 - rho * rho).sqrt(),
            },
        })
    }

    /// Returns ln w p(x).
    fn log_x(&self, x: &[f64]) -> f64 {
        self.weight.ln() + log_density(self.x.iter().copied(), x)
    }

    /// Returns ln w p(y).
    fn log_y(&self, y: &[f64]) -> f64 {
        self.weight.ln() + log_density(self.y.iter().copied(), y)
    }

    /// Returns ln w p(x, y).
    fn log_joint(&self, x: &[f64], y: &[f64]) -> f64 {
        self.log_x(x) + log_density(self.y_given(x), y)
    }
}

/// Returns the log density of independent coordinates.
fn log_density(normals: impl Iterator<Item = Normal>, values: &[f64]) -> f64 {
    normals.zip(values).map(|(normal, value)| normal.log_density(*value)).sum()
}

/// Returns the logarithm of a sum of exponentials.
fn log_sum_exp(terms: impl Iterator<Item = f64>) -> f64 {
    terms.fold(f64::NEG_INFINITY, log_add_exp)
}

/// Returns ln p(x).
fn log_x(components: &[Component], x: &[f64]) -> f64 {
    log_sum_exp(components.iter().map(|component| component.log_x(x)))
}

/// Returns ln p(y).
fn log_y(components: &[Component], y: &[f64]) -> f64 {
    log_sum_exp(components.iter().map(|component| component.log_y(y)))
}

/// Returns ln p(x, y).
fn log_joint(components: &[Component], x: &[f64], y: &[f64]) -> f64 {
    log_sum_exp(components.iter().map(|component| component.log_joint(x, y)))
}

impl Distribution for GaussianMixture {
    fn draw(&self, rng: &mut Rng, x: &mut [f64], y: &mut [f64]) {
        let mut rest: f64 = rng.random();
        let mut is_drawn = |component: &&Component| {
            rest -= component.weight;
            rest < 0.0
        };
        // Rounding may leave a rest after the last component.
        let drawn = self.components.iter().find(&mut is_drawn).or(self.components.last());
        let Some(component) = drawn else { return };
        x.iter_mut().zip(&component.x).for_each(|(value, normal)| *value = normal.draw(rng));
        y.iter_mut().zip(component.y_given(x)).for_each(|(value, y)| *value = y.draw(rng));
    }

    fn mutual_information(&self) -> Nats {
        Nats(self.information)
    }

    fn log_ratio(&self, x: &[f64], y: &[f64]) -> f64 {
        let Self { components, .. } = self;
        log_joint(components, x, y) - log_x(components, x) - log_y(components, y)
    }
}

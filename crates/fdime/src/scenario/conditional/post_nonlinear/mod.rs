//! Post-nonlinear models: those of Mukherjee, Asnani and Kannan (*CCMI*, UAI 2019), and more.

mod curve;
mod information;

pub(in crate::scenario) use curve::Curve;

use super::Triples;
use crate::random::Rng;
use crate::scenario::normal::Normal;
use crate::scenario::quadrature::GaussLegendre;
use curve::Fold;
use information::information;

/// The number of standard deviations at which a normal density ends in an integral.
const REACH: f64 = 8.0;

/// x = f(a'z + s e), y = g(b'z + c x + s' e') with z ~ N(mean, I) and independent standard normal e
/// and e'.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::scenario) struct Model {
    /// The function f.
    pub(in crate::scenario) x_curve: Curve,
    /// The function g.
    pub(in crate::scenario) y_curve: Curve,
    /// The mean of every component of z.
    pub(in crate::scenario) z_mean: f64,
    /// The weights a.
    pub(in crate::scenario) to_x: Vec<f64>,
    /// The weights b, as many as a.
    pub(in crate::scenario) to_y: Vec<f64>,
    /// The factor c.
    pub(in crate::scenario) coupling: f64,
    /// The standard deviations s and s'.
    pub(in crate::scenario) noise: [f64; 2],
}

/// A model with its conditional mutual information. Since x and y depend on z only through
/// u = a'z and v = b'z, I(X; Y | Z) = I(X; Y | U, V); see [`mod@information`] for its integrals.
pub(in crate::scenario) struct PostNonlinear {
    model: Model,
    rule: GaussLegendre,
    information: f64,
}

impl Model {
    /// Returns a'z and b'z.
    fn projections(&self, z: &[f64]) -> [f64; 2] {
        [&self.to_x, &self.to_y]
            .map(|weights| weights.iter().zip(z).map(|(weight, z)| weight * z).sum())
    }

    /// Returns points and weights for the mean of a function of f(t) over t ~ `normal`.
    fn argument_points(&self, rule: &GaussLegendre, normal: Normal) -> Vec<(f64, f64)> {
        let Normal { mean, deviation } = normal;
        let (low, high) = (mean - REACH * deviation, mean + REACH * deviation);
        let (_, slope) = self.x_curve.bounds(low.abs().max(high.abs()));
        // The rule is exact to rounding for normal densities over four standard deviations.
        let width = (2.0 * deviation).min(4.0 * self.noise[1] / (self.coupling * slope).abs());
        let mut points = if self.x_curve.has_kink() && low < 0.0 && high > 0.0 {
            [rule.on(low, 0.0, width), rule.on(0.0, high, width)].concat()
        } else {
            rule.on(low, high, width)
        };
        points.iter_mut().for_each(|(t, weight)| *weight *= normal.density(*t));
        points
    }

    /// Returns the sum of a density over all arguments of g that have the same value as w and lie
    /// within `reach` of `centre`, beyond which the density is 0.
    fn folded(&self, w: f64, centre: f64, reach: f64, density: impl Fn(f64) -> f64) -> f64 {
        match self.y_curve.fold() {
            Fold::None => density(w),
            Fold::Absolute => density(w) + density(-w),
            Fold::Cosine => {
                let turn = std::f64::consts::TAU;
                let sum_from = |t: f64| -> f64 {
                    let first = ((centre - reach - t) / turn).ceil() as i64;
                    let last = ((centre + reach - t) / turn).floor() as i64;
                    (first..=last).map(|k| density(t + turn * k as f64)).sum()
                };
                sum_from(w) + sum_from(-w)
            }
        }
    }
}

impl PostNonlinear {
    pub(in crate::scenario) fn new(model: Model) -> Self {
        let rule = GaussLegendre::new();
        let information = if model.coupling == 0.0 { 0.0 } else { information(&model, &rule) };
        PostNonlinear { model, rule, information }
    }

    /// Returns I(X; Y | Z) in nats.
    pub(in crate::scenario) fn information(&self) -> f64 {
        self.information
    }

    /// Returns ln p(x, y | z) / (p(x | z) p(y | z)) = ln p(y | x, z) / p(y | z).
    ///
    /// With y = g(t), the density of y is that of t at all arguments with this value, divided by the
    /// slope of g there, which is the same for all of them and cancels. The density of t given z is
    /// the mean of that given x over x.
    pub(in crate::scenario) fn log_ratio(&self, x: f64, y: f64, z: &[f64]) -> f64 {
        let model = &self.model;
        let ([u, v], [x_noise, y_noise]) = (model.projections(z), model.noise);
        let w = model.y_curve.argument(y);
        let density_given = |x: f64| {
            let normal = Normal { mean: v + model.coupling * x, deviation: y_noise };
            model.folded(w, normal.mean, REACH * y_noise, |t| normal.density(t))
        };
        let points = model.argument_points(&self.rule, Normal { mean: u, deviation: x_noise });
        let mean: f64 =
            points.iter().map(|(t, weight)| weight * density_given(model.x_curve.at(*t))).sum();
        if model.coupling == 0.0 { 0.0 } else { (density_given(x) / mean).ln() }
    }
}

impl Triples for PostNonlinear {
    fn dims(&self) -> [usize; 3] {
        [1, 1, self.model.to_x.len()]
    }

    fn draw(&self, rng: &mut Rng, [x, y, z]: &mut [Vec<f64>; 3]) {
        let Model { x_curve, y_curve, z_mean, coupling, noise, .. } = self.model;
        z.iter_mut().for_each(|value| *value = z_mean + Normal::STANDARD.draw(rng));
        let [u, v] = self.model.projections(z);
        x[0] = x_curve.at(Normal { mean: u, deviation: noise[0] }.draw(rng));
        y[0] = y_curve.at(Normal { mean: v + coupling * x[0], deviation: noise[1] }.draw(rng));
    }

    fn information(&self) -> f64 {
        self.information
    }

    fn log_ratio(&self, [x, y, z]: &[Vec<f64>; 3]) -> f64 {
        self.log_ratio(x[0], y[0], z)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(x_curve: Curve, y_curve: Curve) -> Model {
        Model {
            x_curve,
            y_curve,
            z_mean: 1.0,
            to_x: vec![0.6, 0.0, -0.3],
            to_y: vec![0.5, 0.2, 0.4],
            coupling: 0.8,
            noise: [0.7, 0.4],
        }
    }

    /// With one-to-one curves, x and y given z are one-to-one maps of Gaussians.
    #[test]
    fn one_to_one_curves_have_the_information_of_gaussians() {
        let exact = 0.5 * (0.8f64 * 0.7 / 0.4).powi(2).ln_1p();
        for y_curve in [Curve::Identity, Curve::Tanh] {
            let information = PostNonlinear::new(model(Curve::Identity, y_curve)).information();
            assert!((information - exact).abs() < 1e-9, "{information} {exact}");
        }
    }

    /// t^2 and exp -|t| tell the same about t: |t|.
    #[test]
    fn even_curves_have_the_same_information() {
        let even = |y_curve| PostNonlinear::new(model(Curve::Tanh, y_curve)).information();
        assert_eq!(even(Curve::Square), even(Curve::Peak));
        assert!(
            even(Curve::Square) < PostNonlinear::new(model(Curve::Tanh, Curve::Tanh)).information()
        );
    }
}

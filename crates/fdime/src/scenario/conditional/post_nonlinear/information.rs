//! The conditional mutual information of post-nonlinear models, by integration.

use super::curve::Fold;
use super::{Model, REACH};
use crate::scenario::normal::Normal;
use crate::scenario::quadrature::{GaussLegendre, entropy, normal_grid, normalised};

/// The number of grid points in a standard deviation of the noise of y.
const POINTS_PER_DEVIATION: f64 = 5.0;

/// Standard deviations below this are treated as 0.
const NO_DEVIATION: f64 = 1e-6;

/// Returns I(X; Y | U, V) with u = a'z and v = b'z.
///
/// Let t = v + c x + s' e', so that y = g(t), and let w be the smallest argument that is not
/// negative and has the same value of g: |t| for an even g, and arccos cos t for the cosine (for
/// one-to-one g it is t). Then y and w determine each other and
///
/// I(X; Y | U, V) = h(W | U, V) - h(W | X, U, V).
///
/// Given x, u and v, t is normal. Given u and v, its density is the mean of these over x. Densities
/// of w are sums of the density of t over all arguments with the same value. They are even, and for
/// the cosine periodic, so the trapezoidal rule is accurate for their entropies.
pub(super) fn information(model: &Model, rule: &GaussLegendre) -> f64 {
    let law = Law::of(model);
    let grid = Grid::of(model, &law);
    entropy_given_z(model, rule, &law, &grid) - entropy_given_x_and_z(model, rule, &law, &grid)
}

/// The joint normal distribution of u and v, by the standard normal r and an independent rest:
/// u = u_mean + u_deviation r, v = v_mean + v_slope r + rest.
struct Law {
    u_mean: f64,
    u_deviation: f64,
    v_mean: f64,
    v_slope: f64,
    rest_deviation: f64,
}

impl Law {
    /// Returns the distribution. For one-to-one g, v only shifts t, which changes no entropy; it is
    /// then taken as 0.
    fn of(model: &Model) -> Self {
        let Model { to_x, to_y, z_mean, .. } = model;
        let dot = |left: &[f64], right: &[f64]| -> f64 {
            left.iter().zip(right).map(|(l, r)| l * r).sum()
        };
        let u_deviation = dot(to_x, to_x).sqrt();
        let slope = if u_deviation > 0.0 { dot(to_x, to_y) / u_deviation } else { 0.0 };
        let rest = (dot(to_y, to_y) - slope * slope).max(0.0).sqrt();
        let matters = if model.y_curve.fold() == Fold::None { 0.0 } else { 1.0 };
        Law {
            u_mean: z_mean * to_x.iter().sum::<f64>(),
            u_deviation,
            v_mean: matters * z_mean * to_y.iter().sum::<f64>(),
            v_slope: matters * slope,
            rest_deviation: if rest < NO_DEVIATION { 0.0 } else { matters * rest },
        }
    }

    /// Returns points and weights of r.
    fn points(&self) -> Vec<(f64, f64)> {
        match self.u_deviation > 0.0 {
            true => normal_grid(),
            false => vec![(0.0, 1.0)],
        }
    }
}

/// A grid of arguments t of g, k times `step` for whole numbers k; `half` of them make half a
/// period. An even g that is not periodic has a period with more than all possible arguments.
struct Grid {
    step: f64,
    half: usize,
    fold: Fold,
}

impl Grid {
    fn of(model: &Model, law: &Law) -> Self {
        let fold = model.y_curve.fold();
        let [x_noise, y_noise] = model.noise;
        let largest_argument = law.u_mean.abs() + REACH * law.u_deviation.hypot(x_noise);
        let (largest_x, _) = model.x_curve.bounds(largest_argument);
        let bound = law.v_mean.abs()
            + REACH * (law.v_slope.abs() + law.rest_deviation + y_noise)
            + model.coupling.abs() * largest_x;
        let half_period = if fold == Fold::Cosine { std::f64::consts::PI } else { bound };
        let step = match law.rest_deviation > 0.0 {
            true => (y_noise / POINTS_PER_DEVIATION).min(law.rest_deviation / 2.0),
            false => y_noise / POINTS_PER_DEVIATION,
        };
        let half = (half_period / step).ceil() as usize;
        Grid { step: half_period / half as f64, half, fold }
    }

    /// Returns a density that vanishes outside of (low, high), summed over all periods.
    fn tabulate(&self, (low, high): (f64, f64), density: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; 2 * self.half];
        let (first, last) = ((low / self.step).ceil() as i64, (high / self.step).floor() as i64);
        for k in first..=last {
            sums[self.index(k)] += density(k as f64 * self.step);
        }
        sums
    }

    /// Returns the index of a grid point within its period.
    fn index(&self, k: i64) -> usize {
        k.rem_euclid(2 * self.half as i64) as usize
    }

    /// Returns the entropy of w for the tabulated density of t, shifted by a number of points.
    fn entropy(&self, density: &[f64], shift: i64) -> f64 {
        if self.fold == Fold::None {
            return self.step * density.iter().map(|density| entropy(*density)).sum::<f64>();
        }
        let term = |k: usize| {
            let at = |k: i64| density[self.index(k - shift)];
            let weight = if k == 0 || k == self.half { 0.5 } else { 1.0 };
            weight * entropy(at(k as i64) + at(-(k as i64)))
        };
        self.step * (0..=self.half).map(term).sum::<f64>()
    }

    /// Returns shifts in grid points and their weights for a normal shift with mean 0.
    fn shifts(&self, deviation: f64) -> Vec<(f64, f64)> {
        if deviation == 0.0 {
            return vec![(0.0, 1.0)];
        }
        let count = (REACH * deviation / self.step) as i32;
        let normal = Normal { mean: 0.0, deviation };
        let points = (-count..=count).map(f64::from);
        normalised(points.map(|k| (k, normal.density(k * self.step))).collect())
    }
}

/// Returns h(W | U, V): the mean over r and the rest of v.
fn entropy_given_z(model: &Model, rule: &GaussLegendre, law: &Law, grid: &Grid) -> f64 {
    let [x_noise, y_noise] = model.noise;
    let shifts = grid.shifts(law.rest_deviation);
    let given = |r: f64| -> f64 {
        let u = Normal { mean: law.u_mean + law.u_deviation * r, deviation: x_noise };
        let v = law.v_mean + law.v_slope * r;
        let parts: Vec<(Normal, f64)> = model
            .argument_points(rule, u)
            .into_iter()
            .map(|(t, weight)| {
                let mean = v + model.coupling * model.x_curve.at(t);
                (Normal { mean, deviation: y_noise }, weight)
            })
            .collect();
        let means = || parts.iter().map(|(part, _)| part.mean);
        let low = means().fold(f64::INFINITY, f64::min) - REACH * y_noise;
        let high = means().fold(f64::NEG_INFINITY, f64::max) + REACH * y_noise;
        let density =
            |t: f64| parts.iter().map(|(part, weight)| weight * part.density(t)).sum::<f64>();
        let table = grid.tabulate((low, high), density);
        shifts.iter().map(|(shift, weight)| weight * grid.entropy(&table, *shift as i64)).sum()
    };
    law.points().iter().map(|(r, weight)| weight * given(*r)).sum()
}

/// Returns h(W | X, U, V), in which w depends only on v + c x: the mean over the argument t of f,
/// which is normal, and over v given t, which is normal, too.
fn entropy_given_x_and_z(model: &Model, rule: &GaussLegendre, law: &Law, grid: &Grid) -> f64 {
    let [x_noise, y_noise] = model.noise;
    let argument = Normal { mean: law.u_mean, deviation: law.u_deviation.hypot(x_noise) };
    let slope = law.v_slope * law.u_deviation / argument.deviation;
    let rest = (law.rest_deviation.powi(2) + law.v_slope.powi(2) - slope * slope).max(0.0).sqrt();
    let rest_points = if rest < NO_DEVIATION { vec![(0.0, 1.0)] } else { normal_grid() };
    let given = |t: f64| -> f64 {
        let centre = law.v_mean + slope * argument.standardise(t);
        let centre = centre + model.coupling * model.x_curve.at(t);
        let entropy = |r: f64| {
            let normal = Normal { mean: centre + rest * r, deviation: y_noise };
            let (low, high) = (normal.mean - REACH * y_noise, normal.mean + REACH * y_noise);
            grid.entropy(&grid.tabulate((low, high), |t| normal.density(t)), 0)
        };
        rest_points.iter().map(|(r, weight)| weight * entropy(*r)).sum()
    };
    let points = model.argument_points(rule, argument);
    points.iter().map(|(t, weight)| weight * given(*t)).sum()
}

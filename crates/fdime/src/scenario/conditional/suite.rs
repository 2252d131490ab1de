//! The tasks of `fdime suite conditional`.

use super::additive::{Additive, Means};
use super::channel::{Channel, Condition};
use super::gaussian::{Gaussian, Structure};
use super::{ConditionalScenario, Curve, Model, PostNonlinear, Triples};
use crate::error::{Result, invalid};
use crate::message::Parameter;
use crate::random::{Purpose, Rng, stream};
use crate::scenario::Map;
use crate::scenario::normal::Normal;
use rand::RngExt;

/// The number of rows from which tasks with many columns of z are worth their time.
const MANY_ROWS: usize = 10_000;

/// The number of columns of z above which a task needs [`MANY_ROWS`].
const FEW_COLUMNS: usize = 20;

/// A named distribution of triples (x, y, z).
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionalTask {
    /// The task's name, which ends in the dimensions of x, y and z.
    pub name: String,
    /// How x and y depend on z and on each other.
    pub description: &'static str,
    /// The number of rows below which the task is run only if it is asked for.
    pub least_rows: usize,
    family: Family,
    maps: [Vec<Map>; 3],
}

/// A family with its parameters.
#[derive(Clone, Debug, PartialEq)]
enum Family {
    Gaussian { structure: Structure, dims: [usize; 3] },
    Additive { means: Means, z_dim: usize, rho: f64 },
    Channel { condition: Condition, z_dim: usize },
    PostNonlinear(Model),
}

impl Family {
    fn dims(&self) -> [usize; 3] {
        match self {
            Family::Gaussian { dims, .. } => *dims,
            Family::Additive { z_dim, .. } | Family::Channel { z_dim, .. } => [1, 1, *z_dim],
            Family::PostNonlinear(model) => [1, 1, model.to_x.len()],
        }
    }
}

impl ConditionalTask {
    fn new(name: &str, description: &'static str, family: Family) -> Self {
        let [x_dim, y_dim, z_dim] = family.dims();
        ConditionalTask {
            name: format!("{name}-{x_dim}x{y_dim}x{z_dim}"),
            description,
            least_rows: if z_dim > FEW_COLUMNS { MANY_ROWS } else { 0 },
            family,
            maps: [const { Vec::new() }; 3],
        }
    }

    /// Applies a map to each of x, y and z.
    fn mapped(mut self, maps: [Map; 3]) -> Self {
        self.maps = maps.map(|map| vec![map]);
        self
    }

    /// Creates the distribution, which computes its conditional mutual information.
    pub fn scenario(&self) -> Result<ConditionalScenario> {
        let singular =
            || invalid(Parameter::Scenario, &self.name, "its covariance matrix is singular");
        let base: Box<dyn Triples> = match self.family.clone() {
            Family::Gaussian { structure, dims } => {
                Box::new(Gaussian::new(structure, dims).ok_or_else(singular)?)
            }
            Family::Additive { means, z_dim, rho } => Box::new(Additive { means, z_dim, rho }),
            Family::Channel { condition, z_dim } => Box::new(Channel { condition, z_dim }),
            Family::PostNonlinear(model) => Box::new(PostNonlinear::new(model)),
        };
        ConditionalScenario::new(base, self.maps.clone())
    }
}

/// Returns tasks with known conditional mutual information I(X; Y | Z). In those whose name contains
/// `null` it is 0.
pub fn conditional_suite() -> Vec<ConditionalTask> {
    [gaussian_tasks(), additive_tasks(), ccmi_tasks(), post_nonlinear_tasks()].concat()
}

fn gaussian_tasks() -> Vec<ConditionalTask> {
    let task = |name, description, structure, dims| {
        ConditionalTask::new(name, description, Family::Gaussian { structure, dims })
    };
    let (dense, pairs) = (Structure::Dense(0.5), Structure::Pairs(0.7));
    let any_two = "Gaussian, any two components have correlation .5";
    let correlated = "projections of z plus noise, correlated by .7 in each pair (x_i, y_i)";
    let mapped = "the same pairs after one-to-one maps of x, of y and of z";
    vec![
        task("gaussian-dense", any_two, dense, [2, 2, 1]),
        task("gaussian-dense", any_two, dense, [5, 5, 20]),
        task("gaussian-pairs", correlated, pairs, [1, 1, 1]),
        task("gaussian-pairs", correlated, pairs, [3, 3, 5]),
        task("gaussian-pairs", correlated, pairs, [2, 2, 50]),
        task("gaussian-pairs-tails", mapped, pairs, [2, 2, 5])
            .mapped([Map::HalfCube, Map::Cube, Map::HalfCube]),
        task("gaussian-pairs-spiral", mapped, pairs, [3, 3, 3])
            .mapped([Map::Asinh, Map::Wiggle1, Map::Spiral12]),
        task(
            "gaussian-collider",
            "z = x + y + noise: x and y are dependent only given z",
            Structure::Collider,
            [1, 1, 1],
        ),
        task(
            "gaussian-null-chain",
            "x -> z -> y: x and y are dependent, but not given z",
            Structure::Chain,
            [2, 2, 2],
        ),
    ]
}

fn additive_tasks() -> Vec<ConditionalTask> {
    let task = |means: Means, z_dim: usize, rho: f64| {
        let (name, description) = match (means, rho == 0.0) {
            (Means::Smooth, false) => ("smooth", "tanh(2u) and u^2 of a sum u of z, noise .6"),
            (Means::Smooth, true) => ("smooth-null", "tanh(2u) and u^2 of a sum u of z, noise 0"),
            (Means::Waves, false) => ("waves", "sin and cos of 4 z_1, noise correlated by .6"),
            (Means::Waves, true) => ("waves-null", "sin and cos of 4 z_1, independent noise"),
        };
        ConditionalTask::new(name, description, Family::Additive { means, z_dim, rho })
    };
    let dims = [1, 5, 20];
    [(Means::Smooth, 0.6), (Means::Smooth, 0.0), (Means::Waves, 0.6), (Means::Waves, 0.0)]
        .into_iter()
        .flat_map(|(means, rho)| dims.map(|z_dim| task(means, z_dim, rho)))
        .collect()
}

/// Returns `count` numbers, divided by the p-norm of them all.
fn weights(count: usize, seed: u64, norm: i32, draw: impl Fn(&mut Rng) -> f64) -> Vec<f64> {
    let mut rng = stream(seed, Purpose::Parameters, 0, 0);
    let mut weights: Vec<f64> = (0..count).map(|_| draw(&mut rng)).collect();
    let sum: f64 = weights.iter().map(|weight| weight.abs().powi(norm)).sum();
    let size = sum.powf(1.0 / f64::from(norm));
    weights.iter_mut().for_each(|weight| *weight /= size);
    weights
}

/// Returns CCMI's nonlinear model with f and g: z ~ N(1, I), x = f(e), y = g(b'z + 2 x + e') with
/// noise of variance .1 and random weights with |b|_1 = 1.
fn ccmi_nonlinear(x_curve: Curve, y_curve: Curve, z_dim: usize) -> Model {
    let deviation = 0.1f64.sqrt();
    Model {
        x_curve,
        y_curve,
        z_mean: 1.0,
        to_x: vec![0.0; z_dim],
        to_y: weights(z_dim, z_dim as u64, 1, |rng| Normal::STANDARD.draw(rng)),
        coupling: 2.0,
        noise: [deviation, deviation],
    }
}

fn ccmi_tasks() -> Vec<ConditionalTask> {
    let channel = |name, description, z_dim, condition| {
        ConditionalTask::new(name, description, Family::Channel { condition, z_dim })
    };
    let nonlinear = |x_curve, y_curve, z_dim| {
        let family = Family::PostNonlinear(ccmi_nonlinear(x_curve, y_curve, z_dim));
        let description = "CCMI's nonlinear models: x = f(e), y = g(w'z + 2x + e')";
        ConditionalTask::new("ccmi-nonlinear", description, family)
    };
    let uniform = |rng: &mut Rng| rng.random_range(-1.0..1.0);
    let weighted = Condition::WeightedShift(weights(20, 1, 2, uniform));
    let noise_level = "y = x + z_1 n, so that z is the noise level";
    vec![
        channel("ccmi-noise-level", noise_level, 1, Condition::NoiseLevel),
        channel("ccmi-noise-level", noise_level, 20, Condition::NoiseLevel),
        channel("ccmi-linear-1", "CCMI's model I: y = x + z_1 + n/10", 20, Condition::Shift),
        channel("ccmi-linear-2", "CCMI's model II: y = x + w'z + n/10", 20, weighted),
        nonlinear(Curve::Cosine, Curve::Cosine, 20),
        nonlinear(Curve::Cosine, Curve::Cosine, 50),
        nonlinear(Curve::Cosine, Curve::Cosine, 100),
    ]
}

/// Returns the model of CCMI's tests of conditional independence, and its like with other
/// functions: z ~ N(1, I), x = f(a'z + e), y = g(b'z + c x + e') with noise of variance .25 and
/// random positive weights with |a| = |b| = 1.
fn ccmi_test(x_curve: Curve, y_curve: Curve, coupling: f64, z_dim: usize) -> Model {
    let uniform = |rng: &mut Rng| rng.random::<f64>();
    Model {
        x_curve,
        y_curve,
        z_mean: 1.0,
        to_x: weights(z_dim, 2, 2, uniform),
        to_y: weights(z_dim, 3, 2, uniform),
        coupling,
        noise: [0.5, 0.5],
    }
}

fn post_nonlinear_tasks() -> Vec<ConditionalTask> {
    let task = |name, description, model| {
        ConditionalTask::new(name, description, Family::PostNonlinear(model))
    };
    let cosines = |coupling, z_dim| ccmi_test(Curve::Cosine, Curve::Cosine, coupling, z_dim);
    let dependent = "CCMI's tests: x = cos(a'z + e), y = cos(b'z + 2x + e')";
    let null = "CCMI's tests: x = cos(a'z + e), y = cos(b'z + e')";
    vec![
        task("ccmi-cosines", dependent, cosines(2.0, 1)),
        task("ccmi-cosines", dependent, cosines(2.0, 5)),
        task("ccmi-cosines-null", null, cosines(0.0, 5)),
        task(
            "post-nonlinear",
            "x = tanh(a'z + e), y = cos(b'z + 2x + e')",
            ccmi_test(Curve::Tanh, Curve::Cosine, 2.0, 5),
        ),
        task(
            "post-nonlinear-even",
            "x = (a'z + e)^2, y = exp -|b'z + x/2 + e'|",
            ccmi_test(Curve::Square, Curve::Peak, 0.5, 5),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn print_table() {
        for f in [Curve::Tanh, Curve::Peak, Curve::Cosine] {
            for g in [Curve::Tanh, Curve::Peak, Curve::Cosine] {
                for d in [20, 50, 100] {
                    let t = std::time::Instant::now();
                    let p = PostNonlinear::new(ccmi_nonlinear(f, g, d));
                    println!("{f:?} {g:?} {d} {:.6} {:?}", p.information(), t.elapsed());
                }
            }
        }
        for task in conditional_suite() {
            let t = std::time::Instant::now();
            let s = task.scenario().unwrap();
            let truth = s.conditional_mutual_information().0;
            let made = t.elapsed();
            let mut rng = stream(5, Purpose::Data, 0, 0);
            let mut row = [const { Vec::new() }; 3];
            let n = 10_000;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..n {
                let r = s.draw(&mut rng, &mut row);
                sum += r; squares += r * r;
            }
            let mean = sum / n as f64;
            let error = ((squares / n as f64 - mean * mean) / n as f64).sqrt();
            println!("{:34} {truth:.6} {mean:.6} {error:.5} {:+.2} {made:?} {:?}", task.name, (mean - truth) / error, t.elapsed());
        }
    }
}

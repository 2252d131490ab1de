//! The tasks of `fdime suite conditional`.

use super::additive::{Additive, Means};
use super::channel::{Channel, Condition};
use super::gaussian::{Gaussian, Structure};
use super::{ConditionalScenario, Curve, Model, PostNonlinear, Triples};
use crate::error::{Result, invalid};
use crate::message::Parameter;
use crate::random::{Purpose, Rng, stream};
use crate::scenario::normal::Normal;
use crate::scenario::{Map, check_table};
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

    /// Checks that a table of this many rows fits into the memory that is free.
    pub fn check_rows(&self, rows: usize) -> Result<()> {
        check_table(rows, self.family.dims().iter().sum())
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
    let any_two = "any two components have correlation .5";
    let correlated = "sums of z, plus noise correlated by .7 in pairs";
    let mapped = "the same after one-to-one maps of x, y and z";
    vec![
        task("gaussian-dense", any_two, dense, [2, 2, 1]),
        task("gaussian-dense", any_two, dense, [5, 5, 20]),
        task("gaussian-pairs", correlated, pairs, [1, 1, 1]),
        task("gaussian-pairs", correlated, pairs, [3, 3, 5]),
        task("gaussian-pairs", correlated, pairs, [2, 2, 50]),
        task("gaussian-pairs-tails", mapped, pairs, [2, 2, 5]).mapped([
            Map::HalfCube,
            Map::Cube,
            Map::HalfCube,
        ]),
        task("gaussian-pairs-spiral", mapped, pairs, [3, 3, 3]).mapped([
            Map::Asinh,
            Map::Wiggle1,
            Map::Spiral12,
        ]),
        task(
            "gaussian-collider",
            "z = x + y + noise: dependent only given z",
            Structure::Collider,
            [1, 1, 1],
        ),
        task(
            "gaussian-null-chain",
            "x -> z -> y: dependent, but not given z",
            Structure::Chain,
            [2, 2, 2],
        ),
    ]
}

fn additive_tasks() -> Vec<ConditionalTask> {
    let task = |means: Means, z_dim: usize, rho: f64| {
        let (name, description) = match (means, rho == 0.0) {
            (Means::Smooth, false) => ("smooth", "tanh 2u, u^2 of a sum u of z; correlated noise"),
            (Means::Smooth, true) => ("smooth-null", "the same with independent noise"),
            (Means::Waves, false) => ("waves", "sin and cos of 4 z1; correlated noise"),
            (Means::Waves, true) => ("waves-null", "the same with independent noise"),
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
        ConditionalTask::new("ccmi-nonlinear", "CCMI: x = f(e), y = g(w'z + 2x + e')", family)
    };
    let uniform = |rng: &mut Rng| rng.random_range(-1.0..1.0);
    let weighted = Condition::WeightedShift(weights(20, 1, 2, uniform));
    let noise_level = "y = x + z1 n: z is the noise level";
    vec![
        channel("ccmi-noise-level", noise_level, 1, Condition::NoiseLevel),
        channel("ccmi-noise-level", noise_level, 20, Condition::NoiseLevel),
        channel("ccmi-linear-1", "CCMI's model I: y = x + z1 + n/10", 20, Condition::Shift),
        channel("ccmi-linear-2", "CCMI's model II: y = x + w'z + n/10", 20, weighted),
        nonlinear(Curve::Tanh, Curve::Cosine, 20),
        nonlinear(Curve::Peak, Curve::Peak, 50),
        nonlinear(Curve::Tanh, Curve::Peak, 100),
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
    let dependent = "x = cos(a'z + e), y = cos(b'z + 2x + e')";
    let null = "x = cos(a'z + e), y = cos(b'z + e')";
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
            "x = exp -|a'z + e|, y = (b'z + 3x + e')^2",
            ccmi_test(Curve::Peak, Curve::Square, 3.0, 5),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The mean of the exact log ratio over samples is the stated information, within 4 standard
    /// errors (two-sided alpha of about 2e-3 for 33 tasks, fixed seed).
    #[test]
    fn the_mean_log_ratio_is_the_stated_information() {
        for task in conditional_suite() {
            let scenario = task.scenario().unwrap();
            let mut rng = stream(5, Purpose::Data, 0, 0);
            let mut row = [const { Vec::new() }; 3];
            let (n, mut sum, mut squares) = (2_000.0, 0.0, 0.0);
            for _ in 0..2_000 {
                let ratio = scenario.draw(&mut rng, &mut row);
                (sum, squares) = (sum + ratio, squares + ratio * ratio);
            }
            assert_eq!(row.each_ref().map(Vec::len), scenario.dims());
            let (mean, truth) = (sum / n, scenario.conditional_mutual_information().0);
            let error = 4.0 * ((squares / n - mean * mean).max(0.0) / n).sqrt() + 1e-12;
            assert!((mean - truth).abs() < error, "{}: {mean} {truth}", task.name);
            assert_eq!(truth == 0.0, task.name.contains("null"), "{}", task.name);
        }
    }

    /// With twice as many points of every rule, the values change by 1e-6 at most.
    #[test]
    fn tasks_have_known_information() {
        let tasks = conditional_suite();
        let names: BTreeSet<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!((tasks.len(), names.len()), (33, 33));
        for (name, information) in [
            ("gaussian-dense-2x2x1", 0.143841),
            ("gaussian-pairs-2x2x50", 0.673345),
            ("gaussian-pairs-spiral-3x3x3", 1.010017),
            ("smooth-1x1x20", 0.223144),
            ("ccmi-noise-level-1x1x20", 0.392580),
            ("ccmi-linear-2-1x1x20", 2.307560),
            ("ccmi-nonlinear-1x1x20", 0.394350),
            ("ccmi-nonlinear-1x1x100", 0.357832),
            ("ccmi-cosines-1x1x1", 0.418398),
            ("ccmi-cosines-1x1x5", 0.394278),
            ("post-nonlinear-1x1x5", 0.087671),
        ] {
            let task = tasks.iter().find(|task| task.name == name).unwrap();
            let exact = task.scenario().unwrap().conditional_mutual_information().0;
            assert!((exact - information).abs() < 1e-6, "{name}: {exact}");
        }
    }

    /// CCMI's published values, KSG estimates from 50,000 rows, with their own random functions and
    /// weights: about .74 for two tanh, .27 to .29 for f = exp -|t|.
    #[test]
    fn nonlinear_models_have_information_like_the_published() {
        let information = |x_curve, y_curve, z_dim| {
            PostNonlinear::new(ccmi_nonlinear(x_curve, y_curve, z_dim)).information()
        };
        let near = |information: f64, published: f64| (information - published).abs() < 0.015;
        assert!(near(information(Curve::Tanh, Curve::Tanh, 20), 0.739));
        for y_curve in [Curve::Tanh, Curve::Peak, Curve::Cosine] {
            assert!(near(information(Curve::Peak, y_curve, 20), 0.280));
        }
    }

    #[test]
    fn weights_have_norm_1() {
        let weights = weights(7, 0, 1, |rng| Normal::STANDARD.draw(rng));
        assert!((weights.iter().map(|weight| weight.abs()).sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(weights.iter().any(|weight| *weight < 0.0));
    }
}

//! The mixtures of the benchmark, each with one parameter.

use super::information;
use super::{Component, GaussianMixture, Normal};
use crate::error::{Error, Result};
use crate::message::Parameter;
use crate::scenario::Level;

/// The maximum correlation: narrower strokes need more points of integration.
const MAX_RHO: f64 = 0.999;

/// The maximum number of components and distance, which bound the time of integration.
const MAX_COMPONENTS: f64 = 50.0;
const MAX_DISTANCE: f64 = 100.0;

/// The correlation of the two pairs that inliers are added to.
const PAIR_RHO: f64 = 0.8;

/// Two strokes: the mixture of Gaussians with correlations rho and -rho.
pub(in super::super) fn letter_x(level: Level, dim: usize) -> Result<GaussianMixture> {
    check_line(dim, "letter-x")?;
    let rho = correlation(level, "letter-x")?;
    let stroke = |rho: f64| Component {
        weight: 0.5,
        x: vec![Normal::STANDARD],
        y: vec![Normal::STANDARD],
        rho: vec![rho],
    };
    Ok(drawing([rho, -rho].map(stroke).into()))
}

/// The strokes of the letters A and I: mean and variance of x and of y, and the direction of the
/// correlation.
const STROKES: [([f64; 2], [f64; 2], f64); 6] = [
    ([-1.2, 0.0], [0.04, 0.2], 1.0),
    ([-0.4, 0.0], [0.04, 0.2], -1.0),
    ([-0.8, -0.2], [0.03, 0.001], 0.0),
    ([1.0, 0.0], [0.01, 0.2], 0.0),
    ([1.0, 1.0], [0.05, 0.001], 0.0),
    ([1.0, -1.0], [0.05, 0.001], 0.0),
];

/// The letters AI. The slanted strokes have correlations rho and -rho.
pub(in super::super) fn letters_ai(level: Level, dim: usize) -> Result<GaussianMixture> {
    check_line(dim, "letters-ai")?;
    let rho = correlation(level, "letters-ai")?;
    let stroke = |(mean, variance, direction): ([f64; 2], [f64; 2], f64)| Component {
        weight: 1.0 / STROKES.len() as f64,
        x: vec![Normal::new(mean[0], variance[0])],
        y: vec![Normal::new(mean[1], variance[1])],
        rho: vec![direction * rho],
    };
    Ok(drawing(STROKES.map(stroke).into()))
}

/// Stripes across the direction of x_1 at 0, 1.5, 3, ...: the k-th has y around 1.5 (k mod 4), so
/// y tells one of four groups of stripes. x_2, x_3, ... are noise.
pub(in super::super) fn stripes(level: Level, dim: usize) -> Result<GaussianMixture> {
    let count = components(level, "stripes")?;
    let stripe = |k: usize, dim: usize| {
        let mut x = vec![Normal::STANDARD; dim];
        x[0] = Normal::new(1.5 * k as f64, 0.1);
        let y = vec![Normal::new(1.5 * (k % 4) as f64, 0.1)];
        Component { weight: 1.0 / count as f64, x, y, rho: Vec::new() }
    };
    let line: Vec<Component> = (0..count).map(|k| stripe(k, 1)).collect();
    Ok(GaussianMixture {
        information: information::planar(&line),
        components: (0..count).map(|k| stripe(k, dim)).collect(),
    })
}

/// Two unit Gaussians, whose means differ by the distance in each coordinate of x and in y. Along
/// the line through their means, x has the distance sqrt(d) times as large; the other directions
/// are noise.
pub(in super::super) fn two_balls(level: Level, dim: usize) -> Result<GaussianMixture> {
    let Level::Distance(distance) = level else {
        return Err(level.unsupported("two-balls", "distance"));
    };
    if !(0.0..=MAX_DISTANCE).contains(&distance) {
        return Err(level.out_of_range("the distance must lie between 0 and 100"));
    }
    let balls = |x_distance: f64, dim: usize| {
        let ball = |side: f64| Component {
            weight: 0.5,
            x: vec![Normal::new(side * x_distance, 1.0); dim],
            y: vec![Normal::new(side * distance, 1.0)],
            rho: Vec::new(),
        };
        [-0.5, 0.5].map(ball)
    };
    let along_the_line = balls(distance * (dim as f64).sqrt(), 1);
    Ok(GaussianMixture {
        information: information::planar(&along_the_line),
        components: balls(distance, dim).into(),
    })
}

/// Gaussians around 0 with standard deviations k = 1, 2, ..., n; y ~ N(k, 0.01^2) tells k.
pub(in super::super) fn concentric(level: Level, dim: usize) -> Result<GaussianMixture> {
    let count = components(level, "concentric")?;
    let ball = |k: usize| Component {
        weight: 1.0 / count as f64,
        x: vec![Normal::new(0.0, (k * k) as f64); dim],
        y: vec![Normal::new(k as f64, 1e-4)],
        rho: Vec::new(),
    };
    Ok(GaussianMixture {
        information: information::concentric(dim, count),
        components: (1..=count).map(ball).collect(),
    })
}

/// (x_1, y_1) and (x_2, y_2) have correlation 0.8 in all samples but a fraction of inliers, whose x
/// and y are independent and have the same distributions.
pub(in super::super) fn two_pair_inliers(level: Level, dim: usize) -> Result<GaussianMixture> {
    let Level::Inliers(fraction) = level else {
        return Err(level.unsupported("two-pair-inliers", "inliers"));
    };
    if !(fraction > 0.0 && fraction < 1.0) {
        return Err(level.out_of_range("the fraction of inliers must lie strictly between 0 and 1"));
    }
    if dim < 2 {
        return Err(unfit_dim(dim, "two-pair-inliers", "it has two pairs; use dim 2 or more"));
    }
    let component = |(weight, rho): (f64, f64)| Component {
        weight,
        x: vec![Normal::STANDARD; dim],
        y: vec![Normal::STANDARD; dim],
        rho: vec![rho; 2],
    };
    Ok(GaussianMixture {
        information: information::inliers(PAIR_RHO, fraction),
        components: [(1.0 - fraction, PAIR_RHO), (fraction, 0.0)].map(component).into(),
    })
}

/// Creates a mixture on the plane.
fn drawing(components: Vec<Component>) -> GaussianMixture {
    GaussianMixture { information: information::planar(&components), components }
}

fn correlation(level: Level, scenario: &str) -> Result<f64> {
    match level {
        Level::Rho(rho) if rho.abs() <= MAX_RHO => Ok(rho),
        Level::Rho(_) => Err(level.out_of_range("rho must lie between -0.999 and 0.999 here")),
        _ => Err(level.unsupported(scenario, "rho")),
    }
}

fn components(level: Level, scenario: &str) -> Result<usize> {
    match level {
        Level::Components(n) if n.fract() == 0.0 && (1.0..=MAX_COMPONENTS).contains(&n) => {
            Ok(n as usize)
        }
        Level::Components(_) => {
            Err(level.out_of_range("the number of components must be a whole number from 1 to 50"))
        }
        _ => Err(level.unsupported(scenario, "components")),
    }
}

fn check_line(dim: usize, scenario: &str) -> Result<()> {
    if dim == 1 {
        return Ok(());
    }
    Err(unfit_dim(dim, scenario, "it is drawn on the plane of x and y; use dim 1"))
}

fn unfit_dim(dim: usize, scenario: &str, reason: &'static str) -> Error {
    Error::Incompatible {
        parameter: Parameter::Dim,
        value: dim.to_string(),
        other: format!("scenario {scenario}").into(),
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, stream};
    use crate::scenario::ScenarioPlan;

    /// The means of x_1, x_1^2, y_1, y_1^2 and x_1 y_1 follow from the weights, means and variances
    /// of the components, within 4.5 standard errors (alpha of about 2e-4 in total, fixed seed).
    #[test]
    fn samples_have_the_moments_of_the_components() {
        for (scenario, dim, level, expected) in [
            ("letter-x", 1, Level::Rho(0.9), [0.0, 1.0, 0.0, 1.0, 0.0]),
            ("letters-ai", 1, Level::Rho(0.95), [0.1, 0.91, -0.2 / 6.0, 0.4405, 0.16 / 6.0]),
            ("stripes", 2, Level::Components(12.0), [8.25, 94.975, 2.25, 7.975, 21.375]),
            ("two-balls", 2, Level::Distance(3.0), [0.0, 3.25, 0.0, 3.25, 2.25]),
            ("concentric", 3, Level::Components(5.0), [0.0, 11.0, 3.0, 11.0001, 0.0]),
            ("two-pair-inliers", 5, Level::Inliers(0.2), [0.0, 1.0, 0.0, 1.0, 0.64]),
        ] {
            let scenario_at = ScenarioPlan::new(scenario, dim).unwrap().at(level).unwrap();
            let mut rng = stream(5, Purpose::Data, 0, 0);
            let (mut x, mut y) = (Vec::new(), Vec::new());
            let (mut sums, mut squares, n) = ([0.0; 5], [0.0; 5], 40_000);
            for _ in 0..n {
                scenario_at.draw(&mut rng, &mut x, &mut y);
                let moments = [x[0], x[0] * x[0], y[0], y[0] * y[0], x[0] * y[0]];
                sums.iter_mut().zip(moments).for_each(|(sum, moment)| *sum += moment);
                squares.iter_mut().zip(moments).for_each(|(sum, moment)| *sum += moment * moment);
            }
            for k in 0..5 {
                let mean = sums[k] / f64::from(n);
                let variance = squares[k] / f64::from(n) - mean * mean;
                let error = (variance / f64::from(n)).sqrt();
                assert!((mean - expected[k]).abs() < 4.5 * error, "{scenario} {k}: {mean}");
            }
        }
    }

    #[test]
    fn impossible_levels_and_dimensions_are_refused() {
        for (scenario, dim, level, words) in [
            ("letter-x", 2, "rho=0.9", "dim 1"),
            ("letters-ai", 1, "rho=1", "0.999"),
            ("letters-ai", 1, "mi=1", "given as rho"),
            ("stripes", 1, "components=2.5", "whole number"),
            ("waves", 1, "components=4", "dim 2 or more"),
            ("galaxy", 2, "distance=-1", "between 0 and 100"),
            ("galaxy", 2, "components=2", "given as distance"),
            ("concentric", 3, "components=1000", "from 1 to 50"),
            ("concentric", 3, "components=nan", "from 1 to 50"),
            ("two-pair-inliers", 1, "inliers=0.2", "dim 2 or more"),
            ("two-pair-inliers", 2, "inliers=1", "strictly between"),
        ] {
            let plan = ScenarioPlan::new(scenario, dim).unwrap();
            let error = plan.at(level.parse().unwrap()).err().unwrap().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

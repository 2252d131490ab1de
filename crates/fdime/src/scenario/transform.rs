//! One-to-one maps of x or y.

use super::{arithmetic_mean, bisect};
use crate::error::{Error, Result, unknown_name};
use crate::message::Parameter;
use serde::{Deserialize, Serialize};
use statrs::function::erf::erfc;

/// The variables that a map is applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// x only.
    X,
    /// y only.
    Y,
    /// x and y.
    Both,
}

/// A map. All but the Swiss roll, the spirals and the wave act on each component separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Map {
    /// v^3
    Cube,
    /// sign(v) |v|^{3/2}: longer tails
    HalfCube,
    /// asinh v: shorter tails
    Asinh,
    /// Phi(v): a standard normal becomes uniform. In single precision all values above 5.4 become
    /// 1, so information is lost if the tails are heavy
    NormalCdf,
    /// (t cos t, t sin t)/21 with t = 3 pi/2 (1 + 2v) and v in (0, 1): from the line into the plane
    SwissRoll,
    /// v + .4 sin v + .2 sin(1.7 v + 1) + .03 sin(3.3 v - 2.5)
    Wiggle1,
    /// v - .4 sin(.4 v) + .17 sin(1.3 v + 3.5) + .02 sin(4.3 v - 2.5)
    Wiggle2,
    /// A standard normal becomes the mixture .3 N(0, 1) + .7 N(5, 1)
    Bimodal1,
    /// A standard normal becomes the mixture .5 N(-1, 1) + .5 N(3, 1)
    Bimodal2,
    /// Rotates components 1 and 2 by the angle |v|^2 / d
    Spiral12,
    /// Rotates components 2 and 3 by the angle |v|^2 / d
    Spiral23,
    /// ((v_1 + 5 sin 3 v_2)/10 - .8, v_2/2) in components 1 and 2
    Wave,
}

impl Map {
    /// All maps.
    pub const ALL: [Map; 12] = [
        Map::Cube,
        Map::HalfCube,
        Map::Asinh,
        Map::NormalCdf,
        Map::SwissRoll,
        Map::Wiggle1,
        Map::Wiggle2,
        Map::Bimodal1,
        Map::Bimodal2,
        Map::Spiral12,
        Map::Spiral23,
        Map::Wave,
    ];

    /// Returns the name used in plans.
    pub fn name(self) -> &'static str {
        match self {
            Map::Cube => "cube",
            Map::HalfCube => "half-cube",
            Map::Asinh => "asinh",
            Map::NormalCdf => "normal-cdf",
            Map::SwissRoll => "swiss-roll",
            Map::Wiggle1 => "wiggle-1",
            Map::Wiggle2 => "wiggle-2",
            Map::Bimodal1 => "bimodal-1",
            Map::Bimodal2 => "bimodal-2",
            Map::Spiral12 => "spiral-12",
            Map::Spiral23 => "spiral-23",
            Map::Wave => "wave",
        }
    }

    /// Applies the map to one row.
    pub fn apply(self, row: &mut Vec<f64>) {
        let component = match self {
            Map::Cube => |v: f64| v.powi(3),
            Map::HalfCube => |v: f64| v * v.abs().sqrt(),
            Map::Asinh => f64::asinh,
            Map::NormalCdf => normal_cdf,
            Map::Wiggle1 => |v: f64| {
                v + 0.4 * v.sin() + 0.2 * (1.7 * v + 1.0).sin() + 0.03 * (3.3 * v - 2.5).sin()
            },
            Map::Wiggle2 => |v: f64| {
                v - 0.4 * (0.4 * v).sin()
                    + 0.17 * (1.3 * v + 3.5).sin()
                    + 0.02 * (4.3 * v - 2.5).sin()
            },
            Map::Bimodal1 => |v: f64| mixture_quantile(v, [(0.3, 0.0), (0.7, 5.0)]),
            Map::Bimodal2 => |v: f64| mixture_quantile(v, [(0.5, -1.0), (0.5, 3.0)]),
            Map::Spiral12 => return spiral(row, 0),
            Map::Spiral23 => return spiral(row, 1),
            Map::Wave => {
                row[0] = 0.1 * (row[0] + 5.0 * (3.0 * row[1]).sin()) - 0.8;
                row[1] *= 0.5;
                return;
            }
            Map::SwissRoll => {
                let t = 1.5 * std::f64::consts::PI * (1.0 + 2.0 * row[0]);
                row.clear();
                row.extend([t * t.cos() / 21.0, t * t.sin() / 21.0]);
                return;
            }
        };
        row.iter_mut().for_each(|value| *value = component(*value));
    }
}

fn normal_cdf(v: f64) -> f64 {
    0.5 * erfc(-v * std::f64::consts::FRAC_1_SQRT_2)
}

/// Returns the quantile at probability Phi(v) of a mixture of unit normals (weight, mean). It is
/// found by bisection between the quantiles of the two components. For v > 0 the upper tail is
/// used, since probabilities near 0 are more precise than those near 1.
fn mixture_quantile(v: f64, parts: [(f64, f64); 2]) -> f64 {
    let sign = if v > 0.0 { -1.0 } else { 1.0 };
    let target = normal_cdf(sign * v);
    let [(_, first), (_, second)] = parts;
    let bounds = (v + first.min(second), v + first.max(second));
    let is_below = |u: f64| {
        let tail: f64 =
            parts.iter().map(|(weight, mean)| weight * normal_cdf(sign * (u - mean))).sum();
        (tail < target) == (sign > 0.0)
    };
    let (low, high) = bisect(bounds, 60, arithmetic_mean, is_below);
    arithmetic_mean(low, high)
}

/// Rotates components `first` and `first + 1` by the angle |v|^2 / d. The rotation preserves |v|,
/// so it can be inverted.
fn spiral(row: &mut [f64], first: usize) {
    let angle = row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64;
    let (sin, cos) = angle.sin_cos();
    let (a, b) = (row[first], row[first + 1]);
    row[first] = cos * a - sin * b;
    row[first + 1] = sin * a + cos * b;
}

/// Returns the dimension after the maps; fails if a map needs another dimension.
pub(super) fn mapped_dim(maps: &[Map], mut dim: usize) -> Result<usize> {
    for map in maps {
        let needed = match map {
            Map::Spiral12 | Map::Wave => 2,
            Map::Spiral23 => 3,
            _ => 1,
        };
        if dim < needed {
            return Err(Error::Incompatible {
                parameter: Parameter::Dim,
                value: dim.to_string(),
                other: format!("map {}", map.name()).into(),
                reason: format!("it moves components of a plane; use dim {needed} or more").into(),
            });
        }
        if *map == Map::SwissRoll {
            if dim != 1 {
                return Err(Error::Incompatible {
                    parameter: Parameter::Dim,
                    value: dim.to_string(),
                    other: "scenario swiss-roll".into(),
                    reason: "it rolls up a line; use dim 1".into(),
                });
            }
            dim = 2;
        }
    }
    Ok(dim)
}

/// Parses `MAP`, `x:MAP` or `y:MAP`.
pub(super) fn parse(text: &str) -> Result<(Side, Map)> {
    let (side, name) = match text.split_once(':') {
        Some(("x", name)) => (Side::X, name),
        Some(("y", name)) => (Side::Y, name),
        _ => (Side::Both, text),
    };
    Map::ALL
        .into_iter()
        .find(|map| map.name() == name)
        .map(|map| (side, map))
        .ok_or_else(|| unknown_name(Parameter::Map, name, Map::ALL.map(Map::name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(map: Map, v: f64) -> Vec<f64> {
        let mut row = vec![v];
        map.apply(&mut row);
        row
    }

    #[test]
    fn maps_follow_their_formulas() {
        assert_eq!(applied(Map::Cube, -2.0), [-8.0]);
        assert_eq!(applied(Map::HalfCube, -4.0), [-8.0]);
        assert!((applied(Map::Asinh, 1.0)[0] - 0.881_373_587).abs() < 1e-9);
        assert!((applied(Map::NormalCdf, 1.96)[0] - 0.975_002_1).abs() < 1e-6);
        let roll = applied(Map::SwissRoll, 0.5);
        let t = 3.0 * std::f64::consts::PI;
        assert!((roll[0] + t / 21.0).abs() < 1e-12 && roll[1].abs() < 1e-12);
    }

    #[test]
    fn maps_on_the_line_are_increasing() {
        let on_the_plane = [Map::SwissRoll, Map::Spiral12, Map::Spiral23, Map::Wave];
        for map in Map::ALL.into_iter().filter(|map| !on_the_plane.contains(map)) {
            let values: Vec<f64> = (-30..30).map(|k| applied(map, f64::from(k) * 0.1)[0]).collect();
            assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "{}", map.name());
        }
    }

    /// v_2 is known from the second component, and then v_1 from the first.
    #[test]
    fn the_wave_shifts_the_first_component_by_a_function_of_the_second() {
        let mut row = vec![2.0, 0.7, 4.0];
        Map::Wave.apply(&mut row);
        assert_eq!(row[1..], [0.35, 4.0]);
        let first = 10.0 * (row[0] + 0.8) - 5.0 * (6.0 * row[1]).sin();
        assert!((first - 2.0).abs() < 1e-12);
        assert!(mapped_dim(&[Map::Wave], 1).unwrap_err().to_string().contains("dim 2 or more"));
    }

    #[test]
    fn bimodal_maps_return_quantiles_of_the_mixture() {
        for v in [-6.0, -1.0, 0.3, 2.0, 6.0] {
            let u = applied(Map::Bimodal1, v)[0];
            let back = 0.3 * normal_cdf(-u) + 0.7 * normal_cdf(5.0 - u);
            assert!((back / normal_cdf(-v) - 1.0).abs() < 1e-9, "{v}");
        }
    }

    #[test]
    fn spirals_rotate_and_preserve_the_norm() {
        let mut row = vec![1.0, 2.0, 3.0];
        Map::Spiral23.apply(&mut row);
        let angle = 14.0f64 / 3.0;
        assert_eq!(row[0], 1.0);
        assert!((row[1] - (2.0 * angle.cos() - 3.0 * angle.sin())).abs() < 1e-12);
        assert!((row.iter().map(|v| v * v).sum::<f64>() - 14.0).abs() < 1e-12);
        assert!(mapped_dim(&[Map::Spiral23], 2).unwrap_err().to_string().contains("dim"));
    }
}

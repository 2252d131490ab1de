//! One-to-one maps of x or y.

use crate::error::{Error, Result, unknown_name};
use serde::{Deserialize, Serialize};
use statrs::function::erf::erfc;

/// What a map is applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// x alone.
    X,
    /// y alone.
    Y,
    /// x and y.
    Both,
}

/// A map; all but the swiss roll act on each component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Map {
    /// v^3
    Cube,
    /// sign(v) |v|^{3/2}: longer tails
    HalfCube,
    /// asinh v: shorter tails
    Asinh,
    /// Phi(v): a standard normal becomes uniform. In single precision everything beyond 5.4 becomes
    /// 1, so after a distribution with heavy tails information is lost
    NormalCdf,
    /// u in (0,1) to (t cos t, t sin t)/21 with t = 3 pi/2 (1 + 2u): from the line into the plane
    SwissRoll,
}

impl Map {
    /// Every map.
    pub const ALL: [Map; 5] =
        [Map::Cube, Map::HalfCube, Map::Asinh, Map::NormalCdf, Map::SwissRoll];

    /// The name used in plans and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Map::Cube => "cube",
            Map::HalfCube => "half-cube",
            Map::Asinh => "asinh",
            Map::NormalCdf => "normal-cdf",
            Map::SwissRoll => "swiss-roll",
        }
    }

    /// Applies the map to one row.
    pub fn apply(self, row: &mut Vec<f64>) {
        let component = match self {
            Map::Cube => |v: f64| v.powi(3),
            Map::HalfCube => |v: f64| v * v.abs().sqrt(),
            Map::Asinh => f64::asinh,
            Map::NormalCdf => |v: f64| 0.5 * erfc(-v * std::f64::consts::FRAC_1_SQRT_2),
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

/// The dimension after the maps.
pub(super) fn mapped_dim(maps: &[Map], mut dim: usize) -> Result<usize> {
    for map in maps {
        if *map == Map::SwissRoll {
            if dim != 1 {
                return Err(Error::Incompatible {
                    parameter: "dim",
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

/// `MAP`, `x:MAP` or `y:MAP`
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
        .ok_or_else(|| unknown_name("map", name, Map::ALL.map(Map::name)))
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
        for map in [Map::Cube, Map::HalfCube, Map::Asinh, Map::NormalCdf] {
            let values: Vec<f64> = (-30..30).map(|k| applied(map, f64::from(k) * 0.1)[0]).collect();
            assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "{}", map.name());
        }
    }
}

//! Gaussian triples.

use super::{JointGaussian, Triples};
use crate::random::Rng;
use nalgebra::{DMatrix, DVector};
use rand_distr::{Distribution as _, StandardNormal};

/// The standard deviation of the noise of a chain and of a collider.
const NOISE: f64 = 0.5;

/// How x, y and z depend on each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Structure {
    /// Any two components have this correlation.
    Dense(f64),
    /// x_i = p'z + e_i and y_i = q'z + e'_i, where e_i and e'_i have this correlation; p is the
    /// unit vector (1, 1, 1, ...), q is (1, -1, 1, ...).
    Pairs(f64),
    /// z_i = x_i + n/2, y_i = z_i + n'/2: x and y are dependent, but not given z.
    Chain,
    /// z_i = x_i + y_i + n/2: x and y are independent, but not given z.
    Collider,
}

/// (x, y, z) = M n with independent standard normal n.
pub(super) struct Gaussian {
    dims: [usize; 3],
    mixing: DMatrix<f64>,
    joint: JointGaussian,
}

impl Gaussian {
    /// Creates the triple; `None` if its covariance matrix is not positive definite. Chains and
    /// colliders have x, y and z of the same dimension.
    pub(super) fn new(structure: Structure, dims: [usize; 3]) -> Option<Self> {
        let mixing = mixing(structure, dims);
        let joint = JointGaussian::new(&(&mixing * mixing.transpose()), dims)?;
        Some(Gaussian { dims, mixing, joint })
    }
}

/// Returns M, which has a row for every component of x, y and z.
fn mixing(structure: Structure, [dx, dy, dz]: [usize; 3]) -> DMatrix<f64> {
    let size = dx + dy + dz;
    let mut mixing = DMatrix::identity(size, size);
    match structure {
        Structure::Dense(rho) => {
            mixing *= (1.0 - rho).sqrt();
            mixing = mixing.insert_column(size, rho.sqrt());
        }
        Structure::Pairs(rho) => {
            let scale = 1.0 / (dz as f64).sqrt();
            for k in 0..dz {
                let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
                (0..dx).for_each(|i| mixing[(i, dx + dy + k)] = scale);
                (dx..dx + dy).for_each(|i| mixing[(i, dx + dy + k)] = sign * scale);
            }
            for i in 0..dx.min(dy) {
                mixing[(dx + i, i)] = rho;
                mixing[(dx + i, dx + i)] = (1.0 - rho * rho).sqrt();
            }
        }
        Structure::Chain => {
            for i in 0..dz {
                let (x, y, z) = (i, dx + i, dx + dy + i);
                (mixing[(z, x)], mixing[(z, z)]) = (1.0, NOISE);
                (mixing[(y, x)], mixing[(y, z)], mixing[(y, y)]) = (1.0, NOISE, NOISE);
            }
        }
        Structure::Collider => {
            for i in 0..dz {
                let (x, y, z) = (i, dx + i, dx + dy + i);
                (mixing[(z, x)], mixing[(z, y)], mixing[(z, z)]) = (1.0, 1.0, NOISE);
            }
        }
    }
    mixing
}

impl Triples for Gaussian {
    fn dims(&self) -> [usize; 3] {
        self.dims
    }

    fn draw(&self, rng: &mut Rng, row: &mut [Vec<f64>; 3]) {
        let normals = (0..self.mixing.ncols()).map(|_| StandardNormal.sample(rng));
        let normals = DVector::<f64>::from_iterator(self.mixing.ncols(), normals);
        let values = &self.mixing * normals;
        row.iter_mut().flatten().zip(&values).for_each(|(to, from)| *to = *from);
    }

    fn information(&self) -> f64 {
        self.joint.information()
    }

    fn log_ratio(&self, row: &[Vec<f64>; 3]) -> f64 {
        self.joint.log_ratio(&row.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn information(structure: Structure, dims: [usize; 3]) -> f64 {
        Gaussian::new(structure, dims).unwrap().information()
    }

    /// By partial correlations: rho / (1 + k rho) given k dense components, and -1 / (1 + NOISE^2)
    /// given the sum of x, y and noise.
    #[test]
    fn determinants_agree_with_partial_correlations() {
        let of_correlation = |rho: f64| -0.5 * (-rho * rho).ln_1p();
        for dz in [1, 5, 50] {
            let partial = 0.5 / (1.0 + 0.5 * dz as f64);
            let dense = information(Structure::Dense(0.5), [1, 1, dz]);
            assert!((dense - of_correlation(partial)).abs() < 1e-12, "{dz}");
            let pairs = information(Structure::Pairs(0.6), [3, 2, dz]);
            assert!((pairs - 2.0 * of_correlation(0.6)).abs() < 1e-12, "{dz}");
        }
        let collider = information(Structure::Collider, [2, 2, 2]);
        assert!((collider - 2.0 * of_correlation(-0.8)).abs() < 1e-12);
        assert_eq!(information(Structure::Chain, [3, 3, 3]), 0.0);
        assert!(Gaussian::new(Structure::Dense(1.0), [1, 1, 1]).is_none());
    }

    /// I(X; Y, Z) = I(X; Z) + I(X; Y | Z), each by its own determinants (with Z independent of all
    /// else in the place of the condition).
    #[test]
    fn the_chain_rule_holds() {
        let covariance = {
            let mixing = mixing(Structure::Pairs(0.7), [2, 2, 2]);
            &mixing * mixing.transpose()
        };
        let with_free_condition = |coordinates: &[usize], dims: [usize; 2]| {
            let part = covariance.select_rows(coordinates).select_columns(coordinates);
            let size = part.nrows();
            let mut part = part.insert_row(size, 0.0).insert_column(size, 0.0);
            part[(size, size)] = 1.0;
            JointGaussian::new(&part, [dims[0], dims[1], 1]).unwrap().information()
        };
        let x_and_yz = with_free_condition(&[0, 1, 2, 3, 4, 5], [2, 4]);
        let x_and_z = with_free_condition(&[0, 1, 4, 5], [2, 2]);
        let given = JointGaussian::new(&covariance, [2, 2, 2]).unwrap().information();
        assert!(x_and_z > 0.5 && (x_and_yz - x_and_z - given).abs() < 1e-12);
    }
}

//! A Gaussian of (x, y, z) by its covariance matrix.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};

/// Information below this is 0 up to rounding of the determinants, and is taken as 0.
const ROUNDING: f64 = 1e-12;

/// A Gaussian with mean 0 of x, y and z, by the densities of (x, y, z), (x, z), (y, z) and z:
///
/// I(X; Y | Z) = 1/2 ln( |C_xz| |C_yz| / (|C_z| |C_xyz|) )
pub(in crate::scenario) struct JointGaussian {
    all: Marginal,
    x_and_z: Marginal,
    y_and_z: Marginal,
    z: Marginal,
}

/// The density of some coordinates.
struct Marginal {
    coordinates: Vec<usize>,
    factor: Cholesky<f64, Dyn>,
}

impl Marginal {
    fn new(covariance: &DMatrix<f64>, coordinates: Vec<usize>) -> Option<Self> {
        let part = covariance.select_rows(&coordinates).select_columns(&coordinates);
        Some(Marginal { factor: Cholesky::new(part)?, coordinates })
    }

    /// Returns ln det C from C = L L'.
    fn log_determinant(&self) -> f64 {
        2.0 * self.factor.l_dirty().diagonal().iter().map(|value| value.ln()).sum::<f64>()
    }

    /// Returns -1/2 v' C^-1 v of these coordinates of a row.
    fn exponent(&self, row: &[f64]) -> f64 {
        let values = self.coordinates.iter().map(|&k| row[k]);
        let values = DVector::from_iterator(self.coordinates.len(), values);
        -0.5 * values.dot(&self.factor.solve(&values))
    }
}

impl JointGaussian {
    /// Creates the Gaussian of coordinates in the order x, y, z; `None` if its covariance matrix is
    /// not positive definite.
    pub(in crate::scenario) fn new(covariance: &DMatrix<f64>, dims: [usize; 3]) -> Option<Self> {
        let [dx, dy, dz] = dims;
        let (x, y, z) = (0..dx, dx..dx + dy, dx + dy..dx + dy + dz);
        let marginal = |coordinates| Marginal::new(covariance, coordinates);
        Some(JointGaussian {
            all: marginal((0..dx + dy + dz).collect())?,
            x_and_z: marginal(x.chain(z.clone()).collect())?,
            y_and_z: marginal(y.chain(z.clone()).collect())?,
            z: marginal(z.collect())?,
        })
    }

    /// Returns I(X; Y | Z) in nats.
    pub(in crate::scenario) fn information(&self) -> f64 {
        let information = 0.5 * self.combined(Marginal::log_determinant);
        if information < ROUNDING { 0.0 } else { information }
    }

    /// Returns ln p(x, y | z) / (p(x | z) p(y | z)) of a row (x, y, z).
    pub(in crate::scenario) fn log_ratio(&self, row: &[f64]) -> f64 {
        self.information() - self.combined(|marginal| marginal.exponent(row))
    }

    /// Returns f(x, z) + f(y, z) - f(z) - f(x, y, z).
    fn combined(&self, f: impl Fn(&Marginal) -> f64) -> f64 {
        f(&self.x_and_z) + f(&self.y_and_z) - f(&self.z) - f(&self.all)
    }
}

//! Linear Gaussian processes.

use crate::random::Rng;
use nalgebra::{DMatrix, DVector};
use rand_distr::{Distribution as _, StandardNormal};

/// The number of steps before the first value of a simulation that is used. The influence of the
/// start shrinks at least by the factor .95 in each step for the processes of the suite.
const BURN_IN: usize = 1000;

/// The largest number of doublings in [`stationary_covariance`]: 2^40 steps.
const DOUBLINGS: usize = 40;

/// A vector autoregression, v_n = A_1 v_(n-1) + ... + A_p v_(n-p) + M e_n with independent standard
/// normal e_n.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Autoregression {
    /// A_1, ..., A_p, one row for each series.
    pub(super) coefficients: Vec<DMatrix<f64>>,
    /// M.
    pub(super) mixing: DMatrix<f64>,
}

impl Autoregression {
    /// Returns the number of series.
    pub(super) fn series(&self) -> usize {
        self.mixing.nrows()
    }

    /// Returns one row for each step.
    pub(super) fn simulate(&self, rng: &mut Rng, rows: usize) -> Vec<DVector<f64>> {
        let order = self.coefficients.len();
        let mut values = vec![DVector::zeros(self.series()); order];
        for _ in 0..BURN_IN + rows {
            let noise = DVector::from_fn(self.mixing.ncols(), |_, _| StandardNormal.sample(rng));
            let mut next = &self.mixing * noise;
            for (lag, coefficients) in self.coefficients.iter().enumerate() {
                next += coefficients * &values[values.len() - 1 - lag];
            }
            values.push(next);
        }
        values.split_off(order + BURN_IN)
    }

    /// Returns the covariance matrix of the stationary process at `steps` successive steps, latest
    /// first; `None` if the process is not stable.
    ///
    /// (v_n, ..., v_(n-q+1)) is an autoregression of order 1, whose covariance matrix solves
    /// C = F C F' + Q.
    pub(super) fn covariance(&self, steps: usize) -> Option<DMatrix<f64>> {
        let (series, order) = (self.series(), self.coefficients.len());
        let size = series * steps.max(order);
        let mut transition = DMatrix::zeros(size, size);
        for (lag, coefficients) in self.coefficients.iter().enumerate() {
            transition.view_mut((0, lag * series), (series, series)).copy_from(coefficients);
        }
        (series..size).for_each(|row| transition[(row, row - series)] = 1.0);
        let mut noise = DMatrix::zeros(size, size);
        noise
            .view_mut((0, 0), (series, series))
            .copy_from(&(&self.mixing * self.mixing.transpose()));
        let covariance = stationary_covariance(transition, noise)?;
        let wanted = series * steps;
        Some(covariance.view((0, 0), (wanted, wanted)).into_owned())
    }
}

/// Returns the solution C of C = F C F' + Q, the sum of F^k Q F'^k over all k, by doubling the
/// number of terms; `None` if F^k does not vanish.
fn stationary_covariance(transition: DMatrix<f64>, noise: DMatrix<f64>) -> Option<DMatrix<f64>> {
    let (mut power, mut sum) = (transition, noise);
    for _ in 0..DOUBLINGS {
        if power.amax() < 1e-20 {
            return Some(sum);
        }
        sum += &power * &sum * power.transpose();
        power = &power * &power;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, stream};

    /// The variance of an AR(1) process is 1 / (1 - a^2), its autocovariance that times a^h; that of
    /// AR(2) follows from the equations of Yule and Walker.
    #[test]
    fn covariances_agree_with_those_of_yule_and_walker() {
        let process = |coefficients: &[f64]| Autoregression {
            coefficients: coefficients.iter().map(|a| DMatrix::from_element(1, 1, *a)).collect(),
            mixing: DMatrix::identity(1, 1),
        };
        let covariance = process(&[0.9]).covariance(4).unwrap();
        let variance = 1.0 / (1.0 - 0.81);
        for lag in 0..4 {
            assert!((covariance[(0, lag)] - variance * 0.9f64.powi(lag as i32)).abs() < 1e-9);
        }
        let covariance = process(&[0.5, 0.3]).covariance(3).unwrap();
        let gamma = |lag: usize| covariance[(0, lag)];
        assert!((gamma(0) - 0.5 * gamma(1) - 0.3 * gamma(2) - 1.0).abs() < 1e-12);
        assert!((gamma(1) - 0.5 * gamma(0) - 0.3 * gamma(1)).abs() < 1e-12);
        assert!((gamma(2) - 0.5 * gamma(1) - 0.3 * gamma(0)).abs() < 1e-12);
        assert!(process(&[1.0]).covariance(2).is_none());
        assert!(process(&[0.6, 0.6]).covariance(2).is_none());
    }

    /// A simulation has the covariance that was computed; the standard error of each entry is about
    /// .02 (fixed seed).
    #[test]
    fn simulations_have_the_computed_covariance() {
        let process = Autoregression {
            coefficients: vec![DMatrix::from_row_slice(2, 2, &[0.6, 0.2, -0.4, 0.5])],
            mixing: DMatrix::from_row_slice(2, 3, &[1.0, 0.0, 0.5, 0.0, 1.0, 0.5]),
        };
        let rows = process.simulate(&mut stream(4, Purpose::Data, 0, 0), 40_000);
        let exact = process.covariance(2).unwrap();
        let mut sums = DMatrix::zeros(4, 4);
        for pair in rows.windows(2) {
            let both = DVector::from_iterator(4, pair[1].iter().chain(&pair[0]).copied());
            sums += &both * both.transpose();
        }
        let sample = sums / (rows.len() - 1) as f64;
        assert!((sample - exact).amax() < 0.08);
    }
}

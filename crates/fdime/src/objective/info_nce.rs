//! InfoNCE, the cost of CPC.

use super::{Objective, partition_gradient, readout::row_log_sums};
use crate::link::Link;
use crate::scores::{PairCounts, Scores};

/// J = 1/N sum_i (l_ii - ln sum_j e^{l_ij}) + ln N. With p_ij = e^{l_ij} / sum_k e^{l_ik}, the
/// gradient is (1 - p_ii)/N for joint and -p_ij/N for marginal pairs.
pub(super) struct InfoNce {
    link: Link,
    counts: PairCounts,
    row_log_sums: Vec<f64>,
}

impl InfoNce {
    pub(super) fn new(link: Link, counts: PairCounts) -> Self {
        InfoNce { link, counts, row_log_sums: Vec::new() }
    }
}

impl Objective for InfoNce {
    fn needs_whole_batch(&self) -> bool {
        true
    }

    fn observe(&mut self, scores: Scores<'_>) {
        self.row_log_sums = row_log_sums(self.link, scores, self.counts.joint);
    }

    fn joint(&self, row: usize, scores: &[f32], gradient: &mut [f32]) -> f64 {
        let weight = 1.0 / self.counts.joint as f64;
        let mut value = 0.0;
        for ((&s, g), log_sum) in scores.iter().zip(gradient).zip(&self.row_log_sums[row..]) {
            let log_probability = self.link.log_ratio(f64::from(s)) - log_sum;
            value += weight * (log_probability + (self.counts.joint as f64).ln());
            *g = (-weight * log_probability.exp_m1() * self.link.slope(f64::from(s))) as f32;
        }
        value
    }

    fn marginal(&self, row: usize, _column: usize, scores: &[f32], gradient: &mut [f32]) -> f64 {
        let weight = -1.0 / self.counts.joint as f32;
        let log_sum = self.row_log_sums[row] as f32;
        partition_gradient(self.link, f32::INFINITY, log_sum, weight, scores, gradient);
        0.0
    }
}

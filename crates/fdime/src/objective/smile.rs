//! SMILE's own cost, used for the paper's "no trick" figure. In practice SMILE is trained with the
//! GAN cost, and only its readout clips the partition function.

use super::{Objective, partition_gradient, readout::log_partition};
use crate::link::Link;
use crate::scores::{PairCounts, Scores};

/// `J = E_joint[l] - ln E_marginal[clip(e^l, e^-tau, e^tau)]`. Clipped pairs have no gradient.
pub(super) struct Smile {
    tau: f64,
    link: Link,
    counts: PairCounts,
    log_partition: f64,
}

impl Smile {
    pub(super) fn new(tau: f64, link: Link, counts: PairCounts) -> Self {
        Smile { tau, link, counts, log_partition: f64::NAN }
    }
}

impl Objective for Smile {
    fn needs_whole_batch(&self) -> bool {
        true
    }

    fn observe(&mut self, scores: Scores<'_>) {
        self.log_partition = log_partition(self.link, self.tau, scores);
    }

    fn joint(&self, _row: usize, scores: &[f32], gradient: &mut [f32]) -> f64 {
        super::mean_log_ratio_part(self.link, self.counts.joint, scores, gradient)
    }

    fn marginal(&self, _row: usize, _column: usize, scores: &[f32], gradient: &mut [f32]) -> f64 {
        let weight = -1.0 / self.counts.marginal as f32;
        let (tau, log_partition) = (self.tau as f32, self.log_partition as f32);
        partition_gradient(self.link, tau, log_partition, weight, scores, gradient);
        0.0
    }

    fn constant(&self) -> f64 {
        -self.log_partition
    }
}

//! MINE: the Donsker-Varadhan cost with a moving average of the partition function.

use super::{Objective, partition_gradient, readout::log_partition};
use crate::link::Link;
use crate::numerics::log_add_exp;
use crate::scores::{PairCounts, Scores};

/// The weight of a new batch in the moving average, as in MINE's paper.
const RATE: f64 = 0.01;

/// `J = E_joint[l] - ln Z`, `Z = E_marginal[e^l]`. The gradient of ln Z is `E[e^l dl] / Z`; MINE
/// replaces the denominator by a moving average of Z over batches, through which no gradient flows.
/// The average is stored as a logarithm to avoid overflow:
/// ln Z_avg <- ln((1 - RATE) Z_avg + RATE Z).
pub(super) struct Mine {
    link: Link,
    counts: PairCounts,
    log_partition: f64,
    log_average: Option<f64>,
}

impl Mine {
    pub(super) fn new(link: Link, counts: PairCounts) -> Self {
        Mine { link, counts, log_partition: f64::NAN, log_average: None }
    }
}

impl Objective for Mine {
    fn needs_whole_batch(&self) -> bool {
        true
    }

    fn observe(&mut self, scores: Scores<'_>) {
        self.log_partition = log_partition(self.link, f64::INFINITY, scores);
        self.log_average = Some(match self.log_average {
            None => self.log_partition,
            Some(average) => {
                log_add_exp((1.0 - RATE).ln() + average, RATE.ln() + self.log_partition)
            }
        });
    }

    fn joint(&self, _row: usize, scores: &[f32], gradient: &mut [f32]) -> f64 {
        super::mean_log_ratio_part(self.link, self.counts.joint, scores, gradient)
    }

    fn marginal(&self, _row: usize, _column: usize, scores: &[f32], gradient: &mut [f32]) -> f64 {
        let weight = -1.0 / self.counts.marginal as f32;
        let log_average = self.log_average.unwrap_or(f64::NAN) as f32;
        partition_gradient(self.link, f32::INFINITY, log_average, weight, scores, gradient);
        0.0
    }

    fn constant(&self) -> f64 {
        -self.log_partition
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scores::ScoreBlock;

    #[test]
    fn the_moving_average_converges() {
        let counts = PairCounts { joint: 2, marginal: 2 };
        let mut mine = Mine::new(Link::Identity, counts);
        let batch =
            |s: f32| [ScoreBlock::Paired { first: 0, joint: vec![0.0; 2], marginal: vec![s; 2] }];
        mine.observe(Scores(&batch(0.0)));
        let mut expected = 1.0f64;
        for step in 1..=500 {
            mine.observe(Scores(&batch(2.0)));
            expected = (1.0 - RATE) * expected + RATE * 2f64.exp();
            let average = mine.log_average.unwrap().exp();
            assert!((average / expected - 1.0).abs() < 1e-5, "step {step}: {average} {expected}");
        }
        assert!(expected > 7.3, "after 500 steps the average has nearly converged");
    }

    #[test]
    fn gradients_use_the_moving_average() {
        let mut mine = Mine::new(Link::Identity, PairCounts { joint: 2, marginal: 2 });
        let batch =
            |s: f32| [ScoreBlock::Paired { first: 0, joint: vec![0.0; 2], marginal: vec![s; 2] }];
        mine.observe(Scores(&batch(0.0)));
        mine.observe(Scores(&batch(3.0)));
        let average = (1.0 - RATE) + RATE * 3f64.exp();
        let mut gradient = [0f32; 2];
        mine.marginal(0, 0, &[3.0, 3.0], &mut gradient);
        for g in gradient {
            assert!((f64::from(g) / (-3f64.exp() / average / 2.0) - 1.0).abs() < 1e-5, "{g}");
        }
    }

    #[test]
    fn gradients_are_finite_where_exponentials_overflow() {
        let mut mine = Mine::new(Link::Identity, PairCounts { joint: 2, marginal: 2 });
        let block = [ScoreBlock::Paired {
            first: 0,
            joint: vec![500.0, 510.0],
            marginal: vec![490.0, 480.0],
        }];
        mine.observe(Scores(&block));
        let mut gradient = [0f32; 2];
        mine.marginal(0, 0, &[490.0, 480.0], &mut gradient);
        assert!(gradient.iter().all(|g| g.is_finite()) && mine.constant().is_finite());
        assert!((gradient.iter().sum::<f32>() + 1.0).abs() < 1e-4);
    }
}

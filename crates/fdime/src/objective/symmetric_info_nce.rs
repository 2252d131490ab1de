//! InfoNCE over rows and over columns.

use super::{Objective, readout::row_log_sums};
use crate::link::Link;
use crate::numerics::Real;
use crate::scores::{PairCounts, ScoreBlock, Scores};
use multiversion::multiversion;

/// J = 1/2N sum_i (2 l_ii - ln sum_j e^{l_ij} - ln sum_j e^{l_ji}) + ln N. With
/// p_ij = e^{l_ij} / sum_k e^{l_ik} and q_ij = e^{l_ij} / sum_k e^{l_kj}, the gradient is
/// (2 - p_ii - q_ii)/2N for joint and -(p_ij + q_ij)/2N for marginal pairs.
pub(super) struct SymmetricInfoNce {
    link: Link,
    counts: PairCounts,
    row_log_sums: Vec<f64>,
    column_log_sums: Vec<f32>,
}

impl SymmetricInfoNce {
    pub(super) fn new(link: Link, counts: PairCounts) -> Self {
        SymmetricInfoNce { link, counts, row_log_sums: Vec::new(), column_log_sums: Vec::new() }
    }
}

impl Objective for SymmetricInfoNce {
    fn needs_whole_batch(&self) -> bool {
        true
    }

    fn observe(&mut self, scores: Scores<'_>) {
        self.row_log_sums = row_log_sums(self.link, scores, self.counts.joint);
        self.column_log_sums = column_log_sums(self.link, scores, self.counts.joint);
    }

    fn joint(&self, row: usize, scores: &[f32], gradient: &mut [f32]) -> f64 {
        let n = self.counts.joint as f64;
        let mut value = 0.0;
        for (k, (&s, g)) in scores.iter().zip(gradient).enumerate() {
            let l = self.link.log_ratio(f64::from(s));
            let by_row = l - self.row_log_sums[row + k];
            let by_column = l - f64::from(self.column_log_sums[row + k]);
            value += (0.5 * (by_row + by_column) + n.ln()) / n;
            let slope = -0.5 * (by_row.exp_m1() + by_column.exp_m1()) / n;
            *g = (slope * self.link.slope(f64::from(s))) as f32;
        }
        value
    }

    fn marginal(&self, row: usize, column: usize, scores: &[f32], gradient: &mut [f32]) -> f64 {
        let weight = -0.5 / self.counts.joint as f32;
        let log_sum = self.row_log_sums[row] as f32;
        let columns = &self.column_log_sums[column..column + scores.len()];
        marginal_gradient(self.link, log_sum, columns, weight, scores, gradient);
        0.0
    }
}

/// Returns ln sum_i e^{l_ij} for every column j of the all-pairs matrix; the sum includes the joint
/// pair. Costs over all pairs are never given paired scores.
fn column_log_sums(link: Link, scores: Scores<'_>, n: usize) -> Vec<f32> {
    let rows = || {
        scores.0.iter().flat_map(|block| match block {
            ScoreBlock::AllPairs { n, matrix, .. } => matrix.chunks_exact(*n),
            ScoreBlock::Paired { .. } => [].chunks_exact(1),
        })
    };
    let mut largest = vec![f32::NEG_INFINITY; n];
    rows().for_each(|row| raise_to(link, row, &mut largest));
    let mut sums = vec![0f32; n];
    rows().for_each(|row| add_exp(link, row, &largest, &mut sums));
    largest.iter().zip(sums).map(|(largest, sum)| largest + sum.ln()).collect()
}

/// Raises every number to the log ratio of its column where that is larger.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+fma",
    "x86_64+avx2+fma",
    "aarch64+neon"
))]
fn raise_to(link: Link, row: &[f32], largest: &mut [f32]) {
    for (largest, &s) in largest.iter_mut().zip(row) {
        let l = link.log_ratio(s);
        *largest = if l > *largest { l } else { *largest };
    }
}

/// Adds e^{l - largest} to the sum of every column.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+fma",
    "x86_64+avx2+fma",
    "aarch64+neon"
))]
fn add_exp(link: Link, row: &[f32], largest: &[f32], sums: &mut [f32]) {
    for ((sum, largest), &s) in sums.iter_mut().zip(largest).zip(row) {
        *sum += Real::exp(link.log_ratio(s) - largest);
    }
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+fma",
    "x86_64+avx2+fma",
    "aarch64+neon"
))]
fn marginal_gradient(
    link: Link,
    row_log_sum: f32,
    column_log_sums: &[f32],
    weight: f32,
    scores: &[f32],
    gradient: &mut [f32],
) {
    for ((&s, g), column) in scores.iter().zip(gradient).zip(column_log_sums) {
        let l = link.log_ratio(s);
        let shares = Real::exp(l - row_log_sum) + Real::exp(l - column);
        *g = weight * shares * link.slope(s);
    }
}

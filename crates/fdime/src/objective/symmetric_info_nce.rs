//! InfoNCE over rows and over columns.

use super::Objective;
use crate::link::Link;
use crate::numerics::Real;
use crate::scores::{PairCounts, ScoreBlock, Scores};
use multiversion::multiversion;

/// J = 1/2N sum_i (2 l_ii - ln sum_j e^{l_ij} - ln sum_j e^{l_ji}) + ln N. With
/// p_ij = e^{l_ij} / sum_k e^{l_ik} and q_ij = e^{l_ij} / sum_k e^{l_kj}, the gradient is
/// (2 - p_ii - q_ii)/2N for joint and -(p_ij + q_ij)/2N for marginal pairs.
///
/// Exponentials are most of the cost, so each is computed once: E_ij = e^{l_ij - m_i}, with m_i the
/// maximum of row i. Then p_ij = E_ij / sum_k E_ik and, with w_i = e^{m_i - max_k m_k},
/// q_ij = E_ij w_i / sum_k E_kj w_k.
pub(super) struct SymmetricInfoNce {
    link: Link,
    counts: PairCounts,
    /// E_ij, row-major.
    exponentials: Vec<f32>,
    rows: Vec<RowSum>,
    /// sum_k E_kj w_k of every column j.
    column_sums: Vec<f32>,
    /// The largest log ratio.
    largest: f32,
}

#[derive(Clone, Copy)]
struct RowSum {
    /// m_i
    largest: f32,
    /// sum_j E_ij
    sum: f32,
    /// w_i
    weight: f32,
}

impl SymmetricInfoNce {
    pub(super) fn new(link: Link, counts: PairCounts) -> Self {
        SymmetricInfoNce {
            link,
            counts,
            exponentials: Vec::new(),
            rows: Vec::new(),
            column_sums: Vec::new(),
            largest: 0.0,
        }
    }
}

impl Objective for SymmetricInfoNce {
    fn needs_whole_batch(&self) -> bool {
        true
    }

    fn observe(&mut self, scores: Scores<'_>) {
        let n = self.counts.joint;
        self.exponentials.resize(n * n, 0.0);
        self.rows.clear();
        for block in scores.0 {
            // Costs over all pairs are never given paired scores.
            let ScoreBlock::AllPairs { n, matrix, .. } = block else { continue };
            for row in matrix.chunks_exact(*n) {
                let start = self.rows.len() * n;
                let exponentials = &mut self.exponentials[start..start + n];
                let (largest, sum) = exponentiate(self.link, row, exponentials);
                self.rows.push(RowSum { largest, sum, weight: 0.0 });
            }
        }
        self.largest = self.rows.iter().map(|row| row.largest).fold(f32::NEG_INFINITY, f32::max);
        self.column_sums.clear();
        self.column_sums.resize(n, 0.0);
        for (row, exponentials) in self.rows.iter_mut().zip(self.exponentials.chunks_exact(n)) {
            row.weight = Real::exp(row.largest - self.largest);
            add_scaled(exponentials, row.weight, &mut self.column_sums);
        }
    }

    fn joint(&self, row: usize, scores: &[f32], gradient: &mut [f32]) -> f64 {
        let n = self.counts.joint as f64;
        let mut value = 0.0;
        for (i, (&s, g)) in (row..).zip(scores.iter().zip(gradient)) {
            let l = self.link.log_ratio(f64::from(s));
            let log_sum = |largest: f32, sum: f32| f64::from(largest) + f64::from(sum).ln();
            let by_row = l - log_sum(self.rows[i].largest, self.rows[i].sum);
            let by_column = l - log_sum(self.largest, self.column_sums[i]);
            value += (0.5 * (by_row + by_column) + n.ln()) / n;
            let slope = -0.5 * (by_row.exp_m1() + by_column.exp_m1()) / n;
            *g = (slope * self.link.slope(f64::from(s))) as f32;
        }
        value
    }

    fn marginal(&self, row: usize, column: usize, scores: &[f32], gradient: &mut [f32]) -> f64 {
        let weight = -0.5 / self.counts.joint as f32;
        let n = self.counts.joint;
        let columns = column..column + scores.len();
        let exponentials = &self.exponentials[row * n..][columns.clone()];
        let RowSum { sum, weight: row_weight, .. } = self.rows[row];
        let factors = (weight / sum, weight * row_weight);
        marginal_gradient(factors, &self.column_sums[columns], exponentials, gradient);
        if self.link != Link::Identity {
            gradient.iter_mut().zip(scores).for_each(|(g, s)| *g *= self.link.slope(*s));
        }
        0.0
    }
}

/// Writes e^{l - m}, with m the largest log ratio of the row, and returns m and their sum.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+fma",
    "x86_64+avx2+fma",
    "aarch64+neon"
))]
fn exponentiate(link: Link, row: &[f32], exponentials: &mut [f32]) -> (f32, f32) {
    exponentials.copy_from_slice(row);
    if link != Link::Identity {
        exponentials.iter_mut().for_each(|s| *s = link.log_ratio(*s));
    }
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (full, rest) = exponentials.as_chunks::<LANES>();
    for l in full {
        for lane in 0..LANES {
            lanes[lane] = if l[lane] > lanes[lane] { l[lane] } else { lanes[lane] };
        }
    }
    let largest = lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sums = [0f32; LANES];
    let (full, rest) = exponentials.as_chunks_mut::<LANES>();
    for l in full {
        for lane in 0..LANES {
            l[lane] = Real::exp(l[lane] - largest);
            sums[lane] += l[lane];
        }
    }
    for l in rest {
        *l = Real::exp(*l - largest);
        sums[0] += *l;
    }
    (largest, sums.iter().sum())
}

/// Numbers processed together: enough to fill the widest vector registers.
const LANES: usize = 32;

/// Adds `factor` times the row to the sums.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn add_scaled(row: &[f32], factor: f32, sums: &mut [f32]) {
    for (sum, value) in sums.iter_mut().zip(row) {
        *sum += factor * value;
    }
}

/// Writes E (by_row + by_column / column sum).
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn marginal_gradient(
    (by_row, by_column): (f32, f32),
    column_sums: &[f32],
    exponentials: &[f32],
    gradient: &mut [f32],
) {
    for ((g, e), column_sum) in gradient.iter_mut().zip(exponentials).zip(column_sums) {
        *g = e * (by_row + by_column / column_sum);
    }
}

//! f-DIME: `J = E_joint[a(l)] - E_marginal[b(l)]`, `l = link(score)`.

use super::Objective;
use crate::divergence::{Divergence, Row, with_row};
use crate::link::Link;
use crate::scores::PairCounts;
use multiversion::multiversion;

pub(super) struct FDime {
    divergence: Divergence,
    link: Link,
    counts: PairCounts,
}

impl FDime {
    pub(super) fn new(divergence: Divergence, link: Link, counts: PairCounts) -> Self {
        FDime { divergence, link, counts }
    }
}

impl Objective for FDime {
    fn joint(&self, _row: usize, scores: &[f32], gradient: &mut [f32]) -> f64 {
        let weight = 1.0 / self.counts.joint as f64;
        weight
            * with_row!(&self.divergence, row => joint(row, self.link, scores, gradient, weight as f32))
    }

    fn marginal(&self, _row: usize, _column: usize, scores: &[f32], gradient: &mut [f32]) -> f64 {
        let weight = -1.0 / self.counts.marginal as f64;
        weight
            * with_row!(&self.divergence, row => marginal(row, self.link, scores, gradient, weight as f32))
    }
}

/// Scores processed together: enough to fill the widest vector registers.
const LANES: usize = 32;

/// Applies `f`, score -> (value, slope), to all scores. Writes gradient = weight * slope and
/// returns the sum of the values. Each lane has its own sum, added to an f64 total every 64 rounds.
#[inline(always)]
fn sum_and_slopes(
    scores: &[f32],
    gradient: &mut [f32],
    weight: f32,
    f: impl Fn(f32) -> (f32, f32),
) -> f64 {
    let mut total = 0.0;
    for (scores, gradient) in scores.chunks(64 * LANES).zip(gradient.chunks_mut(64 * LANES)) {
        let mut lanes = [0f32; LANES];
        let (full, rest) = scores.as_chunks::<LANES>();
        let (full_gradient, rest_gradient) = gradient.as_chunks_mut::<LANES>();
        for (s, g) in full.iter().zip(full_gradient) {
            for lane in 0..LANES {
                let (value, slope) = f(s[lane]);
                lanes[lane] += value;
                g[lane] = weight * slope;
            }
        }
        for (s, g) in rest.iter().zip(rest_gradient) {
            let (value, slope) = f(*s);
            lanes[0] += value;
            *g = weight * slope;
        }
        total += lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>();
    }
    total
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+fma",
    "x86_64+avx2+fma",
    "aarch64+neon"
))]
fn joint<R: Row>(row: &R, link: Link, scores: &[f32], gradient: &mut [f32], weight: f32) -> f64 {
    // Matching on the link outside the loop lets the compiler vectorise the loop of each link.
    macro_rules! with_link {
        ($link:expr) => {
            sum_and_slopes(scores, gradient, weight, |s| {
                let (a, slope) = row.a_and_slope($link.log_ratio(s));
                (a, slope * $link.slope(s))
            })
        };
    }
    match link {
        Link::Identity => with_link!(Link::Identity),
        Link::LogSoftplus => with_link!(Link::LogSoftplus),
        Link::InverseSquareSoftplus => with_link!(Link::InverseSquareSoftplus),
    }
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+fma",
    "x86_64+avx2+fma",
    "aarch64+neon"
))]
fn marginal<R: Row>(row: &R, link: Link, scores: &[f32], gradient: &mut [f32], weight: f32) -> f64 {
    macro_rules! with_link {
        ($link:expr) => {
            sum_and_slopes(scores, gradient, weight, |s| {
                let (b, slope) = row.b_and_slope($link.log_ratio(s));
                (b, slope * $link.slope(s))
            })
        };
    }
    match link {
        Link::Identity => with_link!(Link::Identity),
        Link::LogSoftplus => with_link!(Link::LogSoftplus),
        Link::InverseSquareSoftplus => with_link!(Link::InverseSquareSoftplus),
    }
}

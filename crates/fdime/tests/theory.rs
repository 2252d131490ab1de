//! The paper's theorems as tests.

use fdime::scores::PairCounts;
use fdime::{Divergence, Estimator, Link};
use proptest::prelude::*;

/// p(x, y) of two dependent ternary variables.
const JOINT: [[f64; 3]; 3] = [[0.20, 0.06, 0.04], [0.05, 0.15, 0.10], [0.05, 0.09, 0.26]];

fn marginal_product(x: usize, y: usize) -> f64 {
    let p_x: f64 = JOINT[x].iter().sum();
    let p_y: f64 = JOINT.iter().map(|row| row[y]).sum();
    p_x * p_y
}

fn every_divergence() -> Vec<Divergence> {
    let mut all = Divergence::TABLE.to_vec();
    all.push(Divergence::Alpha(1.7));
    all.push(Divergence::from_expression("u*ln(u)").unwrap());
    all.push(Divergence::from_expression("(u-1)^2/(u+1)").unwrap());
    all
}

/// Maximises J = E_joint[a(l)] - E_q[b(l)] over a table l(x, y) by gradient ascent. A share `fixed`
/// of the marginal distribution q is the joint distribution.
fn maximise(divergence: &Divergence, fixed: f64) -> [[f64; 3]; 3] {
    let mut table = [[0.0; 3]; 3];
    for _ in 0..60_000 {
        for x in 0..3 {
            for y in 0..3 {
                let p = JOINT[x][y];
                let q = fixed * p + (1.0 - fixed) * marginal_product(x, y);
                let l = table[x][y];
                table[x][y] += 0.4 * (p * divergence.a_slope(l) - q * divergence.b_slope(l));
            }
        }
    }
    table
}

/// Theorem 3.1: for every f the maximiser is the log density ratio, and its mean under the joint
/// distribution is the mutual information.
#[test]
fn the_maximiser_is_the_log_density_ratio() {
    let exact = |x: usize, y: usize| (JOINT[x][y] / marginal_product(x, y)).ln();
    for divergence in every_divergence() {
        let table = maximise(&divergence, 0.0);
        let (mut information, mut estimate) = (0.0, 0.0);
        for x in 0..3 {
            for y in 0..3 {
                assert!((table[x][y] - exact(x, y)).abs() < 1e-6, "{divergence} at ({x}, {y})");
                information += JOINT[x][y] * exact(x, y);
                estimate += JOINT[x][y] * table[x][y];
            }
        }
        assert!((estimate - information).abs() < 1e-6, "{divergence}");
    }
}

/// Theorem 5.2: with K fixed points among N pairs the maximiser is N R / (K R + N - K), which is
/// less than N / K. The paper proves it for KL and states that it extends to every f.
#[test]
fn fixed_points_bias_the_maximiser() {
    let n = 16.0;
    for divergence in every_divergence() {
        for k in [1.0, 4.0] {
            let table = maximise(&divergence, k / n);
            for x in 0..3 {
                for y in 0..3 {
                    let r = JOINT[x][y] / marginal_product(x, y);
                    let exact = n * r / (k * r + n - k);
                    assert!((table[x][y] - exact.ln()).abs() < 1e-6, "{divergence} K={k}");
                    assert!(table[x][y].exp() < n / k);
                }
            }
        }
    }
}

/// p(x, y1, y2) of a ternary x, a binary y1 and a ternary y2; all three depend on each other.
const CHAINED: [[[f64; 3]; 2]; 3] = [
    [[0.14, 0.03, 0.02], [0.01, 0.05, 0.06]],
    [[0.06, 0.08, 0.02], [0.01, 0.05, 0.10]],
    [[0.09, 0.02, 0.04], [0.03, 0.04, 0.15]],
];

/// Returns sum p over the values that the filter accepts.
fn probability(accepts: impl Fn(usize, usize, usize) -> bool) -> f64 {
    let values = (0..18).map(|k| (k / 6, k / 3 % 2, k % 3));
    let accepted = values.filter(|&(x, y1, y2)| accepts(x, y1, y2));
    accepted.map(|(x, y1, y2)| CHAINED[x][y1][y2]).sum()
}

/// Maximises J = p a(l) - q b(l) of one cell of a table by gradient ascent. The cells are
/// independent of each other.
fn maximise_cell(divergence: &Divergence, p: f64, q: f64) -> f64 {
    let mut l = 0.0;
    for _ in 0..100_000 {
        l += 0.4 * (p * divergence.a_slope(l) - q * divergence.b_slope(l));
    }
    l
}

/// The chain rule I(X; Y1, Y2) = I(X; Y1) + I(X, Y1; Y2) - I(Y1; Y2): for every f the maximisers of
/// the three terms are the log density ratios whose signed sum is that of x and (y1, y2), point by
/// point. Deranging y2 alone also breaks its dependence on y1; the subtracted term removes that,
/// and without it the sum is too large by I(Y1; Y2).
#[test]
fn the_terms_of_a_chain_add_up_to_the_log_density_ratio() {
    for divergence in every_divergence() {
        let (mut sum, mut exact, mut without, mut excess) = (0.0, 0.0, 0.0, 0.0);
        for (x, y1, y2) in (0..18).map(|k| (k / 6, k / 3 % 2, k % 3)) {
            let p = CHAINED[x][y1][y2];
            let p_x = probability(|a, _, _| a == x);
            let p_y1 = probability(|_, b, _| b == y1);
            let p_y2 = probability(|_, _, c| c == y2);
            let p_x_y1 = probability(|a, b, _| (a, b) == (x, y1));
            let p_y = probability(|_, b, c| (b, c) == (y1, y2));
            let terms =
                [(1.0, p_x_y1, p_x * p_y1), (1.0, p, p_x_y1 * p_y2), (-1.0, p_y, p_y1 * p_y2)];
            let maximisers = terms.map(|(sign, joint, marginal)| {
                let l = maximise_cell(&divergence, joint, marginal);
                assert!((l - (joint / marginal).ln()).abs() < 1e-6, "{divergence}: {l}");
                sign * l
            });
            let log_ratio: f64 = maximisers.iter().sum();
            let expected = (p / (p_x * p_y)).ln();
            assert!((log_ratio - expected).abs() < 1e-6, "{divergence} at ({x}, {y1}, {y2})");
            sum += p * log_ratio;
            exact += p * expected;
            without += p * (maximisers[0] + maximisers[1]);
            excess += p * (p_y / (p_y1 * p_y2)).ln();
        }
        assert!((sum - exact).abs() < 1e-6, "{divergence}: {sum} instead of {exact}");
        assert!(excess > 0.1, "y1 and y2 depend on each other: {excess}");
        assert!((without - exact - excess).abs() < 1e-6, "{divergence}: {without}");
    }
}

/// Returns J of paired scores, computed by the library.
fn paired_value(divergence: &Divergence, joint: &[f32], marginal: &[f32]) -> f64 {
    let counts = PairCounts { joint: joint.len(), marginal: marginal.len() };
    let estimator = Estimator::f_dime(divergence.clone()).with_link(Link::Identity);
    let objective = estimator.objective(counts);
    let mut unused = vec![0.0; joint.len()];
    objective.joint(0, joint, &mut unused) + objective.marginal(0, 0, marginal, &mut unused)
}

proptest! {
    /// Lemma 5.1: J of a permutation with K fixed points is at most (N - K)/N times J of the
    /// derangement that it is on the other N - K rows.
    #[test]
    fn fixed_points_lower_the_value_of_a_permutation(
        joint in proptest::collection::vec(-4f32..4.0, 12),
        other in proptest::collection::vec(-4f32..4.0, 12),
        fixed in 1usize..11,
    ) {
        let n = joint.len();
        // The first `fixed` rows are paired with their own y, so their marginal score is the joint
        // one.
        let marginal: Vec<f32> = joint[..fixed].iter().chain(&other[fixed..]).copied().collect();
        for divergence in every_divergence() {
            let permutation = paired_value(&divergence, &joint, &marginal);
            let derangement = paired_value(&divergence, &joint[fixed..], &other[fixed..]);
            let bound = (n - fixed) as f64 / n as f64 * derangement;
            let slack = 1e-4 * (1.0 + bound.abs());
            prop_assert!(permutation <= bound + slack, "{}: {} > {}", divergence, permutation, bound);
        }
    }
}

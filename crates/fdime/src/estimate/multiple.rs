//! Corrections for multiple tests.

/// Returns Benjamini and Hochberg's adjusted p-values: rejecting those up to q keeps the expected
/// share of false rejections below q. With m tests and the k-th smallest p-value,
///
/// adjusted_k = min over j >= k of m p_j / j
///
/// Tests without a p-value are ignored and stay without one.
pub fn benjamini_hochberg(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(f64, usize)> =
        p_values.iter().enumerate().filter_map(|(index, p)| Some(((*p)?, index))).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let m = order.len() as f64;
    let mut adjusted = vec![None; p_values.len()];
    let mut smallest = 1.0f64;
    for (rank, (p, index)) in order.into_iter().enumerate().rev() {
        smallest = smallest.min(p * (m / (rank + 1) as f64));
        adjusted[index] = Some(smallest);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn follows_the_textbook() {
        let p = [0.01, 0.04, 0.03, 0.005].map(Some);
        let adjusted: Vec<f64> = benjamini_hochberg(&p).into_iter().flatten().collect();
        for (got, expected) in adjusted.iter().zip([0.02, 0.04, 0.04, 0.02]) {
            assert!((got - expected).abs() < 1e-12);
        }
        assert_eq!(benjamini_hochberg(&[None, Some(0.2)]), [None, Some(0.2)]);
    }

    proptest! {
        #[test]
        fn adjusted_values_keep_the_order_and_are_not_smaller(
            p in prop::collection::vec(0.0..=1.0f64, 1..50),
        ) {
            let given: Vec<Option<f64>> = p.iter().copied().map(Some).collect();
            let adjusted: Vec<f64> = benjamini_hochberg(&given).into_iter().flatten().collect();
            for i in 0..p.len() {
                prop_assert!(adjusted[i] >= p[i] && adjusted[i] <= 1.0);
                for j in 0..p.len() {
                    prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}

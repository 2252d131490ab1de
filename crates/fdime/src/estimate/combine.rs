//! Weights that combine several critics into one model: l = sum_m w_m l_m.

/// The rate at which weights decrease with the distance from the best lower bound: a critic whose
/// bound is lower by 1/30 nats has a weight smaller by the factor e. Equally good critics have
/// equal weights, and clearly worse ones none.
const SHARPNESS: f64 = 30.0;

/// Returns the weights of a fold's critics.
///
/// `validation[fold][critic]` is the lower bound on the validation rows of a fold in nats, `None` if the
/// critic diverged. It is averaged over `usable_folds`: this fold and all others whose validation
/// rows do not overlap with this fold's test rows.
pub(super) fn weights(
    validation: &[Vec<Option<f64>>],
    fold: usize,
    usable_folds: &[usize],
) -> Vec<f64> {
    let means: Vec<f64> = (0..validation[fold].len())
        .map(|critic| {
            let values: Vec<f64> =
                usable_folds.iter().filter_map(|&usable| validation[usable][critic]).collect();
            match validation[fold][critic] {
                Some(_) => values.iter().sum::<f64>() / values.len() as f64,
                None => f64::NEG_INFINITY,
            }
        })
        .collect();
    let best = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let raw: Vec<f64> = means.iter().map(|mean| (SHARPNESS * (mean - best)).exp()).collect();
    let sum: f64 = raw.iter().sum();
    // Critics with a negligible weight are dropped, so that they need not score any rows.
    let kept: Vec<f64> = raw.iter().map(|w| if *w > 0.01 * sum { *w } else { 0.0 }).collect();
    let sum: f64 = kept.iter().sum();
    kept.iter().map(|weight| weight / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_critics_share_the_weight_and_worse_ones_have_none() {
        let even = vec![vec![Some(-1.0), Some(-1.0), Some(-2.0)]; 5];
        assert_eq!(weights(&even, 0, &[0, 1, 2, 3]), [0.5, 0.5, 0.0]);
    }

    #[test]
    fn other_folds_do_not_count() {
        let mut validation = vec![vec![Some(-1.0), Some(-1.0)]; 5];
        validation[0] = vec![Some(-1.0), Some(5.0)];
        assert_eq!(weights(&validation, 1, &[1, 2, 3, 4]), [0.5, 0.5]);
        assert_eq!(weights(&validation, 2, &[0, 2, 3, 4]), [0.0, 1.0]);
    }

    #[test]
    fn a_critic_that_diverged_in_a_fold_has_no_weight_there() {
        let mut validation = vec![vec![Some(-1.0), Some(0.0)]; 5];
        validation[3][1] = None;
        assert_eq!(weights(&validation, 3, &[0, 1, 3]), [1.0, 0.0]);
        assert_eq!(weights(&validation, 0, &[0, 1, 2]), [0.0, 1.0]);
    }
}

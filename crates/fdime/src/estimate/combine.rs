//! One model of several critics: l = sum of w_m l_m.

/// How fast a critic's weight falls with its distance from the best: by e for every 1/300 of the
/// objective. Critics that are as good as each other share the weight; one that is clearly worse
/// has none.
const SHARPNESS: f64 = 300.0;

/// The weights of a fold's critics, from `validation[fold][critic]`, the objective on each fold's
/// validation rows (nothing where a critic diverged). All folds have a say but the one whose
/// validation rows are among this fold's test rows, which must not decide how they are scored.
pub(super) fn weights(validation: &[Vec<Option<f64>>], fold: usize) -> Vec<f64> {
    let count = validation.len();
    let leave_out = (fold + count - 1) % count;
    let critics = validation[fold].len();
    let means: Vec<f64> = (0..critics)
        .map(|critic| {
            let own = validation[fold][critic];
            let values: Vec<f64> = (0..count)
                .filter(|&other| other != leave_out || count == 1)
                .filter_map(|other| validation[other][critic])
                .collect();
            match own {
                Some(_) => values.iter().sum::<f64>() / values.len() as f64,
                None => f64::NEG_INFINITY,
            }
        })
        .collect();
    let best = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let raw: Vec<f64> = means.iter().map(|mean| (SHARPNESS * (mean - best)).exp()).collect();
    let sum: f64 = raw.iter().sum();
    // What hardly counts is left out, so that it costs nothing where rows are scored.
    let kept: Vec<f64> = raw.iter().map(|w| if *w > 0.01 * sum { *w } else { 0.0 }).collect();
    let sum: f64 = kept.iter().sum();
    kept.iter().map(|weight| weight / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_share_and_losers_get_nothing() {
        let even = vec![vec![Some(-1.0), Some(-1.0), Some(-2.0)]; 5];
        assert_eq!(weights(&even, 0), [0.5, 0.5, 0.0]);
    }

    #[test]
    fn a_fold_is_not_judged_by_its_own_test_rows() {
        // The validation rows of fold 0 are test rows of fold 1.
        let mut validation = vec![vec![Some(-1.0), Some(-1.0)]; 5];
        validation[0] = vec![Some(-1.0), Some(5.0)];
        assert_eq!(weights(&validation, 1), [0.5, 0.5]);
        assert_eq!(weights(&validation, 2), [0.0, 1.0]);
    }

    #[test]
    fn a_critic_that_diverged_has_no_weight_there() {
        let mut validation = vec![vec![Some(-1.0), Some(0.0)]; 5];
        validation[3][1] = None;
        assert_eq!(weights(&validation, 3), [1.0, 0.0]);
        assert_eq!(weights(&validation, 0), [0.0, 1.0]);
    }
}

//! One model of several critics: l = sum of w_m l_m.

/// How fast a critic's weight falls with its distance from the best: by e for every 1/300 of the
/// objective. Critics that are as good as each other share the weight; one that is clearly worse
/// has none.
const SHARPNESS: f64 = 300.0;

/// The weights of a fold's critics, from `validation[fold][critic]`, the objective on each fold's
/// validation rows (nothing where a critic diverged), averaged over `judges`: the folds none of whose
/// validation rows are among this fold's test rows, this fold itself being one of them.
pub(super) fn weights(validation: &[Vec<Option<f64>>], fold: usize, judges: &[usize]) -> Vec<f64> {
    let means: Vec<f64> = (0..validation[fold].len())
        .map(|critic| {
            let values: Vec<f64> =
                judges.iter().filter_map(|&judge| validation[judge][critic]).collect();
            match validation[fold][critic] {
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
        assert_eq!(weights(&even, 0, &[0, 1, 2, 3]), [0.5, 0.5, 0.0]);
    }

    #[test]
    fn only_judges_count() {
        let mut validation = vec![vec![Some(-1.0), Some(-1.0)]; 5];
        validation[0] = vec![Some(-1.0), Some(5.0)];
        assert_eq!(weights(&validation, 1, &[1, 2, 3, 4]), [0.5, 0.5]);
        assert_eq!(weights(&validation, 2, &[0, 2, 3, 4]), [0.0, 1.0]);
    }

    #[test]
    fn a_critic_that_diverged_has_no_weight_there() {
        let mut validation = vec![vec![Some(-1.0), Some(0.0)]; 5];
        validation[3][1] = None;
        assert_eq!(weights(&validation, 3, &[0, 1, 3]), [1.0, 0.0]);
        assert_eq!(weights(&validation, 0, &[0, 1, 2]), [0.0, 1.0]);
    }
}

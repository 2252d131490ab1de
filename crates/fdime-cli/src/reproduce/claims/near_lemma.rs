use super::{Claim, EstimatorNames, Evidence, Fact, Verdict};
use crate::reproduce::results::ROUNDING;
use serde::Deserialize;

/// Returns the variance of Lemma 4.2 for d pairs of Gaussians with equal correlation and the
/// optimal ratio: d (1 - e^(-2 I/d)) / N.
pub fn lemma_variance(true_mi: f64, dim: usize, batch: usize) -> f64 {
    let d = dim as f64;
    d * -(-2.0 * true_mi / d).exp_m1() / batch as f64
}

/// The variance is within a factor of Lemma 4.2's, at each level up to `up_to_mi`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NearLemma {
    estimators: EstimatorNames,
    factor: f64,
    up_to_mi: f64,
}

impl Claim for NearLemma {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let NearLemma { estimators, factor, up_to_mi } = self;
        let facts = evidence.select(estimators.iter(), |_| true).facts(|staircase| {
            let (dim, batch) = (staircase.plan.scenario.dim, staircase.plan.training.batch);
            let levels = staircase.levels.iter();
            let levels = levels.filter(|level| level.true_mi <= up_to_mi + ROUNDING);
            levels
                .map(|level| {
                    let ratio = level.variance.value / lemma_variance(level.true_mi, dim, batch);
                    let (name, mi) = (staircase.estimator(), level.true_mi);
                    let text = format!("{name} N={batch} at {mi:.0}: {ratio:.2}");
                    Fact::new((1.0 / factor..=*factor).contains(&ratio), text)
                })
                .collect::<Vec<_>>()
        });
        let text = format!(
            "the variance of {estimators} is within a factor of {factor} of that in Lemma 4.2 \
             up to {up_to_mi} nats"
        );
        Verdict::all(text, facts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, check, results};
    use super::*;

    #[test]
    fn lemma_agrees_with_its_closed_forms() {
        // One pair: 1 - e^(-2I) over N, as in the paper.
        assert!((lemma_variance(2.0, 1, 64) - (1.0 - (-4f64).exp()) / 64.0).abs() < 1e-12);
        // d pairs with correlation rho: d rho^2 / N.
        let rho: f64 = 0.6;
        let mi = -10.0 * (1.0 - rho * rho).ln();
        assert!((lemma_variance(mi, 20, 50) - 20.0 * rho * rho / 50.0).abs() < 1e-12);
    }

    #[test]
    fn variance_is_compared_with_the_lemma() {
        let claim = "kind = 'near-lemma'\nestimators = ['kl-dime']\nfactor = 1.4\nup_to_mi = 2";
        let measured = |factor| {
            let variance = factor * lemma_variance(2.0, 5, 64);
            let run = Run::new("kl-dime").dim(5).batch(64);
            results(&[run.levels(&[(2.0, 2.0, variance), (4.0, 4.0, 100.0)])])
        };
        assert!(check(claim, &measured(1.3)).passed && check(claim, &measured(0.8)).passed);
        assert!(!check(claim, &measured(1.5)).passed && !check(claim, &measured(0.7)).passed);
        let lower = claim.replace("up_to_mi = 2", "up_to_mi = 1");
        assert!(!check(&lower, &measured(1.0)).passed, "there are no levels");
    }
}

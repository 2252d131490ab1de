use super::slope::slope;
use super::{Claim, EstimatorNames, Evidence, Fact, Verdict};
use crate::reproduce::results::{ROUNDING, Results};
use serde::Deserialize;

/// ln variance against ln N has a slope between two numbers, at each level up to `up_to_mi`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VarianceSlope {
    estimators: EstimatorNames,
    between: (f64, f64),
    up_to_mi: f64,
}

impl VarianceSlope {
    /// Returns the levels of an estimator up to `up_to_mi`, in ascending order.
    fn levels(&self, results: &Results, estimator: &str) -> Vec<f64> {
        let mut levels: Vec<f64> = results
            .staircases_of(estimator)
            .flat_map(|staircase| staircase.levels.iter().map(|level| level.true_mi))
            .filter(|true_mi| *true_mi <= self.up_to_mi + ROUNDING)
            .collect();
        levels.sort_by(f64::total_cmp);
        levels.dedup_by(|a, b| (*a - *b).abs() < ROUNDING);
        levels
    }

    fn fact(&self, results: &Results, estimator: &str, true_mi: f64) -> Fact {
        let points: Vec<(f64, f64)> = results
            .staircases_of(estimator)
            .filter_map(|staircase| {
                let variance = staircase.at(true_mi)?.variance.value;
                Some(((staircase.plan.training.batch as f64).ln(), variance.ln()))
            })
            .collect();
        let slope = slope(&points);
        let holds = points.len() > 1 && slope >= self.between.0 && slope <= self.between.1;
        Fact::new(holds, format!("{estimator} at {true_mi:.0}: {slope:.2}"))
    }
}

impl Claim for VarianceSlope {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let VarianceSlope { estimators, between: (low, high), up_to_mi } = self;
        let results = evidence.results;
        let mut facts = evidence.select(estimators.iter(), |_| true).gaps();
        for estimator in estimators.iter() {
            let levels = self.levels(results, estimator);
            if levels.is_empty() {
                facts.push(Fact::not_measured(estimator));
            }
            facts.extend(levels.iter().map(|true_mi| self.fact(results, estimator, *true_mi)));
        }
        let text = format!(
            "the variance of {estimators} falls with N up to {up_to_mi} nats: \
             log-log slope between {low} and {high} (1/N: -1)"
        );
        Verdict::all(text, facts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, check, results};

    #[test]
    fn variance_must_fall_as_one_over_n() {
        let claim = "kind = 'variance-slope'\nestimators = ['kl-dime']\nbetween = [-1.1, -0.9]\n\
                     up_to_mi = 2";
        let measured = |variance| {
            results(&[
                Run::new("kl-dime").batch(64).levels(&[(2.0, 2.0, 0.4), (4.0, 4.0, 1.0)]),
                Run::new("kl-dime").batch(128).levels(&[(2.0, 2.0, variance), (4.0, 4.0, 1.0)]),
            ])
        };
        assert!(check(claim, &measured(0.2)).passed);
        assert!(!check(claim, &measured(0.3)).passed);
        let lower = claim.replace("up_to_mi = 2", "up_to_mi = 1");
        assert!(!check(&lower, &measured(0.2)).passed, "there are no levels");
        let one = results(&[Run::new("kl-dime").levels(&[(2.0, 2.0, 0.4)])]);
        assert!(!check(claim, &one).passed, "one batch size has no slope");
    }
}

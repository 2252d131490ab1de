use super::{Claim, EstimatorNames, Evidence, Fact, Verdict};
use serde::Deserialize;

/// The variance at the last level is at least `times` that at the first.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VarianceExplodes {
    estimators: EstimatorNames,
    times: f64,
}

impl Claim for VarianceExplodes {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let VarianceExplodes { estimators, times } = self;
        let facts = evidence.select(estimators.iter(), |_| true).facts(|staircase| {
            let first = staircase.levels.first()?.variance.value;
            let last = staircase.levels.last()?.variance.value;
            let (name, scenario) = (staircase.estimator(), &staircase.plan.scenario.name);
            let text = format!("{name} {scenario}: {first:.3} to {last:.3}");
            Some(Fact::new(last >= times * first, text))
        });
        Verdict::all(format!("the variance of {estimators} grows at least {times}-fold"), facts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, check, results};

    #[test]
    fn the_last_variance_is_compared_with_the_first() {
        let claim = "kind = 'variance-explodes'\nestimators = ['mine']\ntimes = 20";
        let measured = |variance| {
            results(&[Run::new("mine").levels(&[(2.0, 2.0, 0.1), (10.0, 9.0, variance)])])
        };
        assert!(check(claim, &measured(2.1)).passed);
        assert!(!check(claim, &measured(1.9)).passed);
    }

    #[test]
    fn unfinished_staircases_fail() {
        let claim = "kind = 'variance-explodes'\nestimators = ['mine']\ntimes = 20";
        let run = Run::new("mine").levels(&[(2.0, 2.0, 0.1), (4.0, 4.0, 9.0)]).planned(3);
        let verdict = check(claim, &results(&[run]));
        assert!(!verdict.passed && verdict.detail.contains("finished by every run"), "{verdict:?}");
    }
}

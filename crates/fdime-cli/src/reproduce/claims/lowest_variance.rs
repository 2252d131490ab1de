use super::{Claim, EstimatorName, EstimatorNames, Evidence, Fact, Verdict};
use crate::reproduce::results::{ROUNDING, StaircaseResult};
use serde::Deserialize;

/// At every level from `from_mi` on, one estimator has the lowest variance.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LowestVariance {
    estimator: EstimatorName,
    among: EstimatorNames,
    from_mi: f64,
}

impl LowestVariance {
    /// Compares the variances of two staircases level by level.
    fn compare(&self, own: &StaircaseResult, other: &StaircaseResult) -> Vec<Fact> {
        let levels = own.levels.iter().zip(&other.levels);
        levels
            .filter(|(level, _)| level.true_mi >= self.from_mi - ROUNDING)
            .map(|(a, b)| {
                let text = format!(
                    "{} {} at {:.0}: {:.3} < {:.3} of {}",
                    own.plan.scenario.name,
                    own.label(),
                    a.true_mi,
                    a.variance.value,
                    b.variance.value,
                    other.estimator()
                );
                Fact::new(a.variance.value < b.variance.value, text)
            })
            .collect()
    }
}

impl Claim for LowestVariance {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let LowestVariance { estimator, among, from_mi } = self;
        let others: Vec<&str> = among.iter().filter(|name| *name != estimator.as_str()).collect();
        let own = evidence.select([estimator.as_str()], |_| true);
        let mut facts = own.gaps();
        facts.extend(evidence.select(others.iter().copied(), |_| true).facts(|other| {
            let comparable = own.staircases.iter().filter(|own| own.is_comparable(other));
            comparable.flat_map(|own| self.compare(own, other)).collect::<Vec<_>>()
        }));
        let text =
            format!("{estimator} has the lowest variance among {among} from {from_mi} nats on");
        Verdict::all(text, facts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, check, results};

    #[test]
    fn levels_below_the_limit_do_not_count() {
        let claim = "kind = 'lowest-variance'\nestimator = 'kl-dime'\namong = ['mine', 'kl-dime']\n\
                     from_mi = 4";
        let measured = |variance| {
            results(&[
                Run::new("kl-dime").levels(&[(2.0, 2.0, 0.3), (4.0, 4.0, variance)]),
                Run::new("mine").levels(&[(2.0, 2.0, 0.1), (4.0, 4.0, 0.2)]),
            ])
        };
        assert!(check(claim, &measured(0.1)).passed);
        assert!(!check(claim, &measured(0.2)).passed);
    }

    #[test]
    fn every_estimator_needs_a_comparison() {
        let claim = "kind = 'lowest-variance'\nestimator = 'kl-dime'\namong = ['mine', 'nwj']\n\
                     from_mi = 2";
        let measured = results(&[
            Run::new("kl-dime").levels(&[(2.0, 2.0, 0.1)]),
            Run::new("mine").levels(&[(2.0, 2.0, 0.2)]),
            Run::new("nwj").batch(128).levels(&[(2.0, 2.0, 0.2)]),
        ]);
        assert!(check(claim, &measured).detail.contains("nwj was not measured"));
    }
}

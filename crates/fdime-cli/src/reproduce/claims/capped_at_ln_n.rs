use super::{Claim, EstimatorNames, Evidence, Fact, Verdict};
use fdime::Pairing;
use serde::Deserialize;

/// The mean at every level is at most ln N plus `above`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CappedAtLnN {
    estimators: EstimatorNames,
    pairing: Pairing,
    /// The maximum that the readout adds.
    #[serde(default)]
    above: f64,
}

impl Claim for CappedAtLnN {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let CappedAtLnN { estimators, pairing, above } = self;
        let selection = evidence
            .select(estimators.iter(), |plan| plan.training.learner.pairing() == Some(*pairing));
        let facts = selection.facts(|staircase| {
            let cap = (staircase.plan.training.batch as f64).ln() + above;
            let top = staircase.levels.iter().map(|level| level.mean.value).fold(0.0, f64::max);
            let text = format!("{} {top:.2} <= {cap:.2}", staircase.estimator());
            [Fact::new(top <= cap, text)]
        });
        let plus = if *above > 0.0 { format!(" + {above}") } else { String::new() };
        Verdict::all(
            format!("with the pairing {pairing}, estimates are at most ln N{plus}: {estimators}"),
            facts,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, check, results};

    #[test]
    fn means_are_compared_with_ln_n() {
        let claim = "kind = 'capped-at-ln-n'\nestimators = ['cpc']\npairing = 'all-pairs'";
        let measured = |mean| results(&[Run::new("cpc").batch(64).levels(&[(2.0, mean, 0.1)])]);
        assert!(check(claim, &measured(4.15)).passed);
        let verdict = check(claim, &measured(4.17));
        assert!(!verdict.passed && verdict.detail == "NOT cpc 4.17 <= 4.16", "{verdict:?}");
        assert!(check(&format!("{claim}\nabove = 1.0"), &measured(4.17)).passed);
        let other = claim.replace("all-pairs", "permutation");
        assert!(!check(&other, &measured(4.15)).passed, "that pairing was not measured");
    }
}

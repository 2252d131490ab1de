use super::{Claim, EstimatorNames, Evidence, Fact, Verdict};
use fdime::Pairing;
use serde::Deserialize;

/// The mean at the last level is above ln N.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExceedsLnN {
    estimators: EstimatorNames,
    pairing: Pairing,
}

impl Claim for ExceedsLnN {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let ExceedsLnN { estimators, pairing } = self;
        let selection = evidence
            .select(estimators.iter(), |plan| plan.training.learner.pairing() == Some(*pairing));
        let facts = selection.facts(|staircase| {
            let cap = (staircase.plan.training.batch as f64).ln();
            let top = staircase.levels.last()?.mean.value;
            let text = format!("{} {top:.2} > {cap:.2}", staircase.estimator());
            Some(Fact::new(top > cap, text))
        });
        Verdict::all(
            format!("with the pairing {pairing}, estimates exceed ln N: {estimators}"),
            facts,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, check, results};

    #[test]
    fn the_last_level_must_exceed_ln_n() {
        let claim = "kind = 'exceeds-ln-n'\nestimators = ['kl-dime']\npairing = 'all-pairs'";
        let measured = |mean| {
            let levels = [(2.0, 9.0, 0.1), (10.0, mean, 0.1)];
            results(&[Run::new("kl-dime").batch(64).levels(&levels)])
        };
        assert!(check(claim, &measured(4.2)).passed);
        assert!(!check(claim, &measured(4.1)).passed);
        let both = claim.replace("['kl-dime']", "['kl-dime', 'mine']");
        assert!(check(&both, &measured(4.2)).detail.contains("mine was not measured"));
    }
}

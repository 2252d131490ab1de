use super::{Claim, EstimatorNames, Evidence, Fact, Verdict};
use serde::Deserialize;

/// The estimator diverges, or its bias at the last level is more than a share of the MI.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fails {
    estimators: EstimatorNames,
    share: f64,
}

impl Claim for Fails {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let Fails { estimators, share } = self;
        let facts = evidence.select(estimators.iter(), |_| true).facts_of_unfinished(|staircase| {
            let name = format!("{} {}", staircase.estimator(), staircase.plan.scenario.name);
            let last = staircase.plan.schedule.levels.len() - 1;
            [match staircase.levels.get(last) {
                None => Fact::new(true, format!("{name} diverged")),
                Some(level) => {
                    let text = format!("{name}: {:.2} at {}", level.mean.value, level.true_mi);
                    Fact::new(level.bias.value > share * level.true_mi, text)
                }
            }]
        });
        let percent = 100.0 * share;
        let text =
            format!("{estimators} diverge or miss the last level by more than {percent:.0}%");
        Verdict::all(text, facts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, check, results};

    #[test]
    fn divergence_and_a_large_bias_count_as_failure() {
        let claim = "kind = 'fails'\nestimators = ['smile-own-1']\nshare = 0.5";
        let run = |mean| Run::new("smile-own-1").levels(&[(2.0, 2.0, 0.1), (10.0, mean, 0.1)]);
        assert!(check(claim, &results(&[run(15.1)])).passed);
        assert!(!check(claim, &results(&[run(14.9)])).passed);
        let verdict = check(claim, &results(&[run(10.0).planned(3)]));
        assert!(verdict.passed && verdict.detail.contains("diverged"), "{verdict:?}");
    }
}

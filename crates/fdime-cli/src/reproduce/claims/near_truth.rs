use super::{Claim, EstimatorNames, Evidence, Fact, ScenarioFilter, Verdict};
use serde::Deserialize;

/// The bias at every level is at most relative * MI + absolute.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NearTruth {
    estimators: EstimatorNames,
    relative: f64,
    absolute: f64,
    #[serde(default)]
    scenario: ScenarioFilter,
}

impl Claim for NearTruth {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let NearTruth { estimators, relative, absolute, scenario } = self;
        let selection = evidence.select(estimators.iter(), |plan| scenario.accepts(plan));
        let facts = selection.facts(|staircase| {
            let levels = staircase.levels.iter();
            let (excess, worst) = levels
                .map(|level| (level.bias.value - relative * level.true_mi, level))
                .max_by(|a, b| a.0.total_cmp(&b.0))?;
            let (scenario, label) = (&staircase.plan.scenario.name, staircase.label());
            let (name, mean, mi) = (staircase.estimator(), worst.mean.value, worst.true_mi);
            let text = format!("{name} {scenario} {label}: {mean:.2} at {mi:.2}");
            Some(Fact::new(excess <= *absolute, text))
        });
        let percent = 100.0 * relative;
        let text =
            format!("{estimators}{scenario} are within {percent:.0}% + {absolute} of the truth");
        Verdict::all(text, facts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, check, results};

    #[test]
    fn the_worst_level_decides() {
        let claim = "kind = 'near-truth'\nestimators = ['kl-dime']\nrelative = 0.2\nabsolute = 0.1";
        let measured =
            |mean| results(&[Run::new("kl-dime").levels(&[(2.0, 1.55, 0.1), (10.0, mean, 0.1)])]);
        assert!(check(claim, &measured(12.05)).passed);
        let verdict = check(claim, &measured(12.15));
        assert!(!verdict.passed && verdict.detail.contains("12.15 at 10.00"), "{verdict:?}");
        assert!(!check(&format!("{claim}\nscenario = 'cubic'"), &measured(12.0)).passed);
    }
}

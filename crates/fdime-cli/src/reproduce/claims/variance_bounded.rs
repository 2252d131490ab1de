use super::{Claim, EstimatorNames, Evidence, Fact, ScenarioFilter, Verdict};

use serde::Deserialize;

/// The variance at every level is at most `limit`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VarianceBounded {
    estimators: EstimatorNames,
    limit: f64,
    #[serde(default)]
    scenario: ScenarioFilter,
}

impl Claim for VarianceBounded {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let VarianceBounded { estimators, limit, scenario } = self;
        let selection = evidence.select(estimators.iter(), |plan| scenario.accepts(plan));
        let facts = selection.facts(|staircase| {
            let highest =
                staircase.levels.iter().map(|level| level.variance.value).fold(0.0, f64::max);
            let text = format!("{} at most {highest:.3}", staircase.estimator());
            [Fact::new(highest <= *limit, text)]
        });
        let text = format!("the variance of {estimators}{scenario} stays below {limit}");
        Verdict::all(text, facts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, check, results};

    #[test]
    fn every_level_counts_in_the_scenario_only() {
        let claim = "kind = 'variance-bounded'\nestimators = ['kl-dime']\nlimit = 0.2";
        let measured = results(&[
            Run::new("kl-dime").levels(&[(2.0, 2.0, 0.1), (4.0, 4.0, 0.2)]),
            Run::new("kl-dime").scenario("cubic").levels(&[(2.0, 2.0, 0.3), (4.0, 4.0, 0.1)]),
        ]);
        assert!(check(&format!("{claim}\nscenario = 'gaussian'"), &measured).passed);
        assert!(!check(&format!("{claim}\nscenario = 'cubic'"), &measured).passed);
        assert!(!check(claim, &measured).passed);
    }
}

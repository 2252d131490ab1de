use super::{Claim, EstimatorNames, Evidence, Fact, Verdict};
use crate::reproduce::block_limit::BlockLimit;
use crate::reproduce::results::StaircaseResult;
use serde::Deserialize;

/// |mean / true MI - 1| at the last level is below the limit of the scenario and d, and below that of
/// the direct estimate. The same
/// number gives the blocks for all of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelativeErrorBelow {
    estimators: EstimatorNames,
    chain: BlockLimit,
    limits: Vec<Limit>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    scenario: String,
    dim: usize,
    below: f64,
}

impl RelativeErrorBelow {
    /// Returns the facts about an estimator in one setting: one for each critic and batch size.
    fn facts(&self, evidence: &Evidence, estimator: &str, limit: &Limit) -> Vec<Fact> {
        let staircases =
            || evidence.results.staircases_of(estimator).filter(|s| limit.applies_to(s));
        let has_chain = |s: &&StaircaseResult| {
            self.chain.chain(s.plan).is_ok_and(|chain| chain.as_ref() == s.chain)
        };
        let facts: Vec<Fact> = staircases()
            .filter(has_chain)
            .map(|own| {
                // The plan of a result has the first seed of all its runs.
                let direct = staircases().find(|s| s.chain.is_none() && s.plan == own.plan);
                limit.fact(own, direct)
            })
            .collect();
        if facts.is_empty() {
            let name = format!("{estimator} on {} with d = {}", limit.scenario, limit.dim);
            return vec![Fact::not_measured(&name)];
        }
        facts
    }
}

impl Limit {
    fn applies_to(&self, staircase: &StaircaseResult) -> bool {
        let scenario = &staircase.plan.scenario;
        scenario.dim == self.dim && scenario.name.to_string() == self.scenario
    }

    /// Compares the error with the limit and with that of the direct estimate.
    fn fact(&self, own: &StaircaseResult, direct: Option<&StaircaseResult>) -> Fact {
        let name = format!("{} {} d = {}", own.name(), self.scenario, self.dim);
        let Some(error) = relative_error(own) else {
            return Fact::new(false, format!("{name}: finished by every run"));
        };
        let Some(direct) = direct else {
            return Fact::not_measured(&format!("{name}: the direct estimate"));
        };
        let text = format!("{name}: {:+.1}%", 100.0 * error);
        let holds = error.abs() < self.below;
        match relative_error(direct) {
            Some(direct) => {
                let text = format!("{text}, direct {:+.1}%", 100.0 * direct);
                Fact::new(holds && error.abs() < direct.abs(), text)
            }
            // Any estimate is better than one that diverged.
            None => Fact::new(holds, format!("{text}, direct diverged")),
        }
    }
}

/// Returns mean / true MI - 1 at the last level; `None` if some run did not finish it.
fn relative_error(staircase: &StaircaseResult) -> Option<f64> {
    let level = staircase.levels.last().filter(|_| staircase.is_complete())?;
    Some(level.ratio()?.value - 1.0)
}

impl Claim for RelativeErrorBelow {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let RelativeErrorBelow { estimators, chain, limits } = self;
        let of_limit = |limit| {
            estimators.iter().flat_map(move |estimator| self.facts(evidence, estimator, limit))
        };
        let facts = limits.iter().flat_map(of_limit).collect();
        let limit = |limit: &Limit| {
            let percent = (1000.0 * limit.below).round() / 10.0;
            format!("{percent}% for {} with d = {}", limit.scenario, limit.dim)
        };
        let limits = limits.iter().map(limit).collect::<Vec<_>>().join(", ");
        let text = format!(
            "the relative error of {estimators}, {chain}, is below {limits}, and below that of \
             direct estimates"
        );
        Verdict::all(text, facts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, check, results};

    fn run(mean: f64) -> Run {
        Run::new("kl-dime").dim(20).levels(&[(10.0, mean, 0.1)])
    }

    #[test]
    fn the_chain_must_be_near_the_truth_and_nearer_than_the_direct_estimate() {
        let claim = "kind = 'relative-error-below'\nestimators = ['kl-dime']\nchain = 4\n\
             limits = [{ scenario = 'gaussian', dim = 20, below = 0.03 }]";
        let measured = |chained: f64, direct: f64| results(&[run(direct), run(chained).chain(4)]);
        let verdict = check(claim, &measured(9.8, 9.0));
        assert!(verdict.passed, "{verdict:?}");
        assert_eq!(verdict.detail, "kl-dime, chain of 4 gaussian d = 20: -2.0%, direct -10.0%");
        assert!(verdict.text.contains("below 3% for gaussian with d = 20"), "{}", verdict.text);
        assert!(!check(claim, &measured(9.6, 9.0)).passed, "4% is too much");
        assert!(!check(claim, &measured(10.4, 9.0)).passed, "in either direction");
        assert!(!check(claim, &measured(9.8, 10.1)).passed, "the direct estimate is nearer");
        let diverged = Run::new("kl-dime").dim(20).planned(1);
        let unfinished = [diverged, run(9.8).chain(4)];
        assert!(check(claim, &results(&unfinished)).passed, "the direct one diverged");
        let half = [run(9.0), run(9.8).chain(4).planned(2)];
        assert!(!check(claim, &results(&half)).passed, "one of two runs diverged");
    }

    #[test]
    fn every_estimator_and_setting_must_have_been_measured() {
        let claim = "kind = 'relative-error-below'\nestimators = ['kl-dime', 'gan-dime']\n\
             chain = 4\nlimits = [{ scenario = 'gaussian', dim = 20, below = 0.03 }]";
        let verdict = check(claim, &results(&[run(9.0), run(9.8).chain(4)]));
        assert!(!verdict.passed && verdict.detail.contains("gan-dime on gaussian with d = 20"));
        let one = claim.replace(", 'gan-dime'", "");
        assert!(check(&one, &results(&[run(9.0), run(9.8).chain(4)])).passed);
        assert!(!check(&one, &results(&[run(9.0), run(9.8).chain(5)])).passed, "other blocks");
        assert!(!check(&one, &results(&[run(9.8)])).passed, "no chain");
        let other = one.replace("dim = 20", "dim = 40");
        assert!(!check(&other, &results(&[run(9.0), run(9.8).chain(4)])).passed);
        let verdict = check(&one, &results(&[run(9.8).chain(4)]));
        assert!(verdict.detail.contains("direct estimate was not measured"), "{verdict:?}");
    }
}

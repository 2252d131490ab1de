use super::{Claim, EstimatorName, Evidence, Fact, Verdict};
use serde::Deserialize;

/// At one level the bias of an estimator is smaller than that of another, for every critic and
/// scenario that both have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmallerBias {
    estimator: EstimatorName,
    than: EstimatorName,
    at_mi: f64,
}

impl Claim for SmallerBias {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let SmallerBias { estimator, than, at_mi } = self;
        let own = evidence.select([estimator.as_str()], |_| true);
        let others = evidence.select([than.as_str()], |_| true);
        let mut facts = own.gaps();
        facts.extend(others.gaps());
        facts.extend(own.staircases.iter().filter_map(|own| {
            let other = others.staircases.iter().find(|other| own.is_comparable(other))?;
            let (bias, other_bias) = (own.at(*at_mi)?.bias.value, other.at(*at_mi)?.bias.value);
            let (scenario, label) = (&own.plan.scenario.name, own.label());
            let text = format!("{scenario} {label}: {bias:.2} < {other_bias:.2}");
            Some(Fact::new(bias < other_bias, text))
        }));
        Verdict::all(format!("at {at_mi} nats {estimator} is less biased than {than}"), facts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, check, results};

    #[test]
    fn biases_at_the_level_are_compared() {
        let claim = "kind = 'smaller-bias'\nestimator = 'gan-dime'\nthan = 'cpc'\nat_mi = 10";
        let measured = |mean| {
            results(&[
                Run::new("gan-dime").levels(&[(2.0, 9.0, 0.1), (10.0, mean, 0.1)]),
                Run::new("cpc").levels(&[(2.0, 2.0, 0.1), (10.0, 8.0, 0.1)]),
            ])
        };
        assert!(check(claim, &measured(11.0)).passed);
        assert!(!check(claim, &measured(13.0)).passed);
        let missing = claim.replace("at_mi = 10", "at_mi = 7");
        assert!(!check(&missing, &measured(11.0)).passed, "there is no such level");
    }
}

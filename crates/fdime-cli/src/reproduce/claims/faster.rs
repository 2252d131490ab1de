use super::{Claim, Evidence, Fact, Verdict};
use crate::reproduce::results::{Results, TimeResult};
use fdime::{CriticKind, Pairing};
use serde::Deserialize;

/// One critic's training step is faster than another's, at the largest N at which both were timed
/// and in the first dimension that was timed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Faster {
    critic: CriticKind,
    pairing: Pairing,
    than: CriticKind,
}

impl Faster {
    fn fact(&self, results: &Results) -> Option<Fact> {
        let dim = results.times.first()?.plan.scenario.dim;
        let in_dim = || results.times.iter().filter(|time| time.plan.scenario.dim == dim);
        let slower = |batch: usize| {
            in_dim().find(|time| time.plan.training.batch == batch && time.matches(self.than, None))
        };
        let own = in_dim().filter(|time| time.matches(self.critic, Some(self.pairing)));
        let pairs = own.filter_map(|time| Some((time, slower(time.plan.training.batch)?)));
        let (fast, slow): (&TimeResult, &TimeResult) =
            pairs.max_by_key(|(time, _)| time.plan.training.batch)?;
        let (n, fast, slow) = (fast.plan.training.batch, fast.median_ms, slow.median_ms);
        Some(Fact::new(fast < slow, format!("N={n}: {fast:.3} ms < {slow:.3} ms")))
    }
}

impl Claim for Faster {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let Faster { critic, pairing, than } = self;
        let text = format!("{critic} ({pairing}) is faster than {than} at large N");
        Verdict::all(text, self.fact(evidence.results).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, times};

    const CLAIM: &str =
        "kind = 'faster'\ncritic = 'separable'\npairing = 'all-pairs'\nthan = 'joint'";

    #[test]
    fn the_largest_common_size_decides() {
        let small = [("joint", 64, 1.0), ("separable", 64, 2.0), ("separable", 256, 9.0)];
        let faster = [&small[..], &[("joint", 128, 4.0), ("separable", 128, 3.0)]].concat();
        let verdict = check(CLAIM, &times(&faster));
        assert!(verdict.passed && verdict.detail.contains("N=128"), "{verdict:?}");
        assert!(!check(CLAIM, &times(&small)).passed);
    }

    #[test]
    fn without_a_common_size_it_fails() {
        assert!(!check(CLAIM, &times(&[("joint", 64, 2.0), ("separable", 128, 1.0)])).passed);
    }
}

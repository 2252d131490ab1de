use super::slope::slope;
use super::{Claim, Evidence, Fact, Verdict};
use crate::reproduce::results::find_or_push;
use fdime::{CriticKind, Pairing};
use serde::Deserialize;

/// ln time against ln N has a slope between two numbers, from `from_batch` on, for each dimension
/// with more than two batch sizes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeSlope {
    critic: CriticKind,
    pairing: Pairing,
    between: (f64, f64),
    from_batch: usize,
}

impl Claim for TimeSlope {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let TimeSlope { critic, pairing, between: (low, high), from_batch } = self;
        let mut by_dim: Vec<(usize, Vec<(f64, f64)>)> = Vec::new();
        let times = evidence.results.times.iter();
        for time in times.filter(|time| time.matches(*critic, Some(*pairing))) {
            let (dim, batch) = (time.plan.scenario.dim, time.plan.training.batch);
            if batch >= *from_batch {
                let (_, points) =
                    find_or_push(&mut by_dim, |(known, _)| *known == dim, || (dim, Vec::new()));
                points.push(((batch as f64).ln(), time.median_ms.ln()));
            }
        }
        by_dim.retain(|(_, points)| points.len() > 2);
        let fact = |(dim, points): &(usize, Vec<(f64, f64)>)| {
            let slope = slope(points);
            let text = format!("d={dim}: {slope:.2} over {} sizes", points.len());
            Fact::new(slope >= *low && slope <= *high, text)
        };
        let text = format!(
            "time of {critic} ({pairing}) from N = {from_batch} on: \
             log-log slope between {low} and {high}"
        );
        Verdict::all(text, by_dim.iter().map(fact).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, times};

    const CLAIM: &str = "kind = 'time-slope'\ncritic = 'joint'\npairing = 'all-pairs'\n\
                         between = [1.7, 2.3]\nfrom_batch = 64";

    #[test]
    fn time_must_be_quadratic_in_n() {
        let quadratic = [("joint", 32, 9.0), ("joint", 64, 1.0), ("joint", 128, 4.0)];
        let quadratic = [&quadratic[..], &[("joint", 256, 16.0)]].concat();
        assert!(check(CLAIM, &times(&quadratic)).passed);
        let linear = [("joint", 64, 1.0), ("joint", 128, 2.0), ("joint", 256, 4.0)];
        assert!(!check(CLAIM, &times(&linear)).passed);
    }

    #[test]
    fn two_sizes_and_other_critics_do_not_count() {
        let others = [("joint", 64, 1.0), ("joint", 128, 4.0), ("separable", 256, 16.0)];
        assert!(!check(CLAIM, &times(&others)).passed);
    }
}

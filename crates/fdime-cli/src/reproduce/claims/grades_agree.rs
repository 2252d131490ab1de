use super::{Claim, Evidence, Verdict};
use crate::reproduce::summary::agreement;
use serde::Deserialize;

/// The computed grade differs from the paper's by at most one step in at least a share of the
/// cells.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GradesAgree {
    share: f64,
}

impl Claim for GradesAgree {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let percent = 100.0 * self.share;
        let text = format!(
            "computed grades are at most one step from the paper's in at least {percent:.0}% of cells"
        );
        if evidence.graded.is_empty() {
            return Verdict::all(text, Vec::new());
        }
        let (equal, near) = (agreement(evidence.graded, 0), agreement(evidence.graded, 1));
        let detail = format!("{:.0}% of cells; {:.0}% equal", 100.0 * near, 100.0 * equal);
        Verdict { text, passed: near >= self.share, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::parse;
    use super::*;
    use crate::reproduce::results::Results;
    use crate::reproduce::summary::{Grade, Graded};

    #[test]
    fn one_step_apart_is_agreement() {
        let claim = parse("kind = 'grades-agree'\nshare = 0.8");
        let passes = |grade: Grade| {
            let graded = [Graded {
                estimator: "kl-dime".into(),
                cells: [Grade::Good, Grade::Good, Grade::Good, grade, grade].map(|g| (g, 0.0)),
                paper: [Grade::VeryGood; 5],
            }];
            let results = Results::default();
            claim.check(&Evidence { results: &results, paper: &[], graded: &graded }).passed
        };
        assert!(passes(Grade::Good));
        assert!(!passes(Grade::Poor));
    }
}

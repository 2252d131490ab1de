use super::{Claim, EstimatorNames, Evidence, Fact, Verdict, facts_of_ratios};
use crate::reproduce::consistency::View;
use crate::reproduce::results::Ratios;
use serde::Deserialize;

/// The ratio rises with the visible rows from 0 to 1, up to `slack`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rises {
    estimators: EstimatorNames,
    slack: f64,
}

impl Rises {
    /// Checks the start and the largest drop; the ratio with all rows visible is 1 by definition.
    fn fact(&self, ratios: &Ratios) -> Fact {
        let mut by_rows: Vec<(usize, f64)> =
            ratios.by_rows.iter().map(|(rows, ratio)| (*rows, ratio.value)).collect();
        by_rows.sort_by_key(|(rows, _)| *rows);
        let start = by_rows.iter().find(|(rows, _)| *rows == 0).map_or(f64::NAN, |entry| entry.1);
        let drop = by_rows.windows(2).map(|pair| pair[0].1 - pair[1].1).fold(0.0, f64::max);
        let holds = start.abs() <= self.slack && drop <= self.slack && by_rows.len() > 2;
        let Ratios { images, estimator, .. } = ratios;
        let text = format!("{images} {estimator}: begins at {start:.3}, largest drop {drop:.3}");
        Fact::new(holds, text)
    }
}

impl Claim for Rises {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let Rises { estimators, slack } = self;
        let ratios = evidence.results.ratios(View::Single);
        let facts = facts_of_ratios(estimators, &ratios, |ratios| self.fact(ratios));
        let text = format!(
            "I(X;Y) / I(X;X) rises from 0 to 1 with the visible rows for {estimators} \
             (slack {slack})"
        );
        Verdict::all(text, facts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, images};
    use crate::reproduce::consistency::View;

    #[test]
    fn ratios_must_start_at_zero_and_not_fall() {
        let claim = "kind = 'rises'\nestimators = ['kl-dime']\nslack = 0.1";
        let passes = |estimates: [f64; 3]| {
            let rows = [0, 14, 28].into_iter().zip(estimates);
            let rows = rows.map(|(rows, estimate)| (View::Single, rows, estimate));
            check(claim, &images("kl-dime", &rows.collect::<Vec<_>>())).passed
        };
        assert!(passes([0.0, 1.0, 2.0]) && passes([0.1, 2.1, 2.0]));
        assert!(!passes([0.5, 1.0, 2.0]), "it starts above 0");
        assert!(!passes([0.0, 3.0, 2.0]), "it falls");
        let two = [(View::Single, 0, 0.0), (View::Single, 28, 2.0)];
        assert!(!check(claim, &images("kl-dime", &two)).passed, "it has two points only");
    }
}

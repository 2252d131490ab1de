use super::{Claim, EstimatorNames, Evidence, Verdict};
use crate::reproduce::paper::{Cell, Statistic, is_within};
use crate::reproduce::results::{ROUNDING, Results};
use serde::Deserialize;

/// At least a share of the paper's cells is within relative * |paper| + absolute of the paper's
/// value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithinPaper {
    estimators: EstimatorNames,
    statistics: Vec<Statistic>,
    /// The highest true MI of the cells that count.
    highest_mi: Option<f64>,
    relative: f64,
    absolute: f64,
    share: f64,
}

impl WithinPaper {
    /// Returns whether a cell counts: tables may have settings that the recipe does not run.
    fn counts(&self, cell: &Cell, results: &Results) -> bool {
        self.estimators.contains(&cell.estimator)
            && self.statistics.contains(&cell.statistic)
            && cell.true_mi <= self.highest_mi.unwrap_or(f64::INFINITY) + ROUNDING
            && results.staircases.iter().any(|staircase| cell.has_setting_of(staircase))
    }

    /// Returns why a cell is outside the tolerance, or `None` if it is inside.
    fn deviation(&self, cell: &Cell, results: &Results) -> Option<String> {
        let Some(level) = cell.measured_level(results) else {
            return Some(format!("{} diverged at {}", cell.estimator, cell.true_mi));
        };
        let value = level.statistic(cell.statistic).value;
        (!is_within(value, cell.value, self.relative, self.absolute)).then(|| {
            let Cell { dim, batch, estimator, true_mi, value: paper, .. } = cell;
            let statistic = cell.statistic.name();
            format!(
                "{estimator} {statistic} d={dim} N={batch} at {true_mi}: {value:.2}, the paper {paper}"
            )
        })
    }

    fn text(&self) -> String {
        let WithinPaper { estimators, absolute, .. } = self;
        let statistics: Vec<&str> = self.statistics.iter().map(|s| s.name()).collect();
        let up_to = self.highest_mi.map_or(String::new(), |mi| format!(" up to {mi} nats"));
        format!(
            "{} of {estimators}{up_to}: within {:.0}% + {absolute} of the paper's \
             in at least {:.0}% of cells",
            statistics.join(" and "),
            100.0 * self.relative,
            100.0 * self.share
        )
    }
}

impl Claim for WithinPaper {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let results = evidence.results;
        let cells: Vec<&Cell> =
            evidence.paper.iter().filter(|cell| self.counts(cell, results)).collect();
        let outside: Vec<String> =
            cells.iter().filter_map(|cell| self.deviation(cell, results)).collect();
        let gaps = evidence.select(self.estimators.iter(), |_| true).gaps();
        let (inside, total) = (cells.len() - outside.len(), cells.len());
        let mut detail = format!("{inside} of {total} cells");
        if !outside.is_empty() {
            detail += &format!("; outside: {}", outside.join(", "));
        }
        for gap in &gaps {
            detail += &format!("; {}", gap.text);
        }
        let enough = inside as f64 >= self.share * total as f64;
        Verdict { text: self.text(), passed: total > 0 && gaps.is_empty() && enough, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, parse, results};
    use super::*;

    #[test]
    fn a_share_of_cells_must_be_within_the_tolerance() {
        let claim = "kind = 'within-paper'\nestimators = ['kl-dime']\nstatistics = ['bias']\n\
                     relative = 0.25\nabsolute = 0.05\nshare = 0.5";
        let cell = |true_mi: f64, value: f64| Cell {
            scenario: "gaussian".into(),
            dim: 5,
            batch: 64,
            estimator: "kl-dime".into(),
            statistic: Statistic::Bias,
            true_mi,
            value,
        };
        let run = Run::new("kl-dime").dim(5).batch(64);
        let measured = results(&[run.levels(&[(2.0, 1.9, 0.1), (4.0, 3.0, 0.1)])]);
        let check = |claim: &str, paper: &[Cell]| {
            parse(claim).check(&Evidence { results: &measured, paper, graded: &[] })
        };
        let verdict = check(claim, &[cell(2.0, 0.1), cell(4.0, 0.5)]);
        assert!(verdict.passed && verdict.detail.contains("1 of 2 cells"), "{verdict:?}");
        assert!(!check(claim, &[cell(2.0, 0.3), cell(4.0, 0.5)]).passed);
        assert!(!check(claim, &[cell(6.0, 1.0)]).passed, "that level was not finished");
        let low = claim.replace("share = 0.5", "share = 1.0\nhighest_mi = 2");
        assert!(check(&low, &[cell(2.0, 0.1), cell(4.0, 0.5)]).passed);
        let other = Cell { batch: 128, ..cell(2.0, 0.1) };
        assert!(!check(claim, &[other]).passed, "no cell was measured");
    }
}

//! Grades of estimators, computed from measurements by stated thresholds.

use super::results::{Level, Results, Staircase};
use serde::Deserialize;

/// Thresholds, and the paper's own grades.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grades {
    /// The MI that counts as low, and the one that counts as high.
    low_mi: f64,
    high_mi: f64,
    /// For each column the largest values that earn `++`, `+` and `~`; what is above is `x`.
    low_bias: [f64; 3],
    low_variance: [f64; 3],
    high_bias: [f64; 3],
    high_variance: [f64; 3],
    /// Of the worst setting's relative error: the root of the mean over levels of MSE / MI^2.
    scalability: [f64; 3],
    /// The paper's grades in the order of the columns.
    paper: Vec<PaperGrades>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PaperGrades {
    estimator: String,
    grades: [Grade; 5],
}

/// From best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Grade {
    #[serde(rename = "++")]
    VeryGood,
    #[serde(rename = "+")]
    Good,
    #[serde(rename = "~")]
    Fair,
    #[serde(rename = "x")]
    Poor,
}

impl Grade {
    const ALL: [Grade; 4] = [Grade::VeryGood, Grade::Good, Grade::Fair, Grade::Poor];

    fn of(value: f64, thresholds: &[f64; 3]) -> Self {
        let reached = thresholds.iter().position(|threshold| value <= *threshold);
        Grade::ALL[reached.unwrap_or(3)]
    }

    fn rank(self) -> i32 {
        self as i32
    }

    pub fn sign(self) -> &'static str {
        match self {
            Grade::VeryGood => "++",
            Grade::Good => "+",
            Grade::Fair => "~",
            Grade::Poor => "x",
        }
    }
}

/// The names of the columns.
pub const COLUMNS: [&str; 5] =
    ["low MI: bias", "low MI: variance", "high MI: bias", "high MI: variance", "scalability"];

/// An estimator's grades with the values behind them, and the paper's.
pub struct Graded {
    pub estimator: String,
    pub cells: [(Grade, f64); 5],
    pub paper: [Grade; 5],
}

impl Grades {
    /// Grades every estimator of the paper's table. An estimator's value in a setting is its best
    /// critic's, as in the paper; bias and variance are averages over settings, scalability is the
    /// worst setting.
    pub fn grade(&self, results: &Results) -> Vec<Graded> {
        let columns = [
            &self.low_bias,
            &self.low_variance,
            &self.high_bias,
            &self.high_variance,
            &self.scalability,
        ];
        self.paper
            .iter()
            .map(|row| {
                // What was not measured earns nothing.
                let values = self.values(results, &row.estimator).unwrap_or([f64::INFINITY; 5]);
                let cell = |k: usize| (Grade::of(values[k], columns[k]), values[k]);
                Graded {
                    estimator: row.estimator.clone(),
                    cells: [cell(0), cell(1), cell(2), cell(3), cell(4)],
                    paper: row.grades,
                }
            })
            .collect()
    }

    fn values(&self, results: &Results, estimator: &str) -> Option<[f64; 5]> {
        let mut settings: Vec<(usize, usize)> = Vec::new();
        for staircase in results.of(estimator) {
            let setting = (staircase.plan.scenario.dim, staircase.plan.batch);
            if !settings.contains(&setting) {
                settings.push(setting);
            }
        }
        let (mut sums, mut worst) = ([0.0; 4], 0f64);
        for &(dim, batch) in &settings {
            let of_setting = || {
                results
                    .of(estimator)
                    .filter(move |s| (s.plan.scenario.dim, s.plan.batch) == (dim, batch))
            };
            let best = |value: &dyn Fn(&Staircase) -> f64| {
                of_setting().map(value).fold(f64::INFINITY, f64::min)
            };
            let at = |s: &Staircase, mi: f64, value: fn(&Level) -> f64| {
                s.at(mi).map_or(f64::INFINITY, value)
            };
            sums[0] += best(&|s| at(s, self.low_mi, |level| level.bias.value));
            sums[1] += best(&|s| at(s, self.low_mi, |level| level.variance.value));
            sums[2] += best(&|s| at(s, self.high_mi, |level| level.bias.value));
            sums[3] += best(&|s| at(s, self.high_mi, |level| level.variance.value));
            worst = worst.max(best(&relative_error));
        }
        let count = settings.len() as f64;
        (!settings.is_empty()).then(|| {
            let mean = |k: usize| sums[k] / count;
            [mean(0), mean(1), mean(2), mean(3), worst]
        })
    }
}

/// The root of the mean over levels of MSE / MI^2; without bound if a level is missing.
fn relative_error(staircase: &Staircase) -> f64 {
    let levels = &staircase.levels;
    if levels.len() < staircase.plan.schedule.levels.len() {
        return f64::INFINITY;
    }
    let squares = levels.iter().map(|level| level.mse.value / level.true_mi.powi(2));
    (squares.sum::<f64>() / levels.len() as f64).sqrt()
}

/// The shares of cells whose grade is the paper's, and at most one step from it.
pub fn agreement(graded: &[Graded]) -> (f64, f64) {
    let cells = || {
        graded
            .iter()
            .flat_map(|row| row.cells.iter().zip(row.paper).map(|((own, _), paper)| (*own, paper)))
    };
    let share = |steps: i32| {
        let near = |(own, paper): &(Grade, Grade)| (own.rank() - paper.rank()).abs() <= steps;
        cells().filter(near).count() as f64 / cells().count().max(1) as f64
    };
    (share(0), share(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grades_follow_thresholds() {
        let thresholds = [0.1, 0.2, 0.5];
        let signs = [0.1, 0.15, 0.5, 0.6, f64::INFINITY].map(|v| Grade::of(v, &thresholds).sign());
        assert_eq!(signs, ["++", "+", "~", "x", "x"]);
    }
}

//! Grades of estimators, computed from results with the thresholds of a recipe.

use super::results::{LevelResult, Results, StaircaseResult};
use serde::Deserialize;

/// The thresholds of grades, and the paper's grades.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grading {
    /// The true MI of the columns for low MI.
    low_mi: f64,
    /// The true MI of the columns for high MI.
    high_mi: f64,
    /// For each column the largest values graded `++`, `+` and `~`; larger values are graded `x`.
    low_bias: [f64; 3],
    low_variance: [f64; 3],
    high_bias: [f64; 3],
    high_variance: [f64; 3],
    /// For the relative error in the worst setting: sqrt(mean over levels of MSE / MI^2).
    scalability: [f64; 3],
    /// The paper's grades, in the order of the columns.
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

    fn from_value(value: f64, thresholds: &[f64; 3]) -> Self {
        let reached = thresholds.iter().position(|threshold| value <= *threshold);
        Grade::ALL[reached.unwrap_or(3)]
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

/// An estimator's grades with the values they are computed from, and the paper's grades.
pub struct Graded {
    pub estimator: String,
    pub cells: [(Grade, f64); 5],
    pub paper: [Grade; 5],
}

impl Grading {
    /// Grades every estimator of the paper's table. In each setting (d, N) the critic with the best
    /// value counts, as in the paper. Bias and variance are averaged over settings; scalability is
    /// the value of the worst setting. Estimators without results get the worst grade.
    pub fn grade(&self, results: &Results) -> Vec<Graded> {
        let thresholds = [
            &self.low_bias,
            &self.low_variance,
            &self.high_bias,
            &self.high_variance,
            &self.scalability,
        ];
        let grade = |row: &PaperGrades| {
            let values = self.values(results, &row.estimator).unwrap_or([f64::INFINITY; 5]);
            let cell = |k: usize| (Grade::from_value(values[k], thresholds[k]), values[k]);
            Graded {
                estimator: row.estimator.clone(),
                cells: std::array::from_fn(cell),
                paper: row.grades,
            }
        };
        self.paper.iter().map(grade).collect()
    }

    /// Returns the values of the columns, or `None` if the estimator has no results.
    fn values(&self, results: &Results, estimator: &str) -> Option<[f64; 5]> {
        let setting = |s: &StaircaseResult| (s.plan.scenario.dim, s.plan.training.batch);
        let mut settings: Vec<(usize, usize)> = Vec::new();
        for staircase in results.staircases_of(estimator) {
            if !settings.contains(&setting(staircase)) {
                settings.push(setting(staircase));
            }
        }
        let (mut sums, mut worst) = ([0.0; 4], 0f64);
        for of_setting in &settings {
            let best = |value: &dyn Fn(&StaircaseResult) -> f64| {
                let staircases = results.staircases_of(estimator);
                let staircases = staircases.filter(|staircase| setting(staircase) == *of_setting);
                staircases.map(value).fold(f64::INFINITY, f64::min)
            };
            let at = |s: &StaircaseResult, mi: f64, value: fn(&LevelResult) -> f64| {
                s.at(mi).map_or(f64::INFINITY, value)
            };
            sums[0] += best(&|s| at(s, self.low_mi, |level| level.bias.value));
            sums[1] += best(&|s| at(s, self.low_mi, |level| level.variance.value));
            sums[2] += best(&|s| at(s, self.high_mi, |level| level.bias.value));
            sums[3] += best(&|s| at(s, self.high_mi, |level| level.variance.value));
            worst = worst.max(best(&relative_error));
        }
        let mean = |k: usize| sums[k] / settings.len() as f64;
        (!settings.is_empty()).then(|| [mean(0), mean(1), mean(2), mean(3), worst])
    }
}

/// Returns sqrt(mean over levels of MSE / MI^2), or infinity if a level is missing.
fn relative_error(staircase: &StaircaseResult) -> f64 {
    let levels = &staircase.levels;
    if levels.len() < staircase.plan.schedule.levels.len() {
        return f64::INFINITY;
    }
    let squares = levels.iter().map(|level| level.mse.value / level.true_mi.powi(2));
    (squares.sum::<f64>() / levels.len() as f64).sqrt()
}

/// Returns the share of cells whose grade is at most `steps` from the paper's. It is 0 without
/// cells.
pub fn agreement(graded: &[Graded], steps: u8) -> f64 {
    let cells = graded.iter().flat_map(|row| row.cells.iter().zip(row.paper));
    let agrees =
        |((own, _), paper): &(&(Grade, f64), Grade)| (*own as u8).abs_diff(*paper as u8) <= steps;
    let total = cells.clone().count().max(1);
    cells.filter(agrees).count() as f64 / total as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_up_to_a_threshold_get_its_grade() {
        let thresholds = [0.1, 0.2, 0.5];
        let signs =
            [0.1, 0.15, 0.5, 0.6, f64::INFINITY].map(|v| Grade::from_value(v, &thresholds).sign());
        assert_eq!(signs, ["++", "+", "~", "x", "x"]);
    }
}

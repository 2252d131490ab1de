//! A plan for finite data: everything that determines the numbers, except the data.

use super::chained::ChainChoice;
use super::folds::{RowOrder, largest_gap};
use super::method::Method;
use super::recipe::{CriticRecipe, Portfolio};
use super::serial::SerialDependence;
use crate::critic::CriticKind;
use crate::data::Column;
use crate::error::{Error, Result, invalid};
use crate::message::{Message, Parameter};
use crate::objective::Readout;
use crate::parallel::never;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The maximum number of training steps of a recipe.
const MAX_STEPS: usize = 100_000_000;

/// The usual number of permutations of a test.
pub(super) const DEFAULT_PERMUTATIONS: usize = 999;

/// The permutations for each of many tests. The smallest p-value of one of them, adjusted for their
/// number, is then .025.
const PERMUTATIONS_PER_TEST: usize = 40;

/// The maximum number of permutations of a test, and of each of many tests.
pub(super) const MAX_PERMUTATIONS: usize = 100_000;
const MAX_PERMUTATIONS_OF_MANY: usize = 20_000;

/// The amount of work for an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    /// Two small recipes in a race: a second or two.
    Quick,
    /// Five recipes in a race; the best two, more if rows are few, are trained on every fold.
    Default,
    /// Eight recipes on every fold, some of them with small and with large initial weights.
    Max,
}

impl Effort {
    /// All efforts.
    pub const ALL: [Effort; 3] = [Effort::Quick, Effort::Default, Effort::Max];

    /// Returns the name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Effort::Quick => "quick",
            Effort::Default => "default",
            Effort::Max => "max",
        }
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Effort {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Effort::ALL
            .into_iter()
            .find(|effort| effort.name() == name)
            .ok_or_else(|| invalid(Parameter::Effort, name, "write quick, default or max"))
    }
}

/// Everything that determines an estimate, except the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EstimatePlan {
    /// The method.
    pub method: Method,
    /// The recipes and the race between them.
    pub portfolio: Portfolio,
    /// The number of folds of cross-fitting.
    pub folds: usize,
    /// Whether rows are exchangeable or a series.
    pub order: RowOrder,
    /// The number of permutations (or shifts, for a series) of the test of independence. If it is
    /// larger than 999, the test ends after 999 if the p-value is then above 1%.
    pub permutations: usize,
    /// The seed of folds, parameters and permutations.
    pub seed: u64,
    /// Whether large estimates use the chain rule.
    #[serde(default)]
    pub chain: ChainChoice,
}

impl EstimatePlan {
    /// Returns the share of the information that an estimate from this many rows may miss without a
    /// warning: some, however many rows there are, more if rows are few, and more if critics are
    /// trained for a short time.
    pub(super) fn unseen_share(&self, rows: usize) -> f64 {
        let shortness = if self.method.needs_numbers() { 1.0 } else { self.portfolio.shortness() };
        0.04 * shortness + 1.8 / (rows as f64).sqrt()
    }

    /// Returns the plan for a method and an effort.
    pub fn new(method: Method, effort: Effort) -> Self {
        EstimatePlan {
            portfolio: portfolio(&method, effort),
            method,
            folds: 5,
            order: RowOrder::Exchangeable,
            permutations: DEFAULT_PERMUTATIONS,
            seed: 0,
            chain: if effort == Effort::Quick { ChainChoice::Off } else { ChainChoice::Auto },
        }
    }

    /// Returns the plan with all that depends on the data decided: the gap of an automatic series,
    /// from the autocorrelation time of its columns.
    pub fn for_data(&self, x: &[Column], y: &[Column]) -> Self {
        let mut plan = self.clone();
        let rows = x.iter().chain(y).map(Column::len).min().unwrap_or(0);
        if self.order == RowOrder::AutomaticSeries && rows > 0 {
            let largest = largest_gap(rows, self.folds.max(1)).unwrap_or(0);
            let Ok(serial) = SerialDependence::of(x, y, never);
            plan.order = RowOrder::Series { gap: serial.gap().min(largest) };
        }
        plan
    }

    /// Returns the plan with enough permutations for this many estimates whose p-values are adjusted
    /// for their number: 40 for each, but at most 20,000. With the usual 999, no p-value is below
    /// .001, and none of a hundred is significant after adjustment. A plan with another number than
    /// the usual one keeps it.
    pub fn for_tests(&self, tests: usize) -> Self {
        match self.permutations {
            DEFAULT_PERMUTATIONS => self.with_permutations_for(tests, MAX_PERMUTATIONS_OF_MANY),
            _ => self.clone(),
        }
    }

    /// As [`for_tests`](Self::for_tests), with at most `max` permutations.
    pub(super) fn with_permutations_for(&self, tests: usize, max: usize) -> Self {
        let needed = tests.saturating_mul(PERMUTATIONS_PER_TEST).min(max);
        EstimatePlan { permutations: self.permutations.max(needed), ..self.clone() }
    }

    /// Checks that the plan can be run on `rows` rows.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self, rows: usize) -> Result<()> {
        if !(2..=20).contains(&self.folds) {
            return Err(invalid(Parameter::Folds, self.folds, "must be between 2 and 20"));
        }
        if rows > u32::MAX as usize {
            return Err(invalid(Parameter::Rows, rows, "a table has at most 2^32 - 1 rows"));
        }
        if rows < 4 * self.folds || rows < 20 {
            let expected =
                format!("too many for {rows} rows: a fold needs at least 4 rows, and a table 20");
            return Err(invalid(Parameter::Folds, self.folds, expected));
        }
        if !(19..=MAX_PERMUTATIONS).contains(&self.permutations) {
            return Err(invalid(
                Parameter::Permutations,
                self.permutations,
                "must be between 19 and 100000",
            ));
        }
        if let (ChainChoice::Blocks(blocks), Method::Ksg) = (self.chain, &self.method) {
            let expected = Message::from("ksg has no chain; use ");
            let expected = expected.setting(Parameter::Estimator, "auto");
            return Err(invalid(Parameter::Chain, blocks, expected));
        }
        if self.portfolio.recipes.is_empty() {
            return Err(invalid(Parameter::Recipes, "[]", "give at least one recipe"));
        }
        for recipe in &self.portfolio.recipes {
            recipe.training(&self.method.estimator(), rows, self.seed).check()?;
            if recipe.steps > MAX_STEPS {
                let expected = format!("a recipe has at most {MAX_STEPS} steps");
                return Err(invalid(Parameter::Recipes, &recipe.name, expected));
            }
        }
        if classical_portfolio(&self.method).is_some_and(|expected| expected != self.portfolio) {
            return Err(Error::Incompatible {
                parameter: Parameter::Estimator,
                value: self.method.to_string(),
                other: "these recipes".into(),
                reason: "it trains no critics and always uses the same recipe".into(),
            });
        }
        let RowOrder::Series { gap } = self.order else { return Ok(()) };
        let max_gap = largest_gap(rows, self.folds).unwrap_or(0);
        if gap > max_gap {
            let expected =
                format!("must be at most {max_gap} for {} folds of {rows} rows", self.folds);
            return Err(invalid(Parameter::Blocks, gap, expected));
        }
        if self.method.estimator().readout() == Readout::InfoNce {
            return Err(Error::Incompatible {
                parameter: Parameter::Estimator,
                value: self.method.to_string(),
                other: Message::new().parameter(Parameter::Blocks),
                reason: "it compares every x with every y, neighbours included; use auto".into(),
            });
        }
        Ok(())
    }
}

/// Returns the portfolio of a method and an effort. A method that names an estimator trains every
/// critic with it, so recipes that have a cost of their own are left out.
fn portfolio(method: &Method, effort: Effort) -> Portfolio {
    classical_portfolio(method).unwrap_or_else(|| {
        let mut portfolio = Portfolio::new(effort);
        if matches!(method, Method::Critic(_)) {
            portfolio.recipes.retain(|recipe| recipe.critic != CriticKind::Separable);
            portfolio.finalists = portfolio.finalists.min(portfolio.recipes.len());
        }
        portfolio
    })
}

/// Returns the portfolio of a method that trains no critics; `None` for methods that train critics
/// and for nearest neighbours, which ignore it.
fn classical_portfolio(method: &Method) -> Option<Portfolio> {
    match method {
        Method::GaussianCopula => Some(Portfolio::single(CriticRecipe::gaussian_copula())),
        Method::Cca => Some(Portfolio::single(CriticRecipe::cca())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_plans_are_refused_with_the_parameter() {
        let refused = |rows: usize, change: &dyn Fn(&mut CriticRecipe)| {
            let mut plan = EstimatePlan::new(Method::Auto, Effort::Quick);
            plan.check(1000).unwrap();
            plan.portfolio.recipes.iter_mut().for_each(change);
            plan.check(rows).unwrap_err().to_string()
        };
        assert!(refused(1000, &|recipe| recipe.hidden = vec![10_000_000_000]).contains("hidden"));
        assert!(refused(1000, &|recipe| recipe.steps = usize::MAX).contains("recipes"));
        assert!(refused(1000, &|recipe| recipe.learning_rate = -1.0).contains("learning_rate"));
        assert!(refused(10_000_000_000, &|_| ()).contains("rows = 10000000000"));
    }
}

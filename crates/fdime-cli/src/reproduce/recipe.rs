//! Recipes: one file for every table or figure, with every parameter in it.

use super::checks::Check;
use super::jobs::Job;
use super::paper;
use super::summary::Grades;
use crate::failure::Failure;
use fdime::consistency::{ConsistencyPlan, View};
use fdime::{
    Activation, AdamPlan, CriticKind, CriticPlan, Estimator, Pairing, RunPlan, ScenarioPlan,
    Schedule, parse_levels, unknown_name,
};
use serde::Deserialize;
use std::path::Path;

macro_rules! recipe {
    ($name:literal) => {
        ($name, include_str!(concat!("../../experiments/", $name, ".toml")))
    };
}

/// The recipes that come with the program, in the order of a report.
const RECIPES: [(&str, &str); 21] = [
    recipe!("derangement"),
    recipe!("stairs-d5-n64"),
    recipe!("stairs-d20-n64"),
    recipe!("stairs-d20-n1024"),
    recipe!("stairs-d100-n64"),
    recipe!("stairs-transformed"),
    recipe!("stairs-uniform-student"),
    recipe!("stairs-lower-bounds"),
    recipe!("smile-own-cost"),
    recipe!("variance-d5-n64"),
    recipe!("errors-d20-n64"),
    recipe!("errors-d5-n64"),
    recipe!("errors-d10-n64"),
    recipe!("errors-d20-n512"),
    recipe!("errors-d20-n1024"),
    recipe!("variance-against-n"),
    recipe!("time"),
    recipe!("summary"),
    recipe!("consistency-baseline"),
    recipe!("consistency-processing"),
    recipe!("consistency-additivity"),
];

/// What is run, drawn and checked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    #[serde(skip)]
    pub name: String,
    pub title: String,
    /// Where it is in the paper.
    pub paper: String,
    /// What the paper says.
    pub claim: String,
    /// What is to be said about the committed results: deviations and their reasons.
    #[serde(default)]
    pub notes: Vec<String>,
    pub figure: Figure,
    /// The paper's tables that the results stand beside.
    #[serde(default)]
    pub tables: Vec<String>,
    #[serde(default)]
    pub staircases: Vec<Staircases>,
    #[serde(default)]
    pub images: Vec<Images>,
    #[serde(default)]
    pub times: Vec<Times>,
    #[serde(default)]
    pub checks: Vec<Check>,
    /// How the summary's grades are given.
    pub grades: Option<Grades>,
}

/// What a recipe draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Estimates over iterations.
    Stairs,
    /// Bias, variance and MSE beside the paper's.
    Bars,
    /// The variance alone.
    VarianceBars,
    VarianceAgainstN,
    Time,
    /// Ratios of estimates on images, which consistent estimates keep.
    Consistency,
    /// Grades instead of a picture.
    Grades,
}

/// Training runs: every combination of the lists.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Staircases {
    scenarios: Vec<String>,
    dims: Vec<usize>,
    batches: Vec<usize>,
    #[serde(deserialize_with = "named")]
    estimators: Vec<Estimator>,
    critics: Vec<CriticKind>,
    /// The critic's own where there are none.
    #[serde(default)]
    pairings: Vec<Pairing>,
    hidden: Vec<usize>,
    activation: Activation,
    levels: String,
    iterations: usize,
    /// Iterations at the end of each level that are summarised.
    last: usize,
    learning_rate: f64,
    seeds: Vec<u64>,
}

/// Estimates on images: every combination of the lists.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Images {
    images: Vec<String>,
    views: Vec<View>,
    /// Visible rows.
    rows: Vec<usize>,
    #[serde(deserialize_with = "named")]
    estimators: Vec<Estimator>,
    critic: CriticKind,
    pairing: Pairing,
    hidden: Vec<usize>,
    /// Parts of a pair that are scored one by one.
    #[serde(default = "one")]
    parts: usize,
    activation: Activation,
    batch: usize,
    iterations: usize,
    last: usize,
    learning_rate: f64,
    seeds: Vec<u64>,
}

/// Measurements of the time of a step: every combination of the lists.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    scenario: String,
    level: String,
    dims: Vec<usize>,
    batches: Vec<usize>,
    #[serde(deserialize_with = "named")]
    estimators: Vec<Estimator>,
    critics: Vec<CriticKind>,
    #[serde(default)]
    pairings: Vec<Pairing>,
    hidden: Vec<usize>,
    activation: Activation,
    learning_rate: f64,
    /// For each combination.
    seconds: f64,
}

fn one() -> usize {
    1
}

/// Estimators by their names.
fn named<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Estimator>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    names.iter().map(|name| name.parse().map_err(serde::de::Error::custom)).collect()
}

impl Recipe {
    /// The recipes that come with the program.
    pub fn known() -> impl Iterator<Item = &'static str> {
        RECIPES.iter().map(|(name, _)| *name)
    }

    /// Names and recipes: those that come with the program, or files.
    pub fn load(names: &[String], quick: bool) -> Result<Vec<Recipe>, Failure> {
        let mut recipes: Vec<Recipe> = Vec::new();
        for name in names {
            if name == "all" {
                for (name, text) in RECIPES {
                    recipes.push(Recipe::parse(name, text, quick)?);
                }
            } else if name.ends_with(".toml") {
                let fail = |error| Failure::Usage(format!("{name}: {error}"));
                let text = std::fs::read_to_string(name).map_err(fail)?;
                let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
                recipes.push(Recipe::parse(&stem, &text, quick)?);
            } else {
                let found = RECIPES.iter().find(|(known, _)| known == name);
                let known = Recipe::known().chain(["all", "list"]);
                let unknown = || {
                    let error = unknown_name("recipe", name, known);
                    Failure::Usage(format!("{error}\nhint: 'fdime reproduce list' shows all names"))
                };
                let (name, text) = found.ok_or_else(unknown)?;
                recipes.push(Recipe::parse(name, text, quick)?);
            }
        }
        let mut seen: Vec<String> = Vec::new();
        recipes.retain(|recipe| {
            let new = !seen.contains(&recipe.name);
            seen.push(recipe.name.clone());
            new
        });
        Ok(recipes)
    }

    fn parse(name: &str, text: &str, quick: bool) -> Result<Recipe, Failure> {
        let fail = |error: &dyn std::fmt::Display| {
            Failure::Usage(format!("recipe {name}: {}", error.to_string().trim_end()))
        };
        let mut table: toml::Table = text.parse().map_err(|error| fail(&error))?;
        settle(&mut table, quick);
        let mut recipe: Recipe = table.try_into().map_err(|error| fail(&error))?;
        recipe.name = name.to_string();
        if quick {
            recipe.title += " (quick: scaled down)";
            // They speak of the full results.
            recipe.notes.clear();
        }
        for table in &recipe.tables {
            paper::cells(table).map_err(|failure| failure.within(name))?;
        }
        for check in &recipe.checks {
            check.names().map_err(|error| Failure::from(error).within(name))?;
        }
        Ok(recipe)
    }

    /// Everything that has to be run for it.
    pub fn jobs(&self) -> Result<Vec<Job>, Failure> {
        let mut jobs = Vec::new();
        let within = |failure: Failure| failure.within(&self.name);
        for group in &self.staircases {
            group.jobs(&mut jobs).map_err(within)?;
        }
        for group in &self.images {
            group.jobs(&mut jobs);
        }
        for group in &self.times {
            group.jobs(&mut jobs).map_err(within)?;
        }
        // Groups may overlap.
        let mut distinct: Vec<Job> = Vec::new();
        for job in jobs {
            job.check().map_err(|error| Failure::from(error).within(&self.name))?;
            if !distinct.contains(&job) {
                distinct.push(job);
            }
        }
        Ok(distinct)
    }
}

/// A table named `quick` inside another has what differs in a quick run.
fn settle(table: &mut toml::Table, quick: bool) {
    if let Some(toml::Value::Table(changes)) = table.remove("quick")
        && quick
    {
        table.extend(changes);
    }
    for (_, value) in table.iter_mut() {
        match value {
            toml::Value::Table(table) => settle(table, quick),
            toml::Value::Array(array) => {
                for value in array {
                    if let toml::Value::Table(table) = value {
                        settle(table, quick);
                    }
                }
            }
            _ => {}
        }
    }
}

/// A critic and a pairing that it works with, for each combination. An estimator without a critic
/// has one combination only, and one that needs all pairs has only those.
fn critics(
    estimator: &Estimator,
    kinds: &[CriticKind],
    pairings: &[Pairing],
    hidden: &[usize],
    activation: Activation,
) -> Vec<(CriticPlan, Pairing)> {
    let mut found = Vec::new();
    for &kind in kinds {
        let own = [kind.default_pairing()];
        for &pairing in if pairings.is_empty() { &own } else { pairings } {
            let fits = kind.check_pairing(pairing).and(estimator.check_pairing(pairing)).is_ok();
            if estimator.has_critic() && fits {
                found.push((CriticPlan { activation, ..CriticPlan::new(kind, hidden) }, pairing));
            }
        }
    }
    if !estimator.has_critic() {
        let critic = CriticPlan { activation, ..CriticPlan::new(CriticKind::Joint, hidden) };
        found.push((critic, Pairing::AllPairs));
    }
    found
}

impl Staircases {
    fn jobs(&self, jobs: &mut Vec<Job>) -> Result<(), Failure> {
        let levels = parse_levels(&self.levels)?;
        for scenario in &self.scenarios {
            for &dim in &self.dims {
                for &batch in &self.batches {
                    for estimator in &self.estimators {
                        let Staircases { critics: kinds, pairings, hidden, activation, .. } = self;
                        for (critic, pairing) in
                            critics(estimator, kinds, pairings, hidden, *activation)
                        {
                            for &seed in &self.seeds {
                                let plan = RunPlan {
                                    scenario: ScenarioPlan::new(scenario, dim)?,
                                    estimator: estimator.clone(),
                                    critic: critic.clone(),
                                    pairing,
                                    batch,
                                    schedule: Schedule {
                                        levels: levels.clone(),
                                        iterations: self.iterations,
                                    },
                                    optimizer: self.optimizer(),
                                    seed,
                                };
                                jobs.push(Job::Staircase { plan, last: self.last });
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn optimizer(&self) -> AdamPlan {
        AdamPlan { learning_rate: self.learning_rate, ..AdamPlan::default() }
    }
}

impl Images {
    fn jobs(&self, jobs: &mut Vec<Job>) {
        for images in &self.images {
            for &view in &self.views {
                for &rows in &self.rows {
                    for estimator in &self.estimators {
                        for &seed in &self.seeds {
                            let plan = ConsistencyPlan {
                                images: images.clone(),
                                view,
                                rows,
                                estimator: estimator.clone(),
                                critic: CriticPlan {
                                    activation: self.activation,
                                    parts: self.parts,
                                    ..CriticPlan::new(self.critic, &self.hidden)
                                },
                                pairing: self.pairing,
                                batch: self.batch,
                                iterations: self.iterations,
                                optimizer: AdamPlan {
                                    learning_rate: self.learning_rate,
                                    ..AdamPlan::default()
                                },
                                seed,
                            };
                            jobs.push(Job::Images { plan, last: self.last });
                        }
                    }
                }
            }
        }
    }
}

impl Times {
    fn jobs(&self, jobs: &mut Vec<Job>) -> Result<(), Failure> {
        for &dim in &self.dims {
            for &batch in &self.batches {
                for estimator in &self.estimators {
                    let Times { critics: kinds, pairings, hidden, activation, .. } = self;
                    for (critic, pairing) in
                        critics(estimator, kinds, pairings, hidden, *activation)
                    {
                        let scenario = ScenarioPlan::new(&self.scenario, dim)?;
                        let mut plan = RunPlan::new(scenario, estimator.clone(), critic);
                        (plan.batch, plan.pairing) = (batch, pairing);
                        plan.schedule.levels = parse_levels(&self.level)?;
                        plan.optimizer.learning_rate = self.learning_rate;
                        jobs.push(Job::Time { plan, seconds: self.seconds });
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_is_well_formed_quick_or_not() {
        for quick in [false, true] {
            let recipes = Recipe::load(&["all".to_string()], quick).unwrap();
            assert_eq!(recipes.len(), RECIPES.len());
            for recipe in recipes {
                assert!(!recipe.jobs().unwrap().is_empty(), "{}", recipe.name);
                assert!(!recipe.checks.is_empty(), "{} asserts nothing", recipe.name);
            }
        }
    }

    #[test]
    fn quick_settings_replace_their_neighbours() {
        let mut table: toml::Table =
            "a = 1\n[quick]\na = 2\n[[b]]\nc = 1\nquick = { c = 5 }\n".parse().unwrap();
        let mut full = table.clone();
        settle(&mut full, false);
        assert!(!format!("{full:?}").contains("quick"));
        settle(&mut table, true);
        assert_eq!(table["a"].as_integer(), Some(2));
        assert_eq!(table["b"][0]["c"].as_integer(), Some(5));
    }

    #[test]
    fn njee_has_one_run_and_cpc_takes_all_pairs_only() {
        let kinds = [CriticKind::Joint, CriticKind::Deranged];
        let count = |name: &str| {
            let estimator: Estimator = name.parse().unwrap();
            critics(&estimator, &kinds, &[], &[8, 8], Activation::Relu).len()
        };
        assert_eq!((count("kl-dime"), count("cpc"), count("njee")), (2, 1, 1));
    }

    #[test]
    fn unknown_recipes_and_fields_are_told() {
        let error = |name: &str| match Recipe::load(&[name.to_string()], false) {
            Err(Failure::Usage(message)) => message,
            _ => panic!("{name} was loaded"),
        };
        assert!(error("derangment").contains("did you mean 'derangement'"));
        assert!(error("missing.toml").contains("missing.toml"));
    }
}

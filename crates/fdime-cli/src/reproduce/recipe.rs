//! Recipes: one file with all parameters for each table or figure of the paper.

use super::claims::Check;
use super::groups::{ImageGroup, StaircaseGroup, TimeGroup};
use super::jobs::Job;
use super::paper;
use super::summary::Grading;
use crate::failure::Failure;
use serde::Deserialize;
use std::path::Path;

macro_rules! recipe {
    ($name:literal) => {
        ($name, include_str!(concat!("../../experiments/", $name, ".toml")))
    };
}

/// The built-in recipes, in the order of the report.
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

/// The jobs of an experiment, its figure and its claims.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    #[serde(skip)]
    pub name: String,
    pub title: String,
    /// The tables and figures of the paper that the recipe repeats.
    pub paper: String,
    /// The paper's claim in words.
    pub claim: String,
    /// Comments on the committed results: deviations from the paper and their reasons.
    #[serde(default)]
    pub notes: Vec<String>,
    pub figure: Figure,
    /// The paper's tables to compare the results with.
    #[serde(default)]
    pub tables: Vec<String>,
    #[serde(default)]
    pub staircases: Vec<StaircaseGroup>,
    #[serde(default)]
    pub images: Vec<ImageGroup>,
    #[serde(default)]
    pub times: Vec<TimeGroup>,
    #[serde(default)]
    pub checks: Vec<Check>,
    /// The thresholds of the summary's grades.
    pub grades: Option<Grading>,
}

/// The kind of figure that a recipe draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Estimates against iterations.
    Stairs,
    /// Bias, variance and MSE next to the paper's.
    Bars,
    /// The variance only.
    VarianceBars,
    VarianceAgainstN,
    Time,
    /// Ratios of estimates on images, which are known for consistent estimators.
    Consistency,
    /// A table of grades instead of a figure.
    Grades,
}

impl Recipe {
    /// Returns the names of the built-in recipes.
    pub fn built_in() -> impl Iterator<Item = &'static str> {
        RECIPES.iter().map(|(name, _)| *name)
    }

    /// Loads all built-in recipes.
    pub fn load_built_in(quick: bool) -> Result<Vec<Recipe>, Failure> {
        RECIPES.iter().map(|(name, text)| Recipe::parse(name, text, quick)).collect()
    }

    /// Loads recipes by name or from files; `all` stands for the built-in ones. Of recipes with the
    /// same name only the first is kept.
    pub fn load(names: &[String], quick: bool) -> Result<Vec<Recipe>, Failure> {
        let mut recipes: Vec<Recipe> = Vec::new();
        for name in names {
            let loaded = match name.as_str() {
                "all" => Recipe::load_built_in(quick)?,
                path if path.ends_with(".toml") => vec![Recipe::load_file(path, quick)?],
                name => vec![Recipe::load_by_name(name, quick)?],
            };
            for recipe in loaded {
                if recipes.iter().all(|known| known.name != recipe.name) {
                    recipes.push(recipe);
                }
            }
        }
        Ok(recipes)
    }

    fn load_file(path: &str, quick: bool) -> Result<Recipe, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("{path}: {error}")))?;
        let stem = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
        Recipe::parse(&stem, &text, quick)
    }

    fn load_by_name(name: &str, quick: bool) -> Result<Recipe, Failure> {
        let (name, text) = RECIPES.iter().find(|(known, _)| *known == name).ok_or_else(|| {
            let known = Recipe::built_in().chain(["all", "list"]);
            Failure::unknown_name("recipe", name, known, "'fdime reproduce list' shows all names")
        })?;
        Recipe::parse(name, text, quick)
    }

    fn parse(name: &str, text: &str, quick: bool) -> Result<Recipe, Failure> {
        let fail = |error: &dyn std::fmt::Display| {
            Failure::Usage(format!("recipe {name}: {}", error.to_string().trim_end()))
        };
        let mut table: toml::Table = text.parse().map_err(|error| fail(&error))?;
        apply_quick_settings(&mut table, quick);
        let mut recipe: Recipe = table.try_into().map_err(|error| fail(&error))?;
        recipe.name = name.to_string();
        if quick {
            recipe.title += " (quick: scaled down)";
            // Notes are about the full results.
            recipe.notes.clear();
        }
        recipe.paper_cells().map_err(|failure| failure.within(name))?;
        Ok(recipe)
    }

    /// Returns the cells of the paper's tables to compare the results with.
    pub fn paper_cells(&self) -> Result<Vec<paper::Cell>, Failure> {
        let mut cells = Vec::new();
        for table in &self.tables {
            cells.extend(paper::cells(table)?);
        }
        Ok(cells)
    }

    /// Returns the distinct jobs of the recipe; fails if one of them cannot run.
    pub fn jobs(&self) -> Result<Vec<Job>, Failure> {
        let distinct = || -> Result<Vec<Job>, Failure> {
            let mut jobs = Vec::new();
            for group in &self.staircases {
                jobs.extend(group.jobs()?);
            }
            jobs.extend(self.images.iter().flat_map(ImageGroup::jobs));
            for group in &self.times {
                jobs.extend(group.jobs()?);
            }
            // Groups may overlap.
            let mut distinct: Vec<Job> = Vec::new();
            for job in jobs {
                job.check()?;
                if !distinct.contains(&job) {
                    distinct.push(job);
                }
            }
            Ok(distinct)
        };
        distinct().map_err(|failure| failure.within(&self.name))
    }
}

/// Removes every nested table named `quick`. In a quick run, its settings replace those next to it.
fn apply_quick_settings(table: &mut toml::Table, quick: bool) {
    if let Some(toml::Value::Table(changes)) = table.remove("quick")
        && quick
    {
        table.extend(changes);
    }
    for (_, value) in table.iter_mut() {
        match value {
            toml::Value::Table(table) => apply_quick_settings(table, quick),
            toml::Value::Array(array) => {
                for table in array.iter_mut().filter_map(toml::Value::as_table_mut) {
                    apply_quick_settings(table, quick);
                }
            }
            _ => {}
        }
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
                assert!(!recipe.checks.is_empty(), "{} has no checks", recipe.name);
            }
        }
    }

    #[test]
    fn quick_settings_replace_the_settings_next_to_them() {
        let mut table: toml::Table =
            "a = 1\n[quick]\na = 2\n[[b]]\nc = 1\nquick = { c = 5 }\n".parse().unwrap();
        let mut full = table.clone();
        apply_quick_settings(&mut full, false);
        assert!(!format!("{full:?}").contains("quick"));
        apply_quick_settings(&mut table, true);
        assert_eq!(table["a"].as_integer(), Some(2));
        assert_eq!(table["b"][0]["c"].as_integer(), Some(5));
    }

    #[test]
    fn unknown_recipes_and_missing_files_are_refused() {
        let error = |name: &str| match Recipe::load(&[name.to_string()], false) {
            Err(Failure::Usage(message)) => message,
            _ => panic!("{name} was loaded"),
        };
        assert!(error("derangment").contains("did you mean 'derangement'"));
        assert!(error("missing.toml").contains("missing.toml"));
    }
}

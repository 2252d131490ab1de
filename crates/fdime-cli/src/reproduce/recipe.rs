//! Recipes: one file with all parameters for each table or figure of the paper.

use super::claims::Check;
use super::groups::{ImageGroup, StaircaseGroup, TimeGroup};
use super::jobs::Job;
use super::paper;
use super::summary::Grading;
use crate::failure::Failure;
use crate::printable::one_line;
use serde::Deserialize;
use std::path::Path;

macro_rules! recipe {
    ($name:literal) => {
        ($name, include_str!(concat!("../../experiments/", $name, ".toml")))
    };
}

/// The built-in recipes, in the order of the report.
const RECIPES: [(&str, &str); 23] = [
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
    recipe!("chain-gaussian"),
    recipe!("chain-consistency"),
];

/// The jobs of an experiment, its figure and its claims.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    #[serde(skip)]
    pub name: String,
    /// What is shown, followed by the settings that were run.
    pub title: String,
    /// The paper's settings, for the title; a quick run has others.
    settings: Option<String>,
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
    /// Estimates divided by the true MI, against the number of blocks of a chain.
    EstimateAgainstBlocks,
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

    /// Loads recipes by name or from files; `all` stands for the built-in ones. A recipe that is
    /// named twice is loaded once.
    pub fn load(names: &[String], quick: bool) -> Result<Vec<Recipe>, Failure> {
        let mut recipes: Vec<Recipe> = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let loaded = match name.as_str() {
                _ if names[..index].contains(name) => continue,
                "all" => Recipe::load_built_in(quick)?,
                path if is_file(path) => vec![Recipe::load_file(path, quick)?],
                name => vec![Recipe::load_by_name(name, quick)?],
            };
            for recipe in loaded {
                match recipes.iter().any(|known| known.name == recipe.name) {
                    false => recipes.push(recipe),
                    true if is_file(name) => return Err(same_name(name, "another recipe")),
                    true => {}
                }
            }
        }
        Ok(recipes)
    }

    /// Loads the user's own recipe. Its name, which the written files have too, is that of the file.
    fn load_file(path: &str, quick: bool) -> Result<Recipe, Failure> {
        let stem = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
        if Recipe::built_in().any(|name| name == stem) {
            return Err(same_name(path, "a built-in recipe"));
        }
        if stem != one_line(&stem) {
            return Err(Failure::Usage(format!(
                "{}: the name has characters that cannot be shown; rename the file",
                one_line(path)
            )));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("{path}: {error}")))?;
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
        for text in [&mut recipe.title, &mut recipe.paper, &mut recipe.claim] {
            *text = one_line(text);
        }
        if quick {
            recipe.title += &format!(" (quick: {})", settings(&recipe.jobs()?));
            // Notes are about the full results.
            recipe.notes.clear();
        } else if let Some(settings) = &recipe.settings {
            recipe.title += &format!(", {}", one_line(settings));
        }
        recipe.paper_cells().map_err(|failure| failure.within(name))?;
        Ok(recipe)
    }

    /// Returns the name of the written file of this kind.
    pub fn file(&self, extension: &str) -> String {
        format!("{}.{extension}", self.name)
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

/// Returns whether the user's text names a file, not a built-in recipe.
pub fn is_file(name: &str) -> bool {
    name.ends_with(".toml")
}

fn same_name(path: &str, other: &str) -> Failure {
    Failure::Usage(format!("{path}: {other} has the same name; rename the file"))
}

/// Returns the dimensions, batch sizes and numbers of iterations of jobs.
fn settings(jobs: &[Job]) -> String {
    let (mut dims, mut batches) = (Vec::new(), Vec::new());
    let (mut per_level, mut iterations) = (Vec::new(), Vec::new());
    for job in jobs {
        match job {
            Job::Staircase { plan, .. } => {
                dims.push(plan.scenario.dim);
                batches.push(plan.training.batch);
                per_level.push(plan.schedule.iterations);
            }
            Job::Images { plan, .. } => {
                batches.push(plan.training.batch);
                iterations.push(plan.iterations);
            }
            Job::Time { plan, .. } => {
                dims.push(plan.scenario.dim);
                batches.push(plan.training.batch);
            }
        }
    }
    let parts = [
        listed(dims).map(|dims| format!("d = {dims}")),
        listed(batches).map(|batches| format!("N = {batches}")),
        listed(per_level).map(|iterations| format!("{iterations} iterations per level")),
        listed(iterations).map(|iterations| format!("{iterations} iterations")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns one or two values, or the range of more; `None` without values.
fn listed(mut values: Vec<usize>) -> Option<String> {
    values.sort_unstable();
    values.dedup();
    match values[..] {
        [] => None,
        [value] => Some(value.to_string()),
        [low, high] => Some(format!("{low} and {high}")),
        [low, .., high] => Some(format!("{low} to {high}")),
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

    #[test]
    fn titles_state_the_settings_that_were_run() {
        let title = |name: &str, quick| Recipe::load_by_name(name, quick).unwrap().title;
        assert_eq!(title("derangement", false), "Derangement against permutation, d = 20, N = 128");
        let quick =
            "Derangement against permutation (quick: d = 5, N = 16, 800 iterations per level)";
        assert_eq!(title("derangement", true), quick);
        assert!(
            title("consistency-baseline", true).ends_with("(quick: N = 12 and 32, 400 iterations)")
        );
        assert!(title("time", true).ends_with("(quick: d = 5 and 20, N = 32 to 2048)"));
        for recipe in Recipe::load_built_in(true).unwrap() {
            assert_eq!(recipe.title.matches("N = ").count(), 1, "{}", recipe.title);
        }
    }
}

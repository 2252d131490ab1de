//! Checks the results of recipes and writes them: CSV and SVG files, and a report in Markdown and
//! HTML.

use super::claims::{Claim, Evidence, Verdict};
use super::figures;
use super::jobs::{FinishedJobs, Job, LoggedJob, machine};
use super::pages::{Environment, Page, html, markdown};
use super::paper::Cell;
use super::recipe::Recipe;
use super::results::{Results, find_or_push};
use super::summary::Graded;
use crate::failure::{Failure, Outcome};
use fdime::data::write_whole;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The report, which shows everything else.
pub const PAGE: &str = "index.html";
const MARKDOWN: &str = "report.md";
const ENVIRONMENT: &str = "environment.json";

/// Returns all files that a report about these recipes may write.
pub fn files(folder: &Path, recipes: &[Recipe]) -> Vec<PathBuf> {
    let own = recipes.iter().flat_map(|recipe| [recipe.file("csv"), recipe.file("svg")]);
    let common = [PAGE, MARKDOWN, ENVIRONMENT].map(String::from);
    common.into_iter().chain(own).map(|name| folder.join(name)).collect()
}

/// A recipe that the report may show.
pub struct ReportedRecipe {
    recipe: Recipe,
    jobs: Vec<Job>,
    /// Whether the user asked for it.
    requested: bool,
}

impl ReportedRecipe {
    /// Returns all built-in recipes, followed by the user's own.
    pub fn collect(mut requested: Vec<Recipe>, quick: bool) -> Result<Vec<Self>, Failure> {
        let mut recipes = Vec::new();
        for built_in in Recipe::load_built_in(quick)? {
            match requested.iter().position(|recipe| recipe.name == built_in.name) {
                Some(index) => recipes.push((requested.remove(index), true)),
                None => recipes.push((built_in, false)),
            }
        }
        recipes.extend(requested.into_iter().map(|recipe| (recipe, true)));
        let reported = recipes.into_iter().map(|(recipe, requested)| {
            Ok(ReportedRecipe { jobs: recipe.jobs()?, recipe, requested })
        });
        reported.collect()
    }
}

/// The part of a report about one recipe.
pub struct Section<'a> {
    pub recipe: &'a Recipe,
    pub results: Results<'a>,
    pub verdicts: Vec<Verdict>,
    pub requested: bool,
    cells: Vec<Cell>,
    graded: Vec<Graded>,
    svg: Option<String>,
}

impl<'a> Section<'a> {
    /// Computes everything that is shown about a recipe. Claims are checked only if no run is
    /// missing.
    fn new(
        reported: &'a ReportedRecipe,
        finished: &'a FinishedJobs,
        quick: bool,
    ) -> Result<Self, Failure> {
        let ReportedRecipe { recipe, jobs, requested } = reported;
        let results = Results::collect(jobs, finished);
        let cells = recipe.paper_cells()?;
        let grading = recipe.grades.as_ref();
        let graded = grading.map_or(Vec::new(), |grading| grading.grade(&results));
        let evidence = Evidence { results: &results, paper: &cells, graded: &graded };
        let checked = recipe.checks.iter().filter(|check| !(quick && check.only_full));
        let verdicts = match results.missing {
            0 => checked.map(|check| check.claim.check(&evidence)).collect(),
            _ => Vec::new(),
        };
        let svg = figures::draw(recipe, &results, &cells);
        Ok(Section { recipe, results, verdicts, requested: *requested, cells, graded, svg })
    }

    fn page(&self) -> Page<'_> {
        Page {
            recipe: self.recipe,
            results: &self.results,
            cells: &self.cells,
            graded: &self.graded,
            verdicts: &self.verdicts,
            svg: self.svg.as_deref(),
        }
    }

    /// Writes the numbers and the figure.
    fn write(&self, folder: &Path) -> Outcome {
        write_text(&folder.join(self.recipe.file("csv")), &self.page().csv())?;
        match &self.svg {
            Some(svg) => write_text(&folder.join(self.recipe.file("svg")), svg),
            None => Ok(()),
        }
    }
}

/// The requested recipes, and all others that have results.
pub struct Report<'a> {
    pub sections: Vec<Section<'a>>,
    quick: bool,
}

impl<'a> Report<'a> {
    pub fn new(
        recipes: &'a [ReportedRecipe],
        finished: &'a FinishedJobs,
        quick: bool,
    ) -> Result<Self, Failure> {
        let mut sections = Vec::new();
        for reported in recipes {
            let section = Section::new(reported, finished, quick)?;
            if section.requested || !section.results.is_empty() {
                sections.push(section);
            }
        }
        Ok(Report { sections, quick })
    }

    /// Returns the sections of the recipes that the user asked for.
    pub fn requested(&self) -> impl Iterator<Item = &Section<'a>> {
        self.sections.iter().filter(|section| section.requested)
    }

    /// Writes the files of requested recipes, and the report about all.
    pub fn write(&self, folder: &Path) -> Outcome {
        self.requested().try_for_each(|section| section.write(folder))?;
        let pages: Vec<Page> = self.sections.iter().map(Section::page).collect();
        let environment = self.environment();
        write_text(&folder.join(MARKDOWN), &markdown(&pages, &environment))?;
        write_text(&folder.join(PAGE), &html(&pages, &environment))?;
        let json = serde_json::to_string_pretty(&environment)
            .map_err(|error| Failure::Run(error.to_string()))?;
        write_text(&folder.join(ENVIRONMENT), &(json + "\n"))
    }

    /// Describes the environment in which the results were measured. Recipes may share log entries.
    fn environment(&self) -> Environment {
        let mut entries: Vec<&LoggedJob> = Vec::new();
        for entry in self.sections.iter().flat_map(|section| section.results.logged()) {
            find_or_push(&mut entries, |known| std::ptr::eq(*known, entry), || entry);
        }
        let mut devices: Vec<(String, usize)> = Vec::new();
        for entry in &entries {
            let new = || (entry.engine.clone(), 0);
            find_or_push(&mut devices, |(device, _)| *device == entry.engine, new).1 += 1;
        }
        let mut dates: Vec<String> =
            entries.iter().map(|entry| entry.result.date().to_string()).collect();
        dates.sort();
        dates.dedup();
        let version = env!("CARGO_PKG_VERSION");
        Environment { version, dates, devices, machine: machine(), quick: self.quick }
    }
}

fn write_text(path: &Path, text: &str) -> Outcome {
    Ok(write_whole(path, |file| file.write_all(text.as_bytes()))?)
}

use super::engine;
use crate::args::Reproduce;
use crate::failure::{Failure, Outcome};
use crate::report::shortened;
use crate::reproduce::checks::Finding;
use crate::reproduce::figures;
use crate::reproduce::jobs::{Cost, Job, Log, Runner, cost, machine};
use crate::reproduce::pages::{Environment, Page, html, markdown};
use crate::reproduce::paper::{self, Cell};
use crate::reproduce::recipe::Recipe;
use crate::reproduce::results::Results;
use crate::reproduce::summary::{Graded, agreement};
use fdime::data::{Images, write_whole};
use fdime::{Activation, CpuEngine};
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where a data set's images are within the folder of images.
const TRAINING_IMAGES: &str = "train-images-idx3-ubyte.gz";

pub fn run(args: &Reproduce) -> Outcome {
    if args.names.iter().any(|name| name == "list") {
        return list(args);
    }
    let mut recipes = Recipe::load(&args.names, args.quick)?;
    let images = if args.no_run { HashMap::new() } else { load_images(args, &mut recipes)? };
    let jobs: Vec<Vec<Job>> = recipes.iter().map(Recipe::jobs).collect::<Result<_, _>>()?;
    let out = out(args);
    let fail = |error: std::io::Error| Failure::Usage(format!("--out {}: {error}", out.display()));
    std::fs::create_dir_all(&out).map_err(fail)?;
    let mut log = Log::open(&out.join("runs.jsonl"))
        .map_err(|error| Failure::Usage(format!("--out: {error}")))?;

    let mut missing: Vec<Job> = Vec::new();
    let mut known = 0;
    for job in jobs.iter().flatten() {
        if job.is_known(&log) {
            known += 1;
        } else if !missing.contains(job) {
            missing.push(job.clone());
        }
    }
    let mut failures = Vec::new();
    if !args.no_run && !missing.is_empty() {
        let threads = CpuEngine::new(args.threads).threads();
        let precision = args.precision.as_deref();
        let engine = engine(args.device, precision, args.threads, Activation::Relu)?;
        let (cost, operations) = cost(&missing, &*engine, threads)?;
        eprintln!("{}", sentence(&cost, known));
        let runner = Runner { engine: &*engine, threads, images: &images };
        (log, failures) = runner.run(&missing, &operations, log)?;
    }
    write_results(args, &recipes, &log, &out)?;
    match failures.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(failures.join("; "))),
    }
}

/// The folder of results.
fn out(args: &Reproduce) -> PathBuf {
    let usual = if args.quick { "results-quick" } else { "results" };
    args.out.clone().unwrap_or_else(|| usual.into())
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} seconds"),
        s if s < 5400.0 => format!("{:.0} minutes", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} hours", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

fn sentence(cost: &Cost, known: usize) -> String {
    let known = match known {
        0 => String::new(),
        known => format!("; {known} are there already"),
    };
    format!(
        "{} runs, {} training steps, {:.3} PFLOP: about {}{known}",
        cost.runs,
        cost.steps,
        cost.operations / 1e15,
        duration(cost.seconds)
    )
}

/// The images that recipes need. Of `all` recipes those whose images are not here are left out, with a
/// message.
fn load_images(
    args: &Reproduce,
    recipes: &mut Vec<Recipe>,
) -> Result<HashMap<String, Images>, Failure> {
    let mut found = HashMap::new();
    let mut kept = Vec::new();
    for recipe in recipes.drain(..) {
        let mut absent = None;
        for job in recipe.jobs()? {
            let Job::Images { plan, .. } = job else { continue };
            if !found.contains_key(&plan.images) && absent.is_none() {
                match open_images(args, &plan.images)? {
                    Ok(images) => drop(found.insert(plan.images.clone(), images)),
                    Err(reason) => absent = Some(reason),
                }
            }
            if let Some(images) = found.get(&plan.images) {
                let check = plan.check_images(images);
                check.map_err(|error| Failure::from(error).within(&recipe.name))?;
            }
        }
        match absent {
            None => kept.push(recipe),
            Some(reason) if args.names.contains(&recipe.name) => {
                return Err(Failure::Usage(format!("{}: {reason}", recipe.name)));
            }
            Some(reason) => eprintln!("SKIPPED: {}: {reason}", recipe.name),
        }
    }
    *recipes = kept;
    Ok(found)
}

/// The images of a data set, or why there are none.
fn open_images(args: &Reproduce, name: &str) -> Result<Result<Images, String>, Failure> {
    let Some(folder) = &args.images else {
        return Ok(Err("its images are not here; --images FOLDER says where".into()));
    };
    let zipped = folder.join(name).join(TRAINING_IMAGES);
    let plain = zipped.with_extension("");
    match [&zipped, &plain].into_iter().find(|path| path.exists()) {
        Some(path) => Ok(Ok(Images::open(path)?)),
        None => Ok(Err(format!("there is no {}", zipped.display()))),
    }
}

/// A recipe's measurements and what is made of them.
struct Shown<'a> {
    recipe: &'a Recipe,
    results: Results<'a>,
    cells: Vec<Cell>,
    graded: Vec<Graded>,
    findings: Vec<Finding>,
    svg: Option<String>,
}

impl<'a> Shown<'a> {
    fn new(
        recipe: &'a Recipe,
        jobs: &'a [Job],
        log: &'a Log,
        quick: bool,
    ) -> Result<Self, Failure> {
        let results = Results::collect(jobs, log);
        let mut cells = Vec::new();
        for table in &recipe.tables {
            cells.extend(paper::cells(table)?);
        }
        let graded = recipe.grades.as_ref().map_or(Vec::new(), |grades| grades.grade(&results));
        let agreement = recipe.grades.as_ref().map(|_| agreement(&graded));
        let asserted = recipe.checks.iter().filter(|check| !(quick && check.only_full));
        let findings: Vec<Finding> = match results.missing {
            0 => asserted.map(|check| check.examine(&results, &cells, agreement)).collect(),
            _ => Vec::new(),
        };
        let svg = figures::draw(recipe, &results, &cells);
        Ok(Shown { recipe, results, cells, graded, findings, svg })
    }

    fn page(&self) -> Page<'_> {
        Page {
            recipe: self.recipe,
            results: &self.results,
            cells: &self.cells,
            graded: &self.graded,
            findings: &self.findings,
            svg: self.svg.as_deref(),
        }
    }

    fn is_empty(&self) -> bool {
        let Results { staircases, images, times, .. } = &self.results;
        staircases.is_empty() && images.is_empty() && times.is_empty()
    }
}

/// Looks at what was measured, and writes everything down: for the recipes asked for their own files,
/// and a report of all that have been run.
fn write_results(args: &Reproduce, recipes: &[Recipe], log: &Log, out: &Path) -> Outcome {
    let everything = Recipe::load(&["all".to_string()], args.quick)?;
    let own = recipes.iter().filter(|recipe| Recipe::known().all(|name| name != recipe.name));
    let reported: Vec<&Recipe> = everything.iter().chain(own).collect();
    let jobs: Vec<Vec<Job>> = reported.iter().map(|r| r.jobs()).collect::<Result<_, _>>()?;
    let mut shown = Vec::new();
    for (recipe, jobs) in reported.iter().zip(&jobs) {
        let asked = recipes.iter().any(|asked| asked.name == recipe.name);
        let one = Shown::new(recipe, jobs, log, args.quick)?;
        if asked || !one.is_empty() {
            shown.push((one, asked));
        }
    }
    let (mut failed, mut unfinished) = (0, 0);
    let mut stdout = std::io::stdout().lock();
    for (one, _) in shown.iter().filter(|(_, asked)| *asked) {
        let (page, name) = (one.page(), &one.recipe.name);
        writeln!(stdout, "{name}: {}", one.recipe.title)?;
        if one.results.missing > 0 {
            unfinished += 1;
            writeln!(stdout, "  {} runs are missing: nothing is asserted", one.results.missing)?;
        }
        if one.results.diverged > 0 {
            writeln!(stdout, "  {} runs diverged", one.results.diverged)?;
        }
        for finding in &one.findings {
            failed += usize::from(!finding.passed);
            let sign = if finding.passed { "ok    " } else { "FAILED" };
            writeln!(stdout, "  {sign} {}", finding.text)?;
            if !finding.passed || args.verbose {
                writeln!(stdout, "         {}", finding.detail)?;
            }
        }
        write_text(&out.join(format!("{name}.csv")), &page.csv())?;
        if let Some(svg) = &one.svg {
            write_text(&out.join(format!("{name}.svg")), svg)?;
        }
    }
    let pages: Vec<Page> = shown.iter().map(|(one, _)| one.page()).collect();
    let environment = environment(args, &pages);
    write_text(&out.join("report.md"), &markdown(&pages, &environment))?;
    write_text(&out.join("index.html"), &html(&pages, &environment))?;
    let text = serde_json::to_string_pretty(&environment)
        .map_err(|error| Failure::Run(error.to_string()))?;
    write_text(&out.join("environment.json"), &(text + "\n"))?;
    writeln!(stdout, "wrote {}", out.join("index.html").display())?;
    match (failed, unfinished) {
        (0, 0) => Ok(()),
        (0, recipes) => Err(Failure::Run(format!("{recipes} recipes lack runs"))),
        (claims, _) => Err(Failure::Run(format!("{claims} claims do not hold"))),
    }
}

fn write_text(path: &Path, text: &str) -> Outcome {
    Ok(write_whole(path, |file| file.write_all(text.as_bytes()))?)
}

/// What the runs shown were made with.
fn environment(args: &Reproduce, pages: &[Page]) -> Environment {
    let mut dates = Vec::new();
    let mut devices: Vec<(String, usize)> = Vec::new();
    let mut seen: Vec<*const _> = Vec::new();
    for page in pages {
        let staircases = page.results.staircases.iter().flat_map(|s| &s.runs);
        let runs = staircases
            .map(|run| run.logged)
            .chain(page.results.images.iter().flat_map(|r| r.runs.iter().map(|run| run.3)))
            .chain(page.results.times.iter().map(|time| time.logged));
        for run in runs {
            // Recipes share runs.
            if seen.contains(&std::ptr::from_ref(run)) {
                continue;
            }
            seen.push(std::ptr::from_ref(run));
            dates.push(run.result.date().to_string());
            match devices.iter_mut().find(|(device, _)| *device == run.engine) {
                Some((_, count)) => *count += 1,
                None => devices.push((run.engine.clone(), 1)),
            }
        }
    }
    dates.sort();
    dates.dedup();
    Environment {
        version: env!("CARGO_PKG_VERSION"),
        dates,
        devices,
        machine: machine(),
        quick: args.quick,
    }
}

/// Names, titles and how much there is to run.
fn list(args: &Reproduce) -> Outcome {
    let recipes = Recipe::load(&["all".to_string()], args.quick)?;
    let mut stdout = std::io::stdout().lock();
    for recipe in recipes {
        let title = shortened(&recipe.title, 80 - 34);
        writeln!(stdout, "{:<23}{:>4} runs  {title}", recipe.name, recipe.jobs()?.len())?;
    }
    Ok(())
}

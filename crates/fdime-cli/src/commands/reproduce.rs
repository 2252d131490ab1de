use super::engine;
use crate::args::Reproduce;
use crate::failure::{Failure, Outcome};
use crate::report::shortened;
use crate::reproduce::cost::{Cost, PendingJob};
use crate::reproduce::image_sets::{self, ImageSets};
use crate::reproduce::jobs::{Job, Log};
use crate::reproduce::publish::{Report, ReportedRecipe, Section};
use crate::reproduce::recipe::Recipe;
use crate::reproduce::runner::Runner;
use fdime::Activation;
use std::io::Write;
use std::path::{Path, PathBuf};

pub fn run(args: &Reproduce) -> Outcome {
    if args.names.iter().any(|name| name == "list") {
        return list(args.quick);
    }
    let mut recipes = Recipe::load(&args.names, args.quick)?;
    let mut images = ImageSets::new();
    if !args.no_run {
        load_images(args, &mut recipes, &mut images)?;
    }
    let jobs: Vec<Vec<Job>> = recipes.iter().map(Recipe::jobs).collect::<Result<_, _>>()?;
    let default = if args.quick { "results-quick" } else { "results" };
    let folder = args.out.clone().unwrap_or_else(|| PathBuf::from(default));
    let mut log = open_log(&folder)?;
    let mut errors = Vec::new();
    if !args.no_run {
        (log, errors) = run_pending(args, jobs.iter().flatten(), &images, log)?;
    }
    let recipes = ReportedRecipe::collect(recipes, args.quick)?;
    let report = Report::new(&recipes, &log, args.quick)?;
    print_verdicts(&report, args.verbose)?;
    report.write(&folder)?;
    writeln!(std::io::stdout(), "wrote {}", folder.join("index.html").display())?;
    conclude(&report, &errors)
}

/// Prints names, titles and the number of runs of the built-in recipes.
fn list(quick: bool) -> Outcome {
    let mut stdout = std::io::stdout().lock();
    for recipe in Recipe::load_built_in(quick)? {
        let title = shortened(&recipe.title, 80 - 34);
        writeln!(stdout, "{:<23}{:>4} runs  {title}", recipe.name, recipe.jobs()?.len())?;
    }
    Ok(())
}

/// Loads the images of the recipes. A recipe whose images cannot be found is skipped with a message
/// unless it was requested by name.
fn load_images(args: &Reproduce, recipes: &mut Vec<Recipe>, images: &mut ImageSets) -> Outcome {
    for recipe in std::mem::take(recipes) {
        match image_sets::load(&recipe, args.images.as_deref(), images)? {
            None => recipes.push(recipe),
            Some(reason) if args.names.contains(&recipe.name) => {
                return Err(Failure::Usage(format!("{}: {reason}", recipe.name)));
            }
            Some(reason) => eprintln!("SKIPPED: {}: {reason}", recipe.name),
        }
    }
    Ok(())
}

fn open_log(folder: &Path) -> Result<Log, Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::Usage(format!("--out {}: {error}", folder.display())))?;
    Log::open(&folder.join("runs.jsonl")).map_err(|error| Failure::Usage(format!("--out: {error}")))
}

/// Runs the jobs that the log does not hold. Returns the log and the errors of single jobs.
fn run_pending<'a>(
    args: &Reproduce,
    jobs: impl Iterator<Item = &'a Job>,
    images: &ImageSets,
    log: Log,
) -> Result<(Log, Vec<String>), Failure> {
    let (pending, finished) = PendingJob::find(jobs, &log)?;
    if pending.is_empty() {
        return Ok((log, Vec::new()));
    }
    let engine = engine(args.device, args.precision, args.threads, Activation::Relu)?;
    let cost = Cost::estimate(&pending, &*engine)?;
    match finished {
        0 => eprintln!("{cost}"),
        finished => eprintln!("{cost}; {finished} are already in the log"),
    }
    Runner { engine: &*engine, images }.run(&pending, log)
}

fn print_verdicts(report: &Report, verbose: bool) -> Outcome {
    let mut stdout = std::io::stdout().lock();
    for Section { recipe, results, verdicts, .. } in report.requested() {
        writeln!(stdout, "{}: {}", recipe.name, recipe.title)?;
        if results.missing > 0 {
            writeln!(stdout, "  {} runs are missing, so no claim is checked", results.missing)?;
        }
        if results.diverged > 0 {
            writeln!(stdout, "  {} runs diverged", results.diverged)?;
        }
        for verdict in verdicts {
            let sign = if verdict.passed { "ok    " } else { "FAILED" };
            writeln!(stdout, "  {sign} {}", verdict.text)?;
            if !verdict.passed || verbose {
                writeln!(stdout, "         {}", verdict.detail)?;
            }
        }
    }
    Ok(())
}

/// Returns an error if a job failed, a claim does not hold or runs of a requested recipe are
/// missing.
fn conclude(report: &Report, errors: &[String]) -> Outcome {
    let verdicts = report.requested().flat_map(|section| &section.verdicts);
    let failed = verdicts.filter(|verdict| !verdict.passed).count();
    let unfinished = report.requested().filter(|section| section.results.missing > 0).count();
    if !errors.is_empty() {
        Err(Failure::Run(errors.join("; ")))
    } else if failed > 0 {
        Err(Failure::Run(format!("{failed} claims do not hold")))
    } else if unfinished > 0 {
        Err(Failure::Run(format!("{unfinished} recipes have missing runs")))
    } else {
        Ok(())
    }
}

use super::engine;
use crate::args::Reproduce;
use crate::console::note;
use crate::failure::{Failure, Outcome};
use crate::outputs::{self, NamedFile};
use crate::printable::printable;
use crate::report::shortened;
use crate::reproduce::cost::{Cost, PendingJob};
use crate::reproduce::image_sets::{self, ImageSets};
use crate::reproduce::jobs::{FinishedJobs, Job, Log};
use crate::reproduce::publish::{self, Report, ReportedRecipe, Section};
use crate::reproduce::recipe::{Recipe, is_file};
use crate::reproduce::runner::Runner;
use fdime::{Activation, counted};
use std::fmt::Write as _;
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
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure::Usage(format!("--out {}: {error}", folder.display())))?;
    check_files(args, &folder, &recipes)?;
    let path = folder.join(LOG);
    let (log, read);
    let (finished, errors) = if args.no_run {
        read = FinishedJobs::read(&path).map_err(log_failure)?;
        note_damage(&path, &read);
        (&read, Vec::new())
    } else {
        let opened = Log::open(&path).map_err(log_failure)?;
        note_damage(&path, opened.runs());
        let errors;
        (log, errors) = run_pending(args, jobs.iter().flatten(), &images, opened)?;
        (log.runs(), errors)
    };
    let recipes = ReportedRecipe::collect(recipes, args.quick)?;
    let report = Report::new(&recipes, finished, args.quick)?;
    // Files come first: whoever reads the output may close it at any time.
    report.write(&folder)?;
    let page = folder.join(publish::PAGE);
    let text = format!("{}wrote {}\n", verdicts(&report, args.verbose), page.display());
    let printed = std::io::stdout().write_all(printable(&text).as_bytes());
    conclude(&report, &errors).and(printed.map_err(Failure::from))
}

/// The file of finished jobs within the folder of results.
const LOG: &str = "runs.jsonl";

fn log_failure(error: fdime::Error) -> Failure {
    Failure::Usage(format!("--out: {error}"))
}

fn note_damage(path: &Path, finished: &FinishedJobs) {
    if let Some(damage) = finished.damage() {
        note(&format!("note: {}: {damage}", path.display()));
    }
}

/// Checks the names of files before any work is done.
fn check_files(args: &Reproduce, folder: &Path, recipes: &[Recipe]) -> Outcome {
    let log = folder.join(LOG);
    let own = args.names.iter().filter(|name| is_file(name));
    let mut inputs: Vec<NamedFile> = own.map(|name| ("a recipe", Path::new(name))).collect();
    inputs.push(("finished runs", &log));
    let files = publish::files(folder, recipes);
    let outputs: Vec<NamedFile> = files.iter().map(|path| ("--out", path.as_path())).collect();
    outputs::check(&inputs, &outputs)
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
/// if `all` stands for it, and refused if it was requested itself.
fn load_images(args: &Reproduce, recipes: &mut Vec<Recipe>, images: &mut ImageSets) -> Outcome {
    for recipe in std::mem::take(recipes) {
        let built_in = Recipe::built_in().any(|name| name == recipe.name);
        match image_sets::load(&recipe, args.images.as_deref(), images)? {
            None => recipes.push(recipe),
            Some(reason) if !built_in || args.names.contains(&recipe.name) => {
                return Err(Failure::Usage(format!("{}: {reason}", recipe.name)));
            }
            Some(reason) => note(&format!("SKIPPED: {}: {}", recipe.name, reason)),
        }
    }
    Ok(())
}

/// Runs the jobs that the log does not hold. Returns the log and the errors of single jobs.
fn run_pending<'a>(
    args: &Reproduce,
    jobs: impl Iterator<Item = &'a Job>,
    images: &ImageSets,
    log: Log,
) -> Result<(Log, Vec<String>), Failure> {
    let (pending, finished) = PendingJob::find(jobs, log.runs())?;
    if pending.is_empty() {
        return Ok((log, Vec::new()));
    }
    let engine = engine(&args.execution, Activation::Relu)?;
    let cost = Cost::estimate(&pending, &*engine, images)?;
    match finished {
        0 => note(&format!("{cost}")),
        finished => note(&format!("{cost}; already finished: {finished}")),
    }
    Runner { engine: &*engine, images }.run(&pending, log)
}

/// Returns the claims of the requested recipes, and whether they hold.
fn verdicts(report: &Report, verbose: bool) -> String {
    let mut text = String::new();
    for Section { recipe, results, verdicts, .. } in report.requested() {
        let _ = writeln!(text, "{}: {}", recipe.name, recipe.title);
        match results.missing {
            0 => {}
            1 => text += "  1 run is missing, so no claim is checked\n",
            runs => {
                let _ = writeln!(text, "  {runs} runs are missing, so no claim is checked");
            }
        }
        if results.diverged > 0 {
            let _ = writeln!(text, "  {} diverged", counted(results.diverged, "run"));
        }
        for verdict in verdicts {
            let sign = if verdict.passed { "ok    " } else { "FAILED" };
            let _ = writeln!(text, "  {sign} {}", verdict.text);
            if !verdict.passed || verbose {
                let _ = writeln!(text, "         {}", verdict.detail);
            }
        }
    }
    text
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
        Err(Failure::Run(match failed {
            1 => "1 claim does not hold".into(),
            failed => format!("{failed} claims do not hold"),
        }))
    } else if unfinished > 0 {
        let recipes = counted(unfinished, "recipe");
        Err(Failure::Run(format!("runs of {recipes} are missing; run them without --no-run")))
    } else {
        Ok(())
    }
}

use super::{Watch, estimation_engine, write_pointwise};
use crate::args::Estimate as Arguments;
use crate::failure::{Failure, Outcome};
use crate::outputs::{self, NamedFile, Outputs, check_extension, open_in_browser};
use crate::report::estimate::{SavedEstimate, render};
use crate::saved::Saved;
use crate::summary;
use fdime::data::{PairTable, load_triples, load_two_files};
use fdime::estimate::{Effort, EstimateReport, Method, SavedModel, estimate, estimate_given};
use fdime::printable;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub fn run(args: &Arguments) -> Outcome {
    let mut plan = args.estimation.plan(Effort::Default);
    plan.chain = args.chain.chain.unwrap_or(plan.chain);
    plan.order = args.series.order();
    check_extension("--pointwise", args.pointwise.as_ref(), &["csv"])?;
    check_extension("--report", args.report.as_ref(), &["html", "htm"])?;
    let inputs =
        [("the table", &args.file), ("--x-file", &args.x_file), ("--y-file", &args.y_file)];
    let inputs = given(&inputs);
    let outputs =
        [("--pointwise", &args.pointwise), ("--report", &args.report), ("--save", &args.save)];
    outputs::check(&inputs, &given(&outputs))?;
    if args.save.is_some() && plan.method == Method::Ksg {
        return Err(Failure::Usage("--save: ksg has no critics to save; use auto".into()));
    }
    if args.save.is_some() && args.given.is_some() {
        return Err(Failure::Usage(
            "--save cannot be used with --given, whose critics score residuals of regressions"
                .into(),
        ));
    }
    let start = Instant::now();
    let table = load(args)?;
    let plan = plan.for_data(&table.x, &[&table.y[..], &table.given].concat());
    let watch = Watch::new("estimating");
    let engine = estimation_engine(&args.estimation.execution)?;
    let result = match args.given.is_some() {
        true => estimate_given(&table.x, &table.y, &table.given, &plan, &*engine, &watch)?,
        false => estimate(&table.x, &table.y, &plan, &*engine, &watch)?,
    };
    drop(watch);
    let seconds = start.elapsed().as_secs_f64();
    let file = file_names(&inputs);
    let report = EstimateReport {
        table: &table,
        plan: &plan,
        estimate: &result,
        seconds,
        file: Some(&file),
        keeps_critics: args.save.is_some(),
    };

    let mut outputs = Outputs::default();
    outputs.write(args.pointwise.as_ref(), |path| {
        write_pointwise(path, &result.pointwise, &table.kept, table.input_rows)
    });
    let saved = SavedEstimate::new(&report);
    let page = outputs.write_page(args.report.as_ref(), args.open, || render(&saved, args.bits));
    outputs.write(args.save.as_ref(), |path| match result.models.is_empty() {
        true => Err(Failure::Usage(
            "--save: these columns are estimated from counts, so there are no critics to save; \
             use --estimator gan-dime"
                .into(),
        )),
        false => Ok(SavedModel::new(&plan, &result, &table.x, &table.y).save(path)?),
    });
    outputs.finish(|| match args.json {
        true => Saved::new("estimate", &saved).print(),
        false => summary::print(&saved.record.summary(args.bits)),
    })?;
    page.map_or(Ok(()), |page| open_in_browser(&page))
}

/// Returns the files that were given.
fn given<'a>(files: &[(&'a str, &'a Option<PathBuf>)]) -> Vec<NamedFile<'a>> {
    files.iter().filter_map(|(name, path)| Some((*name, path.as_deref()?))).collect()
}

fn load(args: &Arguments) -> fdime::Result<PairTable> {
    let reading = args.reading.options();
    let (x, y) = (args.x.as_deref(), args.y.as_deref());
    match (&args.file, &args.x_file, &args.y_file) {
        (None, Some(x_file), Some(y_file)) => load_two_files(x_file, y_file, x, y, &reading),
        (file, ..) => {
            let file = file.as_deref().unwrap_or(Path::new("-"));
            load_triples(file, x, y, args.given.as_deref(), &reading)
        }
    }
}

/// Returns the names of files without their folders.
pub(super) fn file_names(files: &[NamedFile]) -> String {
    let name = |(_, path): &NamedFile| match path.to_str() {
        Some("-") => "standard input".into(),
        _ => {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            printable(&name).into_owned()
        }
    };
    files.iter().map(name).collect::<Vec<String>>().join(" and ")
}

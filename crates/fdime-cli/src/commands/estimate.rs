use super::{Watch, check_outputs, print_json, write_pointwise};
use crate::args::Estimate as Arguments;
use crate::failure::{Failure, Outcome};
use crate::flags::FLAGS;
use crate::report::estimate::render;
use crate::summary;
use fdime::data::{load_pairs, write_whole};
use fdime::estimate::{Effort, EstimateReport, Method, RowOrder, SavedModel, estimate};
use fdime::{CpuEngine, Nats};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

pub fn run(args: &Arguments) -> Outcome {
    let mut plan = args.estimation.plan(Effort::Default);
    let reading = args.reading.options();
    check_outputs(&args.file, [args.pointwise.as_ref(), args.report.as_ref()])?;
    if let Some(folder) = &args.save {
        SavedModel::check_folder(folder).map_err(|error| Failure::Usage(error.to_string()))?;
        if plan.method == Method::Ksg {
            return Err(Failure::Usage("--save: ksg has no critics to save; use auto".into()));
        }
    }
    let start = Instant::now();
    let table = load_pairs(&args.file, args.x.as_deref(), args.y.as_deref(), &reading)?;
    if let Some(gap) = args.blocks {
        plan.order = gap.map_or(RowOrder::AutomaticSeries, |gap| RowOrder::Series { gap });
        plan = plan.for_data(&table.x, &table.y);
    }
    let watch = Watch::new("estimating");
    let engine = CpuEngine::new(args.estimation.threads);
    let result = estimate(&table.x, &table.y, &plan, &engine, &watch)?;
    drop(watch);
    if args.save.is_some() && result.models.is_empty() {
        let problem = "--save: these columns are compared by their counts, without critics that \
                       could be saved; use --estimator gan-dime";
        return Err(Failure::Usage(problem.into()));
    }
    let seconds = start.elapsed().as_secs_f64();
    let report = EstimateReport { table: &table, plan: &plan, estimate: &result, seconds };

    if let Some(path) = &args.pointwise {
        write_pointwise(path, &result.pointwise, &table.kept, table.input_rows)?;
    }
    if let Some(path) = &args.report {
        let file = file_name(&args.file);
        let page = render(&format!("Mutual information in {file}"), &report);
        write_whole(path, |file| file.write_all(page.as_bytes()))?;
        eprintln!("wrote {}", path.display());
    }
    if let Some(folder) = &args.save {
        SavedModel::new(&plan, &result, &table.x, &table.y).save(folder)?;
        eprintln!("wrote {}", folder.display());
    }
    if args.json {
        return print_json(&report.record(&FLAGS));
    }
    let summary = summary::wrap(&report.summary(args.bits, &FLAGS));
    Ok(writeln!(std::io::stdout(), "{summary}")?)
}

fn file_name(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "standard input".into(),
        _ => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
    }
}

/// Returns an amount of information in bits or in nats.
pub(super) fn amount(nats: Nats, bits: bool) -> f64 {
    if bits { nats.bits() } else { nats.0 }
}

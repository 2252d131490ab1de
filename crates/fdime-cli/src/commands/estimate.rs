use super::{Watch, check_outputs, print_json, write_pointwise};
use crate::args::Estimate as Arguments;
use crate::failure::{Failure, Outcome};
use crate::report::estimate::{Report, render, short_p, sides};
use fdime::Nats;
use fdime::data::{PairTable, Values, load_pairs, write_whole};
use fdime::estimate::{
    Baselines, Effort, Estimate, EstimatePlan, FoldFigures, Method, RaceEntry, RowOrder,
    SavedModel, Verdict, estimate,
};
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// What `--json` prints; docs/ESTIMATE.md describes it.
#[derive(Serialize)]
struct Json<'a> {
    mi_nats: f64,
    ci_low: f64,
    ci_high: f64,
    p_value: Option<f64>,
    n_rows: usize,
    n_dropped: usize,
    estimator: String,
    verdict: &'a Verdict,
    unclipped_nats: f64,
    lower_bound_nats: Option<f64>,
    baselines: &'a Baselines,
    folds: &'a [FoldFigures],
    race: &'a [RaceEntry],
    x: Vec<&'a str>,
    y: Vec<&'a str>,
    plan: &'a EstimatePlan,
    seconds: f64,
    seed: u64,
    version: &'static str,
}

pub fn run(args: &Arguments) -> Outcome {
    let mut plan = args.estimation.plan(Effort::Default)?;
    let reading = args.reading.parse()?;
    check_outputs(&args.file, [args.pointwise.as_ref(), args.report.as_ref()])?;
    if let Some(folder) = &args.save {
        SavedModel::check_folder(folder).map_err(|error| Failure::Usage(error.to_string()))?;
        if plan.method == Method::Ksg {
            return Err(Failure::Usage("--save: ksg has no critics to save; use auto".into()));
        }
    }
    let start = Instant::now();
    let table = load_pairs(&args.file, args.x.as_deref(), args.y.as_deref(), &reading)?;
    let rows = table.kept.len();
    if let Some(gap) = args.blocks {
        plan.order = RowOrder::Series { gap: gap.unwrap_or(rows / 100) };
    }
    let watch = Watch::new("estimating");
    let result = args
        .estimation
        .on_threads(|| estimate(&table.x, &table.y, &plan, &watch))?
        .map_err(Failure::from)?;
    drop(watch);
    let seconds = start.elapsed().as_secs_f64();

    if let Some(path) = &args.pointwise {
        write_pointwise(path, &result.pointwise, &table.kept, table.input_rows)?;
    }
    if let Some(path) = &args.report {
        let file = file_name(&args.file);
        let report = Report {
            title: &format!("Mutual information in {file}"),
            table: &table,
            plan: &plan,
            estimate: &result,
            seconds,
            version: env!("CARGO_PKG_VERSION"),
        };
        let page = render(&report);
        write_whole(path, |file| file.write_all(page.as_bytes()))?;
        eprintln!("wrote {}", path.display());
    }
    if let Some(folder) = &args.save {
        SavedModel::new(&plan, &result, &table.x, &table.y).save(folder)?;
        eprintln!("wrote {}", folder.display());
    }
    if args.json {
        let names = |columns: &'_ [fdime::data::Column]| -> Vec<String> {
            columns.iter().map(|column| column.name.clone()).collect()
        };
        let (x, y) = (names(&table.x), names(&table.y));
        return print_json(&Json {
            mi_nats: result.mi.0,
            ci_low: result.interval.0.0,
            ci_high: result.interval.1.0,
            p_value: result.independence.as_ref().map(|test| test.p_value),
            n_rows: rows,
            n_dropped: table.n_dropped(),
            estimator: plan.method.to_string(),
            verdict: &result.verdict,
            unclipped_nats: result.unclipped.0,
            lower_bound_nats: result.lower_bound.map(|mi| mi.0),
            baselines: &result.baselines,
            folds: &result.folds,
            race: &result.race,
            x: x.iter().map(String::as_str).collect(),
            y: y.iter().map(String::as_str).collect(),
            plan: &plan,
            seconds,
            seed: plan.seed,
            version: env!("CARGO_PKG_VERSION"),
        });
    }
    print_summary(args, &table, &plan, &result, seconds)
}

fn file_name(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "standard input".into(),
        _ => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
    }
}

/// An amount of information in the unit asked for.
pub(super) fn amount(nats: Nats, bits: bool) -> f64 {
    if bits { nats.bits() } else { nats.0 }
}

fn print_summary(
    args: &Arguments,
    table: &PairTable,
    plan: &EstimatePlan,
    result: &Estimate,
    seconds: f64,
) -> Outcome {
    let unit = if args.bits { "bits" } else { "nats" };
    let in_unit = |nats: Nats| amount(nats, args.bits);
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "I(x; y) = {:.3} {unit}   95% interval {:.3} to {:.3}",
        in_unit(result.mi),
        in_unit(result.interval.0),
        in_unit(result.interval.1)
    )?;
    match &result.independence {
        Some(test) if test.p_value <= 0.05 => {
            writeln!(out, "dependent: p = {} (test of independence)", short_p(test.p_value))?;
        }
        Some(test) => {
            writeln!(out, "no dependence found: p = {}", short_p(test.p_value))?;
        }
        None => writeln!(out, "{} has no test of independence", plan.method)?,
    }
    writeln!(out, "reliability: {}", result.verdict.reliability)?;
    for reason in &result.verdict.reasons {
        writeln!(out, "{}", wrapped(&reason.text, "  - ", "    "))?;
    }
    writeln!(out, "\n{}", wrapped(&sides(table), "", "   "))?;
    let dropped = match table.n_dropped() {
        0 => String::new(),
        dropped => format!(" ({dropped} more dropped for missing values)"),
    };
    writeln!(out, "{} rows{dropped}; estimator {}; {seconds:.1} s", table.kept.len(), plan.method)?;
    let others: Vec<String> = [
        ("Gaussian copula", result.baselines.gaussian_copula_nats),
        ("KSG", result.baselines.ksg_nats),
        ("Donsker-Varadhan readout", result.lower_bound.map(|mi| mi.0)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some(format!("{name} {:.3}", in_unit(Nats(value?)))))
    .collect();
    if !others.is_empty() {
        writeln!(out, "for comparison: {}", others.join(", "))?;
    }
    let levels = table.x.iter().chain(&table.y).filter_map(|column| match &column.values {
        Values::Discrete { labels, .. } => Some(format!("{} ({})", column.name, labels.len())),
        Values::Continuous(_) => None,
    });
    let levels: Vec<String> = levels.collect();
    if !levels.is_empty() {
        let text = format!("categories (number of levels): {}", levels.join(", "));
        writeln!(out, "{}", wrapped(&text, "", "  "))?;
    }
    Ok(())
}

/// Text broken at 80 columns.
fn wrapped(text: &str, first: &str, then: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), first.to_string());
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > 80 {
            lines.push(std::mem::replace(&mut line, then.to_string()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines.join("\n")
}

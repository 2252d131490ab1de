use super::estimate::amount;
use super::matrix::spreadsheet_text;
use super::{Watch, print_json, write_results};
use crate::args::Select;
use crate::console::note;
use crate::failure::{Failure, Outcome};
use crate::flags::FLAGS;
use crate::outputs::{self, Outputs, check_extension};
use crate::report::{selection, shortened};
use fdime::data::{Column, PairTable, load_pairs, write_whole};
use fdime::estimate::{
    Effort, SelectedFeature, Selection, SelectionEnd, SelectionPlan, format_p_value,
    select_features,
};
use fdime::{Nats, counted};
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// The number of features that are chosen unless another is given.
const DEFAULT_K: usize = 10;

#[derive(Serialize)]
struct Report<'a> {
    y: &'a str,
    #[serde(flatten)]
    selection: &'a Selection,
    candidates: Vec<&'a str>,
    rows: usize,
    plan: &'a SelectionPlan,
    seconds: f64,
    version: &'static str,
}

pub fn run(args: &Select) -> Outcome {
    check_extension("--output", args.output.as_ref(), &["csv", "json"])?;
    check_extension("--svg", args.svg.as_ref(), &["svg"])?;
    let files = [("--output", &args.output), ("--svg", &args.svg)];
    let files: Vec<_> =
        files.iter().filter_map(|(name, path)| Some((*name, path.as_deref()?))).collect();
    outputs::check(&[("the table", &args.file)], &files)?;
    let start = Instant::now();
    let reading = args.reading.options();
    let table = load_pairs(&args.file, args.x.as_deref(), Some(&args.y), &reading)?;
    for text in &table.notes {
        note(&format!("note: {}", text.render(&FLAGS)));
    }
    let y = target(&table, &args.y)?;
    let mut estimate = args.estimation.plan(Effort::Quick);
    estimate.order = args.series.order();
    let k = args.k.unwrap_or(DEFAULT_K.min(table.x.len()));
    let plan = SelectionPlan { k, criterion: args.criterion, estimate };
    let watch = Watch::new("selecting");
    let selection = select_features(&table.x, y, &plan, args.estimation.threads, &watch)?;
    drop(watch);
    let report = Report {
        y: &y.name,
        selection: &selection,
        candidates: table.x.iter().map(|column| column.name.as_str()).collect(),
        rows: y.len(),
        plan: &plan,
        seconds: start.elapsed().as_secs_f64(),
        version: env!("CARGO_PKG_VERSION"),
    };
    let mut outputs = Outputs::default();
    outputs.write(args.output.as_ref(), |path| write_output(path, &report));
    outputs.write(args.svg.as_ref(), |path| {
        let title = format!("Features for {}, by {}", y.name, plan.criterion);
        let svg = selection::render(&selection.features, &title);
        Ok(write_whole(path, |file| file.write_all(svg.as_bytes()))?)
    });
    outputs.finish(|| match args.json {
        true => print_json(&report),
        false => print_table(&report, args.bits),
    })
}

/// Returns the only column of y.
fn target<'a>(table: &'a PairTable, selector: &str) -> Result<&'a Column, Failure> {
    match &table.y[..] {
        [y] => Ok(y),
        columns => {
            let count = counted(columns.len(), "column");
            Err(Failure::Usage(format!("--y {selector}: these are {count}; name one")))
        }
    }
}

fn write_output(path: &Path, report: &Report) -> Outcome {
    let row = |found: &SelectedFeature| SelectedFeature {
        feature: spreadsheet_text(&found.feature),
        partner: found.partner.as_deref().map(spreadsheet_text),
        ..found.clone()
    };
    write_results(path, report, report.selection.features.iter().map(row))
}

fn print_table(report: &Report, bits: bool) -> Outcome {
    let Report { selection, plan, seconds, .. } = report;
    let mut out = std::io::stdout().lock();
    let (found, all) = (selection.features.len(), report.candidates.len());
    writeln!(
        out,
        "{found} of {} for {}, by {}; {}, {seconds:.1} s",
        counted(all, "feature"),
        shortened(report.y, 18),
        plan.criterion,
        counted(report.rows, "row")
    )?;
    if let SelectionEnd::NothingLeft { features, p_adjusted, .. } = &selection.end {
        let names: Vec<String> = features.iter().map(|name| shortened(name, 18)).collect();
        let p = format_p_value(*p_adjusted);
        writeln!(out, "no other adds significantly: {} has p = {p}", names.join(" with "))?;
    }
    if selection.features.is_empty() {
        return Ok(());
    }
    let unit = if bits { "bits" } else { "nats" };
    writeln!(
        out,
        "\n{:>4} {:18} {:>7} {:>15} {:>7} {:>10} {:>7}",
        "rank",
        "feature",
        format!("+{unit}"),
        "95% interval",
        "alone",
        "redundancy",
        "p adj"
    )?;
    for feature in &selection.features {
        let value = |nats: f64| amount(Nats(nats), bits);
        writeln!(
            out,
            "{:>4} {:18} {:7.3} {:>15} {:7.3} {:10.3} {:7.3}",
            feature.rank,
            shortened(&feature.feature, 18),
            value(feature.gain_nats),
            format!("{:.3} to {:.3}", value(feature.ci_low), value(feature.ci_high)),
            value(feature.alone_nats),
            value(feature.redundancy_nats),
            feature.p_adjusted
        )?;
    }
    for pair in selection.features.windows(2) {
        let [one, other] = pair else { continue };
        if one.partner.as_ref() == Some(&other.feature) {
            let (one, other) = (shortened(&one.feature, 24), shortened(&other.feature, 24));
            writeln!(out, "{one} and {other} were chosen as a pair")?;
        }
    }
    Ok(())
}

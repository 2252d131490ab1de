use crate::args::Report;
use crate::failure::{Failure, Outcome};
use crate::outputs::{self, NamedFile, Outputs, check_extension, open_in_browser};
use crate::report::{capacity, estimate, power};
use crate::saved::SavedRun;
use crate::summary;

pub fn run(args: &Report) -> Outcome {
    check_extension("--html", args.html.as_ref(), &["html", "htm"])?;
    check_extension("--svg", args.svg.as_ref(), &["svg"])?;
    check_extension("--output", args.output.as_ref(), &["csv", "json"])?;
    check_extension("--graphml", args.graphml.as_ref(), &["graphml", "xml"])?;
    let files = [
        ("--html", &args.html),
        ("--svg", &args.svg),
        ("--output", &args.output),
        ("--graphml", &args.graphml),
    ];
    let files: Vec<NamedFile> =
        files.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?))).collect();
    outputs::check(&[("the results", &args.file)], &files)?;
    let saved = SavedRun::load(&args.file)?;
    refuse_missing_outputs(args, &saved)?;
    let mut outputs = Outputs::default();
    let (table, svg) = (args.output.as_ref(), args.svg.as_ref());
    let mut page = None;
    match &saved {
        SavedRun::Estimate(saved) => {
            page = outputs
                .write_page(args.html.as_ref(), args.open, || estimate::render(saved, args.bits));
        }
        SavedRun::Matrix(results) => {
            outputs.write(table, |path| results.write_table(path));
            outputs.write_text(svg, || results.figure());
        }
        SavedRun::Select(results) => {
            outputs.write(table, |path| results.write_table(path));
            outputs.write_text(svg, || results.figure());
        }
        SavedRun::Lag(results) => {
            outputs.write(table, |path| results.write_table(path));
            outputs.write_text(svg, || results.figure());
        }
        SavedRun::Transfer(results) => {
            outputs.write(table, |path| results.write_table(path));
            outputs.write_text(svg, || results.figure());
            outputs.write_text(args.graphml.as_ref(), || results.graphml());
        }
        SavedRun::Capacity(record) => {
            outputs.write_text(svg, || capacity::render(record, args.bits))
        }
        SavedRun::Power(record) => outputs.write_text(svg, || power::render(record, args.bits)),
    }
    outputs.finish(|| match &saved {
        SavedRun::Estimate(saved) => summary::print(&saved.record.summary(args.bits)),
        SavedRun::Matrix(results) => results.print(args.bits),
        SavedRun::Select(results) => results.print(args.bits),
        SavedRun::Lag(results) => results.print(args.bits),
        SavedRun::Transfer(results) => results.print(args.bits),
        SavedRun::Capacity(record) => summary::print(&record.summary(args.bits)),
        SavedRun::Power(record) => summary::print(&record.summary(args.bits)),
    })?;
    page.map_or(Ok(()), |page| open_in_browser(&page))
}

/// Returns an error if an output is asked for that these results do not have.
fn refuse_missing_outputs(args: &Report, saved: &SavedRun) -> Outcome {
    let is_estimate = matches!(saved, SavedRun::Estimate(_));
    let is_transfer = matches!(saved, SavedRun::Transfer(_));
    let has_table = !is_estimate && !matches!(saved, SavedRun::Capacity(_) | SavedRun::Power(_));
    let problems = [
        (
            args.html.is_some() && !is_estimate,
            "--html: only estimates have a page; these results have a figure: use --svg FILE.svg",
        ),
        (
            args.open && !is_estimate,
            "--open: only estimates have a page; these results have a figure: use --svg FILE.svg",
        ),
        (
            args.svg.is_some() && is_estimate,
            "--svg: these results are an estimate, which has a page: use --html FILE.html",
        ),
        (args.output.is_some() && !has_table, "--output: these results have no table"),
        (args.graphml.is_some() && !is_transfer, "--graphml: these results are not a network"),
    ];
    match problems.iter().find(|(is_asked, _)| *is_asked) {
        Some((_, problem)) => Err(Failure::Usage(problem.to_string())),
        None => Ok(()),
    }
}

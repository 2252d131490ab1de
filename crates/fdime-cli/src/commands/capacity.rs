use super::estimate::file_names;
use super::{Watch, estimation_engine};
use crate::args::Capacity;
use crate::failure::{Failure, Outcome};
use crate::flags::Flags;
use crate::outputs::{self, NamedFile, Outputs, check_extension};
use crate::report::capacity::render;
use crate::saved::Saved;
use crate::summary;
use fdime::Parameter;
use fdime::data::load_pairs;
use fdime::estimate::{CapacityReport, Effort, channel_capacity};
use std::time::Instant;

/// The flags of this command, whose x and y are the input and the output.
const FLAGS: Flags = Flags { renamed: &[(Parameter::X, "--input"), (Parameter::Y, "--output")] };

pub fn run(args: &Capacity) -> Outcome {
    check_extension("--svg", args.svg.as_ref(), &["svg"])?;
    let inputs: [NamedFile; 1] = [("the table", &args.file)];
    let svg = args.svg.as_deref().map(|path| ("--svg", path));
    outputs::check(&inputs, &Vec::from_iter(svg))?;
    let mut plan = args.estimation.plan(Effort::Default);
    plan.order = args.series.order();
    let start = Instant::now();
    let refused = |error| Failure::new(error, &FLAGS);
    let (input, output) = (Some(args.input.as_str()), args.output.as_deref());
    let table = load_pairs(&args.file, input, output, &args.reading.options()).map_err(refused)?;
    let plan = plan.for_data(&table.x, &table.y);
    let watch = Watch::new("estimating");
    let engine = estimation_engine(&args.estimation.execution)?;
    let capacity =
        channel_capacity(&table.x, &table.y, &plan, &*engine, &watch).map_err(refused)?;
    drop(watch);
    let seconds = start.elapsed().as_secs_f64();
    let file = file_names(&inputs);
    let report = CapacityReport {
        table: &table,
        plan: &plan,
        capacity: &capacity,
        seconds,
        file: Some(&file),
    };

    let record = report.record(&FLAGS);
    let mut outputs = Outputs::default();
    outputs.write_text(args.svg.as_ref(), || render(&record, args.bits));
    outputs.finish(|| match args.json {
        true => Saved::new("capacity", &record).print(),
        false => summary::print(&record.summary(args.bits)),
    })
}

use super::{Watch, estimation_engine};
use crate::args::Power;
use crate::failure::Outcome;
use crate::outputs::{self, Outputs, check_extension};
use crate::report::power::render;
use crate::saved::Saved;
use crate::summary;
use fdime::ScenarioPlan;
use fdime::estimate::{Effort, PowerPlan, PowerRecord, StudySize, power_study};
use std::time::Instant;

pub fn run(args: &Power) -> Outcome {
    check_extension("--svg", args.svg.as_ref(), &["svg"])?;
    let svg = args.svg.as_deref().map(|path| ("--svg", path));
    outputs::check(&[], &Vec::from_iter(svg))?;
    let pairs = args.pairs.unwrap_or(args.dim.0.min(args.dim.1));
    let scenario = ScenarioPlan::new(&args.scenario, pairs)?;
    let size = match &args.rows {
        Some(rows) => StudySize::Rows(rows.clone()),
        None => StudySize::Search(args.power),
    };
    let estimate = args.estimation.plan(Effort::Quick);
    let plan = PowerPlan {
        alpha: args.alpha,
        tables: args.tables,
        ..PowerPlan::new(scenario, args.mi, args.dim, size, estimate)?
    };
    let engine = estimation_engine(&args.estimation.execution)?;
    let start = Instant::now();
    let watch = Watch::new("simulating");
    let study = power_study(&plan, &*engine, &watch)?;
    drop(watch);
    let record = PowerRecord::new(plan, study, start.elapsed().as_secs_f64());
    let mut outputs = Outputs::default();
    outputs.write_text(args.svg.as_ref(), || render(&record, args.bits));
    outputs.finish(|| match args.json {
        true => Saved::new("power", &record).print(),
        false => summary::print(&record.summary(args.bits)),
    })
}

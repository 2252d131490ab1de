//! Compares estimators on a staircase of known mutual information.

use fdime::train::{StaircaseOptions, StaircasePlan};
use fdime::{CpuEngine, Engine, silent, summarise_runs};

fn main() -> fdime::Result<()> {
    let options = StaircaseOptions {
        dim: Some(2),
        hidden: Some(vec![32, 32]),
        levels: Some(fdime::parse_levels("0.5,1")?),
        iterations: Some(400),
        learning_rate: Some(5e-3),
        last: Some(100),
        ..StaircaseOptions::default()
    };
    let plan = StaircasePlan::new(None, &options)?;
    let runs = CpuEngine::new(0).run(&plan.run_plans(), &silent);
    let traces = runs.into_iter().collect::<fdime::Result<Vec<_>>>()?;
    println!("{:10} {:>8} {:>8} {:>8} {:>9}", "estimator", "true MI", "mean", "|bias|", "variance");
    for (estimator, traces) in plan.estimators.iter().zip(traces.chunks(plan.runs)) {
        for summary in summarise_runs(traces, plan.last) {
            let level = summary.level;
            println!(
                "{:10} {:8.3} {:8.3} {:8.3} {:9.4}",
                estimator.name(),
                level.true_mi.0,
                level.mean.0,
                level.bias,
                level.variance
            );
        }
    }
    Ok(())
}

//! Trains f-DIME with a custom divergence, given as a formula in u = p(x,y) / (p(x) p(y)).

use fdime::{
    CpuEngine, CriticKind, CriticPlan, Divergence, Engine, Estimator, Level, RunPlan, ScenarioPlan,
    silent,
};

fn main() -> fdime::Result<()> {
    // Le Cam's divergence, f(u) = (u - 1)^2 / (u + 1). Any convex f works.
    let divergence = Divergence::from_expression("(u-1)^2/(u+1)")?;
    let critic = CriticPlan::new(CriticKind::Deranged, &[32, 32]);
    let scenario = ScenarioPlan::new("gaussian", 2)?;
    let mut plan = RunPlan::new(scenario, Estimator::f_dime(divergence), critic);
    plan.schedule.levels = vec![Level::Mi(1.0)];
    plan.schedule.iterations = 600;
    plan.training.optimizer.learning_rate = 5e-3;
    let trace = CpuEngine::new(0).run(&[plan], &silent).remove(0)?;
    let level = &trace.summarise(100)[0];
    println!("true MI {:.3}, estimate {:.3} nats", level.true_mi.0, level.mean.0);
    Ok(())
}

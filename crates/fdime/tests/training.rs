//! Complete runs: they do not depend on the number of threads, report divergence, and learn.

use fdime::random::{Purpose, stream};
use fdime::train::{CriticLearner, Outcome, Trainer};
use fdime::{
    AdamPlan, AnyEstimator, CpuEngine, CriticKind, CriticPlan, Ending, Engine, LearnerPlan, Level,
    Nats, Observer, PairSource, Pairing, RunPlan, ScenarioPlan, StepRecord, Trace, silent,
};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

fn plan(critic: CriticKind, estimator: &str) -> RunPlan {
    let mut plan = RunPlan::new(
        ScenarioPlan::new("gaussian", 3).unwrap(),
        estimator.parse::<AnyEstimator>().unwrap(),
        CriticPlan { side: 1, ..CriticPlan::new(critic, &[40, 24]) },
    );
    plan.schedule.levels = vec![Level::Mi(1.0), Level::Mi(2.0)];
    plan.schedule.iterations = 30;
    plan
}

/// Returns the plan's critic for a change.
fn critic_of(plan: &mut RunPlan) -> &mut CriticLearner {
    plan.training.learner.critic_mut().unwrap()
}

fn with_seed(mut plan: RunPlan, seed: u64) -> RunPlan {
    plan.training.seed = seed;
    plan
}

fn run(plan: &RunPlan, threads: usize) -> Trace {
    CpuEngine::new(threads).run(std::slice::from_ref(plan), &silent).remove(0).unwrap()
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    for critic in CriticKind::ALL {
        for pairing in Pairing::ALL {
            for (estimator, batch) in [("gan-dime", 300), ("mine", 64), ("cpc", 33)] {
                let mut plan = plan(critic, estimator);
                critic_of(&mut plan).pairing = pairing;
                plan.training.batch = batch;
                plan.schedule.iterations = 6;
                if plan.check().is_err() {
                    continue;
                }
                let one = run(&plan, 1);
                assert_eq!(one.ending, Ending::Completed);
                for threads in [2, 3, 5] {
                    assert_eq!(
                        one,
                        run(&plan, threads),
                        "{critic} {pairing} {estimator} {threads}"
                    );
                }
            }
        }
    }
}

/// Uses more groups of rows than the engine has tasks.
#[test]
fn large_batches_do_not_depend_on_the_number_of_threads() {
    for (critic, pairing) in [
        (CriticKind::Separable, Pairing::Shift),
        (CriticKind::Separable, Pairing::AllPairs),
        (CriticKind::Deranged, Pairing::Derangement),
    ] {
        let mut plan = plan(critic, "gan-dime");
        critic_of(&mut plan).critic.hidden = vec![8];
        critic_of(&mut plan).pairing = pairing;
        (plan.training.batch, plan.schedule.iterations) = (5000, 1);
        assert_eq!(run(&plan, 1), run(&plan, 2), "{critic} {pairing}");
    }
}

#[test]
fn plans_give_the_same_results_together_and_alone() {
    let plans: Vec<RunPlan> =
        (0..5).map(|seed| with_seed(plan(CriticKind::Deranged, "kl-dime"), seed)).collect();
    let together = CpuEngine::new(3).run(&plans, &silent);
    for (plan, trace) in plans.iter().zip(&together) {
        assert_eq!(trace.as_ref().unwrap(), &run(plan, 1));
    }
    assert_ne!(together[0], together[1], "different seeds give different results");
}

/// Pins outputs for a seed. A change here is value-breaking and must be in the changelog.
#[test]
fn seeded_values_are_pinned() {
    let scenario = ScenarioPlan::new("student", 2).unwrap().at(Level::Df(3.0)).unwrap();
    let (mut x, mut y) = (vec![0.0; 4], vec![0.0; 4]);
    scenario.sample(&mut stream(1, Purpose::Data, 2, 3), &mut x, &mut y);
    let rounded = |values: &[f32]| -> Vec<f64> {
        values.iter().map(|v| (f64::from(*v) * 1e4).round() / 1e4).collect()
    };
    assert_eq!(rounded(&x), PINNED_X, "samples");
    assert_eq!(rounded(&y), PINNED_Y, "samples");
    let mut partner = Vec::new();
    let rng = &mut stream(1, Purpose::Pairing, 0, 0);
    Pairing::Derangement.fill(8, rng, &mut partner).unwrap();
    assert_eq!(partner, PINNED_DERANGEMENT);
    // The order of summation depends on the vector unit, so estimates agree up to rounding.
    for ((critic, estimator), pinned) in PINNED_RUNS {
        let trace = run(&plan(critic, estimator), 2);
        let last = trace.steps[trace.steps.len() - 1].estimate.0;
        assert!((last - pinned).abs() < 1e-3, "{critic} {estimator}: {last:.5}, expected {pinned}");
    }
}

const PINNED_X: [f64; 4] = [-0.1991, 0.2299, 1.4121, 1.323];
const PINNED_Y: [f64; 4] = [-0.1729, 1.0089, 1.1982, 0.4983];
const PINNED_DERANGEMENT: [u32; 8] = [7, 6, 4, 5, 3, 0, 2, 1];
const PINNED_RUNS: [((CriticKind, &str), f64); 3] = [
    ((CriticKind::Joint, "kl-dime"), -0.2362),
    ((CriticKind::Separable, "hd-dime"), 0.1023),
    ((CriticKind::Deranged, "gan-dime"), 0.0187),
];

#[test]
fn a_diverged_run_reports_its_iteration_and_no_estimate() {
    let mut plan = plan(CriticKind::Deranged, "pearson-dime");
    plan.schedule.iterations = 2000;
    plan.training.optimizer = AdamPlan { learning_rate: 50.0, ..AdamPlan::default() };
    let trace = run(&plan, 2);
    let Ending::Diverged { iteration } = trace.ending else { panic!("{:?}", trace.ending) };
    assert_eq!(trace.steps.len(), iteration);
    assert!(trace.steps.iter().all(|step| step.estimate.is_finite() && step.value.is_finite()));
}

#[test]
fn an_observer_sees_every_step_and_can_stop_the_run() {
    let plan = plan(CriticKind::Deranged, "gan-dime");
    let stop_at_seven = |_: usize| -> Box<dyn Observer> {
        Box::new(|record: &StepRecord| {
            if record.iteration == 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    };
    let trace = CpuEngine::new(1).run(&[plan], &stop_at_seven).remove(0).unwrap();
    assert_eq!((trace.ending, trace.steps.len()), (Ending::Stopped, 8));
}

/// A training that is stopped before it begins makes no step and still tells that it ended.
#[test]
fn an_observer_can_stop_a_run_before_its_first_step() {
    struct Refuse(mpsc::Sender<Ending>);
    impl Observer for Refuse {
        fn on_begin(&mut self) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
        fn on_step(&mut self, _record: &StepRecord) -> ControlFlow<()> {
            panic!("no step is made")
        }
        fn on_end(&mut self, outcome: &Outcome) {
            self.0.send(outcome.ending).unwrap();
        }
    }
    let (sender, endings) = mpsc::channel();
    let refuse = |_: usize| -> Box<dyn Observer> { Box::new(Refuse(sender.clone())) };
    let plans = vec![plan(CriticKind::Deranged, "gan-dime"); 3];
    for trace in CpuEngine::new(2).run(&plans, &refuse) {
        assert!(trace.unwrap().steps.is_empty());
    }
    assert_eq!(endings.try_iter().collect::<Vec<_>>(), [Ending::Stopped; 3]);
}

/// Each critic with each of the paper's estimators finds one nat to within 0.2 (the standard error
/// of the mean over 300 batches of 128 is about 0.01; fixed seeds).
#[test]
fn every_critic_and_estimator_learns() {
    for critic in CriticKind::ALL {
        for estimator in ["kl-dime", "gan-dime", "hd-dime", "mine", "nwj", "smile-1", "cpc"] {
            let mut plan = plan(critic, estimator);
            if plan.check().is_err() {
                continue;
            }
            plan.training.batch = if critic == CriticKind::Joint { 48 } else { 128 };
            plan.schedule.levels = vec![Level::Mi(1.0)];
            plan.schedule.iterations = 1200;
            plan.training.optimizer.learning_rate = 3e-3;
            let level = run(&plan, 2).summarise(300)[0];
            let error = level.mean.0 - 1.0;
            assert!(error.abs() < 0.2, "{critic} {estimator}: {}", level.mean);
        }
    }
}

#[test]
fn every_scenario_trains_at_every_level() {
    for (name, _) in fdime::ScenarioName::table() {
        let is_planar = ["swiss-roll", "letter-x", "letters-ai"].contains(&name);
        let dim = if is_planar { 1 } else { 2 };
        let mut plan = plan(CriticKind::Deranged, "gan-dime");
        plan.scenario = ScenarioPlan::new(name, dim).unwrap();
        plan.schedule.levels = plan.scenario.default_levels();
        let trace = run(&plan, 1);
        assert_eq!(trace.ending, Ending::Completed, "{name}");
        assert_eq!(trace.true_mi.len(), plan.schedule.levels.len(), "{name}");
    }
}

#[test]
fn independent_variables_have_no_mutual_information() {
    let mut plan = plan(CriticKind::Deranged, "gan-dime");
    plan.schedule.levels = vec![Level::Mi(0.0)];
    plan.schedule.iterations = 600;
    plan.training.batch = 256;
    let level = run(&plan, 2).summarise(200)[0];
    assert_eq!(level.true_mi, Nats(0.0));
    assert!(level.mean.0.abs() < 0.05, "{}", level.mean);
}

/// NJEE on a Gaussian of d = 2. It corrects H(X_1) but no other entropy, which adds
/// (N - 2) / 2N = .484 at N = 64. This is its estimate for independent x and y, and its bias in the
/// paper's tables; trained classifiers are slightly below it.
#[test]
fn njee_finds_dependence_and_has_its_known_bias() {
    let mut plan = plan(CriticKind::Deranged, "njee");
    plan.scenario.dim = 2;
    let LearnerPlan::Njee(njee) = &mut plan.training.learner else { panic!("not NJEE") };
    njee.hidden = vec![64, 64];
    plan.schedule.levels = vec![Level::Mi(0.0), Level::Mi(1.5)];
    plan.schedule.iterations = 1500;
    plan.training.optimizer.learning_rate = 2e-3;
    let levels = run(&plan, 2).summarise(300);
    let means: Vec<f64> = levels.iter().map(|level| level.mean.0).collect();
    assert!((0.46..0.5).contains(&means[0]), "{means:?}");
    assert!((1.6..2.0).contains(&means[1]), "{means:?}");
}

/// Returns whether this thread treats subnormal numbers as zeros.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn flushes_subnormals() -> bool {
    std::hint::black_box(f32::MIN_POSITIVE) * std::hint::black_box(0.5) == 0.0
}

/// Pairs whose sampler checks the mode of its thread.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
struct FlushedSamples;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl PairSource for FlushedSamples {
    fn dims(&self) -> (usize, usize) {
        (1, 1)
    }

    fn sample(&self, _rng: &mut fdime::random::Rng, x: &mut [f32], y: &mut [f32]) {
        assert!(flushes_subnormals(), "samples are drawn in the mode of training");
        x.iter_mut().zip(y).enumerate().for_each(|(k, (x, y))| (*x, *y) = (k as f32, k as f32));
    }
}

/// Subnormal gradients would make trainings on strong dependence many times slower. The mode is
/// that of a thread, so the caller must have its own mode again, also when a training fails.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn subnormals_are_zeros_in_a_training_and_nowhere_else() {
    let plan = plan(CriticKind::Deranged, "gan-dime");
    for threads in [1, 2] {
        let mut trainer = Trainer::new(&plan.training, (1, 1), threads).unwrap();
        let observer = |_: &StepRecord| {
            assert!(flushes_subnormals());
            ControlFlow::Continue(())
        };
        trainer.train(&FlushedSamples, 2, Box::new(observer)).unwrap();
        assert!(!flushes_subnormals());
        let failing = |_: &StepRecord| -> ControlFlow<()> { panic!("on purpose") };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            Trainer::new(&plan.training, (1, 1), threads)?.train(
                &FlushedSamples,
                2,
                Box::new(failing),
            )
        }));
        assert!(outcome.is_err() && !flushes_subnormals());
    }
}

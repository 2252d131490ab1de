//! The CUDA engine against the CPU's. Tests that need a GPU are ignored unless asked for (`./test --gpu`);
//! the kernels are compiled wherever NVRTC is found.

use fdime::critic::{Batch, Reference};
use fdime::engine::cuda::{Precision, compile_kernels, kernel_compiler_found};
use fdime::engine::{CudaEngine, Workers};
use fdime::objective::Objective;
use fdime::random::{Purpose, stream};
use fdime::scores::Scores;
use fdime::{
    Activation, CpuEngine, CriticKind, CriticPlan, Ending, Engine, Level, PairSource, Pairing,
    RunPlan, ScenarioPlan, silent, summarise_runs,
};

fn engine(precision: Precision) -> CudaEngine {
    CudaEngine::new(precision, CpuEngine::new(0), |text| println!("{text}")).unwrap()
}

#[test]
fn kernels_compile() {
    if let Err(reason) = kernel_compiler_found() {
        // ./test installs it and names its folder; it says so when it cannot.
        assert!(std::env::var_os("FDIME_NVRTC").is_none(), "{reason}");
        println!("SKIPPED: {reason}");
        return;
    }
    // Every precision and activation, and both ways to multiply: tf32 on 90 has one of its own.
    for (precision, activation, architecture) in [
        (Precision::Tf32, Activation::Relu, 90),
        (Precision::Tf32, Activation::Elu, 90),
        (Precision::Tf32, Activation::Softplus, 80),
        (Precision::Fp32, Activation::Relu, 80),
        (Precision::Bf16, Activation::Elu, 90),
    ] {
        let image = compile_kernels(precision, activation, architecture).unwrap();
        assert!(image.starts_with(b"\x7fELF"), "{precision:?} {activation} {architecture}");
    }
}

fn plan(critic: CriticKind, pairing: Pairing, estimator: &str, hidden: &[usize]) -> RunPlan {
    let mut plan = RunPlan::new(
        ScenarioPlan::new("gaussian", 3).unwrap(),
        estimator.parse().unwrap(),
        CriticPlan::new(critic, hidden),
    );
    plan.pairing = pairing;
    plan
}

/// A batch of the plan's own scenario.
fn batch(plan: &RunPlan, n: usize) -> Batch {
    let scenario = plan.scenario.at(plan.schedule.levels[0]).unwrap();
    let dims = scenario.dims();
    let (mut x, mut y) = (vec![0.0; n * dims.0], vec![0.0; n * dims.1]);
    scenario.sample(&mut stream(3, Purpose::Data, 0, 0), &mut x, &mut y);
    let mut partner = Vec::new();
    plan.pairing.fill(n, &mut stream(3, Purpose::Pairing, 0, 0), &mut partner).unwrap();
    Batch { n, dims, x, y, partner, reference: Reference::default() }
}

/// |a - b| / |b| over whole vectors.
fn relative(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let difference = square(&mut a.iter().zip(b).map(|(a, b)| f64::from(a - b)));
    (difference / square(&mut b.iter().map(|b| f64::from(*b)))).sqrt()
}

/// An objective whose marginal half has no gradient.
struct JointHalf(Box<dyn Objective>);

impl Objective for JointHalf {
    fn needs_whole_batch(&self) -> bool {
        self.0.needs_whole_batch()
    }
    fn observe(&mut self, scores: Scores<'_>) {
        self.0.observe(scores);
    }
    fn joint(&self, row: usize, scores: &[f32], gradient: &mut [f32]) -> f64 {
        self.0.joint(row, scores, gradient)
    }
    fn marginal(&self, _row: usize, _scores: &[f32], gradient: &mut [f32]) -> f64 {
        gradient.fill(0.0);
        0.0
    }
}

/// How far the GPU is from the CPU.
struct Off {
    /// The value and the estimate, relative to 1 + |them|.
    value: f64,
    estimate: f64,
    /// The gradient, relative to itself.
    gradient: f64,
    /// The gradient, relative to its joint half: at the initial weights the two halves nearly cancel.
    halves: f64,
}

fn off(engine: &CudaEngine, plan: &RunPlan, n: usize) -> Off {
    let mut plan = plan.clone();
    plan.batch = n;
    let batch = batch(&plan, n);
    let threads = CpuEngine::new(0).threads();
    let mut critic = plan.critic.build(batch.dims, n, plan.pairing, plan.seed, threads).unwrap();
    let objective = || plan.estimator.objective(plan.pairing.counts(n)).unwrap();
    let mut pass = |objective: &mut dyn Objective| {
        let value = critic.pass(&batch, objective, &mut Workers::new(threads));
        let estimate = plan.estimator.mutual_information(critic.scores()).0;
        let (parameters, parts) = critic.parameters_and_gradient();
        (value, estimate, parts.sum(parameters.len()))
    };
    let (_, _, half) = pass(&mut JointHalf(objective()));
    let (value, estimate, gradient) = pass(&mut *objective());
    let gpu = engine.pass(&plan, &batch).unwrap();
    let off = |a: f64, b: f64| (a - b).abs() / (1.0 + b.abs());
    let relative = relative(&gpu.gradient, &gradient);
    let norm = |v: &[f32]| v.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
    Off {
        value: off(gpu.value, value),
        estimate: off(gpu.estimate.0, estimate),
        gradient: relative,
        halves: relative * norm(&gradient) / norm(&half),
    }
}

const PAIRINGS: [(CriticKind, Pairing); 6] = [
    (CriticKind::Joint, Pairing::AllPairs),
    (CriticKind::Separable, Pairing::AllPairs),
    (CriticKind::Separable, Pairing::Derangement),
    (CriticKind::Deranged, Pairing::Derangement),
    (CriticKind::Deranged, Pairing::Shift),
    (CriticKind::Deranged, Pairing::Permutation),
];

/// Same parameters, same batch: loss and gradients agree to 1e-5 in fp32 and 1e-3 in tf32 (1e-2 in bf16),
/// for every critic, pairing, objective and activation, for shapes that fill tiles and shapes
/// that do not. Gradients are measured against their joint half: at the initial weights it all but cancels
/// with the marginal half, and the rest is as uncertain as each of them. A ReLU within rounding of its kink
/// is on for one device and off for the other, whatever the kernels; so with ReLU and less than fp32 ten
/// times as much is allowed.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn a_pass_agrees_with_the_cpu_in_fp32() {
    a_pass_agrees(Precision::Fp32, 1e-5);
}

#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn a_pass_agrees_with_the_cpu_in_tf32() {
    a_pass_agrees(Precision::Tf32, 1e-3);
}

#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn a_pass_agrees_with_the_cpu_in_bf16() {
    a_pass_agrees(Precision::Bf16, 1e-2);
}

fn a_pass_agrees(precision: Precision, allowed: f64) {
    let engine = engine(precision);
    let estimators = [
        "gan-dime",
        "kl-dime",
        "hd-dime",
        "alpha-0.5-dime",
        "reverse-kl-dime",
        "pearson-dime",
        "neyman-dime",
        "jeffreys-dime",
        "js-dime",
        "shifted-log-dime",
        "mine",
        "nwj",
        "smile-1",
        "smile-own-0.7",
        "smile-own-inf",
        "cpc",
    ];
    let mut settings: Vec<(RunPlan, usize)> = Vec::new();
    for (critic, pairing) in PAIRINGS {
        for estimator in estimators {
            let mut plan = plan(critic, pairing, estimator, &[40, 24]);
            plan.critic.activation = Activation::Elu;
            settings.push((plan, 37));
        }
        for (n, hidden) in [
            (64, &[256, 256][..]),
            (33, &[10, 6, 14]),
            (50, &[256, 256, 256]),
            (2, &[8, 8]),
            (300, &[300, 270]),
        ] {
            for activation in Activation::ALL {
                let mut plan = plan(critic, pairing, "gan-dime", hidden);
                plan.critic.activation = activation;
                settings.push((plan, n));
            }
        }
    }
    // Large tiles.
    for (critic, pairing, n, estimator) in [
        (CriticKind::Joint, Pairing::AllPairs, 200, "gan-dime"),
        (CriticKind::Joint, Pairing::AllPairs, 201, "cpc"),
        (CriticKind::Joint, Pairing::AllPairs, 201, "mine"),
        (CriticKind::Deranged, Pairing::Shift, 7_001, "gan-dime"),
        (CriticKind::Deranged, Pairing::Derangement, 7_000, "kl-dime"),
        (CriticKind::Separable, Pairing::AllPairs, 7_000, "gan-dime"),
    ] {
        for hidden in [&[256, 256][..], &[256, 256, 256], &[250, 130, 70]] {
            for activation in [Activation::Relu, Activation::Softplus] {
                let mut plan = plan(critic, pairing, estimator, hidden);
                plan.critic.activation = activation;
                settings.push((plan, n));
            }
        }
    }
    settings.retain(|(plan, _)| plan.check().is_ok());
    let mut failed = Vec::new();
    let (mut smooth, mut kinked) = ((0.0f64, String::new()), (0.0f64, String::new()));
    for (plan, n) in &settings {
        let off = off(&engine, plan, *n);
        let relu = plan.critic.activation == Activation::Relu;
        let error = off.value.max(off.estimate).max(off.halves);
        let what = format!(
            "{} {} {} {:?} {} n={n}: value {:.1e} estimate {:.1e} gradient {:.1e} of halves {:.1e}",
            plan.critic.kind,
            plan.pairing,
            plan.estimator,
            plan.critic.hidden,
            plan.critic.activation,
            off.value,
            off.estimate,
            off.gradient,
            off.halves
        );
        // NaN is as far as can be.
        let allowed = if relu && precision != Precision::Fp32 { 10.0 * allowed } else { allowed };
        if !matches!(error.partial_cmp(&allowed), Some(std::cmp::Ordering::Less)) {
            println!("TOO FAR {what}");
            failed.push(what.clone());
        }
        let worst = if relu { &mut kinked } else { &mut smooth };
        if error > worst.0 {
            *worst = (error, what);
        }
    }
    println!("{precision:?}: worst smooth {smooth:?}\n{precision:?}: worst ReLU {kinked:?}");
    assert!(failed.is_empty(), "{} of {} too far", failed.len(), settings.len());
}

/// Statistics of a staircase on both devices: means of 8 runs each lie within 4.5 standard errors of each
/// other (Student's t with 14 degrees of freedom: alpha = 5e-4 for each of 38 comparisons, fixed seeds), and
/// variances over iterations within a factor of 1.7.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn staircases_agree_within_their_noise() {
    let cuda = engine(Precision::Tf32);
    let mut settings = Vec::new();
    for scenario in [
        "gaussian",
        "cubic",
        "half-cube",
        "asinh",
        "swiss-roll",
        "uniform",
        "student",
        "dense-gaussian",
    ] {
        settings.push((scenario, CriticKind::Deranged, Pairing::Derangement, "gan-dime"));
    }
    for (critic, pairing) in PAIRINGS {
        settings.push(("gaussian", critic, pairing, "kl-dime"));
    }
    settings.push(("two-pair-gaussian", CriticKind::Joint, Pairing::AllPairs, "mine"));
    settings.push(("gaussian+spiral-12", CriticKind::Joint, Pairing::AllPairs, "nwj"));
    settings.push((
        "gaussian+wiggle-1+y:wiggle-2",
        CriticKind::Joint,
        Pairing::AllPairs,
        "smile-1",
    ));
    settings.push((
        "gaussian+x:bimodal-1+y:bimodal-2",
        CriticKind::Joint,
        Pairing::AllPairs,
        "cpc",
    ));
    settings.push(("additive-gaussian", CriticKind::Separable, Pairing::AllPairs, "hd-dime"));
    for (scenario, critic, pairing, estimator) in settings {
        let dim = if scenario == "swiss-roll" { 1 } else { 3 };
        let mut plan = plan(critic, pairing, estimator, &[32, 32]);
        plan.scenario = ScenarioPlan::new(scenario, dim).unwrap();
        let levels = plan.scenario.default_levels();
        plan.schedule.levels = levels[..2].to_vec();
        if scenario.contains("gaussian") && !scenario.contains("dense") {
            plan.schedule.levels = vec![Level::Mi(0.5), Level::Mi(1.5)];
        }
        plan.schedule.iterations = 400;
        plan.optimizer.learning_rate = 2e-3;
        let plans: Vec<RunPlan> = (0..8).map(|seed| RunPlan { seed, ..plan.clone() }).collect();
        let summaries = [&CpuEngine::new(0) as &dyn Engine, &cuda].map(|engine| {
            let traces: Vec<_> =
                engine.execute(&plans, &silent).into_iter().map(Result::unwrap).collect();
            assert!(traces.iter().all(|trace| trace.ending == Ending::Completed));
            summarise_runs(&traces, 150)
        });
        for (cpu, gpu) in summaries[0].iter().zip(&summaries[1]) {
            let spread = |s: Option<f64>| s.unwrap().powi(2) / 8.0;
            let error = (spread(cpu.mean_spread) + spread(gpu.mean_spread)).sqrt();
            let off = (cpu.level.mean.0 - gpu.level.mean.0).abs() / error;
            println!(
                "{scenario} {critic} {pairing} {estimator} true {:.3}: cpu {:.4} gpu {:.4}, {off:.1} standard errors; variances {:.5} {:.5}",
                cpu.level.true_mi.0,
                cpu.level.mean.0,
                gpu.level.mean.0,
                cpu.level.variance,
                gpu.level.variance
            );
            assert!(off < 4.5, "{scenario} {critic} {pairing} {estimator}");
            let ratio = cpu.level.variance / gpu.level.variance;
            assert!(
                (0.6..1.7).contains(&ratio),
                "{scenario} {critic} {pairing} {estimator}: {ratio}"
            );
        }
    }
}

/// Plans repeat to the bit; and as long as company does not change how products are cut, as for this small
/// network, it changes nothing.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn a_run_does_not_depend_on_its_company() {
    let engine = engine(Precision::Tf32);
    let mut plans = Vec::new();
    for (seed, estimator) in [(0, "gan-dime"), (1, "mine"), (2, "kl-dime"), (0, "nwj")] {
        let mut plan = plan(CriticKind::Deranged, Pairing::Derangement, estimator, &[32, 32]);
        plan.schedule.iterations = 50;
        plans.push(RunPlan { seed, ..plan });
    }
    let together = engine.execute(&plans, &silent);
    for (plan, together) in plans.iter().zip(&together) {
        let alone = engine.execute(std::slice::from_ref(plan), &silent).remove(0).unwrap();
        assert_eq!(&alone, together.as_ref().unwrap(), "{}", plan.estimator);
    }
    assert_eq!(engine.execute(&plans, &silent), together);
}

/// What does not fit is refused with the size it needs; what has no kernels runs on the CPU.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn limits_are_told() {
    let engine = engine(Precision::Tf32);
    let mut large = plan(CriticKind::Joint, Pairing::AllPairs, "gan-dime", &[256, 256]);
    large.batch = 40_000;
    let error = engine.execute(&[large], &silent).remove(0).unwrap_err().to_string();
    assert!(error.contains("GB") && error.contains("smaller batch"), "{error}");

    let mut custom = plan(CriticKind::Deranged, Pairing::Shift, "f:u*ln(u)", &[8, 8]);
    custom.schedule.iterations = 3;
    let plans =
        [custom.clone(), RunPlan { estimator: "gan-dime".parse().unwrap(), ..custom.clone() }];
    let traces = engine.execute(&plans, &silent);
    let cpu = CpuEngine::new(0).execute(&plans, &silent);
    assert_eq!(traces[0], cpu[0], "the custom one ran on the CPU");
    assert_ne!(traces[1], cpu[1]);
}

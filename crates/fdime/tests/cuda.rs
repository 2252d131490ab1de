//! Compares the CUDA engine with the CPU engine. Tests that need a GPU are ignored unless requested
//! (`./test --gpu`); the kernels are compiled if NVRTC is found. `emulated_gpu/` is a driver and a
//! kernel compiler that execute the kernels on the processor: `./test` runs some of these tests with it,
//! and in minutes to hours it runs all that do not need `wgmma`.

use fdime::critic::{Batch, Inputs, Reference};
use fdime::engine::cuda::{Precision, compile_kernels, kernel_compiler_found};
use fdime::engine::{CudaEngine, Device, Scoring, Task};
use fdime::objective::Objective;
use fdime::parallel::Workers;
use fdime::random::{Purpose, Rng, random_index, stream};
use fdime::scores::{ScoreBlock, Scores};
use fdime::train::{
    BatchSource, Batches, Checkpoint, CriticLearner, HeldOut, LearnerPlan, LearningRateSchedule,
    Outcome, StaircasePlan, StaircaseRun, TableSource,
};
use fdime::{
    Activation, Chain, CpuEngine, CriticKind, CriticPlan, Divergence, DrawnImages, Ending, Engine,
    Estimator, Level, PairSource, Pairing, RunPlan, ScenarioPlan, Trace, Training, silent,
    summarise_runs,
};
use rand::RngExt;
use rand_distr::StandardNormal;

fn engine(precision: Precision) -> CudaEngine {
    CudaEngine::new(precision, CpuEngine::new(0), false, |text| println!("{text}")).unwrap()
}

/// A convex f with every kind of operation and most functions of expressions.
const LONG_DIVERGENCE: &str = "u*ln(u) - .1*log(u) + .1*log2(1/u) - log10(u) + (u-1)^2/100 + u^-2 \
    + .1*exp(-u) - .1*sqrt(u) - .1*cbrt(u) + .01*abs(u) + 1.01*u^2/100 + .001*sin(u)/u \
    - .01*atan(u) + 1e-9*cosh(u/1e4) - .01*asinh(u) + 2^-u + u^(.1*u/(1+u)) + .01*tanh(1/u) \
    - .01*acosh(1+u) - floor(2.5)";

#[test]
fn kernels_compile() {
    if let Err(reason) = kernel_compiler_found() {
        // `./test` installs NVRTC and sets FDIME_NVRTC, or reports that it could not.
        assert!(std::env::var_os("FDIME_NVRTC").is_none(), "{reason}");
        println!("SKIPPED: {reason}");
        return;
    }
    // Every precision and activation, and both kinds of products: only tf32 on 90 uses wgmma.
    for (precision, activation, architecture, divergence) in [
        (Precision::Tf32, Activation::Relu, 90, None),
        (Precision::Tf32, Activation::Softplus, 80, Some(LONG_DIVERGENCE)),
        (Precision::Fp32, Activation::Relu, 80, None),
        (Precision::Bf16, Activation::Elu, 90, None),
    ] {
        let divergence = divergence.map(|f| Divergence::from_expression(f).unwrap());
        let image =
            compile_kernels(precision, activation, architecture, divergence.as_ref()).unwrap();
        assert!(image.starts_with(b"\x7fELF"), "{precision:?} {activation} {architecture}");
    }
}

fn plan(critic: CriticKind, pairing: Pairing, estimator: &str, hidden: &[usize]) -> RunPlan {
    let mut plan = RunPlan::new(
        ScenarioPlan::new("gaussian", 3).unwrap(),
        estimator.parse::<Estimator>().unwrap(),
        CriticPlan::new(critic, hidden),
    );
    plan.training.learner.critic_mut().unwrap().pairing = pairing;
    plan
}

fn learner(plan: &RunPlan) -> &CriticLearner {
    plan.training.learner.critic().unwrap()
}

fn with_seed(mut plan: RunPlan, seed: u64) -> RunPlan {
    plan.training.seed = seed;
    plan
}

/// Returns a batch of the plan's own samples, or of the columns of its term.
fn batch(plan: &RunPlan, n: usize) -> Batch {
    let source = plan.staircase().unwrap();
    let dims = BatchSource::dims(&source);
    let (x, y) = (vec![0.0; n * dims.0], vec![0.0; n * dims.1]);
    let mut partner = Vec::new();
    learner(plan).pairing.fill(n, &mut stream(3, Purpose::Pairing, 0, 0), &mut partner).unwrap();
    let mut batch = Batch { n, dims, x, y, partner, reference: Reference::default() };
    source.open().fill(3, 0, &mut batch, &mut Workers::new(1));
    batch
}

/// Returns |a - b| / |b| for the Euclidean norm.
fn relative_error(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let difference = square(&mut a.iter().zip(b).map(|(a, b)| f64::from(a - b)));
    (difference / square(&mut b.iter().map(|b| f64::from(*b)))).sqrt()
}

/// An objective without the gradient of its marginal half.
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
    fn marginal(&self, _row: usize, _column: usize, _scores: &[f32], gradient: &mut [f32]) -> f64 {
        gradient.fill(0.0);
        0.0
    }
}

/// Differences between GPU and CPU.
struct Errors {
    /// Of value and estimate, relative to 1 + their magnitude.
    value: f64,
    estimate: f64,
    /// Of the gradient, relative to itself.
    gradient: f64,
    /// Of the gradient, relative to its joint half: at the initial weights the halves nearly
    /// cancel.
    halves: f64,
}

/// Compares one step on a batch of `n` rows.
fn compare(engine: &CudaEngine, plan: &RunPlan, n: usize) -> Errors {
    let mut plan = plan.clone();
    plan.training.batch = n;
    let CriticLearner { estimator, critic, pairing } = learner(&plan);
    let batch = batch(&plan, n);
    let threads = CpuEngine::new(0).threads();
    let mut critic = critic.build(batch.dims, n, *pairing, plan.training.seed, threads).unwrap();
    let objective = || estimator.objective(pairing.counts(n));
    let mut pass = |objective: &mut dyn Objective| {
        let value = critic.pass(&batch, objective, &mut Workers::new(threads));
        let estimate = estimator.mutual_information(critic.scores()).0;
        let (parameters, parts) = critic.parameters_and_gradient();
        (value, estimate, parts.sum(parameters.len()))
    };
    let (_, _, half) = pass(&mut JointHalf(objective()));
    let (value, estimate, gradient) = pass(&mut *objective());
    let gpu = engine.pass(&plan, &batch).unwrap();
    let error = |a: f64, b: f64| (a - b).abs() / (1.0 + b.abs());
    let gradient_error = relative_error(&gpu.gradient, &gradient);
    let norm = |v: &[f32]| v.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
    Errors {
        value: error(gpu.value, value),
        estimate: error(gpu.estimate.0, estimate),
        gradient: gradient_error,
        halves: gradient_error * norm(&gradient) / norm(&half),
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

/// With the same parameters and batch, loss and gradients agree to 1e-5 in fp32, 1e-3 in tf32 and
/// 1e-2 in bf16, for every critic, pairing, objective and activation, and for shapes that do or do
/// not fill tiles. Gradients are compared relative to their joint half: at the initial weights it
/// nearly cancels with the marginal half, and the difference is as uncertain as each of them. A
/// ReLU whose input is zero within rounding may be positive on one device only, so with ReLU and
/// less than fp32 the limits are ten times as large.
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

/// A step of every term of a chain agrees as other steps do, for every critic and pairing: terms are
/// narrower than the program that they share, and read only their own columns.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn a_pass_of_a_term_agrees_with_the_cpu() {
    let engine = engine(Precision::Fp32);
    // The blocks differ in size, and their columns are not in order.
    let uneven = Chain::Blocks(vec![vec![3], vec![4, 0], vec![1, 2]]);
    for (critic, pairing) in PAIRINGS {
        for (scenario, chain) in [
            ("gaussian", Chain::Equal(5)),
            ("gaussian", uneven.clone()),
            ("dense-gaussian", Chain::Equal(2)),
        ] {
            for term in chain.terms() {
                let mut plan = plan(critic, pairing, "gan-dime", &[40, 24]);
                plan.training.learner.critic_mut().unwrap().critic.activation = Activation::Elu;
                plan.scenario = ScenarioPlan::new(scenario, 5).unwrap();
                plan.schedule.levels = plan.scenario.default_levels();
                let name = format!("{} {pairing} {scenario} {chain} {term}", critic.name());
                plan.term = Some(term);
                let Errors { value, estimate, halves, .. } = compare(&engine, &plan, 37);
                println!("{name}: value {value:.1e} estimate {estimate:.1e} halves {halves:.1e}");
                assert!([value, estimate, halves].iter().all(|error| *error < 1e-5), "{name}");
            }
        }
    }
}

/// A step of NJEE agrees, for all of its classifiers together. Components with equal values have
/// fewer bins.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn a_pass_of_njee_agrees_with_the_cpu() {
    for (precision, limit) in [(Precision::Fp32, 1e-5), (Precision::Tf32, 1e-3)] {
        let engine = engine(precision);
        for (dim, n, hidden, activation) in [
            (3, 37, &[40, 24][..], Activation::Elu),
            (1, 2, &[8, 8], Activation::Relu),
            (2, 64, &[10], Activation::Softplus),
            (4, 300, &[32, 48, 16], Activation::Elu),
        ] {
            let mut plan = plan(CriticKind::Deranged, Pairing::Shift, "gan-dime", hidden);
            plan.scenario = ScenarioPlan::new("gaussian", dim).unwrap();
            let mut batch = batch(&plan, n);
            batch.partner.clear();
            plan.training.learner = njee(hidden, activation);
            plan.training.batch = n;
            for has_equal_values in [false, true] {
                if has_equal_values {
                    batch.x.iter_mut().for_each(|x| *x = (4.0 * *x).round() / 4.0);
                }
                let Training { learner, seed, .. } = &plan.training;
                let on_cpu = learner.pass(&batch, *seed).unwrap();
                let on_gpu = engine.pass(&plan, &batch).unwrap();
                let error = |a: f64, b: f64| (a - b).abs() / (1.0 + b.abs());
                let value = error(on_gpu.value, on_cpu.value);
                let estimate = error(on_gpu.estimate.0, on_cpu.estimate.0);
                let gradient = relative_error(&on_gpu.gradient, &on_cpu.gradient);
                println!(
                    "{dim} {n} {hidden:?} {precision:?}: {value:.1e} {estimate:.1e} {gradient:.1e}"
                );
                assert!([value, estimate, gradient].iter().all(|error| *error < limit));
            }
        }
    }
}

fn njee(hidden: &[usize], activation: Activation) -> LearnerPlan {
    let critic = CriticPlan { activation, ..CriticPlan::new(CriticKind::Deranged, hidden) };
    LearnerPlan::new(&"njee".parse().unwrap(), &critic)
}

/// A step of a conv critic agrees as other steps do, for images of one and of several channels and
/// for the terms of a chain over their images.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn a_pass_of_convolutions_agrees_with_the_cpu() {
    let engines = [(engine(Precision::Fp32), 1e-5), (engine(Precision::Tf32), 1e-3)];
    for (hidden, side, channels) in
        [(&[8, 12, 16][..], 6, 1), (&[4, 24], 7, 2), (&[32, 64, 40], 28, 1), (&[8, 132, 10], 9, 2)]
    {
        for (pairing, estimator, n) in [
            (Pairing::AllPairs, "cpc", 6),
            (Pairing::AllPairs, "gan-dime", 11),
            (Pairing::Derangement, "kl-dime", 37),
            (Pairing::Shift, "hd-dime", 64),
        ] {
            let chain = Chain::Equal(channels);
            let terms = chain.terms().into_iter().map(Some).chain([None]);
            for term in terms.filter(|term| channels > 1 || term.is_none()) {
                for activation in [Activation::Elu, Activation::Relu] {
                    let mut plan = plan(CriticKind::Conv, pairing, estimator, hidden);
                    plan.scenario = ScenarioPlan::new("gaussian", channels * side * side).unwrap();
                    plan.term = term.clone();
                    let critic = &mut plan.training.learner.critic_mut().unwrap().critic;
                    (critic.side, critic.activation) = (side, activation);
                    for (engine, limit) in &engines {
                        let Errors { value, estimate, halves, .. } = compare(engine, &plan, n);
                        println!(
                            "{hidden:?} {side} {channels} {pairing} {estimator} {activation} \
                             {term:?}: {value:.1e} {estimate:.1e} {halves:.1e}"
                        );
                        // Rounding to tf32 moves outputs across the kink of a ReLU, and one output
                        // is many positions of an image. In fp32 there is no such difference.
                        let kinked = activation == Activation::Relu && *limit > 1e-4;
                        let limit = if kinked { 30.0 * limit } else { *limit };
                        let errors = [value, estimate, halves];
                        assert!(errors.iter().all(|error| *error < limit), "limit {limit}");
                    }
                }
            }
        }
    }
}

/// Six images of 4 x 4 pixels that differ in every pixel. Y shows the top half of X.
struct SixImages(Vec<u8>);

impl SixImages {
    fn new() -> Self {
        SixImages(
            (0..6u8).flat_map(|image| (0..16u8).map(move |pixel| 40 * image + pixel)).collect(),
        )
    }
}

impl PairSource for SixImages {
    fn dims(&self) -> (usize, usize) {
        (16, 16)
    }

    fn sample(&self, rng: &mut Rng, x: &mut [f32], y: &mut [f32]) {
        for (x, y) in x.chunks_exact_mut(16).zip(y.chunks_exact_mut(16)) {
            let image = &self.0[16 * random_index(rng, 6)..][..16];
            x.iter_mut().zip(image).for_each(|(x, byte)| *x = f32::from(*byte) / 255.0);
            y[..8].copy_from_slice(&x[..8]);
            y[8..].fill(0.0);
        }
    }

    fn images(&self) -> Option<DrawnImages<'_>> {
        let x = (0..16).map(Some).collect();
        let y = (0..16).map(|pixel| (pixel < 8).then_some(pixel)).collect();
        Some(DrawnImages { images: &self.0, pixels: 16, x, y })
    }
}

/// The mutual information of an image and its top half is ln 6, on either engine.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn images_are_drawn_on_the_gpu() {
    let source = SixImages::new();
    let engine = engine(Precision::Tf32);
    for (kind, hidden) in [(CriticKind::Conv, [8, 12, 16]), (CriticKind::Deranged, [32, 32, 32])] {
        let plan = plan(kind, Pairing::Derangement, "gan-dime", &hidden);
        let mut training = plan.training.clone();
        training.learner.critic_mut().unwrap().critic.side = 4;
        (training.batch, training.optimizer.learning_rate) = (64, 3e-3);
        let task = Task { training: &training, source: &source, steps: 1500 };
        assert!(matches!(engine.device_for(&task), Device::Cuda { .. }));
        let seeds: Vec<_> = (0..4).map(|seed| Training { seed, ..training.clone() }).collect();
        let tasks: Vec<Task> = seeds.iter().map(|training| Task { training, ..task }).collect();
        for outcome in engine.execute(&tasks, &silent) {
            let steps = outcome.unwrap().steps;
            let last = steps[steps.len() - 200..].iter().map(|step| step.estimate.0);
            let mean = last.sum::<f64>() / 200.0;
            println!("{kind}: {mean:.3}");
            assert!((mean - 6f64.ln()).abs() < 0.1, "{kind}: {mean}");
        }
    }
}

/// Returns plans and batch sizes that cover all kernels.
fn settings() -> Vec<(RunPlan, usize)> {
    let long = format!("f:{LONG_DIVERGENCE}");
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
        "symmetric-cpc",
        "f:u*ln(u)",
        &long,
    ];
    let mut settings: Vec<(RunPlan, usize)> = Vec::new();
    let mut add = |mut plan: RunPlan, activation: Activation, n: usize| {
        plan.training.learner.critic_mut().unwrap().critic.activation = activation;
        settings.push((plan, n));
    };
    for (critic, pairing) in PAIRINGS {
        for estimator in estimators {
            add(plan(critic, pairing, estimator, &[40, 24]), Activation::Elu, 37);
        }
        for (n, hidden) in [
            (64, &[256, 256][..]),
            (33, &[10, 6, 14]),
            (45, &[30]),
            (50, &[256, 256, 256]),
            (2, &[8, 8]),
            (300, &[300, 270]),
        ] {
            for activation in Activation::ALL {
                add(plan(critic, pairing, "gan-dime", hidden), activation, n);
            }
        }
    }
    // Large tiles.
    for (critic, pairing, n, estimator) in [
        (CriticKind::Joint, Pairing::AllPairs, 200, "gan-dime"),
        (CriticKind::Joint, Pairing::AllPairs, 201, "cpc"),
        (CriticKind::Joint, Pairing::AllPairs, 201, "mine"),
        (CriticKind::Joint, Pairing::AllPairs, 201, "symmetric-cpc"),
        (CriticKind::Separable, Pairing::AllPairs, 500, "symmetric-cpc"),
        (CriticKind::Deranged, Pairing::Shift, 7_001, "gan-dime"),
        (CriticKind::Deranged, Pairing::Derangement, 7_000, "kl-dime"),
        (CriticKind::Separable, Pairing::AllPairs, 7_000, "gan-dime"),
    ] {
        for hidden in [&[256, 256][..], &[256, 256, 256], &[250, 130, 70], &[256]] {
            for activation in [Activation::Relu, Activation::Softplus] {
                add(plan(critic, pairing, estimator, hidden), activation, n);
            }
        }
    }
    settings.retain(|(plan, _)| plan.check().is_ok());
    settings
}

fn a_pass_agrees(precision: Precision, limit: f64) {
    let engine = engine(precision);
    let settings = settings();
    let mut failed = 0;
    let (mut smooth, mut kinked) = ((0.0f64, String::new()), (0.0f64, String::new()));
    for (plan, n) in &settings {
        let errors = compare(&engine, plan, *n);
        let CriticLearner { estimator, critic, pairing } = learner(plan);
        let relu = critic.activation == Activation::Relu;
        let error = errors.value.max(errors.estimate).max(errors.halves);
        let description = format!(
            "{} {pairing} {estimator} {:?} {} n={n}: value {:.1e} estimate {:.1e} gradient {:.1e} of halves {:.1e}",
            critic.kind,
            critic.hidden,
            critic.activation,
            errors.value,
            errors.estimate,
            errors.gradient,
            errors.halves
        );
        let limit = if relu && precision != Precision::Fp32 { 10.0 * limit } else { limit };
        // `max` ignores NaN, and NaN is not below the limit.
        let finite = [errors.value, errors.estimate, errors.halves].iter().all(|e| e.is_finite());
        if !(finite && error < limit) {
            println!("TOO FAR {description}");
            failed += 1;
        }
        let worst = if relu { &mut kinked } else { &mut smooth };
        if error > worst.0 {
            *worst = (error, description);
        }
    }
    println!("{precision:?}: worst smooth {smooth:?}\n{precision:?}: worst ReLU {kinked:?}");
    assert_eq!(failed, 0, "of {} settings", settings.len());
}

/// Returns plans of all scenarios and of all critics with their pairings.
fn staircases() -> Vec<RunPlan> {
    let scenarios = [
        "gaussian",
        "cubic",
        "half-cube",
        "asinh",
        "swiss-roll",
        "uniform",
        "student",
        "dense-gaussian",
    ];
    let (joint, all_pairs) = (CriticKind::Joint, Pairing::AllPairs);
    let deranged = (CriticKind::Deranged, Pairing::Derangement);
    let mut settings: Vec<_> =
        scenarios.map(|scenario| (scenario, deranged.0, deranged.1, "gan-dime")).to_vec();
    settings.extend(PAIRINGS.map(|(critic, pairing)| ("gaussian", critic, pairing, "kl-dime")));
    settings.extend([
        ("two-pair-gaussian", joint, all_pairs, "mine"),
        ("gaussian+spiral-12", joint, all_pairs, "nwj"),
        ("gaussian+wiggle-1+y:wiggle-2", joint, all_pairs, "smile-1"),
        ("gaussian+x:bimodal-1+y:bimodal-2", joint, all_pairs, "cpc"),
        ("additive-gaussian", CriticKind::Separable, all_pairs, "hd-dime"),
    ]);
    let staircase = |(scenario, critic, pairing, estimator): (&str, _, _, &str)| {
        let dim = if scenario == "swiss-roll" { 1 } else { 3 };
        let mut plan = plan(critic, pairing, estimator, &[32, 32]);
        plan.scenario = ScenarioPlan::new(scenario, dim).unwrap();
        plan.schedule.levels = plan.scenario.default_levels()[..2].to_vec();
        if scenario.contains("gaussian") && !scenario.contains("dense") {
            plan.schedule.levels = vec![Level::Mi(0.5), Level::Mi(1.5)];
        }
        plan.schedule.iterations = 400;
        plan.training.optimizer.learning_rate = 2e-3;
        plan
    };
    settings.into_iter().map(staircase).collect()
}

/// Asserts that the means of 8 runs on both devices are within 4.5 standard errors of each other
/// (Student's t with 14 degrees of freedom: alpha = 5e-4 for each comparison, fixed seeds), and that
/// variances over iterations are within a factor of 1.7.
fn assert_close(name: &str, cpu: &[Trace], gpu: &[Trace]) {
    let (cpu, gpu) = (summarise_runs(cpu, 150), summarise_runs(gpu, 150));
    assert!(
        cpu.len() == gpu.len() && cpu.iter().chain(&gpu).all(|level| level.runs == 8),
        "{name}"
    );
    for (cpu, gpu) in cpu.iter().zip(&gpu) {
        let squared_error = |spread: Option<f64>| spread.unwrap().powi(2) / 8.0;
        let error = (squared_error(cpu.mean_spread) + squared_error(gpu.mean_spread)).sqrt();
        let distance = (cpu.level.mean.0 - gpu.level.mean.0).abs() / error;
        println!(
            "{name} true {:.3}: cpu {:.4} gpu {:.4}, {distance:.1} standard errors; variances \
             {:.5} {:.5}",
            cpu.level.true_mi.0,
            cpu.level.mean.0,
            gpu.level.mean.0,
            cpu.level.variance,
            gpu.level.variance
        );
        assert!(distance < 4.5, "{name}");
        let ratio = cpu.level.variance / gpu.level.variance;
        assert!((0.6..1.7).contains(&ratio), "{name}: {ratio}");
    }
}

/// Returns the traces of plans that must be completed.
fn completed(engine: &dyn Engine, plans: &[RunPlan]) -> Vec<Trace> {
    let traces: Vec<Trace> = engine.run(plans, &silent).into_iter().map(Result::unwrap).collect();
    assert!(traces.iter().all(|trace| trace.ending == Ending::Completed));
    traces
}

/// The statistics of 38 levels agree.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn staircases_agree_within_their_noise() {
    let cuda = engine(Precision::Tf32);
    for plan in staircases() {
        let CriticLearner { estimator, critic, pairing } = learner(&plan);
        let name = format!("{} {} {pairing} {estimator}", plan.scenario.name, critic.kind);
        let plans: Vec<RunPlan> = (0..8).map(|seed| with_seed(plan.clone(), seed)).collect();
        assert_close(&name, &completed(&CpuEngine::new(0), &plans), &completed(&cuda, &plans));
    }
}

/// NJEE's classifiers are runs of one program; their sum agrees.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn staircases_of_njee_agree_within_their_noise() {
    let mut run = plan(CriticKind::Deranged, Pairing::Shift, "gan-dime", &[16, 16]);
    run.scenario = ScenarioPlan::new("gaussian", 2).unwrap();
    run.schedule.levels = vec![Level::Mi(0.5), Level::Mi(1.5)];
    run.schedule.iterations = 300;
    run.training.learner = njee(&[16, 16], Activation::Relu);
    run.training.batch = 32;
    run.training.optimizer.learning_rate = 5e-3;
    let plans: Vec<RunPlan> = (0..8).map(|seed| with_seed(run.clone(), seed)).collect();
    let cuda = engine(Precision::Tf32);
    let on_gpu = completed(&cuda, &plans);
    assert_close("njee", &completed(&CpuEngine::new(0), &plans), &on_gpu);
    assert_eq!(completed(&cuda, &plans[3..4])[0], on_gpu[3]);
}

/// The sum and every term of a chain agree, with a learning rate that rises and falls, in a scenario
/// whose subtracted terms are not 0.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn chained_staircases_agree_within_their_noise() {
    let cuda = engine(Precision::Tf32);
    for (critic, pairing) in [
        (CriticKind::Deranged, Pairing::Derangement),
        (CriticKind::Joint, Pairing::AllPairs),
        (CriticKind::Separable, Pairing::AllPairs),
    ] {
        let mut run = plan(critic, pairing, "gan-dime", &[32, 32]);
        run.scenario = ScenarioPlan::new("dense-gaussian", 5).unwrap();
        run.schedule.levels = vec![Level::Rho(0.3), Level::Rho(0.6)];
        run.schedule.iterations = 400;
        run.training.optimizer.learning_rate = 2e-3;
        run.training.learning_rate_schedule = LearningRateSchedule::WarmUpAndCosine;
        let staircase =
            StaircasePlan { chain: Some(Chain::Equal(3)), runs: 8, ..StaircasePlan::from(run) };
        staircase.check().unwrap();
        let plans = staircase.run_plans();
        let [cpu, gpu] = [&CpuEngine::new(0) as &dyn Engine, &cuda]
            .map(|engine| staircase.combine(completed(engine, &plans)));
        let sums = |runs: &[StaircaseRun]| -> Vec<Trace> {
            runs.iter().map(|run| run.trace.clone()).collect()
        };
        assert_close(&format!("{critic} sum"), &sums(&cpu), &sums(&gpu));
        for (index, term) in Chain::Equal(3).terms().iter().enumerate() {
            let traces = |runs: &[StaircaseRun]| -> Vec<Trace> {
                runs.iter().map(|run| run.terms[index].trace.clone()).collect()
            };
            assert_close(&format!("{critic} {term}"), &traces(&cpu), &traces(&gpu));
        }
    }
}

/// Plans give the same bits again, alone or together, as long as the number of runs does not change
/// how products are tiled, as for this small network.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn results_do_not_depend_on_other_plans() {
    let engine = engine(Precision::Tf32);
    let mut plans = Vec::new();
    for (seed, estimator) in [(0, "gan-dime"), (1, "mine"), (2, "kl-dime"), (0, "nwj")] {
        let mut plan = plan(CriticKind::Deranged, Pairing::Derangement, estimator, &[32, 32]);
        plan.schedule.iterations = 50;
        plans.push(with_seed(plan, seed));
    }
    let together = engine.run(&plans, &silent);
    for (plan, together) in plans.iter().zip(&together) {
        let alone = engine.run(std::slice::from_ref(plan), &silent).remove(0).unwrap();
        assert_eq!(&alone, together.as_ref().unwrap(), "{}", learner(plan).estimator);
    }
    assert_eq!(engine.run(&plans, &silent), together);
}

/// A plan that does not fit into memory is an error with the required size; a plan that kernels do
/// not support runs on the CPU.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn unsupported_plans_are_reported_or_run_on_the_cpu() {
    let engine = engine(Precision::Tf32);
    let mut large = plan(CriticKind::Joint, Pairing::AllPairs, "gan-dime", &[256, 256]);
    large.training.batch = 40_000;
    let error = engine.run(&[large], &silent).remove(0).unwrap_err().to_string();
    assert!(error.contains("GB") && error.contains("smaller batch"), "{error}");

    let long = format!("f:u*ln(u){}", "+u".repeat(1000));
    let mut custom = plan(CriticKind::Deranged, Pairing::Shift, &long, &[8, 8]);
    custom.schedule.iterations = 3;
    let mut gan = custom.clone();
    gan.training.learner.critic_mut().unwrap().estimator = "gan-dime".parse().unwrap();
    let plans = [custom, gan];
    let traces = engine.run(&plans, &silent);
    let cpu = CpuEngine::new(0).run(&plans, &silent);
    assert_eq!(traces[0], cpu[0], "the long divergence ran on the CPU");
    assert_ne!(traces[1], cpu[1]);
}

/// Correlated Gaussian columns of x and y as a table, with a reference of two numbers.
struct GaussianTable {
    inputs: Inputs,
    train: usize,
}

impl GaussianTable {
    fn new(dims: (usize, usize), train: usize, held_out: usize, width: usize) -> Self {
        let rows = train + held_out;
        let mut rng = stream(5, Purpose::Data, rows as u64, 0);
        let mut normals = |count: usize| -> Vec<f32> {
            (0..count).map(|_| rng.sample::<f32, _>(StandardNormal)).collect()
        };
        let (x, noise) = (normals(rows * dims.0), normals(rows * dims.1));
        let y = noise.iter().enumerate().map(|(at, noise)| {
            let (row, column) = (at / dims.1, at % dims.1);
            0.8 * x[row * dims.0 + column % dims.0] + 0.6 * noise
        });
        let y = y.collect();
        let mut small = |count: usize| -> Vec<f32> {
            normals(count).into_iter().map(|value| 0.3 * value).collect()
        };
        let reference = Reference { width, x: small(rows * width), y: small(rows * width) };
        GaussianTable { inputs: Inputs { dims, x, y, reference }, train }
    }

    fn held_out(&self) -> usize {
        self.inputs.x.len() / self.inputs.dims.0 - self.train
    }

    /// Returns the scores of pairs of held-out rows.
    fn scores(
        &self,
        learner: &CriticLearner,
        best: &Checkpoint,
        pairs: &[(usize, usize)],
    ) -> Vec<f32> {
        let at = |row: usize| (self.train + row) as u32;
        let pairs: Vec<(u32, u32)> = pairs.iter().map(|&(i, j)| (at(i), at(j))).collect();
        let scoring = Scoring {
            critic: &learner.critic,
            parameters: &best.parameters,
            inputs: &self.inputs,
            pairs: &pairs,
        };
        CpuEngine::new(0).scores(&scoring, &|| Ok(())).unwrap()
    }

    /// Returns the objective on the held-out rows, computed on the CPU.
    fn validation(&self, learner: &CriticLearner, best: &Checkpoint) -> f64 {
        let rows = self.held_out();
        let estimator = &learner.estimator;
        if learner.pairing != Pairing::AllPairs {
            let shifted = |k: usize| (0..rows).map(move |i| (i, (i + rows * k / 9) % rows));
            let pairs: Vec<(usize, usize)> = (0..9).flat_map(shifted).collect();
            let mut joint = self.scores(learner, best, &pairs);
            let marginal = joint.split_off(rows);
            return estimator
                .value_and_gradient(&ScoreBlock::Paired { first: 0, joint, marginal })
                .0;
        }
        let size = if learner.critic.kind == CriticKind::Separable { 256 } else { 64 };
        let (mut sum, mut count) = (0.0, 0);
        for first in (0..rows).step_by(size) {
            let block = first..(first + size).min(rows);
            let n = block.len();
            if n < 2 {
                continue;
            }
            let pairs: Vec<(usize, usize)> =
                block.clone().flat_map(|i| block.clone().map(move |j| (i, j))).collect();
            let matrix = self.scores(learner, best, &pairs);
            let value =
                estimator.value_and_gradient(&ScoreBlock::AllPairs { first: 0, n, matrix }).0;
            (sum, count) = (sum + n as f64 * value, count + n);
        }
        sum / count as f64
    }
}

impl BatchSource for GaussianTable {
    fn dims(&self) -> (usize, usize) {
        self.inputs.dims
    }

    fn open(&self) -> Box<dyn Batches + '_> {
        Box::new(RandomRows(self))
    }

    fn table(&self) -> Option<&dyn TableSource> {
        Some(self)
    }
}

impl TableSource for GaussianTable {
    fn training_rows(&self) -> usize {
        self.train
    }

    fn held_out_rows(&self) -> usize {
        self.held_out()
    }

    fn inputs(&self) -> fdime::Result<Inputs> {
        Ok(self.inputs.clone())
    }
}

/// Random training rows, with repetition.
struct RandomRows<'a>(&'a GaussianTable);

impl Batches for RandomRows<'_> {
    fn fill(&mut self, seed: u64, step: u64, batch: &mut Batch, _workers: &mut Workers) {
        let Inputs { dims, x, y, reference } = &self.0.inputs;
        let mut rng = stream(seed, Purpose::Rows, step, 0);
        let rows: Vec<usize> = (0..batch.n).map(|_| random_index(&mut rng, self.0.train)).collect();
        let gathered = |values: &[f32], width: usize| -> Vec<f32> {
            rows.iter().flat_map(|row| values[row * width..][..width].to_vec()).collect()
        };
        (batch.x, batch.y) = (gathered(x, dims.0), gathered(y, dims.1));
        let width = reference.width;
        let (x, y) = (gathered(&reference.x, width), gathered(&reference.y, width));
        batch.reference = Reference { width, x, y };
    }

    fn held_out(&self) -> Option<HeldOut<'_>> {
        let rows = self.0.train as u32..(self.0.train + self.0.held_out()) as u32;
        Some(HeldOut { inputs: &self.0.inputs, rows })
    }
}

/// Returns trainings of every kind of critic on rows of tables.
fn table_trainings() -> Vec<Training> {
    let mut trainings = Vec::new();
    for (kind, estimator, hidden, dropout) in [
        (CriticKind::Deranged, "gan-dime", &[96, 96][..], 0.1),
        (CriticKind::Deranged, "kl-dime", &[40], 0.0),
        (CriticKind::Deranged, "hd-dime", &[128, 128, 128], 0.3),
        (CriticKind::Joint, "smile-1", &[64, 64], 0.0),
        (CriticKind::Joint, "cpc", &[33], 0.0),
        (CriticKind::Separable, "symmetric-cpc", &[64, 64], 0.2),
        (CriticKind::Separable, "gan-dime", &[64], 0.0),
    ] {
        let mut plan = plan(kind, kind.default_pairing(), estimator, hidden);
        let critic = &mut plan.training.learner.critic_mut().unwrap().critic;
        (critic.activation, critic.dropout, critic.zero_output) = (Activation::Elu, dropout, true);
        plan.training.batch = 128;
        plan.training.optimizer.learning_rate = 4e-3;
        plan.training.optimizer.decay = 0.05;
        plan.training.learning_rate_schedule = LearningRateSchedule::WarmUpAndCosine;
        trainings.push(plan.training);
    }
    trainings
}

/// Critics score pairs as on the CPU: with and without a reference, one hidden layer or several.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn scores_agree_with_the_cpu() {
    for (precision, limit) in [(Precision::Fp32, 1e-4), (Precision::Tf32, 1e-2)] {
        let engine = engine(precision);
        for training in table_trainings() {
            for (dims, width) in [((3, 2), 2), ((1, 1), 0), ((40, 7), 5)] {
                let table = GaussianTable::new(dims, 400, 100, width);
                let critic = CriticPlan {
                    zero_output: false,
                    ..training.learner.critic().unwrap().critic.clone()
                };
                let pairing = critic.kind.default_pairing();
                let built = critic.build(dims, 8, pairing, 1, 1).unwrap();
                let parameters = built.parameters().to_vec();
                let mut rng = stream(1, Purpose::Rows, 0, 0);
                let mut row = || random_index(&mut rng, 500) as u32;
                let pairs: Vec<(u32, u32)> = (0..3_001).map(|_| (row(), row())).collect();
                let (inputs, parameters) = (&table.inputs, &parameters[..]);
                let scoring = Scoring { critic: &critic, parameters, inputs, pairs: &pairs };
                let expected = CpuEngine::new(0).scores(&scoring, &|| Ok(())).unwrap();
                let found = engine.scores(&scoring, &|| Ok(())).unwrap();
                let error = relative_error(&found, &expected);
                assert!(error < limit, "{:?} {dims:?} {precision:?}: {error:e}", critic);
            }
        }
    }
}

/// Trainings on tables end with the same objective on held-out rows as on the CPU, up to the spread
/// of seeds; and the objective that the GPU reports is that of the parameters that it returns.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn trainings_on_tables_agree_within_their_noise() {
    const SEEDS: u64 = 12;
    let gpu = engine(Precision::Tf32);
    // 513 held-out rows: one is left over from blocks of 256.
    let table = GaussianTable::new((3, 2), 2_000, 513, 2);
    for training in table_trainings() {
        let learner = training.learner.critic().unwrap();
        let seeded: Vec<Training> =
            (0..SEEDS).map(|seed| Training { seed, ..training.clone() }).collect();
        let task = |training| Task { training, source: &table, steps: 200 };
        let tasks: Vec<Task> = seeded.iter().map(task).collect();
        let run = |engine: &dyn Engine| -> Vec<Checkpoint> {
            let outcomes = engine.execute(&tasks, &silent).into_iter();
            outcomes.map(|outcome| outcome.unwrap().best.unwrap()).collect()
        };
        assert!(tasks.iter().all(|task| matches!(gpu.device_for(task), Device::Cuda { .. })));
        let (on_gpu, on_cpu) = (run(&gpu), run(&CpuEngine::new(0)));
        let name = format!("{} {}", learner.critic.kind, learner.estimator);
        for best in &on_gpu {
            assert_eq!(best.curve.len(), 13, "{name}");
            let expected = table.validation(learner, best);
            let error = (best.validation - expected).abs() / (1.0 + expected.abs());
            assert!(error < 3e-3, "{name}: reported {}, is {expected}", best.validation);
        }
        let mean_and_error = |found: &[Checkpoint]| {
            let n = found.len() as f64;
            let mean = found.iter().map(|best| best.validation).sum::<f64>() / n;
            let square = |best: &Checkpoint| (best.validation - mean).powi(2);
            (mean, found.iter().map(square).sum::<f64>() / (n * (n - 1.0)))
        };
        let ((gpu_mean, gpu_error), (cpu_mean, cpu_error)) =
            (mean_and_error(&on_gpu), mean_and_error(&on_cpu));
        let sigmas = (gpu_mean - cpu_mean).abs() / (gpu_error + cpu_error).sqrt().max(1e-3);
        println!("{name}: GPU {gpu_mean:.4}, CPU {cpu_mean:.4}, {sigmas:.1} sigmas apart");
        assert!(sigmas < 5.0, "{name}");
    }
}

/// A small network that is trained by one thread block, as one of many, makes the same steps as alone,
/// where kernels share a step: the random numbers are the same, and only rounding differs. A batch of
/// 100 pairs is not a multiple of the rows that a block computes at a time.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn thread_blocks_train_like_the_other_kernels() {
    let gpu = engine(Precision::Tf32);
    for (hidden, dims, activation, dropout, pairing) in [
        (&[96, 96][..], (3, 2), Activation::Elu, 0.1, Pairing::Derangement),
        (&[96, 96], (20, 9), Activation::Relu, 0.2, Pairing::Shift),
        (&[96, 96, 96], (1, 1), Activation::Elu, 0.1, Pairing::Derangement),
        (&[96, 96, 96], (30, 2), Activation::Elu, 0.0, Pairing::Derangement),
        (&[128, 128, 128], (1, 1), Activation::Elu, 0.1, Pairing::Derangement),
        (&[128, 128, 128], (40, 8), Activation::Elu, 0.0, Pairing::Derangement),
    ] {
        let table = GaussianTable::new(dims, 1_000, 300, 2);
        let mut training = table_trainings().remove(0);
        let learner = training.learner.critic_mut().unwrap();
        learner.pairing = pairing;
        let critic = &mut learner.critic;
        (critic.hidden, critic.activation, critic.dropout) = (hidden.into(), activation, dropout);
        training.batch = 100;
        let curves = |runs: u64| -> Vec<Vec<f64>> {
            let seeded: Vec<Training> =
                (0..runs).map(|seed| Training { seed, ..training.clone() }).collect();
            let task = |training| Task { training, source: &table, steps: 120 };
            let tasks: Vec<Task> = seeded.iter().map(task).collect();
            let best = |outcome: fdime::Result<Outcome>| outcome.unwrap().best.unwrap();
            let outcomes = gpu.execute(&tasks, &silent).into_iter().map(best);
            let curve =
                |best: Checkpoint| best.curve.iter().map(|point| point.validation).collect();
            outcomes.map(curve).collect()
        };
        let (few, many) = (curves(3), curves(200));
        for (alone, together) in few.iter().zip(&many) {
            let errors: Vec<f64> = alone.iter().zip(together).map(|(a, b)| (a - b).abs()).collect();
            let largest = errors.iter().copied().fold(0.0, f64::max);
            println!("{hidden:?} {dims:?} {activation}: {:.1e}, at most {largest:.1e}", errors[2]);
            assert_eq!(errors.len(), 13);
            assert!(errors[2] < 2e-3 && largest < 2e-2, "{errors:?}");
            assert!(together[12] > together[0] + 0.1, "{together:?}");
        }
    }
}

/// Trainings and scores from many threads run together and do not change each other.
#[test]
#[ignore = "needs an NVIDIA GPU; ./test --gpu runs it"]
fn tables_of_many_threads_run_together() {
    let gpu = engine(Precision::Tf32);
    let tables: Vec<GaussianTable> = (0..40)
        .map(|k| GaussianTable::new((2, 2), 300 + 7 * k, if k == 3 { 1 } else { 60 + k }, k % 3))
        .collect();
    let training = table_trainings().remove(0);
    let run = |table: &GaussianTable| {
        let task = Task { training: &training, source: table, steps: 60 };
        gpu.execute(&[task], &silent).remove(0).unwrap().best
    };
    let alone: Vec<Option<Checkpoint>> = tables.iter().map(run).collect();
    let together = fdime::parallel::run_jobs(tables.len(), tables.len(), |k, _| run(&tables[k]));
    for (k, (alone, together)) in alone.iter().zip(&together).enumerate() {
        match (alone, together) {
            (Some(alone), Some(together)) => {
                let error = (alone.validation - together.validation).abs();
                assert!(error < 0.02, "{k}: {} and {}", alone.validation, together.validation);
            }
            (alone, together) => assert!(k == 3 && alone.is_none() && together.is_none(), "{k}"),
        }
    }
}

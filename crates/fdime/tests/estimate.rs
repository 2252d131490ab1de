//! Estimates from finite data with known mutual information. Seeds are fixed.

use fdime::data::{Column, Values};
use fdime::estimate::{
    ChainChoice, Effort, Estimate, EstimatePlan, Method, NoProgress, Progress, Reliability,
    RowOrder, estimate,
};
use fdime::random::{Purpose, stream};
use fdime::{CpuEngine, Error, Level, ScenarioPlan};
use rand::RngExt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

type Sides = (Vec<Column>, Vec<Column>);

fn columns(letter: &str, values: Vec<Vec<f64>>) -> Vec<Column> {
    let numbered = values.into_iter().enumerate();
    numbered
        .map(|(k, values)| Column {
            name: format!("{letter}{k}"),
            values: Values::Continuous(values),
        })
        .collect()
}

fn sample(scenario: &str, dim: usize, level: Level, rows: usize) -> Sides {
    let scenario = ScenarioPlan::new(scenario, dim).unwrap().at(level).unwrap();
    scenario.table(&mut stream(11, Purpose::Data, 0, 0), rows)
}

fn quick(method: Method) -> EstimatePlan {
    EstimatePlan { permutations: 99, ..EstimatePlan::new(method, Effort::Quick) }
}

fn run(sides: &Sides, plan: &EstimatePlan) -> Estimate {
    run_with_threads(sides, plan, 0)
}

fn run_with_threads((x, y): &Sides, plan: &EstimatePlan, threads: usize) -> Estimate {
    estimate(x, y, plan, &CpuEngine::new(threads), &NoProgress).unwrap()
}

/// A Gaussian, the same with heavy tails, a Student distribution, whose components are
/// uncorrelated, and a uniform distribution.
#[test]
fn estimates_the_mutual_information_of_known_distributions() {
    for (scenario, dim, level, tolerance) in [
        ("gaussian", 2, Level::Mi(0.8), 0.08),
        ("half-cube", 2, Level::Mi(0.8), 0.08),
        ("student", 2, Level::Df(1.0), 0.12),
        ("uniform", 1, Level::Epsilon(0.5), 0.12),
    ] {
        let sides = sample(scenario, dim, level, 2000);
        let result = run(&sides, &quick(Method::Auto));
        let truth = ScenarioPlan::new(scenario, dim).unwrap().at(level).unwrap();
        let error = result.mi.0 - truth.mutual_information().0;
        assert!(error.abs() < tolerance, "{scenario}: {error}");
        assert_eq!(result.independence.unwrap().p_value, 0.01, "{scenario}");
        assert_eq!(result.pointwise.len(), 2000);
    }
}

/// Critics can overfit every training row here; the estimate must not be affected.
#[test]
fn overfitting_does_not_raise_the_estimate() {
    let mut rng = stream(3, Purpose::Data, 0, 0);
    let mut noise = |n: usize| (0..n).map(|_| rng.random_range(-1.0..1.0)).collect::<Vec<f64>>();
    let sides = (
        columns("x", (0..30).map(|_| noise(400)).collect()),
        columns("y", (0..30).map(|_| noise(400)).collect()),
    );
    let result = run(&sides, &quick(Method::Auto));
    assert!(result.mi.0 < 0.02, "{}", result.mi);
    assert!(result.independence.unwrap().p_value > 0.05);
    assert!(result.interval.1.0 > 0.5, "the interval includes what the estimate may have missed");
}

/// Ranks do not change under increasing maps, so neither do estimates that are based on them.
#[test]
fn the_copula_is_invariant_under_increasing_maps() {
    let (x, y) = sample("gaussian", 2, Level::Mi(1.0), 500);
    let mapped: Vec<Column> = y
        .iter()
        .map(|column| {
            let Values::Continuous(values) = &column.values else { panic!() };
            let values = values.iter().map(|v| v.powi(3)).collect();
            Column { name: column.name.clone(), values: Values::Continuous(values) }
        })
        .collect();
    let plan = quick(Method::GaussianCopula);
    let plain = run(&(x.clone(), y), &plan);
    let cubed = run(&(x, mapped), &plan);
    // Scores are interpolated linearly between knots, and a cube is not linear.
    assert!((plain.mi.0 - cubed.mi.0).abs() < 0.02, "{} {}", plain.mi, cubed.mi);
}

/// Categories on one side and on both sides, compared with the exact values.
#[test]
fn estimates_the_mutual_information_of_categories() {
    let mut rng = stream(8, Purpose::Data, 0, 0);
    let (levels, rows) = (4u32, 3000);
    let labels: Vec<String> = (0..levels).map(|k| format!("level {k}")).collect();
    let x: Vec<u32> = (0..rows).map(|_| rng.random_range(0..levels)).collect();
    // y is x in half of the rows and random in the others.
    let y: Vec<u32> = x
        .iter()
        .map(|&x| if rng.random_bool(0.5) { x } else { rng.random_range(0..levels) })
        .collect();
    let column = |codes: Vec<u32>| {
        vec![Column {
            name: "c".into(),
            values: Values::Discrete { codes, labels: labels.clone() },
        }]
    };
    let (same, other) = (0.5 + 0.5 / 4.0, 0.5 / 4.0);
    let truth = 4f64.ln() + same * f64::ln(same) + 3.0 * other * f64::ln(other);
    let both = run(&(column(x.clone()), column(y.clone())), &quick(Method::Auto));
    assert!((both.mi.0 - truth).abs() < 0.06, "{} {truth}", both.mi);
    let noisy = x.iter().map(|&x| f64::from(x) * 10.0 + rng.random_range(0.0..1.0)).collect();
    let one = run(&(columns("x", vec![noisy]), column(y)), &quick(Method::Auto));
    assert!((one.mi.0 - truth).abs() < 0.08, "{} {truth}", one.mi);
    assert!(one.interval.1.0 <= 4f64.ln() + 1e-9, "at most the entropy");
}

/// A class coded as a number is limited to its entropy, and not compared with methods for
/// measurements.
#[test]
fn a_number_with_few_values_is_treated_as_discrete() {
    let (x, _) = sample("gaussian", 1, Level::Mi(1.0), 400);
    let Values::Continuous(values) = &x[0].values else { panic!() };
    let sign = values.iter().map(|value| f64::from(u8::from(*value > 0.0))).collect();
    let result = run(&(x, columns("y", vec![sign])), &quick(Method::GaussianCopula));
    assert!(result.mi.0 <= 2f64.ln() && result.interval.1.0 <= 2f64.ln(), "{:?}", result.interval);
    assert!(result.baselines.gaussian_copula_nats.is_none() && result.baselines.ksg_nats.is_none());
}

/// Results do not depend on the number of threads or the order of trainings.
#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let sides = sample("gaussian", 1, Level::Mi(0.5), 300);
    let with = |threads| run_with_threads(&sides, &quick(Method::Auto), threads);
    let (one, three) = (with(1), with(3));
    assert!(one.pointwise == three.pointwise && one.folds == three.folds);
}

/// The smallest tables give a finite estimate with every row order and method.
#[test]
fn tiny_and_degenerate_tables_give_finite_estimates() {
    for rows in [20, 33] {
        let sides = sample("gaussian", 3, Level::Mi(1.0), rows);
        for method in ["auto", "copula", "ksg", "cpc", "mine"] {
            for folds in [2, 5] {
                let mut plan = quick(method.parse().unwrap());
                plan.folds = folds;
                let result = run(&sides, &plan);
                assert!(result.mi.is_finite() && result.interval.1.is_finite(), "{method} {rows}");
            }
        }
        let mut plan = quick(Method::Auto);
        plan.order = RowOrder::Series { gap: 0 };
        assert!(run(&sides, &plan).mi.is_finite());
    }
    let (x, _) = sample("gaussian", 1, Level::Mi(1.0), 100);
    let huge = columns("y", vec![(0..100).map(|k| 1e300 * f64::from(k).sin()).collect()]);
    assert!(run(&(x.clone(), huge), &quick(Method::Auto)).mi.is_finite());
    let nearly = columns("y", vec![(0..100).map(|k| f64::from(u8::from(k == 7))).collect()]);
    assert!(run(&(x.clone(), nearly), &quick(Method::Auto)).mi.is_finite());
    let equal = run(&(x.clone(), x), &quick(Method::Auto));
    let reasons: Vec<&str> = equal.verdict.reasons.iter().map(|r| r.code).collect();
    assert_eq!(reasons, ["deterministic"], "near ln n as well, which would be no help");
}

/// Two independent autoregressive series look dependent to a test that treats rows as exchangeable,
/// but not with contiguous folds and circular shifts.
#[test]
fn autocorrelation_is_not_mistaken_for_dependence() {
    let mut rng = stream(21, Purpose::Data, 0, 0);
    let mut walk = || {
        let mut at = 0.0;
        (0..2000)
            .map(|_| {
                at = 0.98 * at + rng.random_range(-1.0..1.0);
                at
            })
            .collect::<Vec<f64>>()
    };
    let sides = (columns("x", vec![walk()]), columns("y", vec![walk()]));
    let exchangeable = run(&sides, &quick(Method::Auto));
    assert_eq!(exchangeable.independence.unwrap().p_value, 0.01, "a false positive");
    assert_eq!(exchangeable.verdict.reliability, Reliability::Doubtful);
    assert!(exchangeable.verdict.reasons.iter().any(|reason| reason.code == "serial-dependence"));
    let mut plan = quick(Method::Auto);
    plan.order = RowOrder::AutomaticSeries;
    let RowOrder::Series { gap } = plan.for_data(&sides.0, &sides.1).order else { panic!() };
    // Twice (1 + .98^2)/(1 - .98^2) = 49.5 rows.
    assert!((50..=150).contains(&gap), "{gap}");
    let series = run(&sides, &plan);
    // So short a series is tested without critics, in the same way for every method.
    let portfolio = EstimatePlan::new(Method::GaussianCopula, Effort::Quick).portfolio;
    let copula = EstimatePlan { method: Method::GaussianCopula, portfolio, ..plan };
    assert_eq!(run(&sides, &copula).independence, series.independence);
    assert!(series.independence.unwrap().p_value > 0.05);
    // 2,000 rows are worth about 40 independent ones.
    assert!(series.mi.0 < 0.05, "{}", series.mi);
}

/// The chain rule is exact, so a method that is exact gives the same with a chain: the copula of a
/// Gaussian, over y and, where y has too few columns, over x. The y here depend on each other, so
/// terms are subtracted.
#[test]
fn a_chain_adds_up_to_the_direct_estimate() {
    let (x, y) = sample("dense-gaussian", 4, Level::Mi(1.2), 3000);
    let single = (x.clone(), y[..1].to_vec());
    for (sides, side) in [((x, y), "y"), (single, "x")] {
        let mut plan = quick(Method::GaussianCopula);
        let direct = run(&sides, &plan);
        plan.chain = ChainChoice::Blocks(3);
        let chained = run(&sides, &plan);
        let chain = chained.chain.unwrap();
        assert_eq!((chain.side.as_str(), chain.blocks.len(), chain.terms.len()), (side, 3, 5));
        assert_eq!(chain.direct_nats, direct.mi);
        let signed = chain.terms.iter().map(|t| if t.is_added { t.mi_nats } else { -t.mi_nats });
        assert!((signed.sum::<f64>() - chained.unclipped.0).abs() < 1e-9);
        assert!(chain.shared_nats() > 0.1, "{}", chain.shared_nats());
        assert!((chained.mi.0 - direct.mi.0).abs() < 0.02, "{} {}", chained.mi, direct.mi);
        let mean = chained.pointwise.iter().sum::<f64>() / chained.pointwise.len() as f64;
        assert!((mean - chained.unclipped.0).abs() < 1e-9);
    }
}

/// Small tables of categories are counted, unless a chain is requested. Here x1 is in y1, x2 is in y2,
/// and x1 and x2 are independent, so both ways the information is 2 ln 2.
#[test]
fn a_requested_chain_is_for_categories_too() {
    let bit = |name: &str, shift: u32| {
        let codes = (0..800u32).map(|row| row >> shift & 1).collect();
        let labels = vec!["a".to_string(), "b".to_string()];
        Column { name: name.into(), values: Values::Discrete { codes, labels } }
    };
    let sides = (vec![bit("x1", 0), bit("x2", 1)], vec![bit("y1", 0), bit("y2", 1)]);
    let mut plan = quick(Method::Auto);
    assert!(run(&sides, &plan).chain.is_none());
    plan.chain = ChainChoice::Blocks(2);
    let chained = run(&sides, &plan);
    assert_eq!(chained.chain.as_ref().unwrap().blocks, [["y1"], ["y2"]]);
    assert!((chained.mi.0 - 4f64.ln()).abs() < 0.05, "{}", chained.mi);
}

/// Four columns of uniform noise, 4 x 1.45 nats: too much for critics to learn at once from so few
/// rows, so the chain finds more, and no more than the truth.
#[test]
fn a_chain_finds_what_a_direct_estimate_misses() {
    let epsilon = 0.15f64;
    let truth = 4.0 * (epsilon - (2.0 * epsilon).ln());
    let mut rng = stream(5, Purpose::Data, 0, 0);
    let mut uniform = |range: f64| (0..1000).map(|_| rng.random_range(-range..range)).collect();
    let x: Vec<Vec<f64>> = (0..4).map(|_| uniform(0.5)).collect();
    let noisy = |x: &Vec<f64>, noise: Vec<f64>| x.iter().zip(noise).map(|(x, n)| x + n).collect();
    let y = x.iter().map(|x| noisy(x, uniform(epsilon))).collect();
    let sides = (columns("x", x), columns("y", y));
    let mut plan = quick(Method::Auto);
    plan.chain = ChainChoice::Auto;
    let result = run(&sides, &plan);
    let chain = result.chain.as_ref().expect("more than a third of ln n");
    assert_eq!(chain.blocks, [["y0"], ["y1"], ["y2"], ["y3"]]);
    assert!(result.mi.0 > chain.direct_nats.0 + 0.3, "{} {}", result.mi, chain.direct_nats);
    assert!(result.interval.0.0 < truth, "{:?} {truth}", result.interval);
    assert!(chain.shared_nats().abs() < 0.05, "{}", chain.shared_nats());
}

/// Little information needs no chain, and a discrete side limits it anyway.
#[test]
fn a_chain_is_used_only_where_it_may_help() {
    let mut plan = quick(Method::GaussianCopula);
    plan.chain = ChainChoice::Auto;
    assert!(run(&sample("gaussian", 3, Level::Mi(1.0), 500), &plan).chain.is_none());
    assert!(run(&sample("gaussian", 1, Level::Mi(4.0), 500), &plan).chain.is_none());
    plan.chain = ChainChoice::Blocks(4);
    let (x, y) = sample("gaussian", 3, Level::Mi(1.0), 500);
    let error = estimate(&x, &y, &plan, &CpuEngine::new(1), &NoProgress).unwrap_err().to_string();
    assert!(error.contains("chain = 4") && error.contains("at most 3"), "{error}");
    plan.method = Method::Ksg;
    let error = estimate(&x, &y, &plan, &CpuEngine::new(1), &NoProgress).unwrap_err().to_string();
    assert!(error.contains("ksg"), "{error}");
}

/// A progress that returns `Break` ends the estimate.
#[test]
fn an_estimate_can_be_stopped() {
    struct StopImmediately;
    impl Progress for StopImmediately {
        fn begin(&self, total: u64) {
            assert!(total > 0);
        }
        fn advance(&self, _units: u64) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    let (x, y) = sample("gaussian", 1, Level::Mi(0.5), 100);
    let stopped = estimate(&x, &y, &quick(Method::Auto), &CpuEngine::new(2), &StopImmediately);
    assert_eq!(stopped.err(), Some(Error::Interrupted));
}

/// Ends an estimate after some checks.
struct StopAfter {
    checks: usize,
    made: AtomicUsize,
}

impl Progress for StopAfter {
    fn begin(&self, _total: u64) {}

    fn advance(&self, _units: u64) -> ControlFlow<()> {
        match self.made.fetch_add(1, Ordering::Relaxed) < self.checks {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }
}

/// At every stage of an estimate a check that fails ends it; jobs that wait make one more check each.
#[test]
fn an_estimate_can_be_stopped_at_every_stage() {
    let (x, y) = sample("gaussian", 4, Level::Mi(0.5), 100);
    let mut series = quick(Method::GaussianCopula);
    series.order = RowOrder::Series { gap: 1 };
    for plan in [quick(Method::GaussianCopula), quick(Method::Ksg), series] {
        let run = |checks: usize| {
            let progress = StopAfter { checks, made: AtomicUsize::new(0) };
            let result = estimate(&x, &y, &plan, &CpuEngine::new(1), &progress);
            (result.err(), progress.made.into_inner())
        };
        let (error, all) = run(usize::MAX);
        assert_eq!(error, None);
        for checks in (0..all).step_by(all / 40 + 1).chain([all - 1]) {
            let (error, made) = run(checks);
            assert_eq!(error, Some(Error::Interrupted), "{checks} of {all} checks");
            assert!(made <= checks + 50, "{made} checks, {checks} expected");
        }
    }
}

#[test]
fn invalid_plans_are_refused_with_the_parameter() {
    let (x, y) = sample("gaussian", 1, Level::Mi(0.5), 100);
    let refused = |change: &dyn Fn(&mut EstimatePlan)| {
        let mut plan = quick(Method::Auto);
        change(&mut plan);
        estimate(&x, &y, &plan, &CpuEngine::new(1), &NoProgress).err().unwrap().to_string()
    };
    assert!(refused(&|plan| plan.folds = 1).contains("folds"));
    assert!(refused(&|plan| plan.folds = 26).contains("folds"));
    assert!(refused(&|plan| plan.permutations = 1).contains("permutations"));
    assert!(refused(&|plan| plan.order = RowOrder::Series { gap: 50 }).contains("blocks"));
    assert!(refused(&|plan| plan.portfolio.recipes.clear()).contains("recipe"));
    let series_of_all_pairs = refused(&|plan| {
        plan.method = "cpc".parse().unwrap();
        plan.order = RowOrder::Series { gap: 2 };
    });
    assert!(series_of_all_pairs.contains("cpc"), "{series_of_all_pairs}");
}

//! Conditional mutual information: theory, calibration and refusals.

use fdime::data::{Column, Values};
use fdime::estimate::{
    ChainChoice, Effort, Estimate, EstimatePlan, Method, NoProgress, estimate_given,
};
use fdime::random::{Purpose, stream};
use fdime::{CpuEngine, Error, MutualInformation, TaskTable, tasks_named};
use rand_distr::{Distribution, StandardNormal};

fn numbers(name: &str, values: Vec<f64>) -> Column {
    Column { name: name.into(), values: Values::Continuous(values) }
}

/// x = f(z) + e, y = g(z) + e' with errors of variance 1/4 and correlation `rho`, so that
/// I(x; y | z) = -1/2 ln(1 - rho^2).
struct Triple {
    x: Vec<f64>,
    y: Vec<f64>,
    z: Vec<f64>,
}

fn triple(rows: usize, rho: f64, f: fn(f64) -> f64, g: fn(f64) -> f64, seed: u64) -> Triple {
    let mut rng = stream(seed, Purpose::Data, 0, 0);
    let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
    let mut triple = Triple { x: Vec::new(), y: Vec::new(), z: Vec::new() };
    for _ in 0..rows {
        let (z, a, b) = (normal(), normal(), normal());
        triple.x.push(f(z) + 0.5 * a);
        triple.y.push(g(z) + 0.5 * (rho * a + (1.0 - rho * rho).sqrt() * b));
        triple.z.push(z);
    }
    triple
}

fn plan(method: Method) -> EstimatePlan {
    EstimatePlan { permutations: 199, ..EstimatePlan::new(method, Effort::Quick) }
}

fn run(triple: &Triple, method: Method) -> Estimate {
    let column = |name: &str, values: &Vec<f64>| [numbers(name, values.clone())];
    let (x, y, z) = (column("x", &triple.x), column("y", &triple.y), column("z", &triple.z));
    estimate_given(&x, &y, &z, &plan(method), &CpuEngine::new(0), &NoProgress).unwrap()
}

/// I(x; y | z) does not depend on what z adds to x and y, although I(x; y) does.
#[test]
fn what_is_given_does_not_count() {
    let truth = -0.5 * (1.0 - 0.7f64.powi(2)).ln();
    let functions: [fn(f64) -> f64; 2] = [|_| 0.0, |z| 2.0 * (3.0 * z).sin()];
    for f in functions {
        let result = run(&triple(800, 0.7, f, |z| z * z, 1), Method::Auto);
        assert!((result.mi.0 - truth).abs() < 0.1, "{} is not {truth}", result.mi);
        let (low, high) = result.interval;
        assert!(low.0 < truth && truth < high.0, "{low} to {high}");
        assert!(result.independence.unwrap().p_value < 0.01);
        assert_eq!(result.pointwise.len(), 800);
    }
}

/// A common cause makes x and y dependent, but not given the cause.
#[test]
fn a_common_cause_is_explained_away() {
    let result = run(&triple(600, 0.0, |z| 2.0 * z, |z| z + z * z, 2), Method::Auto);
    let given = result.given.unwrap();
    assert!(given.unconditional_nats.0 > 0.5, "{}", given.unconditional_nats);
    assert!(result.mi.0 < 0.02, "{}", result.mi);
    assert!(result.independence.unwrap().p_value > 0.01, "alpha of .01, fixed seed");
    assert!(given.explained_x.unwrap() > 0.9 && given.explained_y.unwrap() > 0.8);
}

/// y tells nothing about x alone, and everything together with z: x = sign(y z).
#[test]
fn a_dependence_that_only_z_reveals_is_found() {
    let Triple { y, z, x: noise } = triple(1000, 0.0, |_| 0.0, |_| 0.0, 3);
    let x = y.iter().zip(&z).zip(&noise).map(|((y, z), e)| (y * z).signum() + 0.2 * e).collect();
    let result = run(&Triple { x, y, z }, Method::Auto);
    assert!(result.given.unwrap().unconditional_nats.0 < 0.05);
    assert!(result.mi.0 > 0.3, "{} of ln 2", result.mi);
}

/// Of 30 tests at 10%, at most 10 reject (alpha of about 1e-4, fixed seeds).
#[test]
fn the_test_is_calibrated_where_z_explains_all() {
    let p = |seed: u64| {
        let triple = triple(150, 0.0, |z| (2.0 * z).tanh(), |z| (2.0 * z).sin(), seed);
        run(&triple, Method::GaussianCopula).independence.unwrap().p_value
    };
    let rejected = (100..130).filter(|&seed| p(seed) <= 0.1).count();
    assert!(rejected <= 10, "{rejected}");
}

/// Categories are compared within the levels of z.
#[test]
fn categories_can_be_given() {
    let Triple { x, y, z } = triple(500, 0.0, |_| 0.0, |_| 0.0, 4);
    let codes: Vec<u32> = z.iter().map(|z| u32::from(*z > 0.0)).collect();
    let shift = |values: Vec<f64>| -> Vec<f64> {
        values.iter().zip(&codes).map(|(value, code)| value + 3.0 * f64::from(*code)).collect()
    };
    let (x, y) = ([numbers("x", shift(x))], [numbers("y", shift(y))]);
    let labels = vec!["low".into(), "high".into()];
    let z = [Column { name: "z".into(), values: Values::Discrete { codes, labels } }];
    let plan = plan(Method::Auto);
    let result = estimate_given(&x, &y, &z, &plan, &CpuEngine::new(0), &NoProgress).unwrap();
    assert!(result.given.unwrap().unconditional_nats.0 > 0.4);
    assert!(result.mi.0 < 0.03, "{}", result.mi);
    assert!(result.independence.unwrap().p_value > 0.01, "alpha of .01, fixed seed");
}

/// The columns that critics see may differ between folds: a prediction from z is one of them only if
/// it explains something.
#[test]
fn tables_with_many_columns_and_few_rows_are_estimated() {
    let tasks = tasks_named("conditional").unwrap();
    for task in tasks.iter().filter(|task| task.name().ends_with("x20")) {
        let table = task.table(&mut stream(1000, Purpose::Data, 0, 0), 500).unwrap();
        let plan = EstimatePlan { seed: 1000, ..plan(Method::GaussianCopula) };
        let TaskTable { x, y, given, .. } = &table;
        let result = estimate_given(x, y, given, &plan, &CpuEngine::new(0), &NoProgress).unwrap();
        assert_eq!(result.pointwise.len(), 500, "{}", task.name());
    }
}

#[test]
fn a_column_that_z_determines_is_doubtful() {
    let Triple { y, z, .. } = triple(400, 0.0, |_| 0.0, |_| 0.0, 5);
    let x: Vec<f64> = z.iter().map(|z| z.powi(3) + z).collect();
    let verdict = run(&Triple { x, y, z }, Method::GaussianCopula).verdict;
    assert!(verdict.reasons.iter().any(|reason| reason.code == "determined-by-given"));
}

#[test]
fn impossible_requests_are_refused() {
    let Triple { x, y, z } = triple(100, 0.0, |_| 0.0, |_| 0.0, 6);
    let refusal = |request: MutualInformation| -> String { request.run().unwrap_err().to_string() };
    let between = || MutualInformation::between(&x, &y);
    let error = refusal(between().given(&z).method(Method::Ksg));
    assert!(error.contains("ksg") && error.contains("given"), "{error}");
    let error = refusal(between().given(&z).chain(ChainChoice::Blocks(2)));
    assert!(error.contains("chain"), "{error}");
    assert!(refusal(between().given(z[..99].to_vec())).contains("'z' has 99"));
    assert!(refusal(between().given(vec![1.0; 100])).contains("the same value"));
    let empty = estimate_given(
        &[numbers("x", x.clone())],
        &[numbers("y", y.clone())],
        &[],
        &plan(Method::Auto),
        &CpuEngine::new(1),
        &NoProgress,
    );
    assert!(matches!(empty, Err(Error::Columns { .. })));
}

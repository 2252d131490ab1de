//! Gradients are checked against finite differences in f64, and the engine against the reference.

mod common;

use common::{ReferenceScores, every_estimator, score, value};
use fdime::critic::{Batch, Critic};
use fdime::objective::Cost;
use fdime::parallel::Workers;
use fdime::random::{Purpose, stream};
use fdime::scores::{ScoreBlock, Scores};
use fdime::{
    Activation, CriticKind, CriticPlan, Estimator, Level, Link, PairSource, Pairing, ScenarioPlan,
};

/// Returns every kind of critic with the pairings that it supports.
fn settings() -> Vec<(CriticKind, Pairing)> {
    CriticKind::ALL
        .into_iter()
        .flat_map(|kind| Pairing::ALL.map(|pairing| (kind, pairing)))
        .filter(|(kind, pairing)| kind.check_pairing(*pairing).is_ok())
        .collect()
}

fn batch(n: usize, dims: (usize, usize), pairing: Pairing, seed: u64) -> Batch {
    let dim = dims.0.max(dims.1);
    let scenario = ScenarioPlan::new("gaussian", dim).unwrap().at(Level::Mi(1.0)).unwrap();
    let (mut x, mut y) = (vec![0.0; n * dim], vec![0.0; n * dim]);
    scenario.sample(&mut stream(seed, Purpose::Data, 0, 0), &mut x, &mut y);
    let first_columns = |rows: Vec<f32>, keep: usize| -> Vec<f32> {
        rows.chunks_exact(dim).flat_map(|row| row[..keep].to_vec()).collect()
    };
    let mut partner = Vec::new();
    pairing.fill(n, &mut stream(seed, Purpose::Pairing, 0, 0), &mut partner).unwrap();
    Batch {
        n,
        dims,
        x: first_columns(x, dims.0),
        y: first_columns(y, dims.1),
        partner,
        reference: fdime::critic::Reference::default(),
    }
}

fn pass(
    critic: &mut dyn Critic,
    estimator: &Estimator,
    batch: &Batch,
    pairing: Pairing,
    threads: usize,
) -> (f64, Vec<f32>) {
    let mut objective = estimator.objective(pairing.counts(batch.n));
    let value = critic.pass(batch, &mut *objective, &mut Workers::new(threads));
    let (parameters, gradient) = critic.parameters_and_gradient();
    (value, gradient.sum(parameters.len()))
}

/// Compares dJ/ds of every objective, link and layout with finite differences of the definitions.
#[test]
fn objective_gradients() {
    let number = |k: usize| ((k * 37 % 29) as f32 - 14.0) * 0.13;
    let numbers = |range: std::ops::Range<usize>| -> Vec<f32> { range.map(number).collect() };
    let all_pairs = ScoreBlock::AllPairs { first: 0, n: 5, matrix: numbers(0..25) };
    let paired = ScoreBlock::Paired { first: 0, joint: numbers(0..5), marginal: numbers(5..10) };
    for estimator in every_estimator() {
        for link in Link::ALL {
            let estimator = estimator.clone().with_link(link);
            for block in [&all_pairs, &paired] {
                let all_pairs_only =
                    matches!(estimator.cost(), Cost::InfoNce | Cost::SymmetricInfoNce);
                if all_pairs_only && matches!(block, ScoreBlock::Paired { .. }) {
                    continue;
                }
                check_score_gradients(&estimator, block);
            }
        }
    }
}

fn check_score_gradients(estimator: &Estimator, block: &ScoreBlock) {
    let blocks = std::slice::from_ref(block);
    let mut objective = estimator.objective(Scores(blocks).counts());
    objective.observe(Scores(blocks));
    let mut fast_value = objective.constant();
    let mut reference = ReferenceScores::from_blocks(blocks);
    let name = format!("{estimator}, link {}", estimator.link());
    let difference = |at: &mut ReferenceScores, pick: &dyn Fn(&mut ReferenceScores) -> &mut f64| {
        let (h, center) = (1e-5, *pick(at));
        *pick(at) = center + h;
        let above = value(estimator, at);
        *pick(at) = center - h;
        let below = value(estimator, at);
        *pick(at) = center;
        (above - below) / (2.0 * h)
    };
    let assert_close = |fast: f32, exact: f64, what: String| {
        let error = (f64::from(fast) - exact).abs();
        assert!(error < 2e-5 * (1.0 + exact.abs()), "{name}, {what}: {fast}, expected {exact}");
    };
    let mut position = vec![0; reference.joint.len()];
    block.visit(|kind, row, run| {
        let mut gradient = vec![f32::NAN; run.len()];
        match kind {
            fdime::scores::PairKind::Joint => {
                fast_value += objective.joint(row, run, &mut gradient);
                for (k, g) in gradient.iter().enumerate() {
                    let exact = difference(&mut reference, &|s| &mut s.joint[row + k]);
                    assert_close(*g, exact, format!("joint {}", row + k));
                }
            }
            fdime::scores::PairKind::Marginal => {
                // The run to the left of the diagonal starts at column 0.
                let column = if position[row] == 0 && row > 0 { 0 } else { row + 1 };
                fast_value += objective.marginal(row, column, run, &mut gradient);
                for (k, g) in gradient.iter().enumerate() {
                    let paired = matches!(block, ScoreBlock::Paired { .. });
                    let row = if paired { row + k } else { row };
                    let at = position[row];
                    position[row] += 1;
                    let exact = difference(&mut reference, &|s| &mut s.marginal[row][at]);
                    assert_close(*g, exact, format!("marginal {row}, {at}"));
                }
            }
        }
    });
    let exact = value(estimator, &reference);
    assert!(
        (fast_value - exact).abs() < 2e-5 * (1.0 + exact.abs()),
        "{name}: {fast_value} {exact}"
    );
}

/// Compares the engine's scores, value and directional derivatives with the reference in f64, for
/// every objective, link, critic and pairing.
#[test]
fn critic_gradients() {
    for (kind, pairing) in settings() {
        for estimator in every_estimator() {
            if estimator.check_pairing(pairing).is_err() {
                continue;
            }
            for link in Link::ALL {
                let plan = CriticPlan { embedding: 3, side: 1, ..CriticPlan::new(kind, &[6, 5]) };
                // A smooth activation, because finite differences are wrong at kinks.
                let plan = CriticPlan { activation: Activation::Softplus, ..plan };
                check_critic(&plan, pairing, &estimator.clone().with_link(link), (3, 2), 7);
            }
        }
    }
}

/// Covers the shapes that the engine treats differently: more pairs than a chunk, several groups,
/// widths that do not fill a vector register; and every activation.
#[test]
fn critic_gradients_at_larger_shapes() {
    let estimator: Estimator = "gan-dime".parse().unwrap();
    for (kind, pairing) in settings() {
        for activation in Activation::ALL {
            for (n, hidden) in [(5, vec![1]), (37, vec![70, 9]), (150, vec![33, 16, 12])] {
                if kind == CriticKind::Conv && hidden.len() < 2 {
                    continue;
                }
                let plan = CriticPlan { activation, side: 1, ..CriticPlan::new(kind, &hidden) };
                check_critic(&plan, pairing, &estimator, (2, 4), n);
                if kind == CriticKind::Conv {
                    let plan = CriticPlan { parts: 2, ..plan };
                    check_critic(&plan, pairing, &estimator, (2, 4), n);
                }
            }
        }
    }
}

fn check_critic(
    plan: &CriticPlan,
    pairing: Pairing,
    estimator: &Estimator,
    dims: (usize, usize),
    n: usize,
) {
    let name = format!("{} {pairing} {estimator} {} n={n}", plan.kind, estimator.link());
    let batch = batch(n, dims, pairing, 3);
    let mut critic = plan.build(dims, n, pairing, 5, 2).unwrap();
    let (fast_value, gradient) = pass(&mut *critic, estimator, &batch, pairing, 2);

    let parameters: Vec<f64> = critic.parameters().iter().map(|&p| f64::from(p)).collect();
    let at = |parameters: &[f64]| {
        value(estimator, &ReferenceScores::from_critic(plan, parameters, &batch, pairing))
    };
    let exact = at(&parameters);
    assert!(
        (fast_value - exact).abs() < 1e-4 * (1.0 + exact.abs()),
        "{name}: {fast_value} {exact}"
    );

    let fast = ReferenceScores::from_blocks(critic.scores().0);
    for i in (0..n).step_by(n / 4 + 1) {
        let exact = score(plan, &parameters, &batch, i, i);
        assert!((fast.joint[i] - exact).abs() < 1e-4 * (1.0 + exact.abs()), "{name}: score {i}");
    }

    // Directions: the gradient itself, and each third of the parameters with alternating signs.
    let norm = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
    let along: Vec<f64> = gradient.iter().map(|g| f64::from(*g) / (norm + 1e-30)).collect();
    let size = parameters.len();
    let pieces = (0..3).map(|piece| -> Vec<f64> {
        let within = |k: usize| k * 3 / size == piece;
        (0..size).map(|k| if within(k) { 1.0 - 2.0 * (k % 2) as f64 } else { 0.0 }).collect()
    });
    for (index, direction) in [along].into_iter().chain(pieces).enumerate() {
        let h = 1e-6;
        let moved = |by: f64| -> Vec<f64> {
            parameters.iter().zip(&direction).map(|(p, d)| p + by * d).collect()
        };
        let difference = (at(&moved(h)) - at(&moved(-h))) / (2.0 * h);
        let analytic: f64 = gradient.iter().zip(&direction).map(|(g, d)| f64::from(*g) * d).sum();
        let scale = norm * direction.iter().map(|d| d * d).sum::<f64>().sqrt();
        assert!(
            (analytic - difference).abs() < 1e-3 * scale + 1e-5,
            "{name}, direction {index}: {analytic}, expected {difference}"
        );
    }
}

//! The reference implementation: networks and costs in f64, written from their definitions, one
//! pair at a time.

use fdime::critic::Batch;
use fdime::objective::Cost;
use fdime::scores::{PairKind, ScoreBlock, Scores};
use fdime::{Activation, CriticKind, CriticPlan, Estimator, Pairing};

/// Returns the output of a fully connected network with the library's parameter layout: for each
/// layer the weights (inputs x outputs, row-major), then the bias.
fn network(
    parameters: &[f64],
    inputs: &[f64],
    hidden: &[usize],
    outputs: usize,
    activation: Activation,
) -> Vec<f64> {
    let widths: Vec<usize> = hidden.iter().copied().chain([outputs]).collect();
    let (mut values, mut rest) = (inputs.to_vec(), parameters);
    for (layer, &width) in widths.iter().enumerate() {
        let (weights, after) = rest.split_at(values.len() * width);
        let (bias, after) = after.split_at(width);
        rest = after;
        values = (0..width)
            .map(|o| {
                let z = bias[o]
                    + values
                        .iter()
                        .enumerate()
                        .map(|(i, v)| v * weights[i * width + o])
                        .sum::<f64>();
                if layer + 1 < widths.len() { activation.value(z) } else { z }
            })
            .collect();
    }
    values
}

/// Returns the number of parameters of such a network.
fn network_size(inputs: usize, hidden: &[usize], outputs: usize) -> usize {
    let widths: Vec<usize> =
        [inputs].into_iter().chain(hidden.iter().copied()).chain([outputs]).collect();
    widths.windows(2).map(|pair| (pair[0] + 1) * pair[1]).sum()
}

/// Returns the convolutional critic's score of one part for an image of a single pixel.
fn conv_score(plan: &CriticPlan, parameters: &[f64], mut values: Vec<f64>) -> f64 {
    let CriticPlan { hidden, activation, .. } = plan;
    let mut rest = parameters;
    for (layer, &width) in hidden.iter().chain([&1]).enumerate() {
        let convolution = layer + 1 < hidden.len();
        let taps = if convolution { 25 } else { 1 };
        let (own, after) = rest.split_at((taps * values.len() + 1) * width);
        let (weights, bias) = own.split_at(taps * values.len() * width);
        let middle = &weights[taps / 2 * values.len() * width..][..values.len() * width];
        let flat = [middle, bias].concat();
        values = network(&flat, &values, &[], width, *activation);
        if layer < hidden.len() {
            values.iter_mut().for_each(|value| *value = activation.value(*value));
        }
        rest = after;
    }
    values[0]
}

/// Returns the score of (x_i, y_j).
pub fn score(plan: &CriticPlan, parameters: &[f64], batch: &Batch, i: usize, j: usize) -> f64 {
    let row = |data: &[f32], k: usize| -> Vec<f64> {
        let dim = data.len() / batch.n;
        data[k * dim..(k + 1) * dim].iter().map(|&v| f64::from(v)).collect()
    };
    let (x, y) = (row(&batch.x, i), row(&batch.y, j));
    let CriticPlan { hidden, activation, embedding, .. } = plan;
    match plan.kind {
        CriticKind::Joint | CriticKind::Deranged => {
            network(parameters, &[x, y].concat(), hidden, 1, *activation)[0]
        }
        // In an image of one pixel, only the middle of each 5 x 5 window is inside.
        CriticKind::Conv => {
            assert_eq!(plan.side, 1);
            let part = |k: usize| {
                let slice = |values: &[f64]| {
                    let size = values.len() / plan.parts;
                    values[k * size..(k + 1) * size].to_vec()
                };
                conv_score(plan, parameters, [slice(&x), slice(&y)].concat())
            };
            (0..plan.parts).map(part).sum()
        }
        CriticKind::Separable => {
            let (g, h) = parameters.split_at(network_size(x.len(), hidden, *embedding));
            let g = network(g, &x, hidden, *embedding, *activation);
            let h = network(h, &y, hidden, *embedding, *activation);
            g.iter().zip(h).map(|(g, h)| g * h).sum()
        }
    }
}

/// Joint scores, and the marginal scores of every row.
pub struct ReferenceScores {
    pub joint: Vec<f64>,
    pub marginal: Vec<Vec<f64>>,
}

impl ReferenceScores {
    /// Evaluates the critic on every pair.
    pub fn from_critic(
        plan: &CriticPlan,
        parameters: &[f64],
        batch: &Batch,
        pairing: Pairing,
    ) -> Self {
        let score = |i, j| score(plan, parameters, batch, i, j);
        ReferenceScores {
            joint: (0..batch.n).map(|i| score(i, i)).collect(),
            marginal: (0..batch.n)
                .map(|i| match pairing {
                    Pairing::AllPairs => {
                        (0..batch.n).filter(|&j| j != i).map(|j| score(i, j)).collect()
                    }
                    _ => vec![score(i, batch.partner[i] as usize)],
                })
                .collect(),
        }
    }

    /// Copies the scores of the library.
    pub fn from_blocks(blocks: &[ScoreBlock]) -> Self {
        let n = Scores(blocks).counts().joint;
        let mut scores = ReferenceScores { joint: vec![0.0; n], marginal: vec![Vec::new(); n] };
        for block in blocks {
            let paired = matches!(block, ScoreBlock::Paired { .. });
            block.visit(|kind, row, run| {
                for (k, &s) in run.iter().enumerate() {
                    match kind {
                        PairKind::Joint => scores.joint[row + k] = f64::from(s),
                        PairKind::Marginal => {
                            scores.marginal[if paired { row + k } else { row }].push(f64::from(s));
                        }
                    }
                }
            });
        }
        scores
    }
}

fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    sum / count
}

/// Returns the cost of an estimator. For MINE it is the cost of the first batch, whose moving
/// average is its own partition function; the gradient is then that of Donsker-Varadhan.
pub fn value(estimator: &Estimator, scores: &ReferenceScores) -> f64 {
    let link = |s: &f64| estimator.link().log_ratio(*s);
    let joint = || scores.joint.iter().map(link);
    let marginal = || scores.marginal.iter().flatten().map(link);
    match estimator.cost() {
        Cost::FDivergence(d) => mean(joint().map(|l| d.a(l))) - mean(marginal().map(|l| d.b(l))),
        Cost::MovingAverage => mean(joint()) - mean(marginal().map(f64::exp)).ln(),
        Cost::Clipped { tau } => {
            mean(joint()) - mean(marginal().map(|l| l.clamp(-tau, *tau).exp())).ln()
        }
        Cost::InfoNce => info_nce(&matrix(scores, &link)),
        Cost::SymmetricInfoNce => {
            let rows = matrix(scores, &link);
            let n = rows.len();
            let columns: Vec<Vec<f64>> =
                (0..n).map(|j| rows.iter().map(|row| row[j]).collect()).collect();
            0.5 * (info_nce(&rows) + info_nce(&columns))
        }
    }
}

/// Returns the log ratios of all pairs, row by row.
fn matrix(scores: &ReferenceScores, link: &dyn Fn(&f64) -> f64) -> Vec<Vec<f64>> {
    let rows = scores.joint.iter().zip(&scores.marginal).enumerate();
    rows.map(|(i, (joint, marginal))| {
        let mut row: Vec<f64> = marginal.iter().map(link).collect();
        row.insert(i, link(joint));
        row
    })
    .collect()
}

/// Returns the mean over i of ln(e^{l_ii} / mean_j e^{l_ij}).
fn info_nce(rows: &[Vec<f64>]) -> f64 {
    let term = |(i, row): (usize, &Vec<f64>)| row[i] - mean(row.iter().map(|l| l.exp())).ln();
    mean(rows.iter().enumerate().map(term))
}

/// Returns one estimator of every kind.
pub fn every_estimator() -> Vec<Estimator> {
    let table = fdime::Divergence::TABLE.into_iter().map(Estimator::f_dime);
    let named = [
        "mine",
        "nwj",
        "smile-1",
        "smile-inf",
        "smile-own-0.7",
        "smile-own-inf",
        "cpc",
        "symmetric-cpc",
        "f:u*ln(u)",
    ];
    table.chain(named.map(|name| name.parse().unwrap())).collect()
}

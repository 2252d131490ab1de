//! Scores of given pairs, without gradients.

use super::separable::networks;
use super::{CHUNK, CriticKind, CriticPlan, Inputs};
use crate::nn::{Mlp, MlpScratch, dot};

/// The network of a trained critic, ready to score pairs of rows. Not for the conv critic.
pub(crate) enum PairScorer {
    /// One network over pairs: the joint and the deranged critic.
    Pairs(Box<Forward>),
    /// The separable critic's networks of x and of y.
    Separable(Box<[Forward; 2]>),
}

/// A network with its activations.
pub(crate) struct Forward {
    mlp: Mlp,
    scratch: MlpScratch,
}

impl Forward {
    fn new(mlp: Mlp) -> Self {
        Forward { scratch: mlp.scratch(CHUNK), mlp }
    }

    /// Returns the outputs of all items, row-major. `fill` writes the input of an item; an error of
    /// `tick` ends the computation.
    fn outputs<T, E>(
        &mut self,
        parameters: &[f32],
        items: &[T],
        fill: impl Fn(&T, &mut [f32]),
        tick: &impl Fn() -> Result<(), E>,
    ) -> Result<Vec<f32>, E> {
        let layers = self.mlp.layers();
        let (inputs, outputs) = (self.mlp.width(0), self.mlp.width(layers));
        let mut all = Vec::with_capacity(items.len() * outputs);
        for chunk in items.chunks(CHUNK) {
            tick()?;
            let rows = self.scratch.activations[0].chunks_exact_mut(inputs);
            rows.zip(chunk).for_each(|(row, item)| fill(item, row));
            self.mlp.forward(parameters, 0, chunk.len(), None, &mut self.scratch);
            all.extend(&self.scratch.activations[layers][..chunk.len() * outputs]);
        }
        Ok(all)
    }
}

impl PairScorer {
    pub(crate) fn new(plan: &CriticPlan, (x_dim, y_dim): (usize, usize)) -> Self {
        match plan.kind {
            CriticKind::Separable => {
                PairScorer::Separable(Box::new(networks(plan, (x_dim, y_dim)).map(Forward::new)))
            }
            _ => {
                let mlp = Mlp::new(x_dim + y_dim, &plan.hidden, 1, plan.activation);
                PairScorer::Pairs(Box::new(Forward::new(mlp)))
            }
        }
    }

    /// Returns the scores of (x_i, y_j), including the reference, for all given (i, j). `tick` is
    /// called at intervals; its error ends the computation.
    pub(crate) fn scores<E>(
        &mut self,
        parameters: &[f32],
        inputs: &Inputs,
        pairs: impl Iterator<Item = (u32, u32)>,
        tick: impl Fn() -> Result<(), E>,
    ) -> Result<Vec<f32>, E> {
        let pairs: Vec<(u32, u32)> = pairs.collect();
        let mut scores = match self {
            PairScorer::Pairs(network) => {
                let x_dim = inputs.dims.0;
                let fill = |&(i, j): &(u32, u32), row: &mut [f32]| {
                    row[..x_dim].copy_from_slice(inputs.x_row(i));
                    row[x_dim..].copy_from_slice(inputs.y_row(j));
                };
                network.outputs(parameters, &pairs, fill, &tick)?
            }
            PairScorer::Separable(networks) => {
                separable_scores(networks, parameters, inputs, &pairs, &tick)?
            }
        };
        if inputs.reference.width > 0 {
            for (score, &(i, j)) in scores.iter_mut().zip(&pairs) {
                *score += inputs.reference.log_ratio(i as usize, j as usize);
            }
        }
        Ok(scores)
    }
}

/// Embeds every row that is part of a pair once, and returns the inner products.
fn separable_scores<E>(
    [g, h]: &mut [Forward; 2],
    parameters: &[f32],
    inputs: &Inputs,
    pairs: &[(u32, u32)],
    tick: &impl Fn() -> Result<(), E>,
) -> Result<Vec<f32>, E> {
    let embedding = g.mlp.width(g.mlp.layers());
    let (of_g, of_h) = parameters.split_at(g.mlp.parameter_count());
    let x = Used::new(pairs.iter().map(|pair| pair.0));
    let y = Used::new(pairs.iter().map(|pair| pair.1));
    let g_x = g.outputs(of_g, &x.rows, |&i, row| row.copy_from_slice(inputs.x_row(i)), tick)?;
    let h_y = h.outputs(of_h, &y.rows, |&j, row| row.copy_from_slice(inputs.y_row(j)), tick)?;
    let range = |at: u32| at as usize * embedding..(at as usize + 1) * embedding;
    let score = |&(i, j): &(u32, u32)| {
        let (i, j) = (x.position[i as usize], y.position[j as usize]);
        dot(&g_x[range(i)], &h_y[range(j)])
    };
    Ok(pairs.iter().map(score).collect())
}

/// The distinct rows of one side of pairs, and the position of each among them.
struct Used {
    rows: Vec<u32>,
    position: Vec<u32>,
}

impl Used {
    fn new(rows: impl Iterator<Item = u32> + Clone) -> Self {
        let count = rows.clone().max().map_or(0, |largest| largest as usize + 1);
        let mut used = Used { rows: Vec::new(), position: vec![u32::MAX; count] };
        for row in rows {
            let position = &mut used.position[row as usize];
            if *position == u32::MAX {
                *position = used.rows.len() as u32;
                used.rows.push(row);
            }
        }
        used
    }
}

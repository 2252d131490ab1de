//! Scores of given pairs, without gradients.

use super::{CHUNK, CriticPlan, Inputs};
use crate::nn::{Mlp, MlpScratch};

/// A trained joint or deranged critic's network, ready to score pairs of rows.
pub(crate) struct PairScorer {
    mlp: Mlp,
    scratch: MlpScratch,
}

impl PairScorer {
    pub(crate) fn new(plan: &CriticPlan, (x_dim, y_dim): (usize, usize)) -> Self {
        let mlp = Mlp::new(x_dim + y_dim, &plan.hidden, 1, plan.activation);
        PairScorer { scratch: mlp.scratch(CHUNK), mlp }
    }

    /// Returns the scores of (x_i, y_j), including the reference, for all given (i, j).
    pub(crate) fn scores(
        &mut self,
        parameters: &[f32],
        inputs: &Inputs,
        pairs: impl Iterator<Item = (u32, u32)>,
    ) -> Vec<f32> {
        let (x_dim, y_dim) = inputs.dims;
        let mut scores = Vec::new();
        let mut chunk = Vec::with_capacity(CHUNK);
        let mut pairs = pairs.peekable();
        while pairs.peek().is_some() {
            chunk.clear();
            chunk.extend(pairs.by_ref().take(CHUNK));
            let rows = self.scratch.activations[0].chunks_exact_mut(x_dim + y_dim);
            for (row, &(i, j)) in rows.zip(&chunk) {
                row[..x_dim].copy_from_slice(&inputs.x[i as usize * x_dim..][..x_dim]);
                row[x_dim..].copy_from_slice(&inputs.y[j as usize * y_dim..][..y_dim]);
            }
            self.mlp.forward(parameters, 0, chunk.len(), None, &mut self.scratch);
            let outputs = &self.scratch.activations[self.mlp.layers()];
            scores.extend(chunk.iter().zip(outputs).map(|(&(i, j), score)| {
                let reference = match inputs.reference.width {
                    0 => 0.0,
                    _ => inputs.reference.log_ratio(i as usize, j as usize),
                };
                score + reference
            }));
        }
        scores
    }
}

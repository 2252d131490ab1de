//! Trained models, which assign a log density ratio to pairs of rows.

use super::inputs::InputMap;
use super::recipe::CriticRecipe;
use crate::critic::{Inputs, PairScorer};
use crate::data::Column;
use crate::objective::Estimator;
use crate::parallel::never;

/// A trained critic with the maps that compute its inputs.
#[derive(Clone, Debug)]
pub struct Member {
    /// The recipe that it was trained with.
    pub recipe: CriticRecipe,
    /// The maps from columns to inputs.
    pub map: InputMap,
    /// The network's parameters.
    pub parameters: Vec<f32>,
    /// Its share in the model's log ratio.
    pub weight: f64,
}

/// The critics of one fold: l = min(sum of weight * l of each, limit) - offset.
#[derive(Clone, Debug)]
pub struct FoldModel {
    /// The critics.
    pub members: Vec<Member>,
    /// The largest possible sum; infinite unless log ratios are normalised.
    pub limit: f64,
    /// The offset that makes the mean log ratio of the fold's test rows equal to the readout: the
    /// mean log normaliser for `auto`, 0 for f-DIME. MINE, SMILE and CPC learn the log ratio only
    /// up to a constant, which differs between folds.
    pub offset: f64,
}

impl Member {
    /// Returns the log ratios of pairs of rows of the inputs. `tick` is called at intervals; its
    /// error ends the computation.
    pub fn log_ratios<E>(
        &self,
        estimator: &Estimator,
        inputs: &Inputs,
        pairs: impl Iterator<Item = (u32, u32)>,
        tick: impl Fn() -> Result<(), E>,
    ) -> Result<Vec<f32>, E> {
        let plan = self.recipe.learner(estimator).critic;
        let mut scores =
            PairScorer::new(&plan, inputs.dims).scores(&self.parameters, inputs, pairs, tick)?;
        scores.iter_mut().for_each(|score| *score = estimator.link().log_ratio(*score));
        Ok(scores)
    }
}

impl FoldModel {
    /// Returns the log ratios of these rows of a table.
    pub fn log_ratios(
        &self,
        estimator: &Estimator,
        x: &[Column],
        y: &[Column],
        rows: &[u32],
    ) -> Vec<f32> {
        let joint: Vec<(u32, u32)> = (0..rows.len() as u32).map(|place| (place, place)).collect();
        let Ok(ratios) = self.pair_log_ratios(estimator, x, y, rows, &joint, never);
        ratios
    }

    /// Returns the log ratios of the x of one row and the y of another: pairs of positions among
    /// these rows of a table. `tick` is called at intervals; its error ends the computation.
    pub(super) fn pair_log_ratios<E>(
        &self,
        estimator: &Estimator,
        x: &[Column],
        y: &[Column],
        rows: &[u32],
        pairs: &[(u32, u32)],
        tick: impl Fn() -> Result<(), E>,
    ) -> Result<Vec<f32>, E> {
        let mut sums = vec![0f32; pairs.len()];
        for member in &self.members {
            let inputs = member.map.apply(x, y, rows);
            let ratios = member.log_ratios(estimator, &inputs, pairs.iter().copied(), &tick)?;
            for (sum, ratio) in sums.iter_mut().zip(ratios) {
                *sum += member.weight as f32 * ratio;
            }
        }
        let (limit, offset) = (self.limit as f32, self.offset as f32);
        sums.iter_mut().for_each(|sum| *sum = sum.min(limit) - offset);
        Ok(sums)
    }
}

//! Trained models, which assign a log density ratio to pairs of rows.

use super::inputs::InputMap;
use super::recipe::CriticRecipe;
use crate::critic::Inputs;
use crate::data::Column;
use crate::engine::{Engine, Scoring};
use crate::error::Result;
use crate::objective::Estimator;
use crate::parallel::Tick;

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
    pub(super) fn log_ratios(
        &self,
        estimator: &Estimator,
        inputs: &Inputs,
        pairs: &[(u32, u32)],
        engine: &dyn Engine,
        tick: Tick,
    ) -> Result<Vec<f32>> {
        let critic = &self.recipe.learner(estimator).critic;
        let scoring = Scoring { critic, parameters: &self.parameters, inputs, pairs };
        let mut scores = engine.scores(&scoring, tick)?;
        scores.iter_mut().for_each(|score| *score = estimator.link().log_ratio(*score));
        Ok(scores)
    }
}

impl FoldModel {
    /// Returns the log ratios of these rows of a table.
    pub(super) fn log_ratios(
        &self,
        estimator: &Estimator,
        x: &[Column],
        y: &[Column],
        rows: &[u32],
        engine: &dyn Engine,
        tick: Tick,
    ) -> Result<Vec<f32>> {
        let joint: Vec<(u32, u32)> = (0..rows.len() as u32).map(|place| (place, place)).collect();
        self.pair_log_ratios(estimator, (x, y), rows, &joint, engine, tick)
    }

    /// Returns the log ratios of the x of one row and the y of another: pairs of positions among
    /// these rows of a table. `tick` is called at intervals; its error ends the computation.
    pub(super) fn pair_log_ratios(
        &self,
        estimator: &Estimator,
        (x, y): (&[Column], &[Column]),
        rows: &[u32],
        pairs: &[(u32, u32)],
        engine: &dyn Engine,
        tick: Tick,
    ) -> Result<Vec<f32>> {
        let mut sums = vec![0f32; pairs.len()];
        for member in &self.members {
            let inputs = member.map.apply(x, y, rows);
            let ratios = member.log_ratios(estimator, &inputs, pairs, engine, tick)?;
            for (sum, ratio) in sums.iter_mut().zip(ratios) {
                *sum += member.weight as f32 * ratio;
            }
        }
        let (limit, offset) = (self.limit as f32, self.offset as f32);
        sums.iter_mut().for_each(|sum| *sum = sum.min(limit) - offset);
        Ok(sums)
    }
}

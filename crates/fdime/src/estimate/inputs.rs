//! Maps from columns to the inputs of a critic: scaled features and a reference log ratio.

use super::recipe::{CriticRecipe, ReferenceKind};
use super::scaling::{Scaling, SideScaler};
use crate::baseline::CanonicalModel;
use crate::critic::{Inputs, Reference};
use crate::data::Column;
use crate::error::Result;
use crate::parallel::Tick;
use serde::{Deserialize, Serialize};

/// The maximum number of rows that maps are fitted to. More rows would not make quantiles and
/// correlations noticeably more precise.
const MAX_ROWS_TO_FIT: usize = 100_000;

/// The maximum number of inputs that are computed between two checks.
const MAX_BLOCK_INPUTS: usize = 1_000_000;

/// The maps of both sides, fitted on training rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputMap {
    /// The map of x.
    pub x: SideScaler,
    /// The map of y.
    pub y: SideScaler,
    /// The log ratio that the critic starts from.
    pub reference: Option<GaussianReference>,
}

/// A Gaussian model of the continuous columns, or of their normal scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GaussianReference {
    x: SideScaler,
    y: SideScaler,
    model: CanonicalModel,
}

impl GaussianReference {
    /// Fits the model to these rows. Returns `None` if one side has no continuous columns.
    /// `strict` and `tick`: see [`CanonicalModel::fit`].
    pub fn fit(
        x: &[Column],
        y: &[Column],
        rows: &[u32],
        scaling: Scaling,
        strict: bool,
        tick: Tick,
    ) -> Result<Option<Self>> {
        let rows = &thinned(rows, MAX_ROWS_TO_FIT);
        let x_scaler = SideScaler::plain(x, rows, scaling, tick)?;
        let y_scaler = SideScaler::plain(y, rows, scaling, tick)?;
        let (p, q) = (x_scaler.continuous(), y_scaler.continuous());
        if p == 0 || q == 0 {
            return Ok(None);
        }
        let scores = Scores {
            x: x_scaler.apply_continuous(x, rows),
            p,
            y: y_scaler.apply_continuous(y, rows),
            q,
        };
        let model = if strict { scores.best_model(tick)? } else { scores.model(false, tick)? };
        Ok(Some(GaussianReference { x: x_scaler, y: y_scaler, model }))
    }

    /// Returns the log ratios of these rows.
    pub fn reference(&self, x: &[Column], y: &[Column], rows: &[u32]) -> Reference {
        self.model.reference(&self.x.apply_continuous(x, rows), &self.y.apply_continuous(y, rows))
    }
}

/// The scaled continuous columns of x and y, row-major, with their numbers of columns.
struct Scores {
    x: Vec<f32>,
    p: usize,
    y: Vec<f32>,
    q: usize,
}

impl Scores {
    fn model(&self, strict: bool, tick: Tick) -> Result<CanonicalModel> {
        CanonicalModel::fit(&self.x, self.p, &self.y, self.q, strict, tick)
    }

    fn screened(&self, tick: Tick) -> Result<Option<CanonicalModel>> {
        CanonicalModel::fit_screened(&self.x, self.p, &self.y, self.q, tick)
    }

    /// Returns the model of all columns or that of correlated columns alone, whichever has the
    /// larger mean log ratio on the last fifth of the rows when it is fitted to the others.
    fn best_model(&self, tick: Tick) -> Result<CanonicalModel> {
        let rows = self.x.len() / self.p;
        let [first, last] = self.split(rows - rows / 5);
        let last_rows = rows / 5;
        let mean = |model: &CanonicalModel| {
            let reference = model.reference(&last.x, &last.y);
            let ratio = |i: usize| match reference.width {
                0 => 0.0,
                _ => f64::from(reference.log_ratio(i, i)),
            };
            (0..last_rows).map(ratio).sum::<f64>() / last_rows.max(1) as f64
        };
        let prefers_few = match first.screened(tick)? {
            Some(few) => mean(&few) > mean(&first.model(true, tick)?),
            None => false,
        };
        let few = if prefers_few { self.screened(tick)? } else { None };
        few.map_or_else(|| self.model(true, tick), Ok)
    }

    /// Returns the first `rows` rows and the others.
    fn split(&self, rows: usize) -> [Scores; 2] {
        let (p, q) = (self.p, self.q);
        let (x, y) = (self.x.split_at(rows * p), self.y.split_at(rows * q));
        [(x.0, y.0), (x.1, y.1)].map(|(x, y)| Scores { x: x.to_vec(), p, y: y.to_vec(), q })
    }
}

/// Returns at most `max` of the rows, evenly spread.
pub(super) fn thinned(rows: &[u32], max: usize) -> Vec<u32> {
    rows.iter().copied().step_by(rows.len().div_ceil(max).max(1)).collect()
}

impl InputMap {
    /// Returns the numbers of inputs from x and from y.
    pub(super) fn dims(&self) -> (usize, usize) {
        (self.x.width(), self.y.width())
    }

    /// Returns whether the parameters of all maps are valid.
    pub(super) fn is_valid(&self) -> bool {
        let reference = self.reference.as_ref();
        let sides = reference.into_iter().flat_map(|gaussian| [&gaussian.x, &gaussian.y]);
        sides.chain([&self.x, &self.y]).all(SideScaler::is_valid)
    }

    /// Fits the maps of a recipe to these rows. `tick`: see [`CanonicalModel::fit`].
    pub fn fit(
        recipe: &CriticRecipe,
        x: &[Column],
        y: &[Column],
        rows: &[u32],
        tick: Tick,
    ) -> Result<Self> {
        let thin = thinned(rows, MAX_ROWS_TO_FIT);
        let scaling = match recipe.reference {
            ReferenceKind::None => None,
            ReferenceKind::GaussianCopula => Some(Scaling::Gaussian),
            ReferenceKind::Gaussian => Some(Scaling::Standard),
        };
        let reference = match scaling {
            Some(scaling) => GaussianReference::fit(x, y, rows, scaling, true, tick)?,
            None => None,
        };
        Ok(InputMap {
            x: SideScaler::fit(x, &thin, &recipe.features, tick)?,
            y: SideScaler::fit(y, &thin, &recipe.features, tick)?,
            reference: reference.filter(|reference| !reference.model.is_independent()),
        })
    }

    /// Returns the inputs of these rows.
    pub fn apply(&self, x: &[Column], y: &[Column], rows: &[u32]) -> Inputs {
        let reference = self
            .reference
            .as_ref()
            .map(|gaussian| gaussian.reference(x, y, rows))
            .unwrap_or_default();
        Inputs { dims: self.dims(), x: self.x.apply(x, rows), y: self.y.apply(y, rows), reference }
    }

    /// Returns the inputs of these rows, with checks in between; the error of one ends the
    /// computation.
    pub(super) fn apply_checked(
        &self,
        x: &[Column],
        y: &[Column],
        rows: &[u32],
        tick: Tick,
    ) -> Result<Inputs> {
        let width = self.x.width() + self.y.width();
        let mut all = self.apply(x, y, &[]);
        for block in rows.chunks((MAX_BLOCK_INPUTS / width.max(1)).max(1)) {
            tick()?;
            let inputs = self.apply(x, y, block);
            all.x.extend(inputs.x);
            all.y.extend(inputs.y);
            all.reference.x.extend(inputs.reference.x);
            all.reference.y.extend(inputs.reference.y);
        }
        Ok(all)
    }
}

//! Mutual information from finite data: an estimate, how sure it is, and whether to believe it.
//!
//! Rows are cut into folds. For each fold critics are trained on most of the other rows and stopped
//! by the rest of them; the fold's own rows, which nothing has seen, are then scored, and the mean of
//! their log ratios is the estimate. What the critics look like is chosen per data set, from a
//! portfolio of [`CriticRecipe`]s, by the loss on rows held out from training.

mod combine;
mod crossfit;
mod folds;
mod independence;
mod inputs;
mod matrix;
mod method;
mod model;
mod multiple;
mod plan;
mod progress;
mod recipe;
mod report;
mod result;
mod saved;
mod scaling;
mod table_rows;
mod verdict;

pub use folds::{Fold, RowOrder, folds};
pub use independence::IndependenceTest;
pub use inputs::{GaussianReference, InputMap};
pub use matrix::{MatrixHeading, MatrixJournal, PairEstimate, PairRecord};
pub use method::{FiniteDataEstimator, Method};
pub use model::{FoldModel, Member};
pub use multiple::benjamini_hochberg;
pub use plan::{Effort, EstimatePlan};
pub use progress::{NoProgress, Progress};
pub use recipe::{CriticRecipe, Portfolio, ReferenceKind};
pub use report::{EstimateReport, Paragraph, format_p_value};
pub use result::{Baselines, Estimate, FoldFigures, FoldRows, MemberFigures, RaceEntry};
pub use saved::{SavedColumn, SavedModel};
pub use scaling::{ColumnScaler, Features, Radius, Scaling, SideScaler};
pub use verdict::{Reason, Reliability, RenderedReason, RenderedVerdict, Verdict};

use crate::baseline::{CanonicalModel, ksg};
use crate::data::{Column, Values};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::message::Parameter;
use crate::nats::Nats;
use crate::random::{Purpose, stream};
use crossfit::{Table, crossfit, mean_and_variance};
use rand::RngExt;
use verdict::{Evidence, entropy_bound};

/// The neighbour that KSG looks at.
const KSG_NEIGHBOUR: usize = 3;

/// Rows that KSG is given as a cross-check, and the most columns at which it is worth comparing.
const KSG_ROWS: usize = 5_000;
const KSG_TELLING_COLUMNS: usize = 6;

/// Rows that the classical cross-checks look at.
const BASELINE_ROWS: usize = 50_000;

/// The 97.5% point of the normal distribution.
const NORMAL_QUANTILE: f64 = 1.959_963_985;

/// The mutual information between two groups of columns of equal length, which hold no missing
/// values.
///
/// ```
/// use fdime::data::{Column, Values};
/// use fdime::CpuEngine;
/// use fdime::estimate::{Effort, EstimatePlan, Method, NoProgress, estimate};
///
/// let column = |name: &str, values: Vec<f64>| Column {
///     name: name.into(),
///     values: Values::Continuous(values),
/// };
/// let x: Vec<f64> = (0..400).map(|k| f64::from(k * 37 % 400)).collect();
/// let y = x.iter().enumerate().map(|(k, x)| x + 60.0 * (k as f64).sin()).collect();
/// let plan = EstimatePlan::new(Method::GaussianCopula, Effort::Default);
/// let (x, y) = ([column("x", x)], [column("y", y)]);
/// let result = estimate(&x, &y, &plan, &CpuEngine::new(0), &NoProgress)?;
/// assert!(result.mi.0 > 0.5 && result.independence.unwrap().p_value < 0.01);
/// # Ok::<(), fdime::Error>(())
/// ```
pub fn estimate(
    x: &[Column],
    y: &[Column],
    plan: &EstimatePlan,
    engine: &dyn Engine,
    progress: &dyn Progress,
) -> Result<Estimate> {
    let rows = x.first().map_or(0, Column::len);
    plan.check(rows)?;
    let table = Table { x, y, rows };
    if plan.method.needs_numbers() && [x, y].iter().any(|side| !has_numbers(side)) {
        return Err(Error::Incompatible {
            parameter: Parameter::Estimator,
            value: plan.method.to_string(),
            other: "x or y of categories alone".into(),
            reason: "it needs numbers on both sides; use auto".into(),
        });
    }
    if plan.method == Method::Ksg {
        return nearest_neighbours(table, plan, engine.threads(), progress);
    }
    let fit = crossfit(table, plan, engine, progress)?;
    let unclipped = fit.pointwise.iter().sum::<f64>() / rows as f64;
    let lower_bound = fit.lower_bound;
    let standard_error = standard_error(&fit.pointwise, &fit.folds, plan.order);
    let uncertainty = Uncertainty {
        standard_error,
        spread: spread(&fit.folds),
        gap: training_gap(&fit.folds),
        hidden: hidden(table),
        most: entropy_bound(x, y, rows).map_or(f64::INFINITY, |(_, bound)| bound),
    };
    let baselines = baselines(table, engine.threads());
    let verdict = Verdict::new(&Evidence {
        x,
        y,
        rows,
        mi: unclipped,
        standard_error,
        lower_bound: Some(lower_bound),
        folds: &fit.folds,
        baselines: &baselines,
        spread: uncertainty.spread,
        plan,
    });
    Ok(Estimate {
        mi: Nats(unclipped.clamp(0.0, uncertainty.most)),
        unclipped: Nats(unclipped),
        interval: uncertainty.interval(unclipped),
        independence: Some(fit.independence),
        pointwise: fit.pointwise,
        folds: fit.folds,
        race: fit.race,
        lower_bound: Some(Nats(lower_bound)),
        baselines,
        verdict,
        models: fit.models,
    })
}

/// What an interval is made of.
struct Uncertainty {
    standard_error: f64,
    /// Between critics of different recipes and seeds.
    spread: f64,
    /// How far training rows are above held-out rows.
    gap: f64,
    /// What no critic could tell from chance.
    hidden: f64,
    /// What x or y hold in all.
    most: f64,
}

/// How much of the information even good critics may miss without any sign of it.
const UNSEEN_SHARE: f64 = 0.05;

impl Uncertainty {
    /// The interval, cut off at 0 and at the most there is, like the estimate. Critics can miss dependence but hardly invent
    /// any in rows they never saw, so what cannot be measured reaches upwards: the gap to the
    /// training rows (the truth lies between the two), a share of the estimate, and what is too
    /// weak to be told from chance.
    fn interval(&self, mi: f64) -> (Nats, Nats) {
        let chance = self.standard_error.powi(2) + self.spread.powi(2);
        let missed = self.gap.powi(2) + (UNSEEN_SHARE * mi).powi(2);
        let (low, high) = (chance.sqrt(), (chance + missed).sqrt());
        let upper = (mi.max(0.0) + self.hidden).max(mi + NORMAL_QUANTILE * high);
        let lower = (mi.min(self.most) - NORMAL_QUANTILE * low).max(0.0);
        (Nats(lower), Nats(upper.min(self.most)))
    }
}

/// About the most information that independent data seem to have. For linear dependence between p
/// and q numbers 2 n I is chi-squared with p q degrees of freedom: this is its mean and two standard
/// deviations.
fn hidden(table: Table) -> f64 {
    let freedom = table.degrees_of_freedom();
    (freedom + 2.0 * (2.0 * freedom).sqrt()) / (2.0 * table.rows as f64)
}

/// The standard deviation, by weight, of the estimates that each recipe and seed alone would give.
fn spread(folds: &[FoldFigures]) -> f64 {
    let critics = folds.iter().map(|fold| fold.members.len()).min().unwrap_or(0);
    let (mut sum, mut total) = (0.0, 0.0);
    for critic in 0..critics {
        let (mut difference, mut weight) = (0.0, 0.0);
        for fold in folds {
            let member = &fold.members[critic];
            if let Some(mi) = member.mi_nats {
                difference += member.weight * (mi - fold.mi_nats);
                weight += member.weight;
            }
        }
        if weight > 0.0 {
            sum += difference * difference / weight;
            total += weight;
        }
    }
    if total > 0.0 { (sum / total).sqrt() } else { 0.0 }
}

/// How far the training rows' mean log ratio is above that of held-out rows.
fn training_gap(folds: &[FoldFigures]) -> f64 {
    let gaps = folds.iter().map(|fold| fold.train_mi_nats - fold.mi_nats);
    (gaps.sum::<f64>() / folds.len().max(1) as f64).max(0.0)
}

/// The standard error of the mean log ratio: from the scatter of the rows, or from that of the
/// folds, which critics of different quality add to, whichever is larger. Rows of a series are
/// averaged over runs first, so that their likeness to their neighbours is counted in.
fn standard_error(pointwise: &[f64], folds: &[FoldFigures], order: RowOrder) -> f64 {
    let run = match order {
        RowOrder::Exchangeable => 1,
        RowOrder::Series { gap } => (gap + 1).max(pointwise.len().isqrt() / 2).max(1),
    };
    let means: Vec<f32> = pointwise
        .chunks_exact(run)
        .map(|run| (run.iter().sum::<f64>() / run.len() as f64) as f32)
        .collect();
    let (_, of_rows) = mean_and_variance(&means);
    let by_fold: Vec<f32> = folds.iter().map(|fold| fold.mi_nats as f32).collect();
    let (_, of_folds) = mean_and_variance(&by_fold);
    (of_rows / means.len() as f64).max(of_folds / by_fold.len() as f64).sqrt()
}

/// The continuous columns of both sides as normal scores, for at most `most` rows spread over the
/// table.
fn normal_scores(table: Table, most: usize) -> [(Vec<f32>, usize); 2] {
    let step = table.rows.div_ceil(most).max(1);
    let rows: Vec<u32> = (0..table.rows as u32).step_by(step).collect();
    [table.x, table.y].map(|columns| {
        let scaler = SideScaler::plain(columns, &rows, Scaling::Gaussian);
        (scaler.apply_continuous(columns, &rows), scaler.continuous())
    })
}

/// What classical estimators say of the continuous columns.
fn baselines(table: Table, threads: usize) -> Baselines {
    let [(x, x_dim), (y, y_dim)] = normal_scores(table, BASELINE_ROWS);
    if x_dim == 0 || y_dim == 0 {
        return Baselines::default();
    }
    let copula = CanonicalModel::fit(&x, x_dim, &y, y_dim, true).mutual_information().0;
    let columns = x_dim + y_dim;
    let discrete = |side: &[Column]| {
        side.iter().any(|column| matches!(column.values, Values::Discrete { .. }))
    };
    let telling = columns <= KSG_TELLING_COLUMNS && !discrete(table.x) && !discrete(table.y);
    let neighbours = telling.then(|| {
        let [(x, _), (y, _)] = normal_scores(table, KSG_ROWS);
        let (x, y) = (without_ties(&x, 0), without_ties(&y, 1));
        // These rows are few enough not to ask.
        ksg(&x, x_dim, &y, y_dim, KSG_NEIGHBOUR, threads, &|| Ok(())).map(|local| ksg_mean(&local))
    });
    let ksg_nats = neighbours.and_then(Result::ok);
    Baselines { gaussian_copula_nats: Some(copula), ksg_nats }
}

/// Distances of 0 would make KSG infinite: equal values are pulled apart by far less than anything
/// in the data could mean.
fn without_ties(values: &[f32], side: u64) -> Vec<f32> {
    let mut rng = stream(0, Purpose::Null, 0, side);
    values.iter().map(|value| value + rng.random_range(-1e-5..1e-5f32)).collect()
}

fn ksg_mean(local: &[f64]) -> f64 {
    local.iter().sum::<f64>() / local.len().max(1) as f64
}

/// Whether some column is a number.
fn has_numbers(columns: &[Column]) -> bool {
    columns.iter().any(|column| matches!(column.values, Values::Continuous(_)))
}

/// KSG as the method: no folds, no critics, no test. Both sides hold numbers.
fn nearest_neighbours(
    table: Table,
    plan: &EstimatePlan,
    threads: usize,
    progress: &dyn Progress,
) -> Result<Estimate> {
    let [(x, x_dim), (y, y_dim)] = normal_scores(table, usize::MAX);
    let (x, y) = (without_ties(&x, 0), without_ties(&y, 1));
    progress.begin(table.rows as u64);
    let tick = || progress::advance(progress, 1);
    let pointwise = ksg(&x, x_dim, &y, y_dim, KSG_NEIGHBOUR, threads, &tick)?;
    let unclipped = ksg_mean(&pointwise);
    let standard_error = standard_error(&pointwise, &[], plan.order);
    let hidden = hidden(table);
    // Both sides hold numbers, so no entropy bounds what they share.
    let uncertainty =
        Uncertainty { standard_error, spread: 0.0, gap: 0.0, hidden, most: f64::INFINITY };
    let copula = CanonicalModel::fit(&x, x_dim, &y, y_dim, true).mutual_information().0;
    let baselines = Baselines { gaussian_copula_nats: Some(copula), ksg_nats: None };
    let verdict = Verdict::new(&Evidence {
        x: table.x,
        y: table.y,
        rows: table.rows,
        mi: unclipped,
        standard_error,
        lower_bound: None,
        folds: &[],
        baselines: &baselines,
        spread: 0.0,
        plan,
    });
    Ok(Estimate {
        mi: Nats(unclipped.max(0.0)),
        unclipped: Nats(unclipped),
        interval: uncertainty.interval(unclipped),
        independence: None,
        pointwise,
        folds: Vec::new(),
        race: Vec::new(),
        lower_bound: None,
        baselines,
        verdict,
        models: Vec::new(),
    })
}

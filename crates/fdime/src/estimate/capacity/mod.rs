//! The capacity of a channel with a discrete input: the most that its output can tell about the
//! input, over all distributions of the input.
//!
//! The log ratios of an [`estimate`] are ln p(r|s)/p(r) for an output r and a level s of the input.
//! The critics of a fold score its held-out outputs against every level, and the algorithm of Blahut
//! and Arimoto ([`Channel`](crate::channel::Channel)) finds the input distribution q with the largest
//!
//! `J(q) = sum_s q(s) E_{r|s} ln [p(r|s) / sum_t q(t) p(r|t)]`
//!
//! where E_{r|s} is the mean over held-out rows of level s. With ratios that are not exact, J(q) is
//! a lower bound of the information at q for every q, so its maximum is one of the capacity. The
//! maximum over q is too high by chance, though, and J at a q that was chosen on other rows too low;
//! the estimate uses the middle of the two.

mod held_out;
mod input;
mod report;

pub use report::{CapacityRecord, CapacityReport, LevelRecord};

use super::chained::ChainChoice;
use super::crossfit::Table;
use super::plan::EstimatePlan;
use super::progress::Progress;
use super::result::Estimate;
use super::verdict::{Reason, Reliability, Verdict, reason};
use super::{Uncertainty, check_columns, estimate, spread, training_gap};
use crate::channel::uniform;
use crate::data::Column;
use crate::engine::Engine;
use crate::error::{Error, Result, invalid, quote};
use crate::message::Parameter;
use crate::nats::Nats;
use held_out::HeldOut;
use input::Input;

/// The duality gap in nats at which the input distribution is final.
const TOLERANCE: f64 = 1e-6;

/// A level with fewer rows than this gets a warning.
const FEW_ROWS_OF_LEVEL: usize = 50;

/// The capacity of a channel with a discrete input, its uncertainty and the evidence behind it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChannelCapacity {
    /// The capacity, at most the logarithm of the number of levels.
    pub capacity: Nats,
    /// The 95% interval.
    pub interval: (Nats, Nats),
    /// The levels of the input, numbers in ascending order.
    pub levels: Vec<InputLevel>,
    /// For all pairs of levels, row by row, the information in bits about a fair choice between the
    /// two: 0 if they cannot be told apart, 1 if they always can. 0 for a level and itself.
    pub discriminability: Vec<f64>,
    /// The estimate of the mutual information for the observed input distribution.
    pub estimate: Estimate,
    /// The verdict on that estimate, with reasons that concern the capacity.
    pub verdict: Verdict,
}

/// A level of the input.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InputLevel {
    /// Its name: the value of the input column, or those of all input columns.
    pub name: String,
    /// The number of rows.
    pub rows: usize,
    /// The share of the rows.
    pub share: f64,
    /// The share in the input distribution that reaches the capacity.
    pub optimal_share: f64,
    /// The divergence between the outputs of this level and those of all levels with optimal shares.
    /// It is the capacity for levels in use, and no more for others. At least 0.
    pub divergence: Nats,
}

/// Estimates the capacity of the channel from the input columns, whose combinations of values are the
/// levels, to the output columns.
///
/// ```
/// use fdime::estimate::{Effort, EstimatePlan, Method, NoProgress, channel_capacity};
/// use fdime::random::{Purpose, stream};
/// use fdime::{CpuEngine, scenario::ChannelScenario};
///
/// let channel = ChannelScenario::z(0.3)?; // 0.349 nats
/// let mut rng = stream(1, Purpose::Data, 0, 0);
/// let (input, output) = channel.sample(&[0.5, 0.5], 2000, &mut rng)?;
/// let plan = EstimatePlan::new(Method::Auto, Effort::Quick);
/// let engine = CpuEngine::new(0);
/// let found = channel_capacity(&[input], &[output], &plan, &engine, &NoProgress)?;
/// let (low, high) = found.interval;
/// assert!(low < channel.capacity() && channel.capacity() < high);
/// # Ok::<(), fdime::Error>(())
/// ```
///
/// # Errors
/// An input that has one level, is continuous, or has a level with too few rows; estimators without
/// log ratios of pairs; and the errors of [`estimate`].
pub fn channel_capacity(
    input: &[Column],
    output: &[Column],
    plan: &EstimatePlan,
    engine: &dyn Engine,
    progress: &dyn Progress,
) -> Result<ChannelCapacity> {
    check_columns(input, output)?;
    check_method(plan)?;
    let input = Input::new(input)?;
    let x = std::slice::from_ref(&input.column);
    let plan = &plan.for_data(x, output);
    let estimate = estimate(x, output, plan, engine, progress)?;
    let table = Table { x, y: output, rows: x[0].len(), starts: &[] };
    let rows = HeldOut::new(table, &input, plan, &estimate, engine, progress)?;
    let channel = rows.channel();
    let optimum = channel.blahut_arimoto(uniform(input.counts.len()), TOLERANCE);
    let elsewhere = rows.information_elsewhere(&optimum, TOLERANCE);
    let standard_error = rows.standard_error(&optimum, engine.threads(), plan.seed, progress)?;

    let observed = channel.transmission(input.shares()).information.max(0.0);
    let gain = (0.5 * (optimum.information + elsewhere) - observed).max(0.0);
    let limit = (input.counts.len() as f64).ln();
    let capacity = (estimate.mi.0 + gain).min(limit);
    let figures = Figures { capacity, elsewhere, standard_error, limit };
    let scale = if optimum.information > 0.0 { capacity / optimum.information } else { 0.0 };
    let levels = (0..input.counts.len()).map(|s| InputLevel {
        name: input.names[s].clone(),
        rows: input.counts[s],
        share: input.shares()[s],
        optimal_share: optimum.input[s],
        // Scaled like the capacity, so that levels in use have it.
        divergence: Nats((scale * optimum.divergences[s]).max(0.0)),
    });
    let pairs = channel.pairwise_information();
    Ok(ChannelCapacity {
        capacity: Nats(capacity),
        interval: figures.interval(&estimate, plan.unseen_share(table.rows)),
        levels: levels.collect(),
        discriminability: pairs.into_iter().map(|i| Nats(i).bits().clamp(0.0, 1.0)).collect(),
        verdict: verdict(&estimate, &input),
        estimate,
    })
}

/// Refuses methods whose log ratios are not those of single pairs of a level and an output.
fn check_method(plan: &EstimatePlan) -> Result<()> {
    if plan.method.needs_numbers() {
        return Err(Error::Incompatible {
            parameter: Parameter::Estimator,
            value: plan.method.to_string(),
            other: "a capacity".into(),
            reason: "it needs numbers, and the input of a channel is a category; use auto".into(),
        });
    }
    match plan.chain {
        ChainChoice::Blocks(blocks) => {
            Err(invalid(Parameter::Chain, blocks, "a capacity is not estimated with a chain"))
        }
        ChainChoice::Off | ChainChoice::Auto => Ok(()),
    }
}

/// The figures that the interval of a capacity follows from.
struct Figures {
    capacity: f64,
    /// The information of input distributions that were chosen on other rows.
    elsewhere: f64,
    standard_error: f64,
    limit: f64,
}

impl Figures {
    /// Returns the interval. Its sources are those of the estimate, except that chance is that of the
    /// capacity. A capacity is no less than the information at the observed distribution, so the low
    /// end of that is also one of the capacity; and what chance or critics may hide from the estimate,
    /// they may hide here.
    fn interval(&self, estimate: &Estimate, unseen_share: f64) -> (Nats, Nats) {
        let is_counted = estimate.models.is_empty();
        let uncertainty = Uncertainty {
            lower_bound: self.elsewhere,
            standard_error: self.standard_error,
            spread: spread(&estimate.folds),
            gap: training_gap(&estimate.folds),
            unseen_share: if is_counted { 0.0 } else { unseen_share },
            undetectable: estimate.interval.1.0 - estimate.mi.0,
            upper_limit: self.limit,
        };
        let (low, high) = uncertainty.interval(self.capacity);
        (Nats(low.0.max(estimate.interval.0.0).min(self.capacity)), high)
    }
}

/// Returns the verdict on the estimate, with a warning about levels with few rows.
fn verdict(estimate: &Estimate, input: &Input) -> Verdict {
    let mut reasons: Vec<Reason> = estimate.verdict.reasons.clone();
    let rarest = input.rarest();
    if input.counts[rarest] < FEW_ROWS_OF_LEVEL {
        let (name, rows) = (quote(&input.names[rarest]), input.counts[rarest]);
        let text = format!(
            "level {name} of the input has only {rows} rows, but the capacity may give it a large \
             share; use more rows of each level"
        );
        reasons.extend(reason("few-rows-of-level", Reliability::Fair, text));
    }
    Verdict::of(reasons)
}

#[cfg(test)]
mod tests;

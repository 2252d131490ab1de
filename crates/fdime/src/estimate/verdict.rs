//! The verdict on an estimate: how reliable it is, and why.

use super::folds::RowOrder;
use super::functional::{function_between, function_of};
use super::levels::{Levels, different_numbers, has_ties};
use super::method::Method;
use super::plan::{Effort, EstimatePlan};
use super::repeats::Repeats;
use super::result::{Baselines, ChainFigures, FoldFigures, GivenFigures, MAX_LATE_GAIN, late_gain};
use super::serial::SerialDependence;
use crate::data::{Column, Values};
use crate::message::{Message, Parameter, Wording, counted};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The reliability of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Reliability {
    /// Do not rely on it; the reasons explain why.
    Doubtful,
    /// Usable, with the reasons in mind.
    Fair,
    /// No warnings.
    Good,
}

impl fmt::Display for Reliability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reliability::Doubtful => "doubtful",
            Reliability::Fair => "fair",
            Reliability::Good => "good",
        })
    }
}

/// A warning about an estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// A short name that does not change between versions.
    pub code: &'static str,
    /// The highest reliability that an estimate with this warning can have.
    pub limits_to: Reliability,
    /// The finding and what to do, in a sentence.
    pub message: Message,
}

/// The reliability of an estimate with the reasons for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The lowest reliability that a reason allows.
    pub reliability: Reliability,
    /// The reasons, most serious first.
    pub reasons: Vec<Reason>,
}

/// A [`Verdict`] in the words of a front end, ready to be serialised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RenderedVerdict {
    /// The lowest reliability that a reason allows.
    pub reliability: Reliability,
    /// The reasons, most serious first.
    pub reasons: Vec<RenderedReason>,
}

/// A [`Reason`] in the words of a front end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RenderedReason {
    /// A short name that does not change between versions.
    pub code: String,
    /// The highest reliability that an estimate with this warning can have.
    pub limits_to: Reliability,
    /// The finding and what to do, in a sentence.
    pub text: String,
}

/// The figures that a verdict is based on.
pub(super) struct Evidence<'a> {
    pub(super) x: &'a [Column],
    pub(super) y: &'a [Column],
    /// The columns that are held fixed, and what they tell.
    pub(super) given: Option<(&'a [Column], &'a GivenFigures)>,
    pub(super) rows: usize,
    /// The estimate before it is clipped.
    pub(super) mi: f64,
    /// The largest mutual information that had to be estimated at once.
    pub(super) largest_term: f64,
    pub(super) chain: Option<&'a ChainFigures>,
    pub(super) standard_error: f64,
    /// The mean of normalised log ratios.
    pub(super) lower_bound: Option<f64>,
    /// The p-value of the test of independence.
    pub(super) p_value: Option<f64>,
    pub(super) folds: &'a [FoldFigures],
    pub(super) baselines: &'a Baselines,
    /// The standard deviation between recipes and seeds.
    pub(super) spread: f64,
    pub(super) serial: &'a SerialDependence,
    pub(super) plan: &'a EstimatePlan,
}

impl Evidence<'_> {
    /// Appends the advice to try more effort, unless that would change nothing.
    fn advise_effort(&self, message: Message) -> Message {
        let critics = matches!(self.plan.method, Method::Auto | Method::Critic(_));
        let is = |effort: Effort| {
            self.plan.portfolio == EstimatePlan::new(self.plan.method.clone(), effort).portfolio
        };
        match critics {
            true if is(Effort::Quick) => {
                message.text("; try ").setting(Parameter::Effort, "default")
            }
            true if !is(Effort::Max) => message.text("; try ").setting(Parameter::Effort, "max"),
            _ => message,
        }
    }

    fn columns(&self) -> impl Iterator<Item = &Column> {
        self.x.iter().chain(self.y)
    }

    /// Returns what too few rows mean: an estimate that is too low or, if no dependence was found, that
    /// there may be one all the same.
    fn effect_of_few_rows(&self) -> &'static str {
        match self.p_value {
            Some(p_value) if p_value > 0.05 => "so a dependence could be missed",
            _ => "so the true value is probably higher",
        }
    }
}

/// Estimates from fewer rows than this get a warning.
const FEW_ROWS: usize = 200;

/// The number of rows for each column that is held fixed below which there is a warning.
const MIN_ROWS_FOR_EACH_GIVEN: usize = 250;

impl Verdict {
    /// Returns the verdict in the words of a front end.
    pub fn render(&self, wording: &dyn Wording) -> RenderedVerdict {
        let reasons = self.reasons.iter().map(|reason| RenderedReason {
            code: reason.code.into(),
            limits_to: reason.limits_to,
            text: reason.message.render(wording),
        });
        RenderedVerdict { reliability: self.reliability, reasons: reasons.collect() }
    }

    /// Returns the verdict on an estimate. `tick` is called at intervals; its error ends the checks.
    pub(super) fn new<E>(evidence: &Evidence, tick: impl Fn() -> Result<(), E>) -> Result<Self, E> {
        let checks: [fn(&Evidence) -> Option<Reason>; 19] = [
            near_limit,
            above_entropy,
            above_lower_bound,
            serial_dependence,
            folds_disagree,
            critics_disagree,
            overfit,
            still_improving,
            below_baselines,
            duplicated_rows,
            tied_values,
            ignored_categories,
            few_rows,
            rare_levels,
            many_columns,
            dependent_blocks,
            negative,
            wide_neighbourhoods,
            many_given,
        ];
        let mut reasons = Vec::from_iter(deterministic(evidence, &tick)?);
        reasons.extend(determined_by_given(evidence, &tick)?);
        for check in checks {
            tick()?;
            reasons.extend(check(evidence));
        }
        Ok(Verdict::of(reasons))
    }

    /// Returns the verdict with these reasons, without those that others make pointless.
    pub(super) fn of(mut reasons: Vec<Reason>) -> Self {
        for (code, pointless) in OVERRULES {
            let applies =
                |reason: &Reason| reason.code == code && reason.limits_to == Reliability::Doubtful;
            if reasons.iter().any(applies) {
                reasons.retain(|reason| !pointless.contains(&reason.code));
            }
        }
        reasons.sort_by_key(|reason| reason.limits_to);
        let reliability = reasons.first().map_or(Reliability::Good, |reason| reason.limits_to);
        Verdict { reliability, reasons }
    }
}

pub(super) fn reason(
    code: &'static str,
    limits_to: Reliability,
    message: impl Into<Message>,
) -> Option<Reason> {
    Some(Reason { code, limits_to, message: message.into() })
}

/// Warnings that make the estimate doubtful, each with the warnings that are pointless beside it. If
/// the information is infinite, no advice on its amount helps; if copies of rows raise the estimate,
/// others must not say that it is too low, or ask for more rows, and copies that follow each other are
/// no time series.
const OVERRULES: [(&str, &[&str]); 2] = [
    (
        "deterministic",
        &[
            "near-ln-n",
            "lower-bound",
            "folds-disagree",
            "critics-disagree",
            "training-above-held-out",
            "still-improving",
            "baseline-above",
            "few-rows",
            "duplicated-rows",
        ],
    ),
    (
        "duplicated-rows",
        &[
            "near-ln-n",
            "lower-bound",
            "serial-dependence",
            "few-independent-rows",
            "sorted-rows",
            "training-above-held-out",
            "still-improving",
            "baseline-above",
            "few-rows",
        ],
    ),
];

/// A number on one side that is a function of the other side.
fn deterministic<E>(
    evidence: &Evidence,
    tick: impl Fn() -> Result<(), E>,
) -> Result<Option<Reason>, E> {
    let Some(function) = function_between(evidence.x, evidence.y, tick)? else { return Ok(None) };
    Ok(reason(
        "deterministic",
        Reliability::Doubtful,
        format!(
            "{function}, as far as {} rows can show: the mutual information is infinite, or limited \
             only by rounding or by noise too small to see; the estimate only shows that it is large",
            evidence.rows
        ),
    ))
}

/// A column of x or y that is a function of what is held fixed, so that nothing is left of it.
fn determined_by_given<E>(
    evidence: &Evidence,
    tick: impl Fn() -> Result<(), E>,
) -> Result<Option<Reason>, E> {
    let Some((given, _)) = evidence.given else { return Ok(None) };
    for side in [evidence.x, evidence.y] {
        if let Some(function) = function_of(given, side, &tick)? {
            let text = format!(
                "{function}, as far as {} rows can show: given that, nothing remains, and the \
                 estimate reflects only rounding or noise",
                evidence.rows
            );
            return Ok(reason("determined-by-given", Reliability::Doubtful, text));
        }
    }
    Ok(None)
}

/// A conditional estimate that is below 0 by more than chance: its two terms are not equally good.
fn negative(evidence: &Evidence) -> Option<Reason> {
    evidence.given?;
    if evidence.mi >= -3.0 * evidence.standard_error - 0.01 {
        return None;
    }
    let message = Message::from(format!(
        "the difference of the two terms is {:.3} nats, below 0 by more than chance explains, so critics \
         missed part of the first term",
        evidence.mi
    ));
    reason("negative", Reliability::Fair, evidence.advise_effort(message))
}

/// Rows that the test exchanges although x differs between them by what is held fixed.
fn wide_neighbourhoods(evidence: &Evidence) -> Option<Reason> {
    let (_, figures) = evidence.given?;
    if figures.neighbourhood_p_value > 0.01 {
        return None;
    }
    let message = Message::from(
        "x still depends on the columns of ",
    )
    .parameter(Parameter::Given)
    .text(
        " among the rows that the test exchanges, because too few rows are alike in these columns; its \
         p-value may be too small; use more rows, or fewer such columns",
    );
    reason("wide-neighbourhoods", Reliability::Fair, message)
}

/// So many columns held fixed that their effect cannot be removed without assumptions.
fn many_given(evidence: &Evidence) -> Option<Reason> {
    let (given, _) = evidence.given?;
    if given.len() <= 3 || evidence.rows >= MIN_ROWS_FOR_EACH_GIVEN * given.len() {
        return None;
    }
    let message = Message::from(format!(
        "{} columns are held fixed with {} rows: no two rows are similar in all of them, so the p-value \
         is approximate and may be too small, and the estimate too low; hold fewer columns fixed with ",
        given.len(),
        evidence.rows
    ))
    .parameter(Parameter::Given);
    reason("many-given", Reliability::Fair, message)
}

/// No method can certify more than about ln n nats from n rows without assuming a model, because
/// events rarer than 1/n do not occur in the data.
fn near_limit(evidence: &Evidence) -> Option<Reason> {
    let limit = (evidence.rows as f64).ln();
    let limits_to = match evidence.largest_term / limit {
        share if share > 0.9 => Reliability::Doubtful,
        share if share > 0.6 => Reliability::Fair,
        _ => return None,
    };
    reason(
        "near-ln-n",
        limits_to,
        format!(
            "{} is close to ln n = {limit:.2} nats, about the most that {} rows can show \
             without assuming a model; use more rows",
            if evidence.chain.is_some() { "a term of the chain" } else { "the estimate" },
            evidence.rows
        ),
    )
}

/// A discrete side, whose entropy limits the mutual information.
pub(super) struct EntropyBound {
    side: &'static str,
    /// The entropy, and the upper end of its 95% interval.
    pub(super) entropy: f64,
    pub(super) largest: f64,
}

/// Returns the discrete side with the smaller entropy; `None` if neither side is discrete.
pub(super) fn entropy_bound(x: &[Column], y: &[Column]) -> Option<EntropyBound> {
    let of_side = |(side, columns): (&'static str, &[Column])| {
        let levels = Levels::of(columns)?;
        let (entropy, largest) = (levels.corrected_entropy(), levels.largest_entropy());
        Some(EntropyBound { side, entropy, largest })
    };
    let bounds = [("x", x), ("y", y)].into_iter().filter_map(of_side);
    bounds.min_by(|a, b| a.entropy.total_cmp(&b.entropy))
}

fn above_entropy(evidence: &Evidence) -> Option<Reason> {
    let EntropyBound { side, entropy: bound, .. } = entropy_bound(evidence.x, evidence.y)?;
    if evidence.mi <= bound {
        return None;
    }
    let limits_to =
        if evidence.mi > 1.15 * bound { Reliability::Doubtful } else { Reliability::Fair };
    reason(
        "above-entropy",
        limits_to,
        format!(
            "the critics found {:.3} nats, more than the entropy of {side}, which is the largest \
             possible value; the estimate was reduced to it, {bound:.3} nats",
            evidence.mi
        ),
    )
}

fn above_lower_bound(evidence: &Evidence) -> Option<Reason> {
    let gap = evidence.mi - evidence.lower_bound?;
    let limits_to = match gap / evidence.mi.max(0.2) {
        share if share > 0.5 => Reliability::Doubtful,
        share if share > 0.2 => Reliability::Fair,
        _ => return None,
    };
    let message = Message::from(format!(
        "a lower bound from the same critics is {gap:.2} nats lower, so the estimate may be too high"
    ));
    // The bound of a chain is lower because of what it subtracts, also with the estimator auto.
    let advice = match (evidence.chain, &evidence.plan.method) {
        (Some(_), Method::Auto) => message.text("; use ").setting(Parameter::Chain, "off"),
        (None, Method::Auto) => message,
        _ => message.text("; use ").setting(Parameter::Estimator, "auto"),
    };
    reason("lower-bound", limits_to, advice)
}

/// Rows that are like their neighbours.
fn serial_dependence(evidence: &Evidence) -> Option<Reason> {
    evidence.serial.reason(evidence.plan.order)
}

/// Fold means that vary more than their standard errors explain.
fn folds_disagree(evidence: &Evidence) -> Option<Reason> {
    let k = evidence.folds.len() as f64;
    if k < 2.0 {
        return None;
    }
    let mean = evidence.folds.iter().map(|fold| fold.mi_nats).sum::<f64>() / k;
    let spread =
        (evidence.folds.iter().map(|f| (f.mi_nats - mean).powi(2)).sum::<f64>() / (k - 1.0)).sqrt();
    let by_rows = evidence.folds.iter().map(|fold| fold.standard_error).sum::<f64>() / k;
    let relative = spread / evidence.mi.abs().max(0.1);
    if !(spread > 2.5 * by_rows && relative > 0.1) {
        return None;
    }
    let limits_to = if relative > 0.3 { Reliability::Doubtful } else { Reliability::Fair };
    let range = |best: fn(f64, f64) -> f64, start: f64| {
        evidence.folds.iter().map(|fold| fold.mi_nats).fold(start, best)
    };
    let message = Message::from(format!(
        "the folds disagree: their estimates range from {:.2} to {:.2} nats, more than chance \
         explains",
        range(f64::min, f64::INFINITY),
        range(f64::max, f64::NEG_INFINITY)
    ));
    let message = match evidence.plan.order {
        RowOrder::Exchangeable => {
            message.text("; if the rows are a time series, use ").parameter(Parameter::Blocks)
        }
        RowOrder::Series { .. } | RowOrder::AutomaticSeries => message,
    };
    reason("folds-disagree", limits_to, message)
}

/// Recipes and seeds with about equal losses that give different estimates.
fn critics_disagree(evidence: &Evidence) -> Option<Reason> {
    if evidence.spread <= 0.1 * evidence.mi.max(0.2) {
        return None;
    }
    reason(
        "critics-disagree",
        Reliability::Fair,
        format!(
            "critics with different settings or seeds disagree: the standard deviation of their \
             estimates is {:.2} nats",
            evidence.spread
        ),
    )
}

fn overfit(evidence: &Evidence) -> Option<Reason> {
    if evidence.folds.is_empty() {
        return None;
    }
    let k = evidence.folds.len() as f64;
    let train = evidence.folds.iter().map(|fold| fold.train_mi_nats).sum::<f64>() / k;
    let held_out = evidence.folds.iter().map(|fold| fold.mi_nats).sum::<f64>() / k;
    let limits_to = match (train - held_out) / held_out.max(0.2) {
        share if share > 1.0 => Reliability::Doubtful,
        share if share > 0.35 => Reliability::Fair,
        _ => return None,
    };
    reason(
        "training-above-held-out",
        limits_to,
        format!(
            "overfitting: {train:.2} nats on training rows, {held_out:.2} nats on held-out rows; \
             there are too few rows for these columns, {}",
            evidence.effect_of_few_rows()
        ),
    )
}

/// Critics whose validation objective was still rising at the end of training.
fn still_improving(evidence: &Evidence) -> Option<Reason> {
    let (mut gain, mut total) = (0.0, 0.0);
    for member in evidence.folds.iter().flat_map(|fold| &fold.members) {
        gain += member.weight * late_gain(&member.curve, member.validation);
        total += member.weight * member.validation;
    }
    if !(evidence.mi > 0.1 && gain > MAX_LATE_GAIN * total) {
        return None;
    }
    let message = Message::from(
        "the critics were still improving when training ended, so the true value is probably higher",
    );
    reason("still-improving", Reliability::Fair, evidence.advise_effort(message))
}

fn below_baselines(evidence: &Evidence) -> Option<Reason> {
    let (name, value) = [
        ("the Gaussian copula", evidence.baselines.gaussian_copula_nats),
        ("KSG", evidence.baselines.ksg_nats),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let gap = value - evidence.mi;
    if gap <= (0.25 * evidence.mi).max(0.1) + 3.0 * evidence.standard_error {
        return None;
    }
    let limits_to =
        if gap > evidence.mi.max(0.2) { Reliability::Doubtful } else { Reliability::Fair };
    let message =
        Message::from(format!("{name} gives {value:.2} nats, {gap:.2} more than this estimate"));
    reason("baseline-above", limits_to, evidence.advise_effort(message))
}

/// Blocks of a chain that share much with each other: the estimate is then a difference of two larger
/// numbers, and their errors do not shrink with it.
fn dependent_blocks(evidence: &Evidence) -> Option<Reason> {
    let ChainFigures { side, .. } = evidence.chain?;
    let shared = evidence.chain?.shared_nats();
    let limits_to = match shared / evidence.mi.max(0.2) {
        share if share > 1.0 => Reliability::Doubtful,
        share if share > 0.25 => Reliability::Fair,
        _ => return None,
    };
    let message = Message::from(format!(
        "the blocks of {side} share {shared:.2} nats with each other, an overlap that is estimated \
         and subtracted, so errors add up; compare with "
    ));
    reason("dependent-blocks", limits_to, message.setting(Parameter::Chain, "off"))
}

/// Rows with the values of another row, which can be training and test rows of the same critic.
///
/// Rounded numbers repeat by chance, and those rows should stay.
fn duplicated_rows(evidence: &Evidence) -> Option<Reason> {
    let given = evidence.given.map_or(&[][..], |(columns, _)| columns);
    let columns: Vec<&Column> = evidence.columns().chain(given).collect();
    let repeats = Repeats::of(&columns, evidence.rows)?;
    let share = repeats.not_by_chance() / evidence.rows as f64;
    if share < 0.01 {
        return None;
    }
    let limits_to = if share > 0.1 { Reliability::Doubtful } else { Reliability::Fair };
    reason(
        "duplicated-rows",
        limits_to,
        format!(
            "{} ({:.0}%) repeat{} another row exactly: critics were tested on rows that they were \
             trained on, so the estimate is too high and the p-value too small; remove the copies, \
             unless they are separate observations",
            counted(repeats.copies, "row"),
            100.0 * repeats.copies as f64 / evidence.rows as f64,
            if repeats.copies == 1 { "s" } else { "" }
        ),
    )
}

/// The most values of a column of whole numbers that are probably codes of categories.
const MAX_CODES: usize = 20;

/// Returns whether a column of numbers probably holds codes of categories: few different whole numbers.
fn holds_codes(column: &Column) -> bool {
    let values = different_numbers(column);
    (3..=MAX_CODES).contains(&values.len()) && values.iter().all(|value| value.fract() == 0.0)
}

/// Codes of categories that are read as numbers are the most frequent mistake with tables of classes: the
/// estimate is then far too low if they are all that there is on a side.
fn tied_values(evidence: &Evidence) -> Option<Reason> {
    let tied: Vec<&str> = evidence
        .columns()
        // Two values have no order that could be wrong.
        .filter(|column| has_ties(column) && different_numbers(column).len() > 2)
        .map(|column| column.name.as_str())
        .collect();
    let first = tied.first()?;
    let is_coded = |side: &[Column]| side.iter().all(holds_codes);
    let is_side_coded = is_coded(evidence.x) || is_coded(evidence.y);
    let limits_to = if is_side_coded { Reliability::Fair } else { Reliability::Good };
    let text = match tied.len() {
        1 => format!(
            "column '{first}' has few distinct values and is treated as a number; if these are codes \
             without an order, the estimate can be far too low: name it in "
        ),
        columns => format!(
            "{columns} columns have few distinct values and are treated as numbers, such as \
             '{first}'; if these are codes without an order, name them in "
        ),
    };
    reason("ties", limits_to, Message::from(text).parameter(Parameter::Discrete))
}

fn ignored_categories(evidence: &Evidence) -> Option<Reason> {
    if !evidence.plan.method.needs_numbers() {
        return None;
    }
    let category = |column: &&Column| matches!(column.values, Values::Discrete { .. });
    let first = &evidence.columns().find(category)?.name;
    let ignored = match evidence.columns().filter(category).count() {
        1 => format!("column '{first}' was ignored"),
        columns => format!("{columns} columns were ignored, such as '{first}'"),
    };
    let method = &evidence.plan.method;
    let message = Message::from(format!("{ignored}, because {method} cannot use categories; use "));
    reason("categories-ignored", Reliability::Fair, message.setting(Parameter::Estimator, "auto"))
}

/// Nothing found among so many columns that a dependence of a few of them could be missed.
fn many_columns(evidence: &Evidence) -> Option<Reason> {
    let pairs = evidence.x.len() * evidence.y.len();
    if evidence.mi >= 0.05 || 5 * pairs <= evidence.rows {
        return None;
    }
    reason(
        "many-columns",
        Reliability::Fair,
        format!(
            "almost no dependence was found, but with {} rows and so many columns (x: {}, y: {}) a \
             dependence between a few of them can be missed; also estimate single pairs of columns",
            evidence.rows,
            evidence.x.len(),
            evidence.y.len()
        ),
    )
}

fn few_rows(evidence: &Evidence) -> Option<Reason> {
    if evidence.rows >= FEW_ROWS {
        return None;
    }
    let rows = counted(evidence.rows, "row");
    let text = format!("there are only {rows}, {}", evidence.effect_of_few_rows());
    reason("few-rows", Reliability::Fair, text)
}

/// A side of levels of which one has almost all rows, so that only few rows are informative.
fn rare_levels(evidence: &Evidence) -> Option<Reason> {
    if evidence.rows < FEW_ROWS {
        return None;
    }
    let of_side = |(side, columns): (&'static str, &[Column])| {
        Some((Levels::of(columns)?.effective_rows() / 2, side))
    };
    let sides = [("x", evidence.x), ("y", evidence.y)].into_iter().filter_map(of_side);
    let (others, side) = sides.min()?;
    if 2 * others >= FEW_ROWS {
        return None;
    }
    let text = format!(
        "all but {} have the same value of {side}, {}",
        counted(others, "row"),
        evidence.effect_of_few_rows()
    );
    reason("rare-levels", Reliability::Fair, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Neutral;
    use crate::estimate::{FoldRows, MemberFigures, TermFigures};
    use crate::nats::Nats;
    use crate::parallel::never;
    use crate::train::CurvePoint;

    fn judge(evidence: &Evidence) -> Verdict {
        let Ok(verdict) = Verdict::new(evidence, never);
        verdict
    }

    fn column(name: &str, values: Vec<f64>) -> Column {
        Column { name: name.into(), values: Values::Continuous(values) }
    }

    fn plan() -> EstimatePlan {
        EstimatePlan::new(Method::Auto, Effort::Default)
    }

    /// Returns the folds of a good estimate of 0.5 nats.
    fn folds() -> Vec<FoldFigures> {
        let validations = [0.0, 0.2, 0.24, 0.25, 0.25, 0.25];
        let curve = validations.into_iter().enumerate();
        let curve: Vec<CurvePoint> = curve
            .map(|(k, validation)| CurvePoint {
                step: k * 100,
                train: Some(validation),
                validation,
            })
            .collect();
        let member = MemberFigures {
            recipe: "one".into(),
            weight: 1.0,
            mi_nats: Some(0.5),
            step: 300,
            validation: 0.25,
            curve,
        };
        [0.49, 0.5, 0.51]
            .map(|mi_nats| FoldFigures {
                rows: FoldRows { train: 700, validation: 100, test: 333 },
                mi_nats,
                standard_error: 0.02,
                train_mi_nats: 0.52,
                members: vec![member.clone()],
            })
            .to_vec()
    }

    /// Returns the verdict on a good estimate after a change.
    fn verdict_after(change: impl Fn(&mut Evidence, &mut Vec<FoldFigures>)) -> Verdict {
        let x = [column("x", (0..1000).map(|k| f64::from(k).sin()).collect())];
        let y = [column("y", (0..1000).map(|k| f64::from(k).cos()).collect())];
        let baselines = Baselines { gaussian_copula_nats: Some(0.5), ksg_nats: Some(0.48) };
        let plan = plan();
        let mut changed = folds();
        let mut evidence = Evidence {
            x: &x,
            y: &y,
            given: None,
            rows: 1000,
            mi: 0.5,
            largest_term: 0.5,
            chain: None,
            standard_error: 0.01,
            lower_bound: Some(0.48),
            p_value: None,
            folds: &[],
            baselines: &baselines,
            spread: 0.0,
            serial: &SerialDependence::none(1000),
            plan: &plan,
        };
        change(&mut evidence, &mut changed);
        evidence.folds = &changed;
        judge(&evidence)
    }

    fn codes(verdict: &Verdict) -> Vec<&str> {
        verdict.reasons.iter().map(|reason| reason.code).collect()
    }

    #[test]
    fn a_good_estimate_has_no_warnings() {
        let verdict = verdict_after(|_, _| {});
        assert_eq!((verdict.reliability, verdict.reasons.len()), (Reliability::Good, 0));
    }

    #[test]
    fn every_flaw_has_its_reason() {
        let one = |change: &dyn Fn(&mut Evidence, &mut Vec<FoldFigures>)| verdict_after(change);
        let near = one(&|evidence, folds| {
            (evidence.mi, evidence.lower_bound) = (6.8, Some(6.7));
            evidence.largest_term = 6.8;
            folds.iter_mut().for_each(|fold| (fold.mi_nats, fold.train_mi_nats) = (6.8, 6.9));
        });
        assert_eq!((codes(&near), near.reliability), (vec!["near-ln-n"], Reliability::Doubtful));
        let loose = one(&|evidence, _| evidence.lower_bound = Some(0.1));
        assert_eq!(
            (codes(&loose), loose.reliability),
            (vec!["lower-bound"], Reliability::Doubtful)
        );
        let uneven = one(&|_, folds| folds[0].mi_nats = 0.3);
        assert_eq!(
            (codes(&uneven), uneven.reliability),
            (vec!["folds-disagree"], Reliability::Fair)
        );
        let overfit = one(&|_, folds| folds.iter_mut().for_each(|fold| fold.train_mi_nats = 0.8));
        assert_eq!(codes(&overfit), ["training-above-held-out"]);
        let rising = one(&|_, folds| {
            for fold in folds {
                fold.members[0].validation = 0.3;
            }
        });
        assert_eq!(
            (codes(&rising), rising.reliability),
            (vec!["still-improving"], Reliability::Fair)
        );
        let spread = one(&|evidence, _| evidence.spread = 0.1);
        assert_eq!(codes(&spread), ["critics-disagree"]);
        let few = one(&|evidence, _| evidence.rows = 100);
        assert_eq!(codes(&few), ["few-rows"]);
    }

    /// What blocks share is subtracted, which also lowers the bound; the advice is about the chain.
    #[test]
    fn blocks_of_a_chain_that_share_much_are_a_warning() {
        let term = |block, is_added, mi_nats| TermFigures {
            term: String::new(),
            block,
            is_added,
            mi_nats,
            lower_bound_nats: mi_nats,
            gap_nats: 0.0,
        };
        let x = [column("x", (0..1000).map(|k| f64::from(k).sin()).collect())];
        let y = [column("y", (0..1000).map(|k| f64::from(k).cos()).collect())];
        let (folds, plan) = (folds(), plan());
        let reasons = |shared: f64, lower_bound: f64| {
            let chain = ChainFigures {
                side: "y".into(),
                blocks: vec![vec!["y1".into()], vec!["y2".into()]],
                terms: vec![
                    term(1, true, 0.3),
                    term(2, true, 0.2 + shared),
                    term(2, false, shared),
                ],
                direct_nats: Nats(0.4),
            };
            let verdict = judge(&Evidence {
                x: &x,
                y: &y,
                given: None,
                rows: 1000,
                mi: 0.5,
                largest_term: 0.2 + shared,
                chain: Some(&chain),
                standard_error: 0.01,
                lower_bound: Some(lower_bound),
                p_value: None,
                folds: &folds,
                baselines: &Baselines::default(),
                spread: 0.0,
                serial: &SerialDependence::none(1000),
                plan: &plan,
            });
            let reasons = verdict.render(&Neutral).reasons.into_iter();
            reasons.map(|reason| (reason.code, reason.limits_to, reason.text)).collect::<Vec<_>>()
        };
        assert_eq!(reasons(0.1, 0.48), []);
        for (shared, limits_to) in [(0.2, Reliability::Fair), (0.6, Reliability::Doubtful)] {
            let found = reasons(shared, 0.48);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!((found[0].0.as_str(), found[0].1), ("dependent-blocks", limits_to));
            assert!(found[0].2.ends_with("compare with chain = off"), "{found:?}");
        }
        let found = reasons(0.6, 0.1);
        let texts = found.iter().filter(|reason| reason.0 == "lower-bound");
        assert!(texts.map(|reason| &reason.2).all(|text| text.ends_with("use chain = off")));
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn nothing_among_many_columns_is_a_warning() {
        let side = |name: &str| -> Vec<Column> {
            let values = |c: usize| (0..1000).map(|k| ((k * (c + 3)) as f64).sin()).collect();
            (0..20).map(|c| column(&format!("{name}{c}"), values(c))).collect()
        };
        let (x, y) = (side("x"), side("y"));
        let verdict = verdict_after(|evidence, folds| {
            evidence.mi = 0.001;
            folds.iter_mut().for_each(|fold| (fold.mi_nats, fold.train_mi_nats) = (0.001, 0.002));
        });
        assert!(!codes(&verdict).contains(&"many-columns"));
        let (folds, plan, baselines) = (folds(), plan(), Baselines::default());
        let serial = SerialDependence::none(1000);
        let evidence = Evidence {
            x: &x,
            y: &y,
            given: None,
            rows: 1000,
            mi: 0.001,
            largest_term: 0.001,
            chain: None,
            standard_error: 0.01,
            lower_bound: None,
            p_value: None,
            folds: &folds,
            baselines: &baselines,
            spread: 0.0,
            serial: &serial,
            plan: &plan,
        };
        assert!(codes(&judge(&evidence)).contains(&"many-columns"));
    }

    #[test]
    fn a_baseline_above_the_estimate_is_a_warning() {
        let more = Baselines { gaussian_copula_nats: Some(0.8), ksg_nats: None };
        let plan = plan();
        let x = [column("x", (0..1000).map(|k| f64::from(k).sin()).collect())];
        let y = [column("y", (0..1000).map(|k| f64::from(k).cos()).collect())];
        let folds = folds();
        let evidence = Evidence {
            x: &x,
            y: &y,
            given: None,
            rows: 1000,
            mi: 0.5,
            largest_term: 0.5,
            chain: None,
            standard_error: 0.01,
            lower_bound: None,
            p_value: None,
            folds: &folds,
            baselines: &more,
            spread: 0.0,
            serial: &SerialDependence::none(1000),
            plan: &plan,
        };
        let verdict = judge(&evidence);
        assert_eq!(codes(&verdict), ["baseline-above"]);
        let text = verdict.render(&Neutral).reasons.remove(0).text;
        assert_eq!(
            text,
            "the Gaussian copula gives 0.80 nats, 0.30 more than this estimate; try effort = max"
        );
    }

    #[test]
    fn flaws_of_the_data_are_warnings() {
        let verdict_on = |x: Column, y: Column, mi: f64| {
            let (x, y, folds) = ([x], [y], folds());
            let rows = x[0].len();
            let (baselines, plan) = (Baselines::default(), plan());
            let evidence = Evidence {
                x: &x,
                y: &y,
                given: None,
                rows,
                mi,
                largest_term: mi,
                chain: None,
                standard_error: 0.01,
                lower_bound: None,
                p_value: None,
                folds: &folds,
                baselines: &baselines,
                spread: 0.0,
                serial: &SerialDependence::none(rows),
                plan: &plan,
            };
            judge(&evidence)
        };
        let label = Column {
            name: "label".into(),
            values: Values::Discrete {
                codes: (0..1000).map(|k| k % 2).collect(),
                labels: vec!["a".into(), "b".into()],
            },
        };
        let smooth = || column("x", (0..1000).map(|k| f64::from(k).sin()).collect());
        // The entropy of two equally frequent levels is ln 2 = 0.693 nats.
        assert_eq!(codes(&verdict_on(smooth(), label.clone(), 0.8)), ["above-entropy"]);
        assert!(codes(&verdict_on(smooth(), label, 0.5)).is_empty());
        let copies =
            |f: fn(f64) -> f64| column("c", (0..1000).map(|k| f(f64::from(k / 2))).collect());
        let doubled = verdict_on(copies(f64::sin), copies(f64::cos), 0.5);
        assert_eq!(
            (codes(&doubled), doubled.reliability),
            (vec!["duplicated-rows"], Reliability::Doubtful)
        );
        // Beside copies, which raise the estimate, no warning says that it is too low.
        let few = |f: fn(f64) -> f64| column("c", (0..100).map(|k| f(f64::from(k / 2))).collect());
        assert_eq!(codes(&verdict_on(few(f64::sin), few(f64::cos), 4.5)), ["duplicated-rows"]);
        let coarse = || column("coarse", (0..1000).map(|k| f64::from(k % 7)).collect());
        let tied = verdict_on(coarse(), smooth(), 0.5);
        // All of a side is few whole numbers: they may be codes of categories.
        assert_eq!((codes(&tied), tied.reliability), (vec!["ties"], Reliability::Fair));
        let rounded = column("rounded", (0..1000).map(|k| f64::from(k % 7) / 4.0).collect());
        let tied = verdict_on(rounded, smooth(), 0.5);
        assert_eq!((codes(&tied), tied.reliability), (vec!["ties"], Reliability::Good));
        // Seven values have at most ln 7 = 1.95 nats, whether they are categories or numbers.
        assert_eq!(codes(&verdict_on(coarse(), smooth(), 2.1)), ["above-entropy", "ties"]);
        // Rounded numbers and whole numbers repeat by chance, together more often than apart.
        for digits in [1.0, 10.0, 30.0] {
            let rounded = |f: fn(f64) -> f64| {
                column("r", (0..1000).map(|k| (digits * f(f64::from(k))).round()).collect())
            };
            let verdict = verdict_on(rounded(f64::sin), rounded(f64::cos), 0.5);
            assert!(!codes(&verdict).contains(&"duplicated-rows"), "{digits}");
        }
        // y = x: that the estimate is close to ln n, as well, would be no help.
        let equal = verdict_on(smooth(), smooth(), 6.8);
        assert_eq!(
            (codes(&equal), equal.reliability),
            (vec!["deterministic"], Reliability::Doubtful)
        );
    }

    #[test]
    fn texts_count_in_the_singular_and_in_the_plural() {
        let text = |check: fn(&Evidence) -> Option<Reason>, x: &[Column], rows: usize, method| {
            let (baselines, serial) = (Baselines::default(), SerialDependence::none(rows));
            let plan = EstimatePlan::new(method, Effort::Default);
            let evidence = Evidence {
                x,
                y: &[],
                given: None,
                rows,
                mi: 0.5,
                largest_term: 0.5,
                chain: None,
                standard_error: 0.01,
                lower_bound: None,
                p_value: None,
                folds: &[],
                baselines: &baselines,
                spread: 0.0,
                serial: &serial,
                plan: &plan,
            };
            check(&evidence).unwrap().message.render(&Neutral)
        };
        let start = |text: String| text.split([';', ':']).next().unwrap().to_string();
        let coarse = |name: &str| column(name, (0..100).map(|k| f64::from(k % 7)).collect());
        let category = |name: &str| Column {
            name: name.into(),
            values: Values::Discrete { codes: vec![0; 100], labels: vec!["a".into()] },
        };
        let copies = |copies: usize| {
            column("c", (0..100).map(|k| f64::from(k as u32).max(copies as f64).sin()).collect())
        };
        assert_eq!(
            start(text(few_rows, &[], 150, Method::Auto)),
            "there are only 150 rows, so the true value is probably higher"
        );
        assert_eq!(
            text(tied_values, &[coarse("a")], 100, Method::Auto),
            "column 'a' has few distinct values and is treated as a number; if these are codes \
             without an order, the estimate can be far too low: name it in discrete"
        );
        assert_eq!(
            start(text(tied_values, &[coarse("a"), coarse("b")], 100, Method::Auto)),
            "2 columns have few distinct values and are treated as numbers, such as 'a'"
        );
        assert_eq!(
            start(text(duplicated_rows, &[copies(1)], 100, Method::Auto)),
            "1 row (1%) repeats another row exactly"
        );
        assert_eq!(
            start(text(duplicated_rows, &[copies(2)], 100, Method::Auto)),
            "2 rows (2%) repeat another row exactly"
        );
        assert_eq!(
            text(ignored_categories, &[category("a")], 100, Method::Ksg),
            "column 'a' was ignored, because ksg cannot use categories; use estimator = auto"
        );
        assert_eq!(
            start(text(ignored_categories, &[category("a"), category("b")], 100, Method::Ksg)),
            "2 columns were ignored, such as 'a', because ksg cannot use categories"
        );
    }
}

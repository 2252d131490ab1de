//! Selection of features: which columns of x to keep in order to know y.
//!
//! Features are chosen one after the other. In each step, counts rank all candidates
//! ([`Coarse`]), the best few are estimated, and the criterion (Brown et al. 2012) is computed from
//! these estimates. What the chosen feature adds, I(f; y | features chosen before), is estimated and
//! tested for every criterion, so the gains of a selection add up to what it tells about y.

use super::conditional::estimate_given;
use super::method::Method;
use super::plan::{EstimatePlan, MAX_PERMUTATIONS};
use super::progress::{OnlyChecks, Progress, advance, check};
use super::regression::predict;
use super::screening::Coarse;
use super::{check_columns, estimate};
use crate::data::{Column, Values};
use crate::engine::{Engine, run_estimates};
use crate::error::{Error, Result, invalid, quote};
use crate::message::Parameter;
use crate::parallel::run_jobs;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::{fmt, str::FromStr};

/// The level of the test that ends a selection.
pub const SELECTION_LEVEL: f64 = 0.05;

/// The number of candidates of a step that are estimated.
const FINALISTS: usize = 4;

/// The number of pairs of candidates that are estimated.
const PAIR_FINALISTS: usize = 2;

/// The maximum number of features that are tried in pairs: 2415 pairs, whose adjusted p-value can
/// still be significant with [`MAX_PERMUTATIONS`].
const MAX_PAIRED_FEATURES: usize = 70;

/// The units of progress of one chosen feature.
const UNITS: u64 = 100;

/// What decides which feature is chosen next, with s for the features chosen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Criterion {
    /// I(f; y | all s): what the feature adds. Pairs are tried if no feature adds anything alone.
    Forward,
    /// The smallest I(f; y | s): conditional mutual information maximisation (Fleuret 2004).
    Cmim,
    /// The mean of I(f, s; y): joint mutual information (Yang and Moody 1999).
    Jmi,
    /// I(f; y) less the mean of I(f; s): minimum redundancy, maximum relevance (Peng et al. 2005).
    Mrmr,
}

impl Criterion {
    /// All criteria.
    pub const ALL: [Criterion; 4] =
        [Criterion::Forward, Criterion::Cmim, Criterion::Jmi, Criterion::Mrmr];

    /// Returns the name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Criterion::Forward => "forward",
            Criterion::Cmim => "cmim",
            Criterion::Jmi => "jmi",
            Criterion::Mrmr => "mrmr",
        }
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Criterion {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let expected = "write forward, cmim, jmi or mrmr";
        Criterion::ALL
            .into_iter()
            .find(|criterion| criterion.name() == name)
            .ok_or_else(|| invalid(Parameter::Criterion, name, expected))
    }
}

/// Everything that determines a selection, except the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectionPlan {
    /// The maximum number of features to choose.
    pub k: usize,
    /// The criterion.
    pub criterion: Criterion,
    /// How each mutual information is estimated. Tests use more permutations than this where many
    /// candidates need them.
    pub estimate: EstimatePlan,
}

impl SelectionPlan {
    /// Checks that the plan can be run on this many features and rows.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self, features: usize, rows: usize) -> Result<()> {
        if features < 2 {
            let problem = "there is one feature; a selection needs at least two".into();
            return Err(Error::Columns { problem });
        }
        if !(1..=features).contains(&self.k) {
            let expected = format!("must be between 1 and {features}, the number of features");
            return Err(invalid(Parameter::K, self.k, expected));
        }
        if self.estimate.method == Method::Ksg {
            return Err(Error::Incompatible {
                parameter: Parameter::Estimator,
                value: self.estimate.method.to_string(),
                other: "a selection of features".into(),
                reason: "nearest neighbours have no test here; use auto or copula".into(),
            });
        }
        self.estimate.check(rows)
    }
}

/// A chosen feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SelectedFeature {
    /// Its place in the selection, from 1.
    pub rank: usize,
    /// Its name.
    pub feature: String,
    /// Its position among the columns of x, from 0.
    pub column: usize,
    /// What it adds to the features before it: I(f; y | these).
    pub gain_nats: f64,
    /// The lower end of the 95% interval of the gain.
    pub ci_low: f64,
    /// The upper end of the 95% interval of the gain.
    pub ci_high: f64,
    /// Its information by itself: I(f; y).
    pub alone_nats: f64,
    /// How much of that is already in the features before it; negative if they make it more
    /// informative.
    pub redundancy_nats: f64,
    /// The p-value of the test of the gain; for a pair, of the gain of both.
    pub p_value: f64,
    /// The p-value times the number of candidates that the feature or pair was chosen from.
    pub p_adjusted: f64,
    /// The value of the criterion; for a pair, the gain of both.
    pub score_nats: f64,
    /// The other feature, if the two were chosen as a pair.
    pub partner: Option<String>,
}

/// Why a selection ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SelectionEnd {
    /// The requested number of features was chosen.
    Complete,
    /// The gain of the best candidate left was not significant.
    NothingLeft {
        /// The best candidate; two for a pair.
        features: Vec<String>,
        /// Its gain.
        gain_nats: f64,
        /// Its adjusted p-value.
        p_adjusted: f64,
    },
}

/// The chosen features, in the order of their choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Selection {
    /// The features.
    pub features: Vec<SelectedFeature>,
    /// Why there are no more.
    pub end: SelectionEnd,
}

/// Chooses the columns of x that are most informative about y. All columns have equal lengths and no missing
/// values.
///
/// ```
/// use fdime::data::{Column, Values};
/// use fdime::CpuEngine;
/// use fdime::estimate::{
///     Criterion, Effort, EstimatePlan, Method, NoProgress, SelectionPlan, select_features,
/// };
///
/// // y is the sum of two features; the third is a copy of the first with noise.
/// let noise = |k: usize, step: usize| (k * step % 401) as f64 / 401.0;
/// let column = |name: &str, value: &dyn Fn(usize) -> f64| Column {
///     name: name.into(),
///     values: Values::Continuous((0..400).map(value).collect()),
/// };
/// let x = [
///     column("a", &|k| noise(k, 37)),
///     column("b", &|k| noise(k, 101)),
///     column("copy of a", &|k| noise(k, 37) + 0.1 * noise(k, 211)),
/// ];
/// let y = column("y", &|k| noise(k, 37) + 0.7 * noise(k, 101) + 0.3 * noise(k, 173));
/// let plan = SelectionPlan {
///     k: 2,
///     criterion: Criterion::Forward,
///     estimate: EstimatePlan::new(Method::GaussianCopula, Effort::Quick),
/// };
/// let selection = select_features(&x, &y, &plan, &CpuEngine::new(0), &NoProgress)?;
/// let names: Vec<&str> = selection.features.iter().map(|f| f.feature.as_str()).collect();
/// assert_eq!(names, ["a", "b"]);
/// # Ok::<(), fdime::Error>(())
/// ```
///
/// # Errors
/// If columns do not fit together, or the plan cannot be run on them.
pub fn select_features(
    x: &[Column],
    y: &Column,
    plan: &SelectionPlan,
    engine: &dyn Engine,
    progress: &dyn Progress,
) -> Result<Selection> {
    check_columns(x, std::slice::from_ref(y))?;
    plan.check(x.len(), y.len())?;
    if let Some(column) = x.iter().chain([y]).find(|column| column.is_constant()) {
        let problem = format!("column {} has the same value in every row", quote(&column.name));
        return Err(Error::Columns { problem });
    }
    progress.begin(UNITS * plan.k as u64);
    let mut search = Search {
        x,
        y,
        plan,
        engine,
        progress,
        coarse: x.iter().map(Coarse::new).collect(),
        coarse_y: Coarse::new(y),
        known: HashMap::new(),
        chosen: Vec::new(),
        units_left: UNITS,
    };
    let end = loop {
        if search.chosen.len() == plan.k {
            break SelectionEnd::Complete;
        }
        if let Some(end) = search.step()? {
            break end;
        }
    };
    Ok(Selection { features: search.chosen, end })
}

/// A mutual information that may have been estimated: between features `x` and the target, or
/// another feature, given others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Term {
    x: Vec<usize>,
    /// `None` is the target.
    y: Option<usize>,
    given: Vec<usize>,
}

impl Term {
    fn about_target(x: &[usize], given: &[usize]) -> Self {
        Term { x: x.to_vec(), y: None, given: given.to_vec() }
    }

    fn between(feature: usize, other: usize) -> Self {
        Term { x: vec![feature.min(other)], y: Some(feature.max(other)), given: Vec::new() }
    }

    fn joint(feature: usize, other: usize) -> Self {
        Term::about_target(&[feature.min(other), feature.max(other)], &[])
    }
}

/// The estimate of a term.
#[derive(Clone, Copy, Debug)]
struct Figures {
    mi: f64,
    interval: (f64, f64),
    p_value: f64,
}

/// A candidate for a step: one feature or two, and the value of the criterion.
struct Choice {
    features: Vec<usize>,
    score: f64,
    gain: Figures,
    p_adjusted: f64,
}

impl Choice {
    fn is_significant(&self) -> bool {
        self.p_adjusted <= SELECTION_LEVEL
    }
}

struct Search<'a> {
    x: &'a [Column],
    y: &'a Column,
    plan: &'a SelectionPlan,
    engine: &'a dyn Engine,
    progress: &'a dyn Progress,
    coarse: Vec<Coarse>,
    coarse_y: Coarse,
    known: HashMap<Term, Figures>,
    chosen: Vec<SelectedFeature>,
    /// The units of progress that the current step has not reported.
    units_left: u64,
}

impl Search<'_> {
    fn selected(&self) -> Vec<usize> {
        self.chosen.iter().map(|feature| feature.column).collect()
    }

    fn candidates(&self) -> Vec<usize> {
        let selected = self.selected();
        (0..self.x.len()).filter(|feature| !selected.contains(feature)).collect()
    }

    /// Chooses a feature or a pair. Returns why the selection ends if there is nothing to choose.
    fn step(&mut self) -> Result<Option<SelectionEnd>> {
        let mut choice = match self.plan.criterion {
            Criterion::Forward => self.best_gain()?,
            _ => self.best_score()?,
        };
        let tries_pairs = self.plan.criterion == Criterion::Forward
            && self.plan.k - self.chosen.len() >= 2
            && self.candidates().len() >= 2;
        if !choice.is_significant() && tries_pairs {
            let pair = self.best_pair()?;
            if pair.is_significant() {
                choice = pair;
            }
        }
        if !choice.is_significant() {
            let name = |feature: &usize| self.x[*feature].name.clone();
            return Ok(Some(SelectionEnd::NothingLeft {
                features: choice.features.iter().map(name).collect(),
                gain_nats: choice.gain.mi,
                p_adjusted: choice.p_adjusted,
            }));
        }
        self.choose(choice)?;
        Ok(None)
    }

    /// Returns the candidate with the largest significant gain, or with the largest gain if none is
    /// significant.
    fn best_gain(&mut self) -> Result<Choice> {
        let (candidates, selected) = (self.candidates(), self.selected());
        let finalists = best(&candidates, &self.rank(&candidates)?, FINALISTS);
        let terms: Vec<Term> =
            finalists.iter().map(|feature| Term::about_target(&[*feature], &selected)).collect();
        self.estimate(&terms, candidates.len())?;
        let choices = finalists.iter().zip(&terms).map(|(feature, term)| {
            let gain = self.known[term];
            self.choice(&[*feature], gain.mi, gain, candidates.len())
        });
        Ok(strongest(choices.collect()))
    }

    /// Returns the candidate that the criterion prefers, with its gain.
    fn best_score(&mut self) -> Result<Choice> {
        let (candidates, selected) = (self.candidates(), self.selected());
        let finalists = best(&candidates, &self.rank(&candidates)?, FINALISTS);
        let terms: Vec<Term> =
            finalists.iter().flat_map(|feature| self.terms(*feature, &selected)).collect();
        self.estimate(&terms, candidates.len())?;
        let scores: Vec<f64> =
            finalists.iter().map(|feature| self.score(*feature, &selected)).collect();
        let winner = best(&finalists, &scores, 1)[0];
        let score = self.score(winner, &selected);
        let term = Term::about_target(&[winner], &selected);
        self.estimate(std::slice::from_ref(&term), candidates.len())?;
        Ok(self.choice(&[winner], score, self.known[&term], candidates.len()))
    }

    /// Returns the pair of candidates with the largest gain among those with the largest synergy: what
    /// both tell together beyond what each tells alone.
    fn best_pair(&mut self) -> Result<Choice> {
        let (mut candidates, selected) = (self.candidates(), self.selected());
        if candidates.len() > MAX_PAIRED_FEATURES {
            let alone = |feature: &usize| self.coarse[*feature].information(&self.coarse_y);
            let alone: Vec<f64> = candidates.iter().map(alone).collect();
            candidates = best(&candidates, &alone, MAX_PAIRED_FEATURES);
        }
        let (target, coarse) = self.left_over(&candidates)?;
        let places: Vec<(usize, usize)> = (0..candidates.len())
            .flat_map(|i| (i + 1..candidates.len()).map(move |j| (i, j)))
            .collect();
        let synergies: Vec<f64> =
            places.iter().map(|(i, j)| coarse[*i].synergy(&coarse[*j], &target)).collect();
        let terms: Vec<Term> = best(&places, &synergies, PAIR_FINALISTS)
            .into_iter()
            .map(|(i, j)| Term::about_target(&[candidates[i], candidates[j]], &selected))
            .collect();
        self.estimate(&terms, places.len())?;
        let choices = terms.iter().map(|term| {
            let gain = self.known[term];
            self.choice(&term.x, gain.mi, gain, places.len())
        });
        Ok(strongest(choices.collect()))
    }

    fn choice(&self, features: &[usize], score: f64, gain: Figures, candidates: usize) -> Choice {
        let p_adjusted = (gain.p_value * candidates as f64).min(1.0);
        Choice { features: features.to_vec(), score, gain, p_adjusted }
    }

    /// Adds a choice to the selection.
    fn choose(&mut self, choice: Choice) -> Result<()> {
        let selected = self.selected();
        let mut terms: Vec<Term> =
            choice.features.iter().map(|feature| Term::about_target(&[*feature], &[])).collect();
        let first = Term::about_target(&choice.features[..1], &selected);
        terms.push(first.clone());
        self.estimate(&terms, 1)?;
        let first = self.known[&first];
        let whole = choice.gain;
        for (place, feature) in choice.features.iter().enumerate() {
            // By the chain rule, the gain of a pair is that of one and of the other given the one.
            let (gain, (low, high)) = match (choice.features.len(), place) {
                (1, _) => (whole.mi, whole.interval),
                (_, 0) => (first.mi, first.interval),
                _ => {
                    let rest = |end: f64| (end - first.mi).max(0.0);
                    (rest(whole.mi), (rest(whole.interval.0), rest(whole.interval.1)))
                }
            };
            let alone = self.known[&Term::about_target(&[*feature], &[])].mi;
            let partner = choice.features.iter().find(|other| *other != feature);
            self.chosen.push(SelectedFeature {
                rank: self.chosen.len() + 1,
                feature: self.x[*feature].name.clone(),
                column: *feature,
                gain_nats: gain,
                ci_low: low,
                ci_high: high,
                alone_nats: alone,
                redundancy_nats: alone - gain,
                p_value: whole.p_value,
                p_adjusted: choice.p_adjusted,
                score_nats: choice.score,
                partner: partner.map(|other| self.x[*other].name.clone()),
            });
            advance(self.progress, std::mem::replace(&mut self.units_left, UNITS))?;
        }
        Ok(())
    }

    /// Returns the terms that the criterion of a feature is computed from.
    fn terms(&self, feature: usize, selected: &[usize]) -> Vec<Term> {
        let alone = Term::about_target(&[feature], &[]);
        let with_each = |term: &dyn Fn(usize) -> Term| selected.iter().map(|s| term(*s)).collect();
        match self.plan.criterion {
            _ if selected.is_empty() => vec![alone],
            Criterion::Forward => vec![Term::about_target(&[feature], selected)],
            Criterion::Cmim => with_each(&|s| Term::about_target(&[feature], &[s])),
            Criterion::Jmi => with_each(&|s| Term::joint(feature, s)),
            Criterion::Mrmr => {
                let mut terms: Vec<Term> = with_each(&|s| Term::between(feature, s));
                terms.push(alone);
                terms
            }
        }
    }

    /// Returns the criterion of a feature, whose terms are known.
    fn score(&self, feature: usize, selected: &[usize]) -> f64 {
        let terms = self.terms(feature, selected);
        let values: Vec<f64> = terms.iter().map(|term| self.known[term].mi).collect();
        match (self.plan.criterion, values.split_last()) {
            (Criterion::Mrmr, Some((relevance, redundancies))) => relevance - mean(redundancies),
            (Criterion::Cmim, _) => values.iter().copied().fold(f64::INFINITY, f64::min),
            _ => mean(&values),
        }
    }

    /// Returns the criterion of each candidate by counts.
    fn rank(&self, candidates: &[usize]) -> Result<Vec<f64>> {
        let (selected, y) = (self.selected(), &self.coarse_y);
        if candidates.len() <= FINALISTS {
            return Ok(vec![0.0; candidates.len()]);
        }
        if self.plan.criterion == Criterion::Forward && !selected.is_empty() {
            return self.rank_gains(candidates);
        }
        let score = |feature: &usize| {
            let own = &self.coarse[*feature];
            let with_each = |value: &dyn Fn(&Coarse) -> f64| -> Vec<f64> {
                selected.iter().map(|s| value(&self.coarse[*s])).collect()
            };
            match self.plan.criterion {
                _ if selected.is_empty() => own.information(y),
                Criterion::Cmim => with_each(&|s| own.with(s).information(y) - s.information(y))
                    .into_iter()
                    .fold(f64::INFINITY, f64::min),
                Criterion::Jmi => mean(&with_each(&|s| own.with(s).information(y))),
                Criterion::Mrmr | Criterion::Forward => {
                    own.information(y) - mean(&with_each(&|s| own.information(s)))
                }
            }
        };
        Ok(candidates.iter().map(score).collect())
    }

    /// Returns what each candidate seems to add: what is left of it after a regression on the chosen
    /// features tells about what is left of y, alone and together with one of the chosen features.
    fn rank_gains(&self, candidates: &[usize]) -> Result<Vec<f64>> {
        let (target, coarse) = self.left_over(candidates)?;
        let selected = self.selected();
        let gain = |own: &Coarse| {
            let together = selected.iter().map(|s| own.synergy(&self.coarse[*s], &target));
            own.information(&target) + together.fold(0.0, f64::max)
        };
        Ok(coarse.iter().map(gain).collect())
    }

    /// Returns y and the candidates after regressions on the chosen features, in levels.
    fn left_over(&self, candidates: &[usize]) -> Result<(Coarse, Vec<Coarse>)> {
        let given: Vec<Column> = self.selected().iter().map(|s| self.x[*s].clone()).collect();
        let all: Vec<u32> = (0..self.y.len() as u32).collect();
        let rest = |column: &Column| -> Result<Coarse> {
            if given.is_empty() || !matches!(column.values, Values::Continuous(_)) {
                return Ok(Coarse::new(column));
            }
            let targets = std::slice::from_ref(column);
            let seed = self.plan.estimate.seed;
            let found = predict(targets, &given, &all, seed, &|| check(self.progress))?;
            Ok(match found.into_iter().flatten().next() {
                Some(prediction) => Coarse::quantiles(&prediction.residual()),
                None => Coarse::new(column),
            })
        };
        let columns: Vec<&Column> =
            candidates.iter().map(|feature| &self.x[*feature]).chain([self.y]).collect();
        let rests = run_jobs(self.engine.threads(), columns.len(), |index, _| rest(columns[index]));
        let mut rests = rests.into_iter().collect::<Result<Vec<Coarse>>>()?;
        let target = rests.pop().unwrap_or_else(|| Coarse::new(self.y));
        Ok((target, rests))
    }

    /// Estimates the terms that are not known yet, with enough permutations for a test adjusted for
    /// this many candidates.
    fn estimate(&mut self, terms: &[Term], candidates: usize) -> Result<()> {
        let mut open: Vec<Term> = Vec::new();
        for term in terms.iter().filter(|term| !self.known.contains_key(term)) {
            if !open.contains(term) {
                open.push(term.clone());
            }
        }
        let plan = self.plan.estimate.with_permutations_for(candidates, MAX_PERMUTATIONS);
        // How many estimates a step needs is not known, so each batch is half of what is left of it.
        let share = self.units_left / 2 / open.len().max(1) as u64;
        self.units_left -= share * open.len() as u64;
        let found = run_estimates(self.engine, self.y.len(), open.len(), |index, engine| {
            let figures = self.figures(&open[index], &plan, engine)?;
            advance(self.progress, share)?;
            Ok::<Figures, Error>(figures)
        });
        for (term, figures) in open.into_iter().zip(found) {
            self.known.insert(term, figures?);
        }
        Ok(())
    }

    fn figures(&self, term: &Term, plan: &EstimatePlan, engine: &dyn Engine) -> Result<Figures> {
        let columns = |places: &[usize]| -> Vec<Column> {
            places.iter().map(|place| self.x[*place].clone()).collect()
        };
        let y = [term.y.map_or(self.y, |place| &self.x[place]).clone()];
        let (x, given) = (columns(&term.x), columns(&term.given));
        let progress = OnlyChecks(self.progress);
        let found = match given.is_empty() {
            true => estimate(&x, &y, plan, engine, &progress)?,
            false => estimate_given(&x, &y, &given, plan, engine, &progress)?,
        };
        Ok(Figures {
            mi: found.mi.0,
            interval: (found.interval.0.0, found.interval.1.0),
            p_value: found.independence.map_or(1.0, |test| test.p_value),
        })
    }
}

/// Returns the items with the highest scores, best first; earlier ones before equal later ones.
fn best<T: Clone>(items: &[T], scores: &[f64], count: usize) -> Vec<T> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    order.into_iter().take(count).map(|index| items[index].clone()).collect()
}

/// Returns the choice with the largest gain, a significant one if there is any. There is at least one
/// choice.
fn strongest(mut choices: Vec<Choice>) -> Choice {
    choices.sort_by(|a, b| {
        let by_test = b.is_significant().cmp(&a.is_significant());
        by_test.then(b.gain.mi.total_cmp(&a.gain.mi))
    });
    choices.swap_remove(0)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::CpuEngine;
    use crate::estimate::{Effort, NoProgress};
    use crate::random::{Purpose, stream};
    use rand::RngExt;
    use std::ops::ControlFlow;

    const ROWS: usize = 600;

    /// Returns independent columns of approximately normal numbers.
    fn normal_columns(count: usize) -> Vec<Vec<f64>> {
        let mut rng = stream(5, Purpose::Null, 0, 0);
        let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        (0..count).map(|_| (0..ROWS).map(|_| normal()).collect()).collect()
    }

    fn numbers(name: &str, values: Vec<f64>) -> Column {
        Column { name: name.into(), values: Values::Continuous(values) }
    }

    fn coin(name: &str, values: impl Iterator<Item = bool>) -> Column {
        let codes = values.map(u32::from).collect();
        let labels = vec!["no".into(), "yes".into()];
        Column { name: name.into(), values: Values::Discrete { codes, labels } }
    }

    fn plan(k: usize, criterion: Criterion, method: Method) -> SelectionPlan {
        SelectionPlan { k, criterion, estimate: EstimatePlan::new(method, Effort::Quick) }
    }

    fn names(selection: &Selection) -> Vec<&str> {
        selection.features.iter().map(|feature| feature.feature.as_str()).collect()
    }

    fn weighted(columns: &[(&[f64], f64)]) -> Vec<f64> {
        let sum = |row: usize| columns.iter().map(|(column, weight)| weight * column[row]).sum();
        (0..ROWS).map(sum).collect()
    }

    /// y = a + 0.8 b + noise, with a noisy copy of a and columns of noise.
    fn sums() -> (Vec<Column>, Column) {
        let base = normal_columns(6);
        let y = weighted(&[(&base[0], 1.0), (&base[1], 0.8), (&base[2], 0.5)]);
        let copy = weighted(&[(&base[0], 1.0), (&base[3], 0.3)]);
        let mut x = vec![numbers("copy", copy)];
        for (name, column) in ["a", "b"].iter().zip(&base) {
            x.push(numbers(name, column.clone()));
        }
        for (k, column) in base[4..].iter().enumerate() {
            x.push(numbers(&format!("noise {k}"), column.clone()));
        }
        (x, numbers("y", y))
    }

    /// y = a xor b among other coins.
    fn exclusive_or() -> (Vec<Column>, Column) {
        let base = normal_columns(6);
        let is_positive = |k: usize| base[k].iter().map(|value| *value > 0.0);
        let x = (0..6).map(|k| coin(["a", "n1", "n2", "b", "n3", "n4"][k], is_positive(k)));
        let y = is_positive(0).zip(is_positive(3)).map(|(a, b)| a != b);
        (x.collect(), coin("y", y))
    }

    /// Tests at 5%, adjusted for the candidates, with a fixed seed.
    #[test]
    fn every_criterion_finds_the_sum_and_leaves_out_copies_and_noise() {
        let (x, y) = sums();
        for criterion in Criterion::ALL {
            let plan = plan(5, criterion, Method::GaussianCopula);
            let found = select_features(&x, &y, &plan, &CpuEngine::new(1), &NoProgress).unwrap();
            assert_eq!(names(&found), ["a", "b"], "{criterion}");
            assert!(matches!(found.end, SelectionEnd::NothingLeft { .. }), "{criterion}");
            // 1.89 / 0.89 and 0.89 / 0.25 are ratios of the variances of y before and after.
            for (feature, ratio) in found.features.iter().zip([1.89f64 / 0.89, 0.89 / 0.25]) {
                let truth = 0.5 * ratio.ln();
                assert!((feature.gain_nats - truth).abs() < 0.1, "{criterion}: {feature:?}");
                assert!(feature.ci_low <= truth && truth <= feature.ci_high, "{feature:?}");
                assert!(feature.p_adjusted <= SELECTION_LEVEL);
                let redundancy = feature.alone_nats - feature.gain_nats;
                assert_eq!(feature.redundancy_nats, redundancy);
            }
            assert!(found.features[1].redundancy_nats < 0.0, "b tells more once a is known");
        }
    }

    #[test]
    fn threads_change_nothing() {
        let (x, y) = sums();
        let plan = plan(1, Criterion::Forward, Method::GaussianCopula);
        let run = |threads| {
            select_features(&x, &y, &plan, &CpuEngine::new(threads), &NoProgress).unwrap()
        };
        assert_eq!(run(1), run(2));
    }

    #[test]
    fn forward_finds_a_pair_that_tells_nothing_alone() {
        let (x, y) = exclusive_or();
        let run = |criterion, k| {
            let plan = plan(k, criterion, Method::Auto);
            select_features(&x, &y, &plan, &CpuEngine::new(1), &NoProgress).unwrap()
        };
        let found = run(Criterion::Forward, 2);
        assert_eq!((names(&found), &found.end), (vec!["a", "b"], &SelectionEnd::Complete));
        let [a, b] = &found.features[..] else { panic!("two features") };
        assert_eq!((a.partner.as_deref(), b.partner.as_deref()), (Some("b"), Some("a")));
        assert!((a.gain_nats + b.gain_nats - 2f64.ln()).abs() < 0.02);
        assert!(b.redundancy_nats < -0.6 && b.p_adjusted <= SELECTION_LEVEL);
        for criterion in [Criterion::Mrmr, Criterion::Jmi, Criterion::Cmim] {
            assert!(run(criterion, 2).features.is_empty(), "{criterion} sees single features");
        }
        assert!(run(Criterion::Forward, 1).features.is_empty(), "there is no room for a pair");
    }

    #[test]
    fn criteria_follow_their_formulas() {
        let (x, y) = exclusive_or();
        let figures = |mi| Figures { mi, interval: (mi, mi), p_value: 0.5 };
        let known = [
            (Term::about_target(&[2], &[]), 0.9),
            (Term::between(2, 0), 0.1),
            (Term::between(1, 2), 0.3),
            (Term::joint(2, 0), 1.0),
            (Term::joint(1, 2), 1.4),
            (Term::about_target(&[2], &[0]), 0.25),
            (Term::about_target(&[2], &[1]), 0.15),
            (Term::about_target(&[2], &[0, 1]), 0.05),
        ];
        let expected = [0.05, 0.15, 1.2, 0.7];
        for (criterion, expected) in Criterion::ALL.into_iter().zip(expected) {
            let search = Search {
                x: &x,
                y: &y,
                plan: &plan(2, criterion, Method::Auto),
                engine: &CpuEngine::new(1),
                progress: &NoProgress,
                coarse: Vec::new(),
                coarse_y: Coarse::new(&y),
                known: known.iter().map(|(term, mi)| (term.clone(), figures(*mi))).collect(),
                chosen: Vec::new(),
                units_left: UNITS,
            };
            let score = search.score(2, &[0, 1]);
            assert!((score - expected).abs() < 1e-12, "{criterion}: {score}");
            assert_eq!(search.score(2, &[]), 0.9, "the first feature is the most relevant one");
        }
    }

    #[test]
    fn impossible_selections_are_refused_with_the_parameter() {
        let (x, y) = exclusive_or();
        let refused = |x: &[Column], y: &Column, k: usize, method: Method| {
            let plan = plan(k, Criterion::Mrmr, method);
            select_features(x, y, &plan, &CpuEngine::new(1), &NoProgress).unwrap_err().to_string()
        };
        let text = refused(&x, &y, 0, Method::Auto);
        assert_eq!(text, "k = 0: must be between 1 and 6, the number of features");
        assert!(refused(&x, &y, 7, Method::Auto).starts_with("k = 7: must be between 1 and 6"));
        assert!(refused(&x[..1], &y, 1, Method::Auto).contains("at least two"));
        assert!(refused(&x, &y, 2, Method::Ksg).contains("estimator = ksg cannot be used with"));
        let same = numbers("same", vec![1.0; ROWS]);
        assert!(refused(&x, &same, 2, Method::Auto).contains("'same' has the same value"));
        let unknown = "gain".parse::<Criterion>().unwrap_err().to_string();
        assert_eq!(unknown, "criterion = gain: write forward, cmim, jmi or mrmr");
    }

    #[test]
    fn a_selection_can_be_ended() {
        struct Stop;
        impl Progress for Stop {
            fn begin(&self, _total: u64) {}
            fn advance(&self, _units: u64) -> ControlFlow<()> {
                ControlFlow::Break(())
            }
        }
        let (x, y) = sums();
        let plan = plan(2, Criterion::Forward, Method::GaussianCopula);
        let error = select_features(&x, &y, &plan, &CpuEngine::new(1), &Stop).unwrap_err();
        assert_eq!(error, Error::Interrupted);
    }
}

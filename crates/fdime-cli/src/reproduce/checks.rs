//! What the paper claims, as assertions about what was measured.

use super::paper::{Cell, Statistic};
use super::results::{Level, ROUNDING, Ratios, Results, Staircase};
use fdime::consistency::View;
use fdime::{CriticKind, Estimator, Pairing};
use serde::Deserialize;

/// An assertion of a recipe.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub claim: Claim,
    /// Not asserted in a quick run, which trains too little to show it.
    #[serde(default)]
    pub only_full: bool,
}

/// What is asserted.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Claim {
    /// At least a share of the paper's cells lies within a relative and an absolute error.
    WithinPaper {
        estimators: Vec<String>,
        statistics: Vec<Statistic>,
        /// Cells up to this true MI.
        highest_mi: Option<f64>,
        relative: f64,
        absolute: f64,
        share: f64,
    },
    /// No level's mean is above ln N, or above it by more than a readout adds.
    CappedAtLnN {
        estimators: Vec<String>,
        pairing: Pairing,
        #[serde(default)]
        above: f64,
    },
    /// The last level's mean is above ln N.
    ExceedsLnN { estimators: Vec<String>, pairing: Pairing },
    /// The variance at the last level is at least so many times that at the first.
    VarianceExplodes { estimators: Vec<String>, times: f64 },
    /// The variance at no level is above a limit, in one scenario or all.
    VarianceBounded { estimators: Vec<String>, limit: f64, scenario: Option<String> },
    /// At every level from some MI on, one estimator has the lowest variance.
    LowestVariance { estimator: String, among: Vec<String>, from_mi: f64 },
    /// ln variance against ln N has a slope between two numbers, at each level up to some MI.
    VarianceSlope { estimators: Vec<String>, between: (f64, f64), up_to_mi: f64 },
    /// The variance is within a factor of Lemma 4.2's, up to some MI.
    NearLemma { estimators: Vec<String>, factor: f64, up_to_mi: f64 },
    /// ln time against ln N has a slope between two numbers, from some N on.
    TimeSlope { critic: CriticKind, pairing: Pairing, between: (f64, f64), from_batch: usize },
    /// At the largest N that both have, one critic's step is faster than another's.
    Faster { critic: CriticKind, pairing: Pairing, than: CriticKind },
    /// The ratio rises from 0 with the visible rows to 1, with so much slack.
    Rises { estimators: Vec<String>, slack: f64 },
    /// The ratio, averaged over the rows from some number on, is between two numbers.
    RatioBetween {
        view: View,
        estimators: Vec<String>,
        between: (f64, f64),
        from_rows: usize,
        /// Parts that the critic scores one by one.
        #[serde(default = "one")]
        parts: usize,
    },
    /// The bias at some level is smaller for one estimator than for another.
    SmallerBias { estimator: String, than: String, at_mi: f64 },
    /// The mean at every level is within a relative and an absolute error of the truth, in one scenario
    /// or all.
    NearTruth { estimators: Vec<String>, relative: f64, absolute: f64, scenario: Option<String> },
    /// At the last level the mean is further from the truth than a share of it, or the run diverged.
    Fails { estimators: Vec<String>, share: f64 },
    /// Computed grades differ from the paper's by at most one step in at least a share of the cells.
    GradesAgree { share: f64 },
}

fn one() -> usize {
    1
}

/// What came of a check.
#[derive(Clone, Debug)]
pub struct Finding {
    pub text: String,
    pub passed: bool,
    /// The numbers behind it.
    pub detail: String,
}

/// Slope of the least-squares line.
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let (mut xy, mut xx) = (0.0, 0.0);
    for point in points {
        xy += (point.0 - x) * (point.1 - y);
        xx += (point.0 - x).powi(2);
    }
    xy / xx
}

/// Lemma 4.2 for d pairs of Gaussians with equal correlation: (1 - e^(-2 I/d)) d / N.
pub fn lemma(true_mi: f64, dim: usize, batch: usize) -> f64 {
    let d = dim as f64;
    d * -(-2.0 * true_mi / d).exp_m1() / batch as f64
}

/// The measured level that stands beside a cell of the paper.
pub fn beside<'a>(results: &'a Results, cell: &Cell) -> Option<&'a Level> {
    let same = |staircase: &&Staircase| {
        staircase.estimator() == cell.estimator
            && staircase.plan.scenario.name.to_string() == cell.scenario
            && staircase.plan.scenario.dim == cell.dim
            && staircase.plan.batch == cell.batch
    };
    results.staircases.iter().find(same)?.at(cell.true_mi)
}

/// Whether a value is within the tolerance of the paper's.
pub fn within(value: f64, paper: f64, relative: f64, absolute: f64) -> bool {
    (value - paper).abs() <= relative * paper.abs() + absolute
}

/// A finding from single facts: all must hold, and those that do not come first in the detail.
fn all(text: String, facts: Vec<(bool, String)>) -> Finding {
    let passed = !facts.is_empty() && facts.iter().all(|(holds, _)| *holds);
    let failed = facts.iter().filter(|(holds, _)| !holds).map(|(_, fact)| format!("NOT {fact}"));
    let held = facts.iter().filter(|(holds, _)| *holds).map(|(_, fact)| fact.clone());
    let mut detail: Vec<String> = failed.chain(held).collect();
    if detail.is_empty() {
        detail.push("nothing was measured".into());
    }
    Finding { text, passed, detail: detail.join("; ") }
}

/// Those of the listed estimators that have no ratio.
fn unseen(ratios: &[Ratios], names: &[String]) -> Vec<(bool, String)> {
    let seen = |name: &&String| ratios.iter().any(|ratios| ratios.estimator == **name);
    let unseen = names.iter().filter(|name| !seen(name));
    unseen.map(|name| (false, format!("{name} was measured"))).collect()
}

impl Check {
    /// Refuses names that are no estimators': a check must not pass because it means nobody.
    pub fn names(&self) -> fdime::Result<()> {
        let listed: Vec<&String> = match &self.claim {
            Claim::WithinPaper { estimators, .. }
            | Claim::CappedAtLnN { estimators, .. }
            | Claim::ExceedsLnN { estimators, .. }
            | Claim::VarianceExplodes { estimators, .. }
            | Claim::VarianceBounded { estimators, .. }
            | Claim::VarianceSlope { estimators, .. }
            | Claim::NearLemma { estimators, .. }
            | Claim::Rises { estimators, .. }
            | Claim::RatioBetween { estimators, .. }
            | Claim::NearTruth { estimators, .. }
            | Claim::Fails { estimators, .. } => estimators.iter().collect(),
            Claim::LowestVariance { estimator, among, .. } => {
                among.iter().chain([estimator]).collect()
            }
            Claim::SmallerBias { estimator, than, .. } => vec![estimator, than],
            Claim::TimeSlope { .. } | Claim::Faster { .. } | Claim::GradesAgree { .. } => vec![],
        };
        listed.into_iter().try_for_each(|name| name.parse::<Estimator>().map(drop))
    }

    /// Looks whether it holds.
    pub fn examine(
        &self,
        results: &Results,
        cells: &[Cell],
        grades: Option<(f64, f64)>,
    ) -> Finding {
        let of = |names: &[String]| names.join(", ");
        let staircases = |names: &[String]| -> Vec<&Staircase> {
            let named = |s: &&Staircase| names.iter().any(|name| name == s.estimator());
            results.staircases.iter().filter(named).collect()
        };
        let of_scenario = |names: &[String], scenario: &Option<String>| -> Vec<&Staircase> {
            let mut found = staircases(names);
            found.retain(|s| {
                scenario.as_ref().is_none_or(|name| *name == s.plan.scenario.name.to_string())
            });
            found
        };
        let in_scenario = |scenario: &Option<String>| {
            scenario.as_ref().map_or(String::new(), |name| format!(" on {name}"))
        };
        // Whoever is listed must have been measured, and to the end.
        let unmeasured = |names: &[String]| -> Vec<(bool, String)> {
            let mut facts: Vec<(bool, String)> = names
                .iter()
                .filter(|name| results.of(name).next().is_none())
                .map(|name| (false, format!("{name} was measured")))
                .collect();
            let broken = staircases(names).into_iter().filter(|staircase| !staircase.complete());
            facts.extend(broken.map(|staircase| {
                let (name, scenario) = (staircase.estimator(), &staircase.plan.scenario.name);
                (false, format!("{name} {scenario} {}: finished by every run", staircase.label()))
            }));
            facts
        };
        match &self.claim {
            Claim::WithinPaper {
                estimators,
                statistics,
                highest_mi,
                relative,
                absolute,
                share,
            } => {
                let asked = cells.iter().filter(|cell| {
                    estimators.contains(&cell.estimator)
                        && statistics.contains(&cell.statistic)
                        && cell.true_mi <= highest_mi.unwrap_or(f64::INFINITY) + ROUNDING
                });
                let (mut inside, mut total, mut outside) = (0, 0, Vec::new());
                for cell in asked {
                    let measured = results.staircases.iter().any(|staircase| {
                        staircase.estimator() == cell.estimator
                            && staircase.plan.scenario.dim == cell.dim
                            && staircase.plan.batch == cell.batch
                    });
                    // The table may hold other settings than the recipe.
                    if !measured {
                        continue;
                    }
                    let Some(level) = beside(results, cell) else {
                        total += 1;
                        outside.push(format!("{} diverged at {}", cell.estimator, cell.true_mi));
                        continue;
                    };
                    let value = level.statistic(cell.statistic).value;
                    total += 1;
                    if within(value, cell.value, *relative, *absolute) {
                        inside += 1;
                    } else {
                        outside.push(format!(
                            "{} {} d={} N={} at {}: {value:.2}, the paper {}",
                            cell.estimator,
                            cell.statistic.name(),
                            cell.dim,
                            cell.batch,
                            cell.true_mi,
                            cell.value
                        ));
                    }
                }
                let up_to = highest_mi.map_or(String::new(), |mi| format!(" up to {mi} nats"));
                let names: Vec<&str> = statistics.iter().map(|s| s.name()).collect();
                let mut detail = format!("{inside} of {total} cells");
                if !outside.is_empty() {
                    detail = format!("{detail}; outside: {}", outside.join(", "));
                }
                Finding {
                    text: format!(
                        "{} of {}{up_to} within {:.0}% + {absolute} of the paper's in at least {:.0}% of cells",
                        names.join(" and "),
                        of(estimators),
                        100.0 * relative,
                        100.0 * share
                    ),
                    passed: total > 0
                        && unmeasured(estimators).is_empty()
                        && f64::from(inside) >= share * f64::from(total),
                    detail,
                }
            }
            Claim::CappedAtLnN { estimators, pairing, above } => {
                let more = if *above > 0.0 { format!(" + {above}") } else { String::new() };
                let facts = staircases(estimators)
                    .into_iter()
                    .filter(|staircase| staircase.plan.pairing == *pairing)
                    .map(|staircase| {
                        let cap = (staircase.plan.batch as f64).ln() + above;
                        let top = staircase.levels.iter().map(|l| l.mean.value).fold(0.0, f64::max);
                        (top <= cap, format!("{} {top:.2} <= {cap:.2}", staircase.estimator()))
                    });
                all(
                    format!("{pairing} is bounded by ln N{more}: {}", of(estimators)),
                    unmeasured(estimators).into_iter().chain(facts).collect(),
                )
            }
            Claim::ExceedsLnN { estimators, pairing } => {
                let facts = staircases(estimators)
                    .into_iter()
                    .filter(|staircase| staircase.plan.pairing == *pairing)
                    .filter_map(|staircase| {
                        let cap = (staircase.plan.batch as f64).ln();
                        let top = staircase.levels.last()?.mean.value;
                        Some((top > cap, format!("{} {top:.2} > {cap:.2}", staircase.estimator())))
                    });
                all(
                    format!("{pairing} is not bounded by ln N: {}", of(estimators)),
                    facts.collect(),
                )
            }
            Claim::VarianceExplodes { estimators, times } => {
                let facts = staircases(estimators).into_iter().filter_map(|staircase| {
                    let first = staircase.levels.first()?.variance.value;
                    let last = staircase.levels.last()?.variance.value;
                    Some((
                        last >= times * first,
                        format!(
                            "{} {}: {first:.3} to {last:.3}",
                            staircase.estimator(),
                            staircase.plan.scenario.name
                        ),
                    ))
                });
                all(
                    format!("the variance of {} grows at least {times}-fold", of(estimators)),
                    unmeasured(estimators).into_iter().chain(facts).collect(),
                )
            }
            Claim::VarianceBounded { estimators, limit, scenario } => {
                let facts = of_scenario(estimators, scenario).into_iter().map(|staircase| {
                    let most =
                        staircase.levels.iter().map(|l| l.variance.value).fold(0.0, f64::max);
                    (most <= *limit, format!("{} at most {most:.3}", staircase.estimator()))
                });
                all(
                    format!(
                        "the variance of {}{} stays below {limit}",
                        of(estimators),
                        in_scenario(scenario)
                    ),
                    facts.collect(),
                )
            }
            Claim::LowestVariance { estimator, among, from_mi } => {
                let mut facts = unmeasured(among);
                facts.extend(unmeasured(std::slice::from_ref(estimator)));
                for own in results.of(estimator) {
                    for other in staircases(among) {
                        let shape = |s: &Staircase| {
                            (
                                s.plan.scenario.clone(),
                                s.plan.batch,
                                s.plan.critic.clone(),
                                s.plan.pairing,
                            )
                        };
                        if other.estimator() == estimator || shape(other) != shape(own) {
                            continue;
                        }
                        for (a, b) in own.levels.iter().zip(&other.levels) {
                            if a.true_mi >= *from_mi - ROUNDING {
                                facts.push((
                                    a.variance.value < b.variance.value,
                                    format!(
                                        "{} {} at {:.0}: {:.3} < {:.3} of {}",
                                        own.plan.scenario.name,
                                        own.label(),
                                        a.true_mi,
                                        a.variance.value,
                                        b.variance.value,
                                        other.estimator()
                                    ),
                                ));
                            }
                        }
                    }
                }
                let text = format!(
                    "{estimator} has the lowest variance among {} from {from_mi} nats on",
                    of(among)
                );
                all(text, facts)
            }
            Claim::VarianceSlope { estimators, between, up_to_mi } => {
                let mut facts = unmeasured(estimators);
                for estimator in estimators {
                    let levels: Vec<f64> = results
                        .of(estimator)
                        .flat_map(|s| s.levels.iter().map(|level| level.true_mi))
                        .collect();
                    let mut asked: Vec<f64> =
                        levels.into_iter().filter(|mi| *mi <= up_to_mi + ROUNDING).collect();
                    asked.sort_by(f64::total_cmp);
                    asked.dedup_by(|a, b| (*a - *b).abs() < ROUNDING);
                    for mi in asked {
                        let points: Vec<(f64, f64)> = results
                            .of(estimator)
                            .filter_map(|s| {
                                Some(((s.plan.batch as f64).ln(), s.at(mi)?.variance.value.ln()))
                            })
                            .collect();
                        let slope = slope(&points);
                        facts.push((
                            points.len() > 1 && slope >= between.0 && slope <= between.1,
                            format!("{estimator} at {mi:.0}: {slope:.2}"),
                        ));
                    }
                }
                all(
                    format!(
                        "the variance of {} falls with N up to {up_to_mi} nats: log-log slope between {} and {} (1/N: -1)",
                        of(estimators),
                        between.0,
                        between.1
                    ),
                    facts,
                )
            }
            Claim::NearLemma { estimators, factor, up_to_mi } => {
                let mut facts = unmeasured(estimators);
                for staircase in staircases(estimators) {
                    let (dim, batch) = (staircase.plan.scenario.dim, staircase.plan.batch);
                    for level in
                        staircase.levels.iter().filter(|l| l.true_mi <= *up_to_mi + ROUNDING)
                    {
                        let exact = lemma(level.true_mi, dim, batch);
                        let ratio = level.variance.value / exact;
                        facts.push((
                            (1.0 / factor..=*factor).contains(&ratio),
                            format!(
                                "{} N={batch} at {:.0}: {ratio:.2}",
                                staircase.estimator(),
                                level.true_mi
                            ),
                        ));
                    }
                }
                all(
                    format!(
                        "the variance of {} is within a factor {factor} of Lemma 4.2's up to {up_to_mi} nats",
                        of(estimators)
                    ),
                    facts,
                )
            }
            Claim::TimeSlope { critic, pairing, between, from_batch } => {
                // Where N varies and d does not.
                let own = results.times.iter().filter(|time| {
                    time.plan.critic.kind == *critic
                        && time.plan.pairing == *pairing
                        && time.plan.estimator.has_critic()
                        && time.plan.batch >= *from_batch
                });
                let mut by_dim: Vec<(usize, Vec<(f64, f64)>)> = Vec::new();
                for time in own {
                    let dim = time.plan.scenario.dim;
                    let point = ((time.plan.batch as f64).ln(), time.median_ms.ln());
                    match by_dim.iter_mut().find(|(known, _)| *known == dim) {
                        Some((_, points)) => points.push(point),
                        None => by_dim.push((dim, vec![point])),
                    }
                }
                let facts =
                    by_dim.iter().filter(|(_, points)| points.len() > 2).map(|(dim, points)| {
                        let slope = slope(points);
                        (
                            slope >= between.0 && slope <= between.1,
                            format!("d={dim}: {slope:.2} over {} sizes", points.len()),
                        )
                    });
                all(
                    format!(
                        "time of {critic} ({pairing}) from N = {from_batch} on: log-log slope between {} and {}",
                        between.0, between.1
                    ),
                    facts.collect(),
                )
            }
            Claim::Faster { critic, pairing, than } => {
                let time = |kind: CriticKind, pairing: Option<Pairing>, n: usize| {
                    results.times.iter().find(|time| {
                        time.plan.critic.kind == kind
                            && pairing.is_none_or(|pairing| time.plan.pairing == pairing)
                            && time.plan.estimator.has_critic()
                            && time.plan.batch == n
                            && time.plan.scenario.dim == results.times[0].plan.scenario.dim
                    })
                };
                let sizes = results.times.iter().map(|time| time.plan.batch);
                let largest = sizes
                    .filter(|n| {
                        time(*critic, Some(*pairing), *n).is_some()
                            && time(*than, None, *n).is_some()
                    })
                    .max();
                let fact = largest.and_then(|n| {
                    let (fast, slow) = (time(*critic, Some(*pairing), n)?, time(*than, None, n)?);
                    Some((
                        fast.median_ms < slow.median_ms,
                        format!("N={n}: {:.3} ms < {:.3} ms", fast.median_ms, slow.median_ms),
                    ))
                });
                all(
                    format!("{critic} ({pairing}) is faster than {than} at large N"),
                    fact.into_iter().collect(),
                )
            }
            Claim::Rises { estimators, slack } => {
                let mut facts = unseen(&results.ratios(View::Single), estimators);
                for ratios in results.ratios(View::Single) {
                    if !estimators.contains(&ratios.estimator) {
                        continue;
                    }
                    let mut by_rows: Vec<(usize, f64)> =
                        ratios.by_rows.iter().map(|(rows, ratio)| (*rows, ratio.value)).collect();
                    by_rows.sort_by_key(|(rows, _)| *rows);
                    // Where nothing is visible there is nothing to know; the end is 1 by definition.
                    let start =
                        by_rows.iter().find(|(rows, _)| *rows == 0).map_or(f64::NAN, |r| r.1);
                    let drop =
                        by_rows.windows(2).map(|pair| pair[0].1 - pair[1].1).fold(0.0, f64::max);
                    facts.push((
                        start.abs() <= *slack && drop <= *slack && by_rows.len() > 2,
                        format!(
                            "{} {}: begins at {start:.3}, largest drop {drop:.3}",
                            ratios.images, ratios.estimator
                        ),
                    ));
                }
                all(
                    format!(
                        "I(X;Y) / I(X;X) rises from 0 to 1 with the visible rows for {} (slack {slack})",
                        of(estimators)
                    ),
                    facts,
                )
            }
            Claim::RatioBetween { view, estimators, between, from_rows, parts } => {
                let mut all_ratios = results.ratios(*view);
                all_ratios.retain(|ratios| ratios.parts == *parts);
                let mut facts = unseen(&all_ratios, estimators);
                for ratios in &all_ratios {
                    let seen: Vec<f64> = ratios
                        .by_rows
                        .iter()
                        .filter(|(rows, _)| rows >= from_rows)
                        .map(|(_, ratio)| ratio.value)
                        .collect();
                    if estimators.contains(&ratios.estimator) {
                        let mean = seen.iter().sum::<f64>() / seen.len() as f64;
                        facts.push((
                            mean >= between.0 && mean <= between.1,
                            format!("{} {}: {mean:.3}", ratios.images, ratios.name()),
                        ));
                    }
                }
                let what = match view {
                    View::Single => "I(X;Y) / I(X;X)",
                    View::Processed => "I([X,X];[Y,h(Y)]) / I(X;Y)",
                    View::Pair => "I([X,X'];[Y,Y']) / I(X;Y)",
                };
                all(
                    format!(
                        "{what}, averaged from {from_rows} rows on, is between {} and {} for {}{}",
                        between.0,
                        between.1,
                        of(estimators),
                        if *parts > 1 { ", image by image" } else { "" }
                    ),
                    facts,
                )
            }
            Claim::SmallerBias { estimator, than, at_mi } => {
                let mut facts = unmeasured(&[estimator.clone(), than.clone()]);
                for own in results.of(estimator) {
                    let twin = results.of(than).find(|other| {
                        other.plan.scenario == own.plan.scenario
                            && other.plan.batch == own.plan.batch
                            && other.plan.critic == own.plan.critic
                            && other.plan.pairing == own.plan.pairing
                    });
                    if let (Some(a), Some(b)) = (own.at(*at_mi), twin.and_then(|s| s.at(*at_mi))) {
                        facts.push((
                            a.bias.value < b.bias.value,
                            format!(
                                "{} {}: {:.2} < {:.2}",
                                own.plan.scenario.name,
                                own.label(),
                                a.bias.value,
                                b.bias.value
                            ),
                        ));
                    }
                }
                all(format!("at {at_mi} nats {estimator} is less biased than {than}"), facts)
            }
            Claim::NearTruth { estimators, relative, absolute, scenario } => {
                let facts = of_scenario(estimators, scenario).into_iter().map(|staircase| {
                    let worst = staircase
                        .levels
                        .iter()
                        .map(|level| (level.bias.value - relative * level.true_mi, level))
                        .max_by(|a, b| a.0.total_cmp(&b.0));
                    let (excess, text) =
                        worst.map_or((f64::INFINITY, String::new()), |(excess, level)| {
                            (excess, format!("{:.2} at {:.2}", level.mean.value, level.true_mi))
                        });
                    let scenario = &staircase.plan.scenario.name;
                    (
                        excess <= *absolute,
                        format!(
                            "{} {scenario} {}: {text}",
                            staircase.estimator(),
                            staircase.label()
                        ),
                    )
                });
                all(
                    format!(
                        "{}{} are within {:.0}% + {absolute} of the truth",
                        of(estimators),
                        in_scenario(scenario),
                        100.0 * relative
                    ),
                    unmeasured(estimators).into_iter().chain(facts).collect(),
                )
            }
            Claim::Fails { estimators, share } => {
                let facts = staircases(estimators).into_iter().map(|staircase| {
                    let planned = staircase.plan.schedule.levels.len();
                    let scenario = &staircase.plan.scenario.name;
                    let name = format!("{} {scenario}", staircase.estimator());
                    match staircase.levels.get(planned - 1) {
                        None => (true, format!("{name} diverged")),
                        Some(level) => (
                            level.bias.value > share * level.true_mi,
                            format!("{name}: {:.2} at {}", level.mean.value, level.true_mi),
                        ),
                    }
                });
                all(
                    format!(
                        "{} diverge or miss the last level by more than {:.0}%",
                        of(estimators),
                        100.0 * share
                    ),
                    facts.collect(),
                )
            }
            Claim::GradesAgree { share } => {
                let (equal, agreeing) = grades.unwrap_or((0.0, 0.0));
                Finding {
                    text: format!(
                        "computed grades are at most one step from the paper's in at least {:.0}% of cells",
                        100.0 * share
                    ),
                    passed: agreeing >= *share,
                    detail: format!(
                        "{:.0}% of cells; {:.0}% equal",
                        100.0 * agreeing,
                        100.0 * equal
                    ),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_and_the_lemma() {
        let line: Vec<(f64, f64)> =
            (0..5).map(|k| (f64::from(k), 3.0 - 2.0 * f64::from(k))).collect();
        assert!((slope(&line) + 2.0).abs() < 1e-12);
        // One pair: 1 - e^(-2I) over M, as in the paper.
        assert!((lemma(2.0, 1, 64) - (1.0 - (-4f64).exp()) / 64.0).abs() < 1e-12);
        // d pairs with correlation rho: d rho^2 / M.
        let rho: f64 = 0.6;
        let mi = -10.0 * (1.0 - rho * rho).ln();
        assert!((lemma(mi, 20, 50) - 20.0 * rho * rho / 50.0).abs() < 1e-12);
    }

    #[test]
    fn a_check_without_measurements_fails() {
        let results = Results::default();
        let claims = [
            "kind = 'capped-at-ln-n'\nestimators = ['kl-dime']\npairing = 'permutation'",
            "kind = 'lowest-variance'\nestimator = 'kl-dime'\namong = ['mine']\nfrom_mi = 2",
            "kind = 'time-slope'\ncritic = 'joint'\npairing = 'all-pairs'\nbetween = [1, 3]\nfrom_batch = 64",
            "kind = 'rises'\nestimators = ['kl-dime']\nslack = 0.1",
        ];
        for claim in claims {
            let check: Check = toml::from_str(&format!("[claim]\n{claim}")).unwrap();
            let finding = check.examine(&results, &[], None);
            assert!(!finding.passed && finding.detail.contains("measured"), "{finding:?}");
        }
        let text = "[claim]\nkind = 'within-paper'\nestimators = ['kl-dime']\nstatistics = ['bias']\n\
                    relative = 0.25\nabsolute = 0.05\nshare = 0.9";
        let check: Check = toml::from_str(text).unwrap();
        assert!(!check.examine(&results, &[], None).passed);
    }

    #[test]
    fn a_misspelt_estimator_is_refused() {
        let check: Check =
            toml::from_str("[claim]\nkind = 'rises'\nestimators = ['kl-dmie']\nslack = 0.1")
                .unwrap();
        assert!(check.names().unwrap_err().to_string().contains("kl-dime"));
    }

    #[test]
    fn the_tolerance_is_relative_and_absolute() {
        assert!(within(1.29, 1.0, 0.25, 0.05) && !within(1.31, 1.0, 0.25, 0.05));
        assert!(within(0.0, 0.05, 0.25, 0.05));
    }
}

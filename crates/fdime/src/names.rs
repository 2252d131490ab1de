//! Every name that a user can write, with a description.

use crate::critic::CriticKind;
use crate::divergence::Divergence;
use crate::estimate::Method;
use crate::link::Link;
use crate::nn::Activation;
use crate::objective::{Estimator, Readout};
use crate::pairing::Pairing;
use crate::scenario::{ScenarioName, conditional_suite, transfer_suite};
use crate::train::LearningRateSchedule;

/// The names of one kind of thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The kind, in the plural.
    pub title: &'static str,
    /// The names.
    pub entries: Vec<Entry>,
}

/// A name with its description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name; capital letters stand for a value.
    pub name: String,
    /// The description.
    pub description: &'static str,
    /// The generator f(u) of a divergence.
    pub formula: Option<String>,
}

/// Returns all sections.
pub fn sections() -> Vec<Section> {
    vec![
        section("estimators", &Estimator::NAMES),
        section("methods", &Method::NAMES),
        divergences(),
        section(
            "critics",
            &[
                (CriticKind::Joint.name(), "one network over all N^2 pairs of the batch"),
                (CriticKind::Separable.name(), "two networks, the score is their inner product"),
                (CriticKind::Deranged.name(), "one network over 2N pairs: linear in N"),
                (CriticKind::Conv.name(), "convolutions over pairs of images"),
            ],
        ),
        section(
            "pairings",
            &[
                (Pairing::AllPairs.name(), "every x with every other y"),
                (Pairing::Derangement.name(), "a random permutation without fixed points"),
                (
                    Pairing::Shift.name(),
                    "each x with the next y: a derangement without random numbers",
                ),
                (Pairing::Permutation.name(), "a naive permutation: caps every estimate at ln N"),
            ],
        ),
        section("scenarios", &ScenarioName::table()),
        described("triples", conditional_suite().into_iter().map(|t| (t.name, t.description))),
        described("series", transfer_suite().into_iter().map(|t| (t.name.into(), t.description))),
        section("readouts", &Readout::NAMES),
        section(
            "links",
            &[
                (Link::Identity.name(), "log ratio = score"),
                (Link::LogSoftplus.name(), "log ratio = ln softplus(score)"),
                (Link::InverseSquareSoftplus.name(), "log ratio = -2 ln softplus(score)"),
            ],
        ),
        section(
            "activations",
            &[
                (Activation::Relu.name(), "max(0, z)"),
                (Activation::Elu.name(), "z for z > 0, e^z - 1 below"),
                (Activation::Softplus.name(), "ln(1 + e^z)"),
            ],
        ),
        section(
            "schedules",
            &[
                (LearningRateSchedule::Constant.name(), "the learning rate stays the same"),
                (
                    LearningRateSchedule::WarmUpAndCosine.name(),
                    "it rises over 5% of the steps, then falls to 0",
                ),
            ],
        ),
    ]
}

fn section(title: &'static str, table: &[(&str, &'static str)]) -> Section {
    described(title, table.iter().map(|(name, description)| (name.to_string(), *description)))
}

fn described(title: &'static str, names: impl Iterator<Item = (String, &'static str)>) -> Section {
    let entry = |(name, description)| Entry { name, description, formula: None };
    Section { title, entries: names.map(entry).collect() }
}

fn divergences() -> Section {
    let entry = |divergence: &Divergence| Entry {
        name: match divergence {
            Divergence::Alpha(_) => "alpha-A".into(),
            other => other.to_string(),
        },
        description: divergence.title(),
        formula: Some(divergence.formula()),
    };
    Section { title: "divergences", entries: Divergence::TABLE.iter().map(entry).collect() }
}

//! Every name that a user can write, with a description.

use crate::critic::{CriticKind, CriticPlan};
use crate::divergence::Divergence;
use crate::estimate::Method;
use crate::link::Link;
use crate::nn::Activation;
use crate::objective::{Estimator, Readout};
use crate::pairing::Pairing;
use crate::scenario::{Map, ScenarioName};

/// Name and description of each entry of a section.
pub type Entries = Vec<(String, String)>;

/// The names by what they name. An entry without a name goes on with the one before.
pub fn sections() -> [(&'static str, Entries); 9] {
    let own = |table: &[(&str, &str)]| -> Entries {
        table.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
    };
    let divergences = Divergence::TABLE
        .iter()
        .map(|d| {
            let name = match d {
                Divergence::Alpha(_) => "alpha-A".to_string(),
                d => d.to_string(),
            };
            (name, format!("{:24}  {}", d.title(), d.formula()))
        })
        .collect();
    let presets: Vec<String> =
        CriticPlan::PRESETS.iter().map(|(name, widths)| format!("{name} {widths:?}")).collect();
    let presets = format!("presets for --hidden: {}", presets.join(", "));
    let critics = [
        (CriticKind::Joint.name(), "one network over all N^2 pairs of the batch"),
        (CriticKind::Separable.name(), "two networks, the score is their inner product"),
        (CriticKind::Deranged.name(), "one network over 2N pairs: linear in N"),
        (CriticKind::Conv.name(), "convolutions over pairs of images"),
        ("", &presets),
    ];
    let pairings = [
        (Pairing::AllPairs.name(), "every x with every other y"),
        (Pairing::Derangement.name(), "a random permutation without fixed points"),
        (Pairing::Shift.name(), "each x with the next y: a derangement without random numbers"),
        (Pairing::Permutation.name(), "a naive permutation: caps every estimate at ln N"),
    ];
    let mut scenarios = own(&ScenarioName::table());
    for (index, maps) in Map::ALL.map(Map::name).chunks(5).enumerate() {
        let name = if index == 0 { "SCENARIO+MAP" } else { "" };
        let then = if index == 0 { "then " } else { "     " };
        scenarios.push((name.into(), format!("{then}{}", maps.join(", "))));
    }
    scenarios.push(("+x:MAP, +y:MAP".into(), "the same for x or y alone".into()));
    let links = [
        (Link::Identity.name(), "log ratio = score"),
        (Link::LogSoftplus.name(), "log ratio = ln softplus(score)"),
        (Link::InverseSquareSoftplus.name(), "log ratio = -2 ln softplus(score)"),
    ];
    let activations = [
        (Activation::Relu.name(), "max(0, z)"),
        (Activation::Elu.name(), "z for z > 0, e^z - 1 below"),
        (Activation::Softplus.name(), "ln(1 + e^z)"),
    ];
    [
        ("estimators", own(&Estimator::NAMES)),
        ("methods", own(&Method::NAMES)),
        ("divergences", divergences),
        ("critics", own(&critics)),
        ("pairings", own(&pairings)),
        ("scenarios", scenarios),
        ("readouts", own(&Readout::NAMES)),
        ("links", own(&links)),
        ("activations", own(&activations)),
    ]
}

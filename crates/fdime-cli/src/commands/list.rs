use super::print_json;
use crate::args::List;
use crate::failure::{Failure, Outcome};
use fdime::estimate::Method;
use fdime::objective::Estimator;
use fdime::scenario::Map;
use fdime::{Activation, CriticKind, CriticPlan, Divergence, Link, Pairing, Readout, ScenarioName};
use std::collections::BTreeMap;
use std::io::Write;

/// Name and description of each entry of a section.
type Entries = Vec<(String, String)>;

fn sections() -> [(&'static str, Entries); 9] {
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

pub fn run(args: &List) -> Outcome {
    let mut sections = sections().to_vec();
    if let Some(wanted) = &args.section {
        let names: Vec<&str> = sections.iter().map(|(name, _)| *name).collect();
        if !names.contains(&wanted.as_str()) {
            let error = fdime::unknown_name("section", wanted, names.iter().copied());
            return Err(Failure::Usage(format!(
                "{error}\nhint: sections are {}",
                names.join(", ")
            )));
        }
        sections.retain(|(name, _)| name == wanted);
    }
    if args.json {
        let named = |entries: &Entries| -> Vec<String> {
            entries.iter().map(|(name, _)| name.clone()).filter(|name| !name.is_empty()).collect()
        };
        let map: BTreeMap<_, _> =
            sections.iter().map(|(name, entries)| (*name, named(entries))).collect();
        return print_json(&map);
    }
    let mut out = std::io::stdout().lock();
    for (index, (name, entries)) in sections.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{name}")?;
        let width = entries.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, text) in entries {
            writeln!(out, "  {name:width$}  {text}")?;
        }
    }
    Ok(())
}

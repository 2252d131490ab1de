use super::print_json;
use crate::args::List;
use crate::failure::{Failure, Outcome};
use fdime::CriticPlan;
use fdime::names::{Section, sections};
use fdime::scenario::Map;
use std::collections::BTreeMap;
use std::io::Write;

/// Maps on a line of the list.
const MAPS_PER_LINE: usize = 5;

pub fn run(args: &List) -> Outcome {
    let mut sections = sections();
    if let Some(wanted) = &args.section {
        let titles: Vec<&str> = sections.iter().map(|section| section.title).collect();
        if !titles.contains(&wanted.as_str()) {
            let hint = format!("sections are {}", titles.join(", "));
            return Err(Failure::unknown_name("section", wanted, titles, &hint));
        }
        sections.retain(|section| section.title == wanted);
    }
    if args.json {
        let names = |section: &Section| -> Vec<String> {
            section.entries.iter().map(|entry| entry.name.clone()).collect()
        };
        let map: BTreeMap<_, _> =
            sections.iter().map(|section| (section.title, names(section))).collect();
        return print_json(&map);
    }
    let mut out = std::io::stdout().lock();
    for (index, section) in sections.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", section.title)?;
        let rows = rows(section);
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, text) in &rows {
            writeln!(out, "  {name:width$}  {text}")?;
        }
    }
    Ok(())
}

/// Returns the rows of a section: its entries, then notes. A row without a name continues the row
/// above it.
fn rows(section: &Section) -> Vec<(String, String)> {
    let entries = section.entries.iter().map(|entry| {
        let text = match &entry.formula {
            Some(formula) => format!("{:24}  {formula}", entry.description),
            None => entry.description.to_string(),
        };
        (entry.name.clone(), text)
    });
    let mut rows: Vec<(String, String)> = entries.collect();
    match section.title {
        "critics" => {
            let presets = CriticPlan::PRESETS.map(|(name, widths)| format!("{name} {widths:?}"));
            rows.push((String::new(), format!("presets for --hidden: {}", presets.join(", "))));
        }
        "scenarios" => {
            let lines = Map::ALL.map(Map::name);
            for (index, maps) in lines.chunks(MAPS_PER_LINE).enumerate() {
                let (name, indent) =
                    if index == 0 { ("SCENARIO+MAP", "then ") } else { ("", "     ") };
                rows.push((name.into(), format!("{indent}{}", maps.join(", "))));
            }
            rows.push(("+x:MAP, +y:MAP".into(), "the same for x or y alone".into()));
        }
        _ => {}
    }
    rows
}

use super::print_json;
use crate::args::List;
use crate::failure::{Failure, Outcome};
use fdime::names::{Entries, sections};
use std::collections::BTreeMap;
use std::io::Write;

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

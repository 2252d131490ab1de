//! The library speaks of the command line's flags; Python has arguments in their place.

/// `--missing drop` becomes `missing='drop'`, `--blocks` becomes `blocks`; the advice to leave a
/// column out with `'!name'`, a selector of the command line, loses its example. A value that is not
/// there is a NaN. What stands in quotes is the user's own and stays as it is.
pub fn for_python(text: &str) -> String {
    let text = text.replace("has no value in row", "has no value (NaN) in row");
    let text = without_selector(&text);
    let parts = text.split('\'').enumerate();
    let said = parts.map(|(place, part)| match place % 2 {
        0 => arguments(part),
        _ => part.to_string(),
    });
    said.collect::<Vec<_>>().join("'")
}

/// Without `with '!name'` and `, e.g. with '!name'`.
fn without_selector(text: &str) -> String {
    let Some((before, selector)) = text.split_once(" with '!") else { return text.to_string() };
    // The name may hold a quote itself; behind its own there is a comma.
    let Some((_, after)) = selector.split_once("', or") else { return text.to_string() };
    format!("{}, or{after}", before.strip_suffix(", e.g.").unwrap_or(before))
}

/// Flags as arguments, in text without quotes.
fn arguments(text: &str) -> String {
    let mut words = text.split("--");
    let mut said = words.next().unwrap_or_default().to_string();
    for rest in words {
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(rest.len());
        let (name, mut after) = rest.split_at(end);
        said.push_str(&name.replace('-', "_"));
        for value in ["drop", "max"] {
            if let Some(behind) = after.strip_prefix(&format!(" {value}")) {
                said.push_str(&format!("='{value}'"));
                after = behind;
            }
        }
        said.push_str(after);
    }
    said
}

//! The library speaks of the command line's flags; Python has arguments in their place.

/// `--missing drop` becomes `missing='drop'`, `--blocks` becomes `blocks`; the advice to leave a
/// column out with `'!name'`, a selector of the command line, loses its example. A value that is not
/// there is a NaN.
pub fn for_python(text: &str) -> String {
    let text = text.replace("has no value in row", "has no value (NaN) in row");
    let mut said = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find("--").into_iter().chain(rest.find(" with '!")).min() {
        let (before, here) = rest.split_at(at);
        let ended = before.ends_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_');
        if let Some(selector) = here.strip_prefix(" with '!") {
            said.push_str(before.strip_suffix(", e.g.").unwrap_or(before));
            rest = selector.split_once('\'').map_or("", |(_, after)| after);
            continue;
        }
        said.push_str(before);
        let name_length = here[2..].find(|c: char| !c.is_ascii_lowercase() && c != '-');
        let (name, after) = here[2..].split_at(name_length.unwrap_or(here.len() - 2));
        if ended || name.is_empty() {
            said.push_str(&here[..2 + name.len()]);
            rest = after;
            continue;
        }
        said.push_str(&name.replace('-', "_"));
        rest = after;
        for value in ["drop", "max"] {
            if let Some(after) = after.strip_prefix(&format!(" {value}")) {
                said.push_str(&format!("='{value}'"));
                rest = after;
            }
        }
    }
    said + rest
}

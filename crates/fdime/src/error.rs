/// What can be wrong with a request. Each variant carries the offending values, so that a caller
/// can point at its own name for them (a flag, a keyword argument, a key in a file).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that nothing answers to.
    #[error("unknown {kind} '{name}'{}", suggestion.as_ref().map(|s| format!("; did you mean '{s}'?")).unwrap_or_default())]
    UnknownName {
        /// What was looked for, e.g. "estimator".
        kind: &'static str,
        /// The name that was given.
        name: String,
        /// The nearest known name, when one is near.
        suggestion: Option<String>,
    },
    /// A value outside what its parameter allows.
    #[error("{value} is not a valid {parameter}: {expected}")]
    InvalidParameter {
        /// The parameter's name.
        parameter: &'static str,
        /// The value that was given.
        value: String,
        /// What would be valid.
        expected: String,
    },
    /// Two choices that are each valid, but not together.
    #[error("{parameter} {value} does not go with {other}: {reason}")]
    Incompatible {
        /// The parameter to change.
        parameter: &'static str,
        /// Its value.
        value: String,
        /// What it does not go with.
        other: String,
        /// Why, and what to choose instead.
        reason: String,
    },
    /// A function that generates no f-divergence.
    #[error("f(u) = {expression} does not generate an f-divergence: {reason}")]
    InvalidDivergence {
        /// The function as it was given.
        expression: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A plan that cannot be read.
    #[error("{problem}")]
    Plan {
        /// What is wrong with it.
        problem: String,
    },
    /// A GPU that is not there, lacks a library, or failed.
    #[error("cuda: {reason}")]
    Device {
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// Training gave numbers that are not finite, however it was tried.
    #[error(
        "{estimator} diverged: its objective or its estimate is no longer finite; try gan-dime"
    )]
    Diverged {
        /// The estimator.
        estimator: String,
    },
    /// A file that could not be written.
    #[error("cannot write {path}: {reason}")]
    Write {
        /// The file.
        path: String,
        /// What the system or the format says.
        reason: String,
    },
    /// A table that could not be read, or not be used as it is.
    #[error("{file}: {problem}")]
    Data {
        /// The file, or "standard input".
        file: String,
        /// Where in it, what is wrong there, and what to do; one line.
        problem: String,
    },
    /// A choice of columns that does not fit the table.
    #[error("{role} {selector}: {problem}")]
    Selection {
        /// What the columns were chosen for, as the user calls it.
        role: String,
        /// The choice as it was given.
        selector: String,
        /// What is wrong with it, and what would be right; one line.
        problem: String,
    },
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An [`Error::UnknownName`] that suggests the nearest of `known`, if one is near.
pub fn unknown_name<'a>(
    kind: &'static str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Error {
    let suggestion = known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&name.to_lowercase(), candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, candidate)| candidate.to_string());
    Error::UnknownName { kind, name: name.to_string(), suggestion }
}

/// An [`Error::InvalidParameter`].
pub(crate) fn invalid(
    parameter: &'static str,
    value: impl ToString,
    expected: impl Into<String>,
) -> Error {
    Error::InvalidParameter { parameter, value: value.to_string(), expected: expected.into() }
}

/// An [`Error::Data`] in one line, whatever bytes of the file its problem quotes.
pub(crate) fn data_error(file: &str, problem: impl std::fmt::Display) -> Error {
    let problem = problem.to_string().replace(char::is_control, " ");
    Error::Data { file: file.to_string(), problem }
}

/// A name or a cell of a table between quotes, short enough for a line.
pub(crate) fn quote(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut shown: String = text.chars().take(LONGEST).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    format!("'{shown}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_suggest_the_nearest_and_stay_silent_when_none_is_near() {
        let known = ["kl-dime", "gan-dime", "mine"];
        assert_eq!(
            unknown_name("estimator", "gan-dmie", known).to_string(),
            "unknown estimator 'gan-dmie'; did you mean 'gan-dime'?"
        );
        assert_eq!(unknown_name("estimator", "zzz", known).to_string(), "unknown estimator 'zzz'");
    }
}

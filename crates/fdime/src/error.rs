use crate::message::{Message, Parameter, Wording};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// An error of this crate. Each variant carries the offending values; [`render`](Error::render)
/// names parameters in the words of a front end, `Display` by their names.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// An unknown name.
    UnknownName {
        /// The parameter that takes such a name.
        parameter: Parameter,
        /// The name that was given.
        name: String,
        /// The most similar known name, if one is similar enough.
        suggestion: Option<String>,
    },
    /// A value outside the range of its parameter.
    InvalidParameter {
        /// The parameter.
        parameter: Parameter,
        /// The value that was given.
        value: String,
        /// A description of the valid values.
        expected: Message,
    },
    /// Two choices that are each valid, but not together.
    Incompatible {
        /// The parameter to change.
        parameter: Parameter,
        /// Its value.
        value: String,
        /// The other choice.
        other: Message,
        /// Why they are incompatible, and what to choose instead.
        reason: Message,
    },
    /// A function that does not generate an f-divergence.
    InvalidDivergence {
        /// The function that was given.
        expression: String,
        /// Why it is not valid.
        reason: String,
    },
    /// A plan that cannot be read.
    Plan {
        /// What is wrong with it.
        problem: String,
    },
    /// Columns that cannot be compared.
    Columns {
        /// What is wrong with them.
        problem: String,
    },
    /// A GPU that is missing, has no driver or library, or failed.
    Device {
        /// What is wrong, and what to do.
        reason: Message,
    },
    /// The caller asked to stop.
    Interrupted,
    /// Training that gave numbers that are not finite.
    Diverged {
        /// The estimator.
        estimator: String,
    },
    /// A file that could not be read.
    Read {
        /// The file, or "standard input".
        file: String,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// A file that could not be written.
    Write {
        /// The file.
        path: String,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// A file that must not be written.
    NotWritable {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
    },
    /// A table that cannot be used.
    Data {
        /// The file, or "standard input".
        file: String,
        /// What is wrong, where, and what to do; one line.
        problem: Message,
    },
    /// Columns of different lengths.
    UnequalColumns {
        /// The names and lengths of two columns.
        columns: [(String, usize); 2],
    },
    /// A selection of columns that does not fit the table.
    Selection {
        /// The selection that was given.
        choice: Message,
        /// What is wrong with it, and what would be right; one line.
        problem: Message,
    },
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns the text in the words of a front end.
    pub fn render(&self, wording: &dyn Wording) -> String {
        self.message().render(wording)
    }

    /// Returns the text with slots for parameters.
    pub fn message(&self) -> Message {
        match self {
            Error::UnknownName { parameter, name, suggestion } => {
                let noun = match parameter {
                    Parameter::LevelKind => "kind of level",
                    other => other.name(),
                };
                let hint = suggestion.iter().map(|name| format!("; did you mean '{name}'?"));
                format!("unknown {noun} '{name}'{}", hint.collect::<String>()).into()
            }
            Error::InvalidParameter { parameter, value, expected } => Message::new()
                .setting(parameter.set_through(), value)
                .text(": ")
                .then(expected.clone()),
            Error::Incompatible { parameter, value, other, reason } => Message::new()
                .setting(parameter.set_through(), value)
                .text(" cannot be used with ")
                .then(other.clone())
                .text(": ")
                .then(reason.clone()),
            Error::InvalidDivergence { expression, reason } => {
                format!("f(u) = {expression} does not generate an f-divergence: {reason}").into()
            }
            Error::Plan { problem } | Error::Columns { problem } => problem.as_str().into(),
            Error::Device { reason } => Message::from("cuda: ").then(reason.clone()),
            Error::Interrupted => "interrupted".into(),
            Error::Diverged { estimator } => {
                let other = if estimator.starts_with("gan-dime") { "copula" } else { "gan-dime" };
                Message::from(format!(
                    "{estimator} diverged: its objective or its estimate is no longer finite; try "
                ))
                .setting(Parameter::Estimator, other)
            }
            Error::Read { file, source } => match source.kind() {
                io::ErrorKind::NotFound => format!("{file}: there is no such file").into(),
                io::ErrorKind::PermissionDenied => {
                    format!("{file}: no permission to read it").into()
                }
                _ => format!("{file}: {source}").into(),
            },
            Error::Write { path, source } => format!("cannot write {path}: {source}").into(),
            Error::NotWritable { path, reason } => format!("cannot write {path}: {reason}").into(),
            Error::Data { file, problem } => {
                Message::from(format!("{file}: ")).then(problem.clone())
            }
            Error::UnequalColumns { columns: [(one, rows), (other, others)] } => {
                let (one, other) = (quote(one), quote(other));
                format!("column {one} has {rows} rows, but {other} has {others}").into()
            }
            Error::Selection { choice, problem } => choice.clone().text(": ").then(problem.clone()),
        }
    }
}

/// Errors are equal if they are of the same kind and have the same text; sources cannot be
/// compared.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.message() == other.message()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message().fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Read { source, .. } | Error::Write { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}

impl From<Error> for Message {
    fn from(error: Error) -> Self {
        error.message()
    }
}

/// Returns the known name that is most similar to `name`, if one is similar enough.
pub fn nearest_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&name.to_lowercase(), candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, candidate)| candidate)
}

/// Returns an [`Error::UnknownName`] that suggests the most similar known name.
pub(crate) fn unknown_name<'a>(
    parameter: Parameter,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Error {
    let suggestion = nearest_name(name, known).map(str::to_string);
    Error::UnknownName { parameter, name: name.to_string(), suggestion }
}

/// Returns an [`Error::InvalidParameter`].
pub(crate) fn invalid(
    parameter: Parameter,
    value: impl ToString,
    expected: impl Into<Message>,
) -> Error {
    Error::InvalidParameter { parameter, value: value.to_string(), expected: expected.into() }
}

/// Returns an [`Error::Read`].
pub(crate) fn read_error(file: &str, source: io::Error) -> Error {
    Error::Read { file: file.to_string(), source: Arc::new(source) }
}

/// Returns an [`Error::Write`].
pub(crate) fn write_error(path: &Path, source: io::Error) -> Error {
    Error::Write { path: path.display().to_string(), source: Arc::new(source) }
}

/// Returns an [`Error::NotWritable`].
pub(crate) fn not_writable(path: &Path, reason: impl Into<String>) -> Error {
    Error::NotWritable { path: path.display().to_string(), reason: reason.into() }
}

/// Returns an [`Error::Data`] on one line, even where its problem quotes bytes of the file.
pub(crate) fn data_error(file: &str, problem: impl Into<Message>) -> Error {
    Error::Data { file: file.to_string(), problem: problem.into().on_one_line() }
}

/// Returns a name or a cell of a table in quotes, cut off at 40 characters.
pub(crate) fn quote(text: &str) -> String {
    const MAX_LENGTH: usize = 40;
    let mut shown: String = text.chars().take(MAX_LENGTH).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    format!("'{shown}'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn unknown_names_suggest_the_nearest_one_if_it_is_similar() {
        let known = ["kl-dime", "gan-dime", "mine"];
        let unknown = |name: &str| unknown_name(Parameter::Estimator, name, known).to_string();
        assert_eq!(unknown("gan-dmie"), "unknown estimator 'gan-dmie'; did you mean 'gan-dime'?");
        assert_eq!(unknown("zzz"), "unknown estimator 'zzz'");
    }

    #[test]
    fn parameters_are_named_as_users_set_them() {
        let error = invalid(Parameter::Divergence, "alpha-x", "write a number");
        assert_eq!(error.to_string(), "estimator = alpha-x: write a number");
        let error = unknown_name(Parameter::LevelKind, "foo", []);
        assert_eq!(error.to_string(), "unknown kind of level 'foo'");
    }

    #[test]
    fn errors_of_the_system_are_sources() {
        let error = write_error(Path::new("a.csv"), io::Error::other("disk full"));
        assert_eq!(error.to_string(), "cannot write a.csv: disk full");
        assert_eq!(error.source().unwrap().to_string(), "disk full");
        assert!(Error::Interrupted.source().is_none());
    }
}

//! Errors of commands: one line on stderr that names the flag, and an exit code.

use crate::flags::{FLAGS, Flags};
use crate::printable::printable;
use fdime::{Error, Parameter, Wording};
use std::process::ExitCode;

/// The reason why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The request is not valid: exit code 2.
    Usage(String),
    /// The work failed: exit code 1.
    Run(String),
    /// Ctrl-C: exit code 130.
    Interrupted,
    /// Ctrl-C, with finished work kept for `--resume`: exit code 130.
    Paused,
    /// Ctrl-C, with finished runs in a log: exit code 130.
    Logged,
    /// The reader of the output has closed it (`fdime list | head`), which is not an error.
    OutputClosed,
}

/// The result of a command.
pub type Outcome = Result<(), Failure>;

impl Failure {
    /// Returns the failure for an error of the library, with parameters named by these flags.
    pub fn new(error: Error, flags: &Flags) -> Self {
        let text = error.render(flags);
        let named =
            |parameter: Parameter| format!("{}: {text}", flags.parameter(parameter.set_through()));
        match error {
            Error::Interrupted => Failure::Interrupted,
            Error::UnknownName { parameter, .. } => {
                Failure::Usage(named(parameter)).with_hint("'fdime list' shows all names")
            }
            Error::InvalidDivergence { .. } => Failure::Usage(named(Parameter::Divergence)),
            Error::InvalidParameter { .. }
            | Error::Incompatible { .. }
            | Error::Plan { .. }
            | Error::Columns { .. }
            | Error::Read { .. }
            | Error::Write { .. }
            | Error::NotWritable { .. }
            | Error::Data { .. }
            | Error::UnequalColumns { .. }
            | Error::Selection { .. } => Failure::Usage(text),
            _ => Failure::Run(text),
        }
    }

    /// Returns the failure for an unknown name, with a hint where to find the names.
    pub fn unknown_name<'a>(
        kind: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
        hint: &str,
    ) -> Self {
        let suggestion = match fdime::nearest_name(name, known) {
            Some(nearest) => format!("; did you mean '{nearest}'?"),
            None => String::new(),
        };
        Failure::Usage(format!("unknown {kind} '{name}'{suggestion}")).with_hint(hint)
    }

    /// Appends a line with a hint.
    pub fn with_hint(self, hint: &str) -> Self {
        match self {
            Failure::Usage(message) => Failure::Usage(format!("{message}\nhint: {hint}")),
            other => other,
        }
    }

    /// Names the part of the request that is not valid.
    pub fn within(self, part: &str) -> Self {
        match self {
            Failure::Usage(message) => Failure::Usage(format!("{part}: {message}")),
            other => other,
        }
    }

    /// Writes the failure to stderr and returns the exit code.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Usage(message) => {
                eprintln!("error: {}", printable(&message));
                ExitCode::from(2)
            }
            Failure::Run(message) => {
                eprintln!("error: {}", printable(&message));
                ExitCode::from(1)
            }
            Failure::Interrupted => {
                eprintln!("interrupted: nothing was written");
                ExitCode::from(130)
            }
            Failure::Logged => {
                eprintln!("interrupted: finished runs are in the log; the same command continues");
                ExitCode::from(130)
            }
            Failure::Paused => {
                eprintln!("interrupted: --resume continues from here");
                ExitCode::from(130)
            }
            Failure::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::new(error, &FLAGS)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Run(format!("cannot write to standard output: {error}")),
        }
    }
}

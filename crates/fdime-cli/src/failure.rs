//! Errors as the user sees them: one line on stderr that names the flag, and an exit code.

use std::process::ExitCode;

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The request cannot be carried out as it is: exit code 2.
    Usage(String),
    /// It was carried out, and went wrong: exit code 1.
    Run(String),
    /// Ctrl-C: exit code 130.
    Interrupted,
    /// Ctrl-C, with what is finished kept for `--resume`: exit code 130.
    Paused,
    /// Ctrl-C, with finished runs in a log: exit code 130.
    Logged,
    /// Whoever read our output has closed it (`fdime list | head`): that is no error.
    OutputClosed,
}

/// What every command returns.
pub type Outcome = Result<(), Failure>;

impl Failure {
    /// The same, said of something that has another name here than its usual flag.
    pub fn renamed(self, flag: &str, here: &str) -> Self {
        match self {
            Failure::Usage(message) => Failure::Usage(match message.strip_prefix(flag) {
                Some(rest) if rest.starts_with([' ', ':']) => format!("{here}{rest}"),
                _ => message,
            }),
            other => other,
        }
    }

    /// The same, said of a part of the request.
    pub fn within(self, part: &str) -> Self {
        match self {
            Failure::Usage(message) => Failure::Usage(format!("{part}: {message}")),
            other => other,
        }
    }

    /// Says it on stderr and gives the exit code.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Usage(message) => {
                eprintln!("error: {message}");
                ExitCode::from(2)
            }
            Failure::Run(message) => {
                eprintln!("error: {message}");
                ExitCode::from(1)
            }
            Failure::Interrupted => {
                eprintln!("interrupted: nothing was written");
                ExitCode::from(130)
            }
            Failure::Logged => {
                eprintln!("interrupted: finished runs are in the log; the same command goes on");
                ExitCode::from(130)
            }
            Failure::Paused => {
                eprintln!("interrupted: --resume goes on from here");
                ExitCode::from(130)
            }
            Failure::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

/// The flag that sets a parameter or takes a kind of name.
fn flag(parameter: &str) -> String {
    match parameter {
        "tau" | "alpha" | "divergence" => "--estimator".into(),
        "map" => "--scenario".into(),
        "kind of level" => "--levels".into(),
        other => format!("--{other}"),
    }
}

impl From<fdime::Error> for Failure {
    fn from(error: fdime::Error) -> Self {
        use fdime::Error;
        match error {
            Error::InvalidParameter { parameter, value, expected } => {
                Failure::Usage(format!("{} {value}: {expected}", flag(parameter)))
            }
            Error::Incompatible { parameter, value, other, reason } => Failure::Usage(format!(
                "{} {value} does not go with {other}: {reason}",
                flag(parameter)
            )),
            Error::UnknownName { kind, .. } => Failure::Usage(format!(
                "{}: {error}\nhint: 'fdime list' shows all names",
                flag(kind)
            )),
            Error::InvalidDivergence { .. } => Failure::Usage(format!("--estimator: {error}")),
            Error::Interrupted => Failure::Interrupted,
            Error::Data { .. } | Error::Selection { .. } | Error::Write { .. } => {
                Failure::Usage(error.to_string())
            }
            error => Failure::Run(error.to_string()),
        }
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

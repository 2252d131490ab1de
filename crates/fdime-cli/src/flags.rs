//! The words of the command line for the library's parameters.

use fdime::{Parameter, Wording};

/// Names parameters by their flags.
#[derive(Clone, Copy, Debug)]
pub struct Flags {
    /// Other names for some parameters, for a command that names them differently.
    pub renamed: &'static [(Parameter, &'static str)],
}

/// The flags of most commands.
pub const FLAGS: Flags = Flags { renamed: &[] };

impl Wording for Flags {
    fn parameter(&self, parameter: Parameter) -> String {
        match (self.renamed.iter().find(|(renamed, _)| *renamed == parameter), parameter) {
            (Some((_, name)), _) => name.to_string(),
            (None, Parameter::LearningRate) => "--lr".into(),
            (None, Parameter::LearningRateSchedule) => "--lr-schedule".into(),
            (None, Parameter::Groups) => "--group".into(),
            (None, Parameter::K) => "-k".into(),
            (None, other) => format!("--{}", other.name().replace('_', "-")),
        }
    }

    fn setting(&self, parameter: Parameter, value: &str) -> String {
        let flag = self.parameter(parameter);
        // A value that a shell would change is quoted.
        let is_plain = |c: char| c.is_alphanumeric() || "._-=:,+/%@^".contains(c);
        match !value.is_empty() && value.chars().all(is_plain) {
            true => format!("{flag} {value}"),
            false => format!("{flag} '{}'", value.replace('\'', "'\\''")),
        }
    }

    fn leave_out(&self, column: &str) -> String {
        format!("leave it out with '!{column}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fdime::Message;

    #[test]
    fn slots_become_flags_and_selectors() {
        let message = Message::new()
            .leave_out("id")
            .text(", or ")
            .setting(Parameter::Missing, "drop")
            .text("; ")
            .parameter(Parameter::InitialScale);
        let text = "leave it out with '!id', or --missing drop; --initial-scale";
        assert_eq!(message.render(&FLAGS), text);
        let sample = Flags { renamed: &[(Parameter::Levels, "--level")] };
        assert_eq!(sample.setting(Parameter::Levels, "rho=2"), "--level rho=2");
        assert_eq!(FLAGS.setting(Parameter::Na, "not said"), "--na 'not said'");
        assert_eq!(FLAGS.setting(Parameter::Na, "it's"), "--na 'it'\\''s'");
    }
}

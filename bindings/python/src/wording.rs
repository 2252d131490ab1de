//! The words of Python for the library's parameters.

use fdime::{Parameter, Wording};

/// Names parameters as keyword arguments.
pub struct KeywordArguments;

impl Wording for KeywordArguments {
    fn setting(&self, parameter: Parameter, value: &str) -> String {
        match parameter {
            // Values in memory are replaced by the user.
            Parameter::Na => format!("{value} to NaN"),
            _ => keyword_argument(&self.parameter(parameter), value),
        }
    }

    fn missing_value(&self) -> &'static str {
        "no value (NaN)"
    }
}

/// Names parameters as keyword arguments of a function whose x is the input and whose y the output.
pub struct InputAndOutput;

impl Wording for InputAndOutput {
    fn parameter(&self, parameter: Parameter) -> String {
        match parameter {
            Parameter::X => "input".into(),
            Parameter::Y => "output".into(),
            other => KeywordArguments.parameter(other),
        }
    }

    fn setting(&self, parameter: Parameter, value: &str) -> String {
        match parameter {
            Parameter::X | Parameter::Y => keyword_argument(&self.parameter(parameter), value),
            _ => KeywordArguments.setting(parameter, value),
        }
    }

    fn missing_value(&self) -> &'static str {
        KeywordArguments.missing_value()
    }
}

fn keyword_argument(name: &str, value: &str) -> String {
    // Numbers, lists and quoted text are Python's notation already.
    match value.parse::<f64>().is_ok() || value.starts_with(['[', '\'']) {
        true => format!("{name}={value}"),
        false => format!("{name}='{value}'"),
    }
}

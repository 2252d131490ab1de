//! The words of Python for the library's parameters.

use fdime::{Parameter, Wording};

/// Names parameters as keyword arguments.
pub struct KeywordArguments;

impl Wording for KeywordArguments {
    fn setting(&self, parameter: Parameter, value: &str) -> String {
        let name = self.parameter(parameter);
        // Numbers, lists and quoted text are Python's notation already.
        match value.parse::<f64>().is_ok() || value.starts_with(['[', '\'']) {
            true => format!("{name}={value}"),
            false => format!("{name}='{value}'"),
        }
    }

    fn missing_value(&self) -> &'static str {
        "no value (NaN)"
    }
}

//! Messages that name parameters without knowing how a user sets them.
//!
//! The command line sets a parameter with a flag, Python with an argument. A [`Message`] therefore
//! holds text with typed slots, and a [`Wording`] fills the slots in the words of a front end.

use std::borrow::Cow;
use std::fmt;

/// Defines [`Parameter`] from a table of variants and their names.
macro_rules! parameters {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A parameter that a message can name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Parameter {
            $($(#[$doc])* $variant,)*
        }

        impl Parameter {
            /// Returns the name in snake case.
            pub fn name(self) -> &'static str {
                match self {
                    $(Parameter::$variant => $name,)*
                }
            }
        }
    };
}

parameters! {
    /// The activation of hidden layers.
    Activation = "activation",
    /// The level of a test.
    Alpha = "alpha",
    /// The number of joint samples in a training step.
    Batch = "batch",
    /// Adam's decay of the first moment.
    Beta1 = "beta1",
    /// Adam's decay of the second moment.
    Beta2 = "beta2",
    /// The gap between contiguous folds of a time series.
    Blocks = "blocks",
    /// The columns to compare with each other.
    Columns = "columns",
    /// The treatment of constant columns.
    Constant = "constant",
    /// What decides which feature is chosen next.
    Criterion = "criterion",
    /// The critic.
    Critic = "critic",
    /// The weight decay.
    Decay = "decay",
    /// The device that trains.
    Device = "device",
    /// The decimal point of tables that are text.
    Decimal = "decimal",
    /// What separates the fields of tables that are text.
    Delimiter = "delimiter",
    /// The dimension of x and of y.
    Dim = "dim",
    /// Numeric columns that hold categories.
    Discrete = "discrete",
    /// An f-divergence, part of an estimator's name.
    Divergence = "divergence",
    /// The dropout rate.
    Dropout = "dropout",
    /// The effort of an estimate.
    Effort = "effort",
    /// The number of outputs of a separable critic's networks.
    Embedding = "embedding",
    /// The chain rule over blocks of columns.
    Chain = "chain",
    /// How the learning rate changes.
    LearningRateSchedule = "learning_rate_schedule",
    /// Adam's epsilon.
    Epsilon = "epsilon",
    /// The estimator.
    Estimator = "estimator",
    /// The number of folds.
    Folds = "folds",
    /// The columns that are held fixed.
    Given = "given",
    /// The series that may tell about others.
    From = "from",
    /// The column that names the recording of a row.
    Group = "group",
    /// The groups of columns to compare.
    Groups = "groups",
    /// The widths of hidden layers.
    Hidden = "hidden",
    /// The number of steps of a series' own past that are held fixed.
    History = "history",
    /// The scale of a critic's initial output weights.
    InitialScale = "initial_scale",
    /// The number of training steps.
    Iterations = "iterations",
    /// The number of features to choose.
    K = "k",
    /// The lags between two series.
    Lags = "lags",
    /// The number of iterations at the end of a level that are summarised.
    Last = "last",
    /// The learning rate.
    LearningRate = "learning_rate",
    /// The scale on which a level is given, part of a level.
    LevelKind = "level_kind",
    /// The levels of a staircase.
    Levels = "levels",
    /// The link from score to log ratio.
    Link = "link",
    /// A map of a scenario's variables, part of a scenario's name.
    Map = "map",
    /// The memory that a table may take.
    MaxMemory = "max_memory",
    /// The mutual information of simulated tables.
    Mi = "mi",
    /// The treatment of rows with missing values.
    Missing = "missing",
    /// Words that stand for a missing value.
    Na = "na",
    /// Columns that have to be numbers.
    Numeric = "numeric",
    /// The pairing of x and y.
    Pairing = "pairing",
    /// The number of images in a sample.
    Parts = "parts",
    /// The number of permutations of the test of independence.
    Permutations = "permutations",
    /// The power of a test.
    Power = "power",
    /// The precision of the GPU's products.
    Precision = "precision",
    /// The readout.
    Readout = "readout",
    /// The recipes of a portfolio.
    Recipes = "recipes",
    /// The number of rows.
    Rows = "rows",
    /// The number of runs.
    Runs = "runs",
    /// The number of rows to use.
    SampleRows = "sample_rows",
    /// The scenario.
    Scenario = "scenario",
    /// The duration of a measurement.
    Seconds = "seconds",
    /// The number of pixels on each side of an image.
    Side = "side",
    /// The suite of tasks.
    Suite = "suite",
    /// The number of simulated tables.
    Tables = "tables",
    /// The column of times.
    Time = "time",
    /// The series that others may tell about.
    To = "to",
    /// The view of an image.
    View = "view",
    /// The columns of x.
    X = "x",
    /// The columns of y.
    Y = "y",
    /// Whether a critic's last layer starts at zero.
    ZeroOutput = "zero_output",
}

impl Parameter {
    /// Returns the parameter that a user sets in order to set this one: a divergence is part of an
    /// estimator's name, a map part of a scenario's.
    pub fn set_through(self) -> Parameter {
        match self {
            Parameter::Divergence => Parameter::Estimator,
            Parameter::LevelKind => Parameter::Levels,
            Parameter::Map => Parameter::Scenario,
            other => other,
        }
    }
}

/// How a front end words the slots of a message. The methods' defaults are neutral words.
pub trait Wording {
    /// Names a parameter.
    fn parameter(&self, parameter: Parameter) -> String {
        parameter.name().into()
    }

    /// Names a parameter with its value.
    fn setting(&self, parameter: Parameter, value: &str) -> String {
        format!("{} = {value}", self.parameter(parameter))
    }

    /// Advises to leave out a column.
    fn leave_out(&self, _column: &str) -> String {
        "leave it out".into()
    }

    /// Names a missing value.
    fn missing_value(&self) -> &'static str {
        "no value"
    }
}

/// The wording of [`Display`](fmt::Display): parameters by their names.
#[derive(Clone, Copy, Debug, Default)]
pub struct Neutral;

impl Wording for Neutral {}

/// Returns text that can be printed: control characters, which a terminal would obey, and marks that
/// change the direction of writing become escapes such as `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_mark = |c: char| match c {
        // Marks, embeddings, overrides and isolates of direction; separators of lines.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        // XML has no way to write the last two.
        '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => true,
        _ => false,
    };
    let is_unprintable = |c: char| c.is_control() || is_mark(c);
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| match is_unprintable(c) {
        true => c.escape_unicode().to_string(),
        false => c.to_string(),
    };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Text with slots that a [`Wording`] fills.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Parameter(Parameter),
    Setting(Parameter, String),
    LeaveOut(String),
    MissingValue,
}

impl Message {
    /// Creates an empty message.
    pub fn new() -> Self {
        Self::default()
    }

    fn with(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// Appends text.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.with(Part::Text(text.into()))
    }

    /// Appends the name of a parameter.
    pub fn parameter(self, parameter: Parameter) -> Self {
        self.with(Part::Parameter(parameter))
    }

    /// Appends a parameter with its value.
    pub fn setting(self, parameter: Parameter, value: impl Into<String>) -> Self {
        self.with(Part::Setting(parameter, value.into()))
    }

    /// Appends the advice to leave out a column.
    pub fn leave_out(self, column: impl Into<String>) -> Self {
        self.with(Part::LeaveOut(column.into()))
    }

    /// Appends the name of a missing value.
    pub fn missing_value(self) -> Self {
        self.with(Part::MissingValue)
    }

    /// Appends another message.
    pub fn then(mut self, other: Message) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// Returns the text in the words of a front end.
    pub fn render(&self, wording: &dyn Wording) -> String {
        let words = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Parameter(parameter) => wording.parameter(*parameter),
            Part::Setting(parameter, value) => wording.setting(*parameter, value),
            Part::LeaveOut(column) => wording.leave_out(column),
            Part::MissingValue => wording.missing_value().into(),
        });
        words.collect()
    }

    /// Replaces control characters by spaces, so that the message stays on one line.
    pub(crate) fn on_one_line(mut self) -> Self {
        for part in &mut self.parts {
            if let Part::Text(text) | Part::Setting(_, text) | Part::LeaveOut(text) = part {
                *text = text.replace(char::is_control, " ");
            }
        }
        self
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&Neutral))
    }
}

impl std::error::Error for Message {}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Message::new().text(text)
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Message::new().text(text)
    }
}

/// Returns a number with its noun, such as "1 row" and "2 rows".
pub fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Shouting;

    impl Wording for Shouting {
        fn parameter(&self, parameter: Parameter) -> String {
            parameter.name().to_uppercase()
        }

        fn leave_out(&self, column: &str) -> String {
            format!("drop {column}")
        }
    }

    #[test]
    fn each_front_end_fills_the_slots_in_its_own_words() {
        let message = Message::from("row 1 has ")
            .missing_value()
            .text("; ")
            .leave_out("a")
            .text(", set ")
            .setting(Parameter::Missing, "drop")
            .text(" or ")
            .parameter(Parameter::Blocks);
        let neutral = "row 1 has no value; leave it out, set missing = drop or blocks";
        assert_eq!(message.to_string(), neutral);
        let shouted = "row 1 has no value; drop a, set MISSING = drop or BLOCKS";
        assert_eq!(message.render(&Shouting), shouted);
    }

    #[test]
    fn terminals_are_not_given_orders() {
        assert_eq!(printable("a\u{1b}[31mb"), "a\\u{1b}[31mb");
        assert_eq!(printable("\u{202e}c\u{9b}\n"), "\\u{202e}c\\u{9b}\\u{a}");
        assert!(matches!(printable("süd (é, 東)"), Cow::Borrowed(_)));
    }

    #[test]
    fn control_characters_become_spaces() {
        let message = Message::from("a\nb ").setting(Parameter::X, "c\td").on_one_line();
        assert_eq!(message.to_string(), "a b x = c d");
    }
}

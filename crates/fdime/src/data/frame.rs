/// A named column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub values: Values,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Numbers; NaN stands for a missing one.
    Continuous(Vec<f64>),
    /// Levels without an order.
    Discrete {
        /// The level of every row.
        codes: Vec<u32>,
        /// The levels' names.
        labels: Vec<String>,
    },
}

impl Column {
    /// The number of rows.
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Continuous(values) => values.len(),
            Values::Discrete { codes, .. } => codes.len(),
        }
    }
}

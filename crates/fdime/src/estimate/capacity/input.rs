//! The levels of a discrete input.

use super::super::levels::takes_few_values;
use crate::data::{Column, Values};
use crate::error::{Error, Result, quote};
use crate::message::{Message, Parameter};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The smallest number of rows of a level. The capacity may give any level a large share, whatever
/// its share of the rows, so that a level with fewer rows could decide it by chance.
const MIN_ROWS_OF_LEVEL: usize = 20;

/// The input as one category.
pub(super) struct Input {
    /// The level of every row.
    pub(super) column: Column,
    /// The names of the levels.
    pub(super) names: Vec<String>,
    /// The number of rows of each level, at least [`MIN_ROWS_OF_LEVEL`].
    pub(super) counts: Vec<usize>,
    /// The level of every row, as in `column`.
    pub(super) codes: Vec<u32>,
}

/// A value of a column, in the order in which levels are shown.
#[derive(Clone, Copy, PartialEq)]
struct Place(f64);

impl Eq for Place {}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Input {
    /// Returns the combinations of the columns' values as levels: numbers in ascending order, other
    /// categories in the order of their codes. All columns have a value in every row.
    pub(super) fn new(columns: &[Column]) -> Result<Self> {
        for column in columns {
            check_discrete(column)?;
        }
        let rows = columns.first().map_or(0, Column::len);
        let places: Vec<Vec<Place>> = columns.iter().map(places).collect();
        let key = |row: usize| places.iter().map(|column| column[row]).collect::<Vec<Place>>();
        let mut first_rows: BTreeMap<Vec<Place>, usize> = BTreeMap::new();
        for row in 0..rows {
            first_rows.entry(key(row)).or_insert(row);
        }
        let codes_of: BTreeMap<&Vec<Place>, u32> = first_rows.keys().zip(0..).collect();
        let codes: Vec<u32> = (0..rows).map(|row| codes_of[&key(row)]).collect();
        let name = |row: &usize| {
            let labels: Vec<String> = columns.iter().map(|column| label(column, *row)).collect();
            labels.join(", ")
        };
        let names: Vec<String> = first_rows.values().map(name).collect();
        let mut counts = vec![0; names.len()];
        codes.iter().for_each(|code| counts[*code as usize] += 1);
        let column_names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let values = Values::Discrete { codes: codes.clone(), labels: names.clone() };
        let column = Column { name: column_names.join(", "), values };
        let input = Input { column, names, counts, codes };
        input.check_rows()?;
        Ok(input)
    }

    fn check_rows(&self) -> Result<()> {
        if self.names.len() < 2 {
            return refused(
                "it has the same value in every row; a channel needs at least two levels",
            );
        }
        let few = self.counts.iter().filter(|count| **count < MIN_ROWS_OF_LEVEL).count();
        let rarest = self.rarest();
        match few {
            0 => Ok(()),
            _ => refused(format!(
                "{few} of {} levels have fewer than {MIN_ROWS_OF_LEVEL} rows, such as {} with {}; \
                 merge levels, or leave out their rows, because the capacity can depend on any level",
                self.names.len(),
                quote(&self.names[rarest]),
                self.counts[rarest]
            )),
        }
    }

    /// Returns the share of the rows of each level.
    pub(super) fn shares(&self) -> Vec<f64> {
        self.counts.iter().map(|count| *count as f64 / self.codes.len() as f64).collect()
    }

    /// Returns the level with the fewest rows.
    pub(super) fn rarest(&self) -> usize {
        (0..self.counts.len()).min_by_key(|level| self.counts[*level]).unwrap_or(0)
    }

    /// Returns the rows of each level in ascending order.
    pub(super) fn rows(&self) -> Vec<Vec<u32>> {
        let mut rows = vec![Vec::new(); self.counts.len()];
        for (row, code) in (0..).zip(&self.codes) {
            rows[*code as usize].push(row);
        }
        rows
    }
}

/// Returns an error that names the input.
fn refused<T>(problem: impl Into<Message>) -> Result<T> {
    let choice = Message::new().parameter(Parameter::X);
    Err(Error::Selection { choice, problem: problem.into() })
}

/// Refuses numbers that take too many values to be levels.
fn check_discrete(column: &Column) -> Result<()> {
    if takes_few_values(column) {
        return Ok(());
    }
    let name = quote(&column.name);
    refused(
        Message::from(format!(
            "column {name} takes too many different values for the levels of a channel; bin it into \
             a few classes first, for example quintiles, or name it in "
        ))
        .parameter(Parameter::Discrete)
        .text(" if its values are levels"),
    )
}

/// Returns the place of every row's value among those of its column.
fn places(column: &Column) -> Vec<Place> {
    match &column.values {
        // Adding 0 turns -0 into 0.
        Values::Continuous(values) => values.iter().map(|value| Place(value + 0.0)).collect(),
        Values::Discrete { codes, labels } => {
            let numbers: Option<Vec<f64>> = labels.iter().map(|label| label.parse().ok()).collect();
            // '1' and '1.0' are different categories.
            let numbers = numbers.filter(|numbers| {
                let mut sorted = numbers.clone();
                sorted.sort_by(f64::total_cmp);
                sorted.windows(2).all(|pair| pair[0] < pair[1])
            });
            let place = |code: &u32| match &numbers {
                Some(numbers) => Place(numbers[*code as usize]),
                None => Place(f64::from(*code)),
            };
            codes.iter().map(place).collect()
        }
    }
}

fn label(column: &Column, row: usize) -> String {
    match &column.values {
        Values::Continuous(values) => (values[row] + 0.0).to_string(),
        Values::Discrete { codes, labels } => labels[codes[row] as usize].clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(values: impl Iterator<Item = f64>) -> Column {
        Column { name: "dose".into(), values: Values::Continuous(values.collect()) }
    }

    fn category(labels: &[&str], codes: impl Iterator<Item = u32>) -> Column {
        let labels = labels.iter().map(|label| label.to_string()).collect();
        Column { name: "drug".into(), values: Values::Discrete { codes: codes.collect(), labels } }
    }

    #[test]
    fn levels_are_combinations_with_numbers_in_ascending_order() {
        let dose = || numbers((0..120).map(|k| [10.0, 0.0, 2.5][k % 3]));
        let input = Input::new(&[dose()]).unwrap();
        assert_eq!(input.names, ["0", "2.5", "10"]);
        assert_eq!((input.counts[0], input.codes[0]), (40, 2));
        let drug = category(&["b", "a"], (0..120).map(|k| k / 60));
        let both = Input::new(&[drug, dose()]).unwrap();
        assert_eq!(both.names, ["b, 0", "b, 2.5", "b, 10", "a, 0", "a, 2.5", "a, 10"]);
        assert_eq!((both.counts.len(), both.column.name.as_str()), (6, "drug, dose"));
        let written = category(&["10", "9", "unused"], (0..120).map(|k| k % 2));
        assert_eq!(Input::new(&[written]).unwrap().names, ["10", "9"], "a text among the labels");
        let written = category(&["10", "9"], (0..120).map(|k| k % 2));
        assert_eq!(Input::new(&[written]).unwrap().names, ["9", "10"]);
        let zeros = numbers((0..120).map(|k| [0.0, -0.0, 1.0][k % 3]));
        assert_eq!(Input::new(&[zeros]).unwrap().counts, [80, 40]);
    }

    #[test]
    fn inputs_without_usable_levels_are_refused() {
        let problem = |column: Column| Input::new(&[column]).err().unwrap().to_string();
        assert!(problem(numbers((0..100).map(|_| 1.0))).contains("at least two levels"));
        let text = problem(numbers((0..1000).map(|k| f64::from(k).sqrt())));
        assert!(text.starts_with("x: column 'dose'") && text.contains("classes"), "{text}");
        let text = problem(numbers((0..100).map(|k| f64::from(u8::from(k < 7)))));
        assert!(text.contains("1 of 2 levels") && text.contains("'1' with 7"), "{text}");
    }
}

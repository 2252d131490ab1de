//! The levels of discrete columns.

use crate::data::{Column, Values};
use std::collections::HashMap;

/// The average number of rows that a level of numbers has at least. Numbers that repeat less are
/// measurements rather than levels.
pub(super) const MIN_ROWS_PER_LEVEL: usize = 5;

/// The levels of a discrete side: the combinations of its columns' values that occur.
pub(super) struct Levels {
    /// The level of every row.
    pub(super) codes: Vec<u32>,
    /// The number of rows of every level.
    pub(super) counts: Vec<u32>,
}

impl Levels {
    /// Returns the levels of a side; `None` if it is not discrete. Categories always are; numbers
    /// are if each column takes few values and the combinations of the columns repeat.
    pub(super) fn of(columns: &[Column]) -> Option<Self> {
        if !columns.iter().all(takes_few_values) {
            return None;
        }
        let rows = columns.first().map_or(0, Column::len);
        let mut codes = vec![0; rows];
        let mut count = 0;
        for column in columns {
            let mut known: HashMap<(u32, u64), u32> = HashMap::new();
            for (row, code) in codes.iter_mut().enumerate() {
                let next = known.len() as u32;
                *code = *known.entry((*code, value_bits(column, row))).or_insert(next);
            }
            count = known.len();
        }
        let mut counts = vec![0; count];
        codes.iter().for_each(|&code: &u32| counts[code as usize] += 1);
        let repeats = columns.iter().all(is_category) || count * MIN_ROWS_PER_LEVEL <= rows;
        repeats.then_some(Levels { codes, counts })
    }

    /// Returns the entropy by the observed frequencies: -sum n_k/n ln(n_k/n).
    pub(super) fn entropy(&self) -> f64 {
        let n = self.codes.len() as f64;
        let share = |count: &u32| f64::from(*count) / n;
        self.counts.iter().map(share).map(|share| -share * share.ln()).sum()
    }
}

/// Returns whether a column is a category, or a number with few different values.
pub(super) fn takes_few_values(column: &Column) -> bool {
    is_category(column) || has_ties(column)
}

/// Returns whether a continuous column takes few values.
pub(super) fn has_ties(column: &Column) -> bool {
    let values = different_numbers(column).len();
    !is_category(column) && (values < column.len() / 20 || values <= 10)
}

/// Returns the different values of a continuous column in ascending order; none of a category.
pub(super) fn different_numbers(column: &Column) -> Vec<f64> {
    let Values::Continuous(values) = &column.values else { return Vec::new() };
    let mut sorted = values.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.dedup();
    sorted
}

/// Returns whether a column is declared as a category.
pub(super) fn is_category(column: &Column) -> bool {
    matches!(column.values, Values::Discrete { .. })
}

/// Returns bits that are equal for equal values.
fn value_bits(column: &Column, row: usize) -> u64 {
    match &column.values {
        Values::Discrete { codes, .. } => u64::from(codes[row]),
        // Adding 0 turns -0 into 0.
        Values::Continuous(values) => (values[row] + 0.0).to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(values: impl Iterator<Item = f64>) -> Column {
        Column { name: "n".into(), values: Values::Continuous(values.collect()) }
    }

    #[test]
    fn few_repeated_numbers_are_levels() {
        let coin = || numbers((0..100).map(|k| f64::from(k % 2)));
        let die = || numbers((0..100).map(|k| f64::from(k % 5)));
        let both = Levels::of(&[coin(), die()]).unwrap();
        assert_eq!(both.counts, [10; 10], "2 times 5 combinations");
        assert!((both.entropy() - 10f64.ln()).abs() < 1e-12);
        assert!(Levels::of(&[numbers((0..100).map(f64::from))]).is_none(), "a measurement");
        let bits = |bit: u32| numbers((0..100u32).map(move |k| f64::from(k >> bit & 1)));
        assert!(Levels::of(&(0..7).map(bits).collect::<Vec<_>>()).is_none(), "100 combinations");
        let zeros = numbers((0..100).map(|k| if k % 2 == 0 { 0.0 } else { -0.0 }));
        assert_eq!(Levels::of(&[zeros]).unwrap().counts, [100], "0 and -0 are equal");
    }
}

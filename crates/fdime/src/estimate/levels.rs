//! The levels of discrete columns.

use super::NORMAL_QUANTILE;
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

    /// Returns the levels of some rows, numbered anew.
    pub(super) fn at(&self, rows: &[u32]) -> Levels {
        let (mut counts, mut new) = (Vec::new(), vec![u32::MAX; self.counts.len()]);
        let codes = rows.iter().map(|&row| {
            let code = &mut new[self.codes[row as usize] as usize];
            if *code == u32::MAX {
                *code = counts.len() as u32;
                counts.push(0);
            }
            counts[*code as usize] += 1;
            *code
        });
        Levels { codes: codes.collect(), counts }
    }

    /// Returns the shares of the rows.
    fn shares(&self) -> impl Iterator<Item = f64> {
        let n = self.codes.len() as f64;
        self.counts.iter().map(move |count| f64::from(*count) / n)
    }

    /// Returns the entropy by the observed frequencies: -sum n_k/n ln(n_k/n).
    pub(super) fn entropy(&self) -> f64 {
        self.shares().map(|share| -share * share.ln()).sum()
    }

    /// Returns the entropy, corrected for its bias of about (1 - levels) / 2n (Miller and Madow), and
    /// at most that of equally frequent levels.
    pub(super) fn corrected_entropy(&self) -> f64 {
        let (levels, n) = (self.counts.len() as f64, self.codes.len() as f64);
        (self.entropy() + (levels - 1.0) / (2.0 * n)).min(levels.ln())
    }

    /// Returns the upper end of a 95% interval of the entropy, at most that of equally frequent levels.
    /// The variance of the observed entropy is var(ln p) / n, and for equally frequent levels
    /// (levels - 1) / 2n^2.
    pub(super) fn largest_entropy(&self) -> f64 {
        let (levels, n) = (self.counts.len() as f64, self.codes.len() as f64);
        let squares: f64 = self.shares().map(|share| share * share.ln().powi(2)).sum();
        let variance =
            (squares - self.entropy().powi(2)).max(0.0) / n + (levels - 1.0) / (2.0 * n * n);
        (self.corrected_entropy() + NORMAL_QUANTILE * variance.sqrt()).min(levels.ln())
    }

    /// Returns how many rows of two equally frequent levels are about as informative as these rows: twice
    /// the number outside the most frequent level.
    pub(super) fn effective_rows(&self) -> usize {
        let most = self.counts.iter().max().copied().unwrap_or(0) as usize;
        (2 * (self.codes.len() - most)).min(self.codes.len())
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
    use crate::random::{Purpose, stream};
    use rand::RngExt;

    fn numbers(values: impl Iterator<Item = f64>) -> Column {
        Column { name: "n".into(), values: Values::Continuous(values.collect()) }
    }

    /// The true entropy of drawn levels lies below the upper end in 97.5% of draws, but for the limit
    /// ln k: of 400 draws, at most 20 do not (10 expected, alpha of about .002, fixed seeds).
    #[test]
    fn entropies_are_bounded_with_their_sampling_error() {
        for (levels, power, rows) in [(4u32, 1.0, 300), (10, 2.0, 200), (2, 3.0, 1000)] {
            let weight = |k: u32| f64::from(k + 1).powf(-power);
            let total: f64 = (0..levels).map(weight).sum();
            let truth: f64 = (0..levels).map(|k| weight(k) / total).map(|p| -p * p.ln()).sum();
            let exceeded = (0..400).filter(|&seed| {
                let mut rng = stream(seed, Purpose::Data, 0, 0);
                let draw = |_| {
                    let mut left = rng.random::<f64>() * total;
                    (0..levels).find(|k| {
                        left -= weight(*k);
                        left < 0.0
                    })
                };
                let drawn = numbers((0..rows).map(draw).map(|k| f64::from(k.unwrap_or(0))));
                Levels::of(&[drawn]).unwrap().largest_entropy() < truth
            });
            let exceeded = exceeded.count();
            assert!(exceeded <= 20, "{levels} {power}: {exceeded}");
        }
        let coin = Levels::of(&[numbers((0..100).map(|k| f64::from(k % 2)))]).unwrap();
        assert_eq!(coin.largest_entropy(), 2f64.ln());
        assert_eq!(coin.effective_rows(), 100);
        let rare = Levels::of(&[numbers((0..100).map(|k| f64::from(k % 20 == 0)))]).unwrap();
        assert_eq!(rare.effective_rows(), 10);
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

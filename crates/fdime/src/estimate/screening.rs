//! Rankings of many features by counts, which take no time: features are cut into a few levels. The
//! rankings decide which features are worth an estimate.

use super::levels::Levels;
use crate::data::{Column, Values};

/// The number of levels of a measurement, with equal numbers of rows.
const LEVELS_OF_NUMBERS: usize = 4;

/// The maximum number of levels of a column that takes few values; the rarest are merged.
const MAX_LEVELS: usize = 8;

/// A column cut into a few levels.
pub(super) struct Coarse {
    codes: Vec<u32>,
    levels: usize,
}

impl Coarse {
    /// Returns the column's own levels if it takes few values, otherwise its quarters.
    pub(super) fn new(column: &Column) -> Self {
        let numbers = || match &column.values {
            Values::Continuous(values) => Self::quantiles(values),
            Values::Discrete { codes, .. } => {
                Self::quantiles(&codes.iter().map(|code| f64::from(*code)).collect::<Vec<f64>>())
            }
        };
        let levels = Levels::of(std::slice::from_ref(column));
        levels.map_or_else(numbers, |levels| Self::merged(&levels))
    }

    /// Merges the rarest levels into the last one.
    fn merged(levels: &Levels) -> Self {
        let mut order: Vec<usize> = (0..levels.counts.len()).collect();
        order.sort_by_key(|&level| std::cmp::Reverse(levels.counts[level]));
        let mut renamed = vec![0; order.len()];
        for (rank, level) in order.iter().enumerate() {
            renamed[*level] = rank.min(MAX_LEVELS - 1) as u32;
        }
        let codes = levels.codes.iter().map(|&code| renamed[code as usize]).collect();
        Coarse { codes, levels: order.len().clamp(1, MAX_LEVELS) }
    }

    /// Returns the quantile that each value is in; equal values are in the same one.
    pub(super) fn quantiles(values: &[f64]) -> Self {
        let n = values.len();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
        let mut codes = vec![0; n];
        let mut first = 0;
        for (rank, &row) in order.iter().enumerate() {
            if values[row] != values[order[first]] {
                first = rank;
            }
            codes[row] = (first * LEVELS_OF_NUMBERS / n) as u32;
        }
        Coarse { codes, levels: LEVELS_OF_NUMBERS }
    }

    /// Returns the combinations of two columns' levels.
    pub(super) fn with(&self, other: &Coarse) -> Coarse {
        let combine = |(code, other_code): (&u32, &u32)| code * other.levels as u32 + other_code;
        let codes = self.codes.iter().zip(&other.codes).map(combine).collect();
        Coarse { codes, levels: self.levels * other.levels }
    }

    /// Returns the mutual information of the counts, less what independent columns have on average,
    /// (a - 1)(b - 1) / 2n with a and b levels.
    pub(super) fn information(&self, other: &Coarse) -> f64 {
        let n = self.codes.len() as f64;
        let mut cells = vec![0u32; self.levels * other.levels];
        for (code, other_code) in self.codes.iter().zip(&other.codes) {
            cells[*code as usize * other.levels + *other_code as usize] += 1;
        }
        let rows: Vec<u32> = cells.chunks(other.levels).map(|row| row.iter().sum()).collect();
        let mut columns = vec![0; other.levels];
        for row in cells.chunks(other.levels) {
            columns.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
        }
        let term = |(index, count): (usize, &u32)| {
            let (row, column) = (rows[index / other.levels], columns[index % other.levels]);
            let count = f64::from(*count);
            count / n * (count * n / (f64::from(row) * f64::from(column))).ln()
        };
        let plug_in: f64 =
            cells.iter().enumerate().filter(|(_, count)| **count > 0).map(term).sum();
        plug_in - ((self.levels - 1) * (other.levels - 1)) as f64 / (2.0 * n)
    }

    /// Returns what two columns together tell about `target` beyond the sum of what each tells.
    pub(super) fn synergy(&self, other: &Coarse, target: &Coarse) -> f64 {
        let together = self.with(other).information(target);
        together - self.information(target) - other.information(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(value: impl Fn(usize) -> f64) -> Column {
        Column { name: "n".into(), values: Values::Continuous((0..1000).map(value).collect()) }
    }

    #[test]
    fn counts_find_what_is_known() {
        // Low-discrepancy points: independent, and evenly spread.
        let a = numbers(|k| (k as f64 * 0.618_033_988_75).fract());
        let b = numbers(|k| (k as f64 * 0.754_877_666_25).fract());
        let [a, b] = [&a, &b].map(Coarse::new);
        assert_eq!((a.levels, b.levels), (4, 4));
        let same = a.information(&a) - 4f64.ln();
        assert!(same.abs() < 0.01, "a quarter tells its own entropy: {same}");
        assert!(a.information(&b).abs() < 0.02);
        let half = |codes: &Coarse, row: usize| codes.codes[row] / 2;
        let codes: Vec<u32> = (0..1000).map(|row| half(&a, row) ^ half(&b, row)).collect();
        let exclusive_or = Coarse { codes, levels: 2 };
        assert!(a.information(&exclusive_or) < 0.02 && b.information(&exclusive_or) < 0.02);
        assert!(a.synergy(&b, &exclusive_or) > 0.6);
    }

    #[test]
    fn levels_are_kept_and_the_rarest_merged() {
        let few = Coarse::new(&numbers(|k| (k % 3) as f64));
        assert_eq!(few.levels, 3);
        let many = numbers(|k| if k < 500 { 0.0 } else { (k % 40) as f64 });
        assert_eq!(Coarse::new(&many).levels, MAX_LEVELS);
        let ties = Coarse::quantiles(&[1.0, 1.0, 1.0, 2.0]);
        assert_eq!(ties.codes, [0, 0, 0, 3]);
    }
}

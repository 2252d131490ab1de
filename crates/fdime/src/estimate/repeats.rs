//! Rows that are equal to other rows: copies, or rounded numbers that repeat by chance.

use super::levels::different_numbers;
use crate::data::{Column, Values};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A column of numbers needs this many different values for neighbouring values to be about equally
/// frequent.
const MIN_VALUES: usize = 8;

/// How much more often than expected rows may be equal by chance: where two rounded numbers are
/// functions of each other, one does not change alone, and fewer rows differ by one unit.
const MARGIN: f64 = 1.4;

/// The number of columns of numbers that are compared: those with the most different values in this
/// many rows.
const MAX_COLUMNS: usize = 3;
const HEAD_ROWS: usize = 10_000;

/// The largest number of frequent values that are all states; of more, only round ones are.
const MAX_STATES: usize = 3;

/// Equal rows of a table.
///
/// Among rows that agree in all other columns, two values of a rounded number differ by one unit in a
/// given direction about as often as they are equal, even if the columns depend on each other. Copies
/// are equal more often.
pub(super) struct Repeats {
    /// The number of rows that are equal to an earlier row.
    pub(super) copies: usize,
    /// The number of pairs of equal rows.
    equal: f64,
    /// The number of such pairs that can be expected by chance.
    expected: f64,
}

impl Repeats {
    /// Returns the repeats of rows; `None` if no column is numbers with enough different values, as
    /// rows of categories can repeat by chance in any way.
    pub(super) fn of(columns: &[&Column], rows: usize) -> Option<Self> {
        let mut places: Vec<(usize, usize)> = columns
            .iter()
            .enumerate()
            .map(|(place, column)| (different_in_head(column), place))
            .filter(|(different, _)| *different >= MIN_VALUES)
            .collect();
        places.sort_by_key(|(different, _)| Reverse(*different));
        let numbers: Vec<Numbers> = places
            .iter()
            .take(MAX_COLUMNS)
            .filter_map(|&(_, place)| Numbers::new(columns[place], place))
            .collect();
        let first = numbers.first()?;
        let states = first.states();
        let kept: Vec<usize> =
            (0..rows).filter(|row| !states.contains(&bits(first.values[*row]))).collect();
        let mut repeats = Repeats { copies: 0, equal: 0.0, expected: 0.0 };
        for (count, numbers) in numbers.iter().enumerate() {
            let mut others = columns.to_vec();
            others.remove(numbers.place);
            let mut sorted: Vec<(u64, f64)> = kept
                .iter()
                .map(|&row| (hash_row(&others, row), numbers.values[row] + 0.0))
                .collect();
            sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            if count == 0 {
                for equal in sorted.chunk_by(|a, b| a == b) {
                    repeats.copies += equal.len() - 1;
                    repeats.equal += 0.5 * (equal.len() * (equal.len() - 1)) as f64;
                }
            }
            repeats.expected += numbers.expected(&sorted);
        }
        Some(repeats)
    }

    /// Returns how many of the copies chance does not explain.
    pub(super) fn not_by_chance(&self) -> f64 {
        let by_chance = self.expected + 4.0 * self.expected.sqrt();
        if self.equal <= by_chance {
            return 0.0;
        }
        self.copies as f64 * (1.0 - by_chance / self.equal)
    }
}

/// A column of numbers.
struct Numbers<'a> {
    place: usize,
    values: &'a [f64],
    /// The different values in ascending order.
    different: Vec<f64>,
}

impl<'a> Numbers<'a> {
    fn new(column: &'a Column, place: usize) -> Option<Self> {
        let Values::Continuous(values) = &column.values else { return None };
        Some(Numbers { place, values, different: different_numbers(column) })
    }

    /// Returns values that are much more frequent than others because they are states rather than
    /// measurements, such as the zeros of days without rain, or because people round to them. They
    /// repeat like categories. Copied rows make many other values frequent.
    fn states(&self) -> HashSet<u64> {
        let mut counts: HashMap<u64, usize> = HashMap::with_capacity(self.different.len());
        for value in self.values {
            *counts.entry(bits(*value)).or_default() += 1;
        }
        let mut sorted: Vec<usize> = counts.values().copied().collect();
        sorted.sort_unstable();
        let limit = 10 * sorted[sorted.len() / 2].max(1);
        let mut frequent: Vec<u64> = counts
            .into_iter()
            .filter(|(_, count)| *count > limit)
            .map(|(value, _)| value)
            .collect();
        if frequent.len() > MAX_STATES {
            let mut all: Vec<usize> = self.different.iter().map(|value| digits(*value)).collect();
            all.sort_unstable();
            let usual = all[all.len() / 2];
            frequent.retain(|value| 2 * digits(f64::from_bits(*value)) <= usual + 1);
        }
        frequent.into_iter().collect()
    }

    /// Returns the number of pairs of equal rows that can be expected from the pairs that differ by one
    /// unit in this column and in no other. `rows` are sorted by a hash of the other columns, then by
    /// this one. Values of a column of few values are more frequent in its middle than beside it.
    fn expected(&self, rows: &[(u64, f64)]) -> f64 {
        let units = Units::new(&self.different);
        let mut adjacent = 0.0;
        for alike in rows.chunk_by(|a, b| a.0 == b.0) {
            let mut before: Option<(f64, f64)> = None;
            for equal in alike.chunk_by(|a, b| a.1 == b.1) {
                let (value, count) = (equal[0].1, equal.len() as f64);
                if let Some((lower, of_lower)) = before
                    && units.are_adjacent(lower, value)
                {
                    adjacent += count * of_lower;
                }
                before = Some((value, count));
            }
        }
        0.5 * adjacent * (MARGIN + 4.0 / self.different.len() as f64)
    }
}

/// Returns the number of different numbers in the first rows of a column; 0 for categories.
fn different_in_head(column: &Column) -> usize {
    let Values::Continuous(values) = &column.values else { return 0 };
    let head = values.iter().take(HEAD_ROWS).map(|value| bits(*value));
    head.collect::<HashSet<u64>>().len()
}

/// Returns the number of significant decimal digits.
fn digits(value: f64) -> usize {
    let text = format!("{value:e}");
    text.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count()
}

fn bits(value: f64) -> u64 {
    // 0 and -0 are equal.
    (value + 0.0).to_bits()
}

/// Returns a hash of the values of some columns in a row.
fn hash_row(columns: &[&Column], row: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    for column in columns {
        match &column.values {
            Values::Continuous(values) => bits(values[row]).hash(&mut hasher),
            Values::Discrete { codes, .. } => codes[row].hash(&mut hasher),
        }
    }
    hasher.finish()
}

/// The units to which numbers are rounded, which may grow with their size.
struct Units {
    /// For each power of ten the smallest difference of two numbers of this size, if they are rounded.
    of_size: HashMap<i32, f64>,
}

impl Units {
    /// `different` are the different values in ascending order.
    fn new(different: &[f64]) -> Self {
        let mut gaps: HashMap<i32, Vec<f64>> = HashMap::new();
        for pair in different.windows(2) {
            // Equal numbers that were computed in different ways differ by rounding. Of numbers of
            // different size, such as 0.09997 and 0.1, the smaller one can have the smaller unit.
            let gap = pair[1] - pair[0];
            let size = size(pair[1]);
            if gap > 1e-9 * pair[0].abs().max(pair[1].abs()) && size == self::size(pair[0]) {
                gaps.entry(size).or_default().push(gap);
            }
        }
        // Rounded numbers have many smallest gaps, others a single one.
        let unit = |gaps: Vec<f64>| {
            let smallest = gaps.iter().copied().fold(f64::INFINITY, f64::min);
            let count = gaps.iter().filter(|gap| **gap < 1.01 * smallest).count();
            (20 * count > gaps.len() && count > 2).then_some(smallest)
        };
        let of_size = gaps.into_iter().filter_map(|(size, gaps)| Some((size, unit(gaps)?)));
        Units { of_size: of_size.collect() }
    }

    fn are_adjacent(&self, a: f64, b: f64) -> bool {
        let unit = self.of_size.get(&size(a).max(size(b)));
        unit.is_some_and(|unit| (b - a).abs() < 1.5 * unit)
    }
}

/// Returns the power of ten of a number.
fn size(number: f64) -> i32 {
    if number == 0.0 { i32::MIN } else { number.abs().log10().floor() as i32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Rng, stream};
    use rand::RngExt;
    use rand_distr::{Distribution, Poisson, StandardNormal};

    fn numbers(values: Vec<f64>) -> Column {
        Column { name: "n".into(), values: Values::Continuous(values) }
    }

    fn categories(codes: Vec<u32>) -> Column {
        let labels = (0..=codes.iter().max().copied().unwrap_or(0)).map(|k| k.to_string());
        Column { name: "c".into(), values: Values::Discrete { codes, labels: labels.collect() } }
    }

    fn normal(rng: &mut Rng) -> f64 {
        rng.sample(StandardNormal)
    }

    fn rounded(value: f64, unit: f64) -> f64 {
        (value / unit).round() * unit
    }

    /// Returns the share of rows that are repeats and not by chance, before and after a fifth of the
    /// rows was copied.
    fn shares(columns: &[Column]) -> (f64, f64) {
        let rows = columns[0].len();
        let share = |columns: &[Column]| {
            let rows = columns[0].len();
            let columns: Vec<&Column> = columns.iter().collect();
            Repeats::of(&columns, rows).map_or(0.0, |found| found.not_by_chance() / rows as f64)
        };
        let with_copies: Vec<usize> = (0..rows).chain(0..rows / 5).collect();
        let copied: Vec<Column> = columns.iter().map(|column| column.at(&with_copies)).collect();
        (share(columns), share(&copied))
    }

    /// Rows of rounded numbers repeat by chance, the more the stronger the dependence, and copies are
    /// found among them.
    #[test]
    fn chance_is_told_from_copies() {
        for seed in 0..5 {
            let rng = &mut stream(seed, Purpose::Data, 0, 0);
            let n = 3000;
            let v: Vec<f64> = (0..n).map(|_| normal(rng)).collect();
            let label = v.iter().map(|v| u32::from(v + 0.3 * normal(rng) > 0.0)).collect();
            let label = categories(label);
            let of = |f: &dyn Fn(f64) -> f64| numbers(v.iter().map(|v| f(*v)).collect());
            let noisy: Vec<f64> = v.iter().map(|v| rounded(v + 0.1 * normal(rng), 0.1)).collect();
            let cells: Vec<u32> = (0..n as u32).map(|k| k % 8).collect();
            let count = |k: &u32, phase: f64, rng: &mut Rng| {
                let angle = std::f64::consts::TAU * (f64::from(*k) / 8.0 - phase);
                Poisson::new((1.0 + 1.2 * angle.cos()).exp()).unwrap().sample(rng)
            };
            let spikes = [0.0, 0.25, 0.5, 0.75]
                .map(|phase| numbers(cells.iter().map(|k| count(k, phase, rng)).collect()));
            let tables: Vec<Vec<Column>> = vec![
                vec![of(&|v| rounded(v, 1e-3)), label.clone()],
                vec![of(&|v| rounded(v, 1e-4)), label.clone()],
                vec![of(&|v| rounded(20.0 * (0.3 * v).exp(), 1e-2)), label.clone()],
                vec![of(&|v| rounded(v, 0.1)), numbers(noisy)],
                vec![
                    of(&|v| rounded(170.0 + 8.0 * v, 0.1)),
                    of(&|v| rounded((170.0 + 8.0 * v) / 2.54, 0.1)),
                ],
                vec![of(&|v| v), label.clone()],
                vec![
                    of(&|v| if v < 0.0 { 0.0 } else { v }),
                    of(&|v| if v < 0.0 { 0.0 } else { v.exp() }),
                ],
                spikes.into_iter().chain([categories(cells)]).collect(),
                // Four significant digits, from .05 to .16.
                vec![
                    of(&|v| {
                        let value = (0.096 + 0.014 * v).max(0.05);
                        rounded(value, if value < 0.1 { 1e-5 } else { 1e-4 })
                    }),
                    label.clone(),
                ],
            ];
            for (place, table) in tables.iter().enumerate() {
                let (clean, copied) = shares(table);
                assert!(clean < 0.01, "{seed} {place}: {clean}");
                // Where most rows repeat by chance, copies do not show.
                let is_coarse = [0, 2, 3, 4, 7, 8].contains(&place);
                assert!(copied > 0.05 || is_coarse, "{seed} {place}: {copied}");
            }
        }
        assert!(Repeats::of(&[&categories(vec![0, 0, 1])], 3).is_none());
    }

    /// A class that was made larger by copying its few rows many times.
    #[test]
    fn many_copies_of_few_rows_are_found() {
        let rng = &mut stream(0, Purpose::Data, 0, 0);
        let rows: Vec<f64> = (0..970).map(|_| normal(rng)).collect();
        let values: Vec<f64> =
            rows.iter().copied().chain((0..1000).map(|k| rows[k % 20])).collect();
        let label = categories((0..1970).map(|k| u32::from(!(20..970).contains(&k))).collect());
        let (share, _) = shares(&[numbers(values), label]);
        assert!((share - 1000.0 / 1970.0).abs() < 0.01, "{share}");
    }

    /// Amounts that most people round: 10, 20, 50 and 100 are frequent, 37 and 84.5 are not.
    #[test]
    fn round_answers_are_no_copies() {
        let rng = &mut stream(0, Purpose::Data, 0, 0);
        let round = [5.0, 10.0, 20.0, 50.0, 100.0, 200.0];
        let answer = |rng: &mut Rng| match rng.random_range(0..10) {
            0..8 => round[rng.random_range(0..6)],
            _ => rounded(50.0 * normal(rng).exp(), 0.5),
        };
        let values: Vec<f64> = (0..2000).map(|_| answer(rng)).collect();
        let label = (0..2000).map(|_| rng.random_range(0..2)).collect();
        let (share, _) = shares(&[numbers(values), categories(label)]);
        assert!(share < 0.01, "{share}");
    }
}

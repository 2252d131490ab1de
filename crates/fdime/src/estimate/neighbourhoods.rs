//! Groups of rows that are alike in some columns, for tests of conditional independence.

use super::folds::Fold;
use super::independence::{BLOCK, cut};
use super::scaling::{Scaling, SideScaler};
use crate::data::{Column, Values};
use crate::error::Result;
use crate::parallel::Tick;
use crate::random::{Purpose, Rng, stream};
use rand::seq::SliceRandom;
use std::collections::BTreeMap;

/// The maximum number of rows in a group.
const MAX_ROWS: usize = 12;

/// The number of numeric columns up to which rows are compared by the columns themselves. Hardly any
/// rows are alike in more columns; they are compared along the directions that matter.
const MAX_COMPARED: usize = 3;

/// Splits the test rows of a fold into groups that are alike in the columns `given`: rows with equal
/// categories, split at the median of the number that varies most among them until groups are small.
/// `along` holds the numbers of each row that are used if there are many columns.
pub(super) fn neighbourhoods(
    given: &[Column],
    along: &[Vec<f64>],
    fold: &Fold,
    seed: u64,
    tick: Tick,
) -> Result<Vec<Vec<u32>>> {
    let is_number = |column: &&Column| matches!(column.values, Values::Continuous(_));
    let numbers: Vec<Column> = given.iter().filter(is_number).cloned().collect();
    let numbers: Vec<Vec<f64>> = match numbers.len() > MAX_COMPARED {
        true => along.to_vec(),
        false => {
            let scaler = SideScaler::plain(&numbers, &fold.train, Scaling::Gaussian, tick)?;
            let all: Vec<u32> = (0..given[0].len() as u32).collect();
            let width = scaler.continuous();
            let scores = scaler.apply_continuous(&numbers, &all);
            let column = |k: usize| scores.iter().skip(k).step_by(width).map(|s| f64::from(*s));
            (0..width).map(|k| column(k).collect()).collect()
        }
    };
    let mut strata: BTreeMap<Vec<u32>, Vec<u32>> = BTreeMap::new();
    for &row in &fold.test {
        let level = |column: &Column| match &column.values {
            Values::Discrete { codes, .. } => Some(codes[row as usize]),
            Values::Continuous(_) => None,
        };
        strata.entry(given.iter().filter_map(level).collect()).or_default().push(row);
    }
    let mut rng = stream(seed, Purpose::Null, 1, 0);
    let mut groups = Vec::new();
    for rows in strata.into_values() {
        split(rows, &numbers, &mut rng, &mut groups);
    }
    Ok(groups)
}

/// Splits rows in halves until each part is small. Rows that no number tells apart are cut into random
/// blocks, because all pairs within a group are scored.
fn split(mut rows: Vec<u32>, numbers: &[Vec<f64>], rng: &mut Rng, groups: &mut Vec<Vec<u32>>) {
    let spread = |values: &&Vec<f64>| {
        let of_rows = rows.iter().map(|&row| values[row as usize]);
        let (low, high) = of_rows.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        high - low
    };
    let Some(values) = numbers.iter().max_by(|a, b| spread(a).total_cmp(&spread(b))) else {
        if rows.len() > BLOCK {
            rows.shuffle(rng);
        }
        groups.extend(cut(&rows, BLOCK).into_iter().map(<[u32]>::to_vec));
        return;
    };
    if rows.len() <= MAX_ROWS {
        groups.push(rows);
        return;
    }
    rows.sort_by(|a, b| values[*a as usize].total_cmp(&values[*b as usize]));
    let upper = rows.split_off(rows.len() / 2);
    split(rows, numbers, rng, groups);
    split(upper, numbers, rng, groups);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(rows: u32) -> Fold {
        let (train, test) = (0..rows).partition(|row| row % 3 > 0);
        Fold { train, validation: Vec::new(), test }
    }

    #[test]
    fn groups_are_a_partition_of_alike_rows() {
        let value = |row: u32| f64::from(row * 37 % 300);
        let numbers =
            Column { name: "z".into(), values: Values::Continuous((0..300).map(value).collect()) };
        let levels = Column {
            name: "level".into(),
            values: Values::Discrete {
                codes: (0..300).map(|row| row / 150).collect(),
                labels: vec!["a".into(), "b".into()],
            },
        };
        let fold = fold(300);
        let groups = neighbourhoods(&[numbers, levels], &[], &fold, 0, &|| Ok(())).unwrap();
        let mut all = groups.concat();
        all.sort_unstable();
        assert_eq!(all, fold.test);
        for group in &groups {
            assert!((6..=MAX_ROWS).contains(&group.len()), "{}", group.len());
            assert!(group.iter().all(|row| row / 150 == group[0] / 150), "one category");
            let (low, high) = group.iter().fold((f64::MAX, f64::MIN), |(low, high), &row| {
                (low.min(value(row)), high.max(value(row)))
            });
            assert!(high - low < 120.0, "{low} to {high}");
        }
    }

    #[test]
    fn rows_that_nothing_tells_apart_are_one_group() {
        let levels = Column {
            name: "level".into(),
            values: Values::Discrete { codes: vec![0; 90], labels: vec!["a".into()] },
        };
        let groups = neighbourhoods(&[levels], &[], &fold(90), 0, &|| Ok(())).unwrap();
        assert_eq!(groups, [fold(90).test]);
    }

    #[test]
    fn large_groups_are_cut_into_blocks() {
        let levels = Column {
            name: "level".into(),
            values: Values::Discrete { codes: vec![0; 3000], labels: vec!["a".into()] },
        };
        let fold = fold(3000);
        let groups = neighbourhoods(&[levels], &[], &fold, 0, &|| Ok(())).unwrap();
        assert!(groups.len() > 1 && groups.iter().all(|group| group.len() <= BLOCK));
        let mut all = groups.concat();
        all.sort_unstable();
        assert_eq!(all, fold.test);
    }
}

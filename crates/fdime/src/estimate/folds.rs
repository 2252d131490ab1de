//! Which rows train, which stop the training, and which are scored.

use crate::random::{Purpose, stream};
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

/// How rows are cut into folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowOrder {
    /// Rows are exchangeable: folds are drawn at random.
    Exchangeable,
    /// Rows are a time series: folds are contiguous, and `gap` rows on either side of a boundary
    /// between training and other rows are left out of training.
    Series {
        /// How many rows apart two rows must be to count as unrelated.
        gap: usize,
    },
}

/// One fold: the critic learns on `train`, stops by `validation`, and scores `test`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// Rows that parameters are fitted to.
    pub train: Vec<u32>,
    /// Rows that choose the step to stop at and the recipe.
    pub validation: Vec<u32>,
    /// Rows that the critic never saw, in ascending order.
    pub test: Vec<u32>,
}

/// The share of all rows that validates: 1 in 10, but enough to tell something when there are few.
fn validation_rows(n: usize) -> usize {
    (n / 10).max((n / 5).min(20)).max(2)
}

/// The largest gap with which a series can be cut: test rows leave shifts by more than the gap in
/// either direction, and a fifth of all rows is left to train on. Nothing if not even 0 will do.
pub(super) fn largest_gap(n: usize, count: usize) -> Option<usize> {
    let tested = n / count;
    let by_shifts = tested.checked_sub(4)? / 2;
    let by_training = (n - n.div_ceil(count)).checked_sub(validation_rows(n) + n / 5)? / 3;
    Some(by_shifts.min(by_training))
}

/// `count` folds whose test rows are a partition of the `n` rows. A gap leaves
/// enough rows to train on and to shift.
pub fn folds(n: usize, count: usize, order: RowOrder, seed: u64) -> Vec<Fold> {
    let mut rows: Vec<u32> = (0..n as u32).collect();
    if order == RowOrder::Exchangeable {
        rows.shuffle(&mut stream(seed, Purpose::Rows, 0, 0));
    }
    let validating = validation_rows(n);
    (0..count)
        .map(|k| {
            let (start, end) = (n * k / count, n * (k + 1) / count);
            // The rows behind the test rows, from the beginning again after the last.
            let behind = |offset: usize| rows[(end + offset) % n];
            let others = n - (end - start);
            let gap = match order {
                RowOrder::Exchangeable => 0,
                RowOrder::Series { gap } => gap,
            };
            // test | gap | validation | gap | training | gap | (test)
            let mut test = rows[start..end].to_vec();
            test.sort_unstable();
            Fold {
                validation: (gap..gap + validating).map(behind).collect(),
                train: (2 * gap + validating..others - gap).map(behind).collect(),
                test,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_row_is_tested_once_by_a_critic_that_never_saw_it(
            n in 20usize..500, count in 2usize..21, gap in 0usize..30, series: bool, seed: u64,
        ) {
            prop_assume!(n >= 4 * count);
            let gap = gap.min(largest_gap(n, count).unwrap_or(0));
            let order = if series { RowOrder::Series { gap } } else { RowOrder::Exchangeable };
            let folds = folds(n, count, order, seed);
            let mut tested: Vec<u32> = folds.iter().flat_map(|fold| fold.test.clone()).collect();
            tested.sort_unstable();
            prop_assert_eq!(tested, (0..n as u32).collect::<Vec<_>>());
            for fold in folds {
                let mut seen = fold.train.clone();
                seen.extend(&fold.validation);
                seen.extend(&fold.test);
                let total = seen.len();
                seen.sort_unstable();
                seen.dedup();
                prop_assert_eq!(seen.len(), total, "parts are disjoint");
                prop_assert!(fold.train.len() >= 5 && fold.validation.len() >= 2);
                prop_assert!(series || total == n);
            }
        }
    }

    #[test]
    fn a_series_keeps_its_distance() {
        for fold in folds(1000, 5, RowOrder::Series { gap: 20 }, 0) {
            for &t in fold.test.iter().chain(&fold.validation) {
                // Around the end of the series the last row is far from the first.
                let nearest = fold.train.iter().map(|&r| r.abs_diff(t)).min().unwrap();
                assert!(nearest > 20, "{nearest}");
            }
        }
    }
}

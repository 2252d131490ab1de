//! Cross-fitting folds: the split of rows into training, validation and test rows.

use crate::random::{Purpose, stream};
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

/// The relation between rows, which determines how they are split into folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowOrder {
    /// Rows are exchangeable; folds are random.
    Exchangeable,
    /// Rows are a time series; folds are contiguous, and `gap` rows on each side of the training
    /// rows are not used.
    Series {
        /// The distance in rows beyond which two rows are treated as unrelated.
        gap: usize,
    },
    /// Rows are a time series whose gap is computed from its autocorrelation time.
    AutomaticSeries,
}

/// A fold: critics are trained on `train`, stopped early by `validation`, and evaluated on `test`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// The rows that parameters are fitted to.
    pub train: Vec<u32>,
    /// The rows that select the stopping step and the recipe.
    pub validation: Vec<u32>,
    /// The rows that training never uses, in ascending order.
    pub test: Vec<u32>,
}

/// Returns the number of validation rows: a tenth of `n` rows, and up to a fifth if there are few.
fn validation_rows(n: usize) -> usize {
    (n / 10).max((n / 5).min(20)).max(2)
}

/// Returns the largest possible gap of a series, `None` if there are too few rows for any gap. Test
/// rows must allow shifts by more than the gap in both directions, and a fifth of all rows, at least
/// 5, must remain for training.
pub(super) fn largest_gap(n: usize, count: usize) -> Option<usize> {
    let tested = n / count;
    let by_shifts = tested.checked_sub(4)? / 2;
    let by_training = (n - n.div_ceil(count)).checked_sub(validation_rows(n) + (n / 5).max(5))? / 3;
    Some(by_shifts.min(by_training))
}

/// Returns `count` folds whose test rows are a partition of the `n` rows. The gap of a series must
/// not exceed the largest possible one; one that is not yet computed counts as 0.
pub fn folds(n: usize, count: usize, order: RowOrder, seed: u64) -> Vec<Fold> {
    folds_of_recordings(n, count, order, seed, &[])
}

/// As [`folds`], for a series of several recordings that begin at 0 and at `starts`. Folds are whole
/// recordings where those are short enough.
pub(super) fn folds_of_recordings(
    n: usize,
    count: usize,
    order: RowOrder,
    seed: u64,
    starts: &[usize],
) -> Vec<Fold> {
    let mut rows: Vec<u32> = (0..n as u32).collect();
    if order == RowOrder::Exchangeable {
        rows.shuffle(&mut stream(seed, Purpose::Rows, 0, 0));
    }
    let validating = validation_rows(n);
    let gap = match order {
        RowOrder::Series { gap } => gap,
        RowOrder::Exchangeable | RowOrder::AutomaticSeries => 0,
    };
    let edges = edges(n, count, gap, starts);
    edges
        .windows(2)
        .map(|edges| {
            let (start, end) = (edges[0], edges[1]);
            // The rows after the test rows, continued at the first row after the last.
            let after = |offset: usize| rows[(end + offset) % n];
            let others = n - (end - start);
            // test | gap | validation | gap | training | gap | (test)
            let mut test = rows[start..end].to_vec();
            test.sort_unstable();
            Fold {
                validation: (gap..gap + validating).map(after).collect(),
                train: (2 * gap + validating..others - gap).map(after).collect(),
                test,
            }
        })
        .collect()
}

/// Returns the first row of each fold, and the number of rows: at the starts of recordings if that
/// leaves every fold at least half of its share to test, and a tenth of all rows to train on.
fn edges(n: usize, count: usize, gap: usize, starts: &[usize]) -> Vec<usize> {
    let equal: Vec<usize> = (0..=count).map(|k| n * k / count).collect();
    let nearest = |edge: usize| starts.iter().copied().min_by_key(|start| start.abs_diff(edge));
    let inner = equal[1..count].iter().map(|edge| nearest(*edge));
    let Some(inner) = inner.collect::<Option<Vec<usize>>>() else { return equal };
    let edges: Vec<usize> = [0].into_iter().chain(inner).chain([n]).collect();
    let fits = |edges: &[usize]| {
        let tested = edges[1].saturating_sub(edges[0]);
        let unused = tested + validation_rows(n) + 3 * gap;
        2 * count * tested >= n && unused + n / 10 <= n
    };
    if edges.windows(2).all(fits) { edges } else { equal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_row_is_tested_once_and_parts_are_disjoint(
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
    fn folds_are_whole_recordings_where_these_are_short_enough() {
        let first_rows = |starts: &[usize], gap: usize| -> Vec<u32> {
            let folds = folds_of_recordings(100, 4, RowOrder::Series { gap }, 0, starts);
            assert!(folds.iter().all(|fold| fold.train.len() >= 10));
            folds.iter().map(|fold| fold.test[0]).collect()
        };
        assert_eq!(first_rows(&[10, 20, 30, 52, 60, 70, 90], 2), [0, 20, 52, 70]);
        for starts in [&[50][..], &[], &[5, 10, 15], &[80, 85, 90, 95]] {
            assert_eq!(first_rows(starts, 2), [0, 25, 50, 75], "{starts:?}");
        }
    }

    #[test]
    fn training_rows_of_a_series_respect_the_gap() {
        for fold in folds(1000, 5, RowOrder::Series { gap: 20 }, 0) {
            for &t in fold.test.iter().chain(&fold.validation) {
                // The first and the last row of a series are not neighbours.
                let nearest = fold.train.iter().map(|&r| r.abs_diff(t)).min().unwrap();
                assert!(nearest > 20, "{nearest}");
            }
        }
    }
}

//! The pairs of held-out rows on which the parameters of a critic are selected.

use super::CriticLearner;
use crate::critic::CriticKind;
use crate::objective::Estimator;
use crate::pairing::Pairing;
use crate::scores::ScoreBlock;

/// The number of marginal pairs for each held-out row: more pairs make the comparison of steps less
/// noisy.
const SHIFTS: usize = 8;

/// The number of held-out rows that an all-pairs objective compares with each other. Pairs cost the
/// separable critic almost nothing.
const BLOCK: usize = 64;
pub(crate) const SEPARABLE_BLOCK: usize = 256;

/// Pairs of held-out rows, whose positions are counted from the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HeldOutPairs {
    /// The joint pairs, then those of every row with the row `rows * k / (shifts + 1)` later, for
    /// k = 1 to `shifts`.
    Shifted { rows: usize, shifts: usize },
    /// All pairs within blocks of consecutive rows. The last block may be smaller; a single row is
    /// left out.
    Blocks { rows: usize, size: usize },
}

impl HeldOutPairs {
    /// Returns the pairs on which a critic is compared; `None` for fewer than two rows.
    pub(crate) fn new(learner: &CriticLearner, rows: usize) -> Option<Self> {
        if rows < 2 {
            return None;
        }
        Some(match (learner.pairing, learner.critic.kind) {
            (Pairing::AllPairs, CriticKind::Separable) => {
                HeldOutPairs::Blocks { rows, size: SEPARABLE_BLOCK }
            }
            (Pairing::AllPairs, _) => HeldOutPairs::Blocks { rows, size: BLOCK },
            _ => HeldOutPairs::Shifted { rows, shifts: SHIFTS.min(rows - 1) },
        })
    }

    /// Returns the sizes of the blocks.
    pub(crate) fn blocks(self) -> impl Iterator<Item = usize> {
        let (rows, size) = match self {
            HeldOutPairs::Shifted { .. } => (0, 1),
            HeldOutPairs::Blocks { rows, size } => (rows, size),
        };
        let rest = rows % size;
        std::iter::repeat_n(size, rows / size).chain((rest > 1).then_some(rest))
    }

    /// Returns the number of pairs.
    pub(crate) fn count(self) -> usize {
        match self {
            HeldOutPairs::Shifted { rows, shifts } => rows * (shifts + 1),
            HeldOutPairs::Blocks { .. } => self.blocks().map(|size| size * size).sum(),
        }
    }

    /// Returns the pairs.
    pub(crate) fn pairs(self) -> Vec<(u32, u32)> {
        let mut pairs = Vec::with_capacity(self.count());
        let mut push = |i: usize, j: usize| pairs.push((i as u32, j as u32));
        match self {
            HeldOutPairs::Shifted { rows, shifts } => {
                for k in 0..=shifts {
                    let shift = rows * k / (shifts + 1);
                    (0..rows).for_each(|i| push(i, (i + shift) % rows));
                }
            }
            HeldOutPairs::Blocks { .. } => {
                let mut first = 0;
                for size in self.blocks() {
                    for i in first..first + size {
                        (first..first + size).for_each(|j| push(i, j));
                    }
                    first += size;
                }
            }
        }
        pairs
    }

    /// Returns the objective from the scores of all pairs.
    pub(crate) fn value(self, estimator: &Estimator, mut scores: Vec<f32>) -> f64 {
        if let HeldOutPairs::Shifted { rows, .. } = self {
            let marginal = scores.split_off(rows);
            let scores = ScoreBlock::Paired { first: 0, joint: scores, marginal };
            return estimator.value_and_gradient(&scores).0;
        }
        let (mut sum, mut rows, mut first) = (0.0, 0, 0);
        for n in self.blocks() {
            let matrix = scores[first..first + n * n].to_vec();
            let scores = ScoreBlock::AllPairs { first: 0, n, matrix };
            sum += estimator.value_and_gradient(&scores).0 * n as f64;
            (rows, first) = (rows + n, first + n * n);
        }
        sum / rows as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of pairs is as announced, every joint pair is among them once, and no pair has a
    /// row that does not exist.
    #[test]
    fn pairs_are_complete() {
        for rows in [2, 3, 5, 64, 65, 66, 200, 513] {
            for pairs in [
                HeldOutPairs::Shifted { rows, shifts: SHIFTS.min(rows - 1) },
                HeldOutPairs::Blocks { rows, size: BLOCK },
                HeldOutPairs::Blocks { rows, size: SEPARABLE_BLOCK },
            ] {
                let all = pairs.pairs();
                assert_eq!(all.len(), pairs.count());
                assert!(all.iter().all(|&(i, j)| (i.max(j) as usize) < rows));
                let joint = all.iter().filter(|(i, j)| i == j).count();
                let is_left_out =
                    matches!(pairs, HeldOutPairs::Blocks { size, .. } if rows % size == 1);
                assert_eq!(joint, rows - usize::from(is_left_out), "{pairs:?}");
            }
        }
    }
}

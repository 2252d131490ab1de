//! The scores that a critic assigns to the pairs of a batch.

use std::ops::Range;

/// The number of pairs of each kind in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairCounts {
    /// Pairs (x_i, y_i).
    pub joint: usize,
    /// Pairs (x_i, y_j) that approximate independent draws.
    pub marginal: usize,
}

/// The scores of consecutive rows of the batch, starting at row `first`.
#[derive(Clone, Debug, PartialEq)]
pub enum ScoreBlock {
    /// Each x with every y: row-major, `n` columns, joint pairs on the diagonal.
    AllPairs {
        /// The first row's index in the batch.
        first: usize,
        /// The batch size.
        n: usize,
        /// Score of (x_{first+r}, y_j) at `r * n + j`.
        matrix: Vec<f32>,
    },
    /// One joint and one marginal pair for each x.
    Paired {
        /// The first row's index in the batch.
        first: usize,
        /// Scores of (x_i, y_i).
        joint: Vec<f32>,
        /// Scores of (x_i, y_partner(i)).
        marginal: Vec<f32>,
    },
}

/// Whether a pair was drawn from the joint distribution or made by a pairing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairKind {
    /// (x_i, y_i)
    Joint,
    /// (x_i, y_j); j != i except for [`Pairing::Permutation`](crate::Pairing::Permutation)
    Marginal,
}

impl ScoreBlock {
    /// Creates a block of zeros for these rows and all `n` columns.
    pub(crate) fn all_pairs(rows: &Range<usize>, n: usize) -> Self {
        ScoreBlock::AllPairs { first: rows.start, n, matrix: vec![0.0; rows.len() * n] }
    }

    /// Creates a block of zeros for these rows with one partner each.
    pub(crate) fn paired(rows: &Range<usize>) -> Self {
        let scores = vec![0.0; rows.len()];
        ScoreBlock::Paired { first: rows.start, joint: scores.clone(), marginal: scores }
    }

    /// Calls `f(kind, row, scores)` for each run of scores. A run of joint scores starts at that
    /// row; a run of marginal scores belongs to that row (all pairs) or starts at it (paired).
    pub fn visit(&self, mut f: impl FnMut(PairKind, usize, &[f32])) {
        match self {
            ScoreBlock::AllPairs { first, n, matrix } => {
                for (row, scores) in (*first..).zip(matrix.chunks_exact(*n)) {
                    f(PairKind::Joint, row, &scores[row..=row]);
                    f(PairKind::Marginal, row, &scores[..row]);
                    f(PairKind::Marginal, row, &scores[row + 1..]);
                }
            }
            ScoreBlock::Paired { first, joint, marginal } => {
                f(PairKind::Joint, *first, joint);
                f(PairKind::Marginal, *first, marginal);
            }
        }
    }
}

/// The scores of a whole batch, in the order of its rows.
#[derive(Clone, Copy, Debug)]
pub struct Scores<'a>(pub &'a [ScoreBlock]);

impl Scores<'_> {
    /// Calls [`ScoreBlock::visit`] on all blocks.
    pub fn visit(&self, mut f: impl FnMut(PairKind, usize, &[f32])) {
        for block in self.0 {
            block.visit(&mut f);
        }
    }

    /// Calls `f` for each run of one kind.
    pub fn visit_kind(&self, wanted: PairKind, mut f: impl FnMut(&[f32])) {
        self.visit(|kind, _, scores| {
            if kind == wanted {
                f(scores);
            }
        });
    }

    /// Returns the number of scores of each kind.
    pub fn counts(&self) -> PairCounts {
        let mut counts = PairCounts { joint: 0, marginal: 0 };
        self.visit(|kind, _, scores| match kind {
            PairKind::Joint => counts.joint += scores.len(),
            PairKind::Marginal => counts.marginal += scores.len(),
        });
        counts
    }
}

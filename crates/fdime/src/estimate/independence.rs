//! A test of independence that needs no retraining: the critic of a fold never saw the fold's test
//! rows, so under independence any of their pairings is as likely as the one observed.

use super::progress::{Progress, advance};
use crate::error::Result;
use crate::random::{Purpose, Rng, stream};
use crate::scores::ScoreBlock;
use rand::RngExt;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

/// Rows whose pairs are all scored. Permutations stay within such blocks: they form a group, so the
/// test is valid, and any number of them costs no further evaluation of a critic.
pub(super) const BLOCK: usize = 32;

/// Circular shifts that a series is scored at.
const SHIFTS: usize = 99;

/// How much the criterion that breaks ties counts: far below what a log ratio can mean, far above
/// rounding.
const TIE_WEIGHT: f64 = 1e-4;

/// How much wider than permutations say the statistic of several folds scatters under independence.
/// What one fold's critics learn by chance from another fold's rows, that fold's critics learn from
/// the first one's: each agreement between two folds is counted twice, while permutations of fixed
/// critics take the two for independent. For critics linear in what they learnt from `freedom`
/// independent correlations the variance is twice that of the permutations, hence sqrt(2) when there
/// are many; with few, the statistic and the permutations grow together and the tail is shorter. The
/// second term follows a simulation of five folds: the 95% point was .93, 1.14, 1.22, 1.30, 1.34 and
/// 1.39 times that of the permutations for 1, 4, 9, 25, 100 and 400.
fn shared_learning(folds: usize, freedom: f64) -> f64 {
    if folds < 2 {
        return 1.0;
    }
    (std::f64::consts::SQRT_2 - 0.45 * freedom.max(1.0).powf(-0.45)).max(1.0)
}

/// The test's outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndependenceTest {
    /// (b + 1) / (m + 1), with b of m statistics of the null distribution at least as large as the
    /// observed.
    pub p_value: f64,
    /// The mean log ratio of the observed pairs among those permuted.
    pub observed: f64,
    /// The null distribution: the mean log ratio of each permuted pairing, spread wider around
    /// their mean by what folds learn from each other.
    pub null: Vec<f64>,
}

/// The pairs of a fold that the null distribution is made of.
pub(super) struct PairedNull {
    kind: Kind,
    pub(super) pairs: Vec<(u32, u32)>,
    /// Their log ratios.
    pub(super) ratios: Vec<f32>,
    /// What decides where the log ratios do not; empty for none.
    pub(super) ties: Vec<f32>,
}

enum Kind {
    /// Squares of all pairs within blocks of these sizes, the observed pairs on the diagonal.
    Blocks(Vec<usize>),
    /// Runs of this many pairs: the observed ones, then every shift.
    Shifts(usize),
}

/// Cuts rows into blocks of nearly equal size.
pub(super) fn cut(rows: &[u32], size: usize) -> Vec<&[u32]> {
    let count = rows.len().div_ceil(size);
    (0..count).map(|k| &rows[rows.len() * k / count..rows.len() * (k + 1) / count]).collect()
}

impl PairedNull {
    /// All pairs within each block.
    pub(super) fn within_blocks(blocks: &[&[u32]]) -> Self {
        let squares = blocks
            .iter()
            .flat_map(|block| block.iter().flat_map(move |&i| block.iter().map(move |&j| (i, j))));
        let sizes = blocks.iter().map(|block| block.len()).collect();
        PairedNull {
            kind: Kind::Blocks(sizes),
            pairs: squares.collect(),
            ratios: Vec::new(),
            ties: Vec::new(),
        }
    }

    /// The pairs of consecutive rows, and those with y shifted in a circle by more than `gap`.
    pub(super) fn shifts(rows: &[u32], gap: usize, most: usize, seed: u64) -> Self {
        let n = rows.len();
        let mut offsets: Vec<usize> = (gap + 1..n.saturating_sub(gap)).collect();
        offsets.shuffle(&mut stream(seed, Purpose::Null, 0, 0));
        // As many evaluations as blocks would take, but enough shifts for a test at 5%.
        offsets.truncate((BLOCK * most / n.max(1)).clamp(19, SHIFTS));
        offsets.insert(0, 0);
        let pairs = offsets
            .iter()
            .flat_map(|offset| (0..n).map(move |i| (rows[i], rows[(i + offset) % n])));
        PairedNull {
            kind: Kind::Shifts(n),
            pairs: pairs.collect(),
            ratios: Vec::new(),
            ties: Vec::new(),
        }
    }

    /// Log ratios of pairs that were put together, never observed.
    pub(super) fn marginal(&self) -> impl Iterator<Item = f32> {
        self.pairs.iter().zip(&self.ratios).filter(|((i, j), _)| i != j).map(|(_, l)| *l)
    }

    /// The squares of all pairs within blocks; nothing for shifts.
    pub(super) fn squares(&self) -> impl Iterator<Item = ScoreBlock> {
        let sizes: &[usize] = match &self.kind {
            Kind::Blocks(sizes) => sizes,
            Kind::Shifts(_) => &[],
        };
        let mut start = 0;
        sizes.iter().map(move |&n| {
            let matrix = self.ratios[start..start + n * n].to_vec();
            start += n * n;
            ScoreBlock::AllPairs { first: 0, n, matrix }
        })
    }

    /// How many pairs are observed.
    fn observed(&self) -> usize {
        match &self.kind {
            Kind::Blocks(sizes) => sizes.iter().sum(),
            Kind::Shifts(n) => *n,
        }
    }

    /// The sums of log ratios and ties over one pairing: the observed one, or a random one.
    fn sums(&self, random: &mut Option<&mut Rng>) -> (f64, f64) {
        let (mut ratios, mut ties) = (0.0, 0.0);
        let mut add = |index: usize| {
            ratios += f64::from(self.ratios[index]);
            ties += f64::from(self.ties.get(index).copied().unwrap_or(0.0));
        };
        match &self.kind {
            Kind::Blocks(sizes) => {
                let mut start = 0;
                let mut order = Vec::with_capacity(BLOCK);
                for &n in sizes {
                    order.clear();
                    order.extend(0..n);
                    if let Some(rng) = random {
                        order.shuffle(rng);
                    }
                    order.iter().enumerate().for_each(|(i, j)| add(start + i * n + j));
                    start += n * n;
                }
            }
            Kind::Shifts(n) => {
                let shifts = self.pairs.len() / n - 1;
                let run = match random {
                    // The observed pairing is one of them: with few shifts p cannot be small.
                    Some(rng) => rng.random_range(0..=shifts),
                    None => 0,
                };
                (run * n..(run + 1) * n).for_each(add);
            }
        }
        (ratios, ties)
    }
}

impl IndependenceTest {
    /// The test over all folds with `m` random pairings. `freedom` is the number of correlations that
    /// critics could learn: numbers in x times numbers in y.
    pub(super) fn new(
        folds: &[PairedNull],
        m: usize,
        freedom: f64,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let count = folds.iter().map(PairedNull::observed).sum::<usize>() as f64;
        let statistic = |mut random: Option<&mut Rng>| {
            let (ratios, ties) = folds
                .iter()
                .map(|fold| fold.sums(&mut random))
                .fold((0.0, 0.0), |sum, fold| (sum.0 + fold.0, sum.1 + fold.1));
            (ratios / count, ties / count)
        };
        let decisive = |(ratios, ties): (f64, f64)| ratios + TIE_WEIGHT * ties;
        let observed = statistic(None);
        let mut rng = stream(seed, Purpose::Null, 1, 0);
        let mut permuted = Vec::with_capacity(m);
        for _ in 0..m {
            advance(progress, 0)?;
            permuted.push(statistic(Some(&mut rng)));
        }
        let width = shared_learning(folds.len(), freedom);
        let wide = widened(permuted.iter().copied().map(decisive).collect(), width);
        let at_least = wide.iter().filter(|value| **value >= decisive(observed)).count();
        Ok(IndependenceTest {
            p_value: (at_least + 1) as f64 / (m + 1) as f64,
            observed: observed.0,
            null: widened(permuted.into_iter().map(|(ratios, _)| ratios).collect(), width),
        })
    }
}

/// Values `width` times as far from their mean.
fn widened(values: Vec<f64>, width: f64) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    values.into_iter().map(|value| mean + width * (value - mean)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Unwatched;

    /// Log ratios that are noise, with `dependence` added to the observed pairs.
    fn null(mut null: PairedNull, dependence: f32, seed: u64) -> PairedNull {
        let mut rng = stream(seed, Purpose::Data, 0, 0);
        let mut noise = |&(i, j): &(u32, u32)| {
            rng.random_range(-1.0..1.0f32) + if i == j { dependence } else { 0.0 }
        };
        null.ratios = null.pairs.iter().map(&mut noise).collect();
        null
    }

    fn tested(folds: &[PairedNull], seed: u64) -> IndependenceTest {
        IndependenceTest::new(folds, 99, 1.0, seed, &Unwatched).unwrap()
    }

    fn blocks() -> PairedNull {
        let rows: Vec<u32> = (0..70).collect();
        PairedNull::within_blocks(&cut(&rows, BLOCK))
    }

    fn shifts() -> PairedNull {
        PairedNull::shifts(&(0..400).collect::<Vec<_>>(), 3, 10_000, 1)
    }

    #[test]
    fn dependence_gives_a_small_p_value() {
        for make in [blocks, shifts] {
            let test = tested(&[null(make(), 2.0, 1)], 0);
            // Among 99 random shifts may be the observed pairing itself.
            assert!(test.p_value <= 0.03, "{}", test.p_value);
            assert!(test.observed > 1.5 && test.null.len() == 99);
        }
    }

    /// Under independence p is uniform: of 400 tests at 10%, 40 reject, +- 4 standard deviations of
    /// 6 (alpha of about 6e-5, fixed seeds).
    #[test]
    fn p_values_are_uniform_under_independence() {
        for make in [blocks, shifts] {
            let p = |seed| tested(&[null(make(), 0.0, seed)], seed).p_value;
            let count = (0..400).filter(|&seed| p(seed) <= 0.1).count();
            assert!((16..=64).contains(&count), "{count}");
        }
    }

    /// With few shifts in each of several folds too: of 400 tests at 10% at most 64 reject (4 standard
    /// deviations above 40; fixed seeds).
    #[test]
    fn few_shifts_do_not_make_small_p_values() {
        let folds = |seed: u64| -> Vec<PairedNull> {
            let short = || PairedNull::shifts(&(0..5).collect::<Vec<_>>(), 0, 10_000, 1);
            (0..3).map(|k| null(short(), 0.0, seed * 3 + k)).collect()
        };
        let count = (0..400).filter(|&seed| tested(&folds(seed), seed).p_value <= 0.1).count();
        assert!(count <= 64, "{count}");
        let single = PairedNull::shifts(&(0..4).collect::<Vec<_>>(), 2, 10_000, 1);
        assert_eq!(tested(&[null(single, 2.0, 1)], 0).p_value, 1.0, "no shift is possible");
    }

    #[test]
    fn the_null_widens_with_what_can_be_learnt() {
        let widths = [1.0, 4.0, 25.0, 400.0].map(|freedom| shared_learning(5, freedom));
        for (width, simulated) in widths.into_iter().zip([1.0, 1.14, 1.30, 1.39]) {
            assert!((width - simulated).abs() < 0.05, "{width} {simulated}");
        }
        assert_eq!(shared_learning(1, 400.0), 1.0);
    }

    /// A critic that says nothing must not turn every test into p = 1.
    #[test]
    fn ties_are_decided_by_the_other_criterion() {
        let mut silent = null(blocks(), 2.0, 3);
        silent.ties = std::mem::take(&mut silent.ratios);
        silent.ratios = vec![0.0; silent.ties.len()];
        assert_eq!(tested(&[silent], 0).p_value, 0.01);
    }

    #[test]
    fn blocks_hold_every_row_once_and_none_is_tiny() {
        for n in [2, 31, 32, 33, 100, 1000] {
            let rows: Vec<u32> = (0..n).collect();
            let cut = cut(&rows, BLOCK);
            assert!(cut.iter().all(|block| (2..=BLOCK).contains(&block.len())), "{n}");
            assert_eq!(cut.concat(), rows);
        }
    }

    #[test]
    fn shifts_stay_away_from_the_observed_pairing() {
        let null = shifts();
        let far = |(i, j): &(u32, u32)| {
            let apart = i.abs_diff(*j);
            apart == 0 || (apart > 3 && apart < 397)
        };
        assert!(null.pairs.iter().all(far));
        assert_eq!(null.pairs.len(), 400 * (SHIFTS + 1));
    }
}

//! A permutation test of independence that needs no retraining: the critics of a fold were not
//! trained on its test rows, so under independence all pairings of these rows are equally likely.

use super::plan::DEFAULT_PERMUTATIONS;
use super::progress::{Progress, check};
use crate::error::Result;
use crate::random::{Purpose, Rng, stream};
use crate::scores::ScoreBlock;
use rand::RngExt;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The maximum number of rows in a block. All pairs within a block are scored, and permutations stay
/// within blocks. These permutations form a group, so the test is valid, and no number of them needs
/// further evaluations of a critic. Log ratios are normalised within blocks, too, for which 32 rows
/// would be too few where the dependence is strong.
pub(super) const BLOCK: usize = 128;

/// The number of pairs up to which blocks have the maximum size.
const MAX_PAIRS: usize = 1_280_000;

/// Returns the size of the blocks of `rows` rows in all folds: smaller if there are many rows.
pub(super) fn block_size(rows: usize) -> usize {
    (MAX_PAIRS / rows.max(1)).clamp(BLOCK / 2, BLOCK)
}

/// The maximum number of circular shifts at which a series is scored.
const MAX_SHIFTS: usize = 99;

/// The weight of the tie-breaking criterion: too small to matter beside a relevant log ratio, and
/// much larger than rounding errors.
const TIE_WEIGHT: f64 = 1e-4;

/// Blocks are rotated instead of shuffled if there are at least this many, each with at least
/// `MIN_ROTATED_ROWS` rows: fewer would make a null distribution of too few different sums.
const MIN_ROTATED_BLOCKS: usize = 8;
const MIN_ROTATED_ROWS: usize = 32;

/// The difference below which two mean log ratios are equal, relative to 1 nat or more.
const ROUNDING: f64 = 1e-11;

/// The number of permutations after which a test ends early, if at least [`MANY_AS_LARGE`] of their
/// statistics are as large as the observed one. More permutations would only make a p-value above 1%
/// more precise. The p-value stays valid: to be at most t, it must be so either in a test that always
/// ends here or, for t below 1%, in one that never does.
pub(super) const FIRST_PERMUTATIONS: usize = DEFAULT_PERMUTATIONS;
pub(super) const MANY_AS_LARGE: usize = 10;

/// Returns the ratio of the statistic's spread under independence to the spread of the
/// permutations.
///
/// A chance correlation between two folds is learned by the critics of both, so it enters the
/// statistic twice, whereas permutations with fixed critics treat the two as independent. For
/// critics that are linear in `freedom` independent correlations the variance is twice that of the
/// permutations, hence sqrt(2) if `freedom` is large. If it is small, the statistic and the
/// permutations grow together and the tail is shorter. The second term is fitted to a simulation of
/// five folds: the 95% quantile was .93, 1.14, 1.22, 1.30, 1.34 and 1.39 times that of the
/// permutations for a freedom of 1, 4, 9, 25, 100 and 400.
fn null_width(folds: usize, freedom: f64) -> f64 {
    if folds < 2 {
        return 1.0;
    }
    (std::f64::consts::SQRT_2 - 0.45 * freedom.max(1.0).powf(-0.45)).max(1.0)
}

/// The result of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndependenceTest {
    /// (b + 1) / (m + 1), where b of the m statistics in the null distribution are at least as
    /// large as the observed one. A test that was allowed more than 999 statistics has only 999 if at
    /// least 10 of them are that large. With fewer than 2,000 exchangeable rows, the p-value of two tests
    /// together: by critics, and by correlations of all rows.
    pub p_value: f64,
    /// The mean log ratio of the observed pairs of the rows that are permuted; for a short series, and
    /// for few rows if their test by correlations decides, half the sum of squared correlations.
    pub observed: f64,
    /// The null distribution: the mean log ratio of each permuted pairing, with the spread around
    /// their mean increased to account for the dependence between folds; for counts, the plug-in
    /// value of each permuted table.
    pub null: Vec<f64>,
}

/// The pairs of a fold from which the null distribution is computed.
pub(super) struct PairedNull {
    kind: Kind,
    pub(super) pairs: Vec<(u32, u32)>,
    /// Their log ratios.
    pub(super) ratios: Vec<f32>,
    /// The criterion that breaks ties between log ratios; empty if there is none.
    pub(super) ties: Vec<f32>,
}

#[derive(Clone)]
enum Kind {
    /// All pairs within blocks of these sizes, as square matrices with the observed pairs on the
    /// diagonal.
    Blocks(Vec<usize>),
    /// Runs of this many pairs: the observed pairs, followed by one run for each shift.
    Shifts(usize),
}

/// Splits rows into blocks of nearly equal size, at most `size` rows each.
pub(super) fn cut(rows: &[u32], size: usize) -> Vec<&[u32]> {
    let count = rows.len().div_ceil(size);
    (0..count).map(|k| &rows[rows.len() * k / count..rows.len() * (k + 1) / count]).collect()
}

impl PairedNull {
    /// Lists all pairs within each block.
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

    /// Lists the observed pairs of consecutive rows, and those with y shifted circularly by more
    /// than `gap`. `max_rows` is the number of rows that blocks would use.
    pub(super) fn shifts(rows: &[u32], gap: usize, max_rows: usize, seed: u64) -> Self {
        let n = rows.len();
        let mut offsets: Vec<usize> = (gap + 1..n.saturating_sub(gap)).collect();
        offsets.shuffle(&mut stream(seed, Purpose::Null, 0, 0));
        // As many evaluations as with blocks, but enough shifts for a test at 5%.
        offsets.truncate((BLOCK * max_rows / n.max(1)).clamp(19, MAX_SHIFTS));
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

    /// Returns the same pairs with the log ratios of `other` subtracted.
    pub(super) fn minus(&self, other: &PairedNull) -> PairedNull {
        let ratios = self.ratios.iter().zip(&other.ratios).map(|(own, other)| own - other);
        PairedNull {
            kind: self.kind.clone(),
            pairs: self.pairs.clone(),
            ratios: ratios.collect(),
            ties: self.ties.clone(),
        }
    }

    /// Returns the log ratios of the pairs that were not observed.
    pub(super) fn marginal(&self) -> impl Iterator<Item = f32> {
        self.pairs.iter().zip(&self.ratios).filter(|((i, j), _)| i != j).map(|(_, l)| *l)
    }

    /// Returns the matrix of log ratios of each block; none for shifts.
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

    /// Returns the number of observed pairs.
    fn observed_count(&self) -> usize {
        match &self.kind {
            Kind::Blocks(sizes) => sizes.iter().sum(),
            Kind::Shifts(n) => *n,
        }
    }

    /// Returns the sums of log ratios and ties over one pairing: a random one, or the observed one
    /// if `random` is `None`.
    fn sums(&self, random: &mut Option<&mut Rng>) -> Sums {
        let ties_of = |range: Range<usize>| self.ties.get(range).unwrap_or(&[]);
        let mut sums = Sums::default();
        match &self.kind {
            Kind::Blocks(sizes) => {
                let mut start = 0;
                let mut order = vec![0u32; sizes.iter().max().copied().unwrap_or(0)];
                for &n in sizes {
                    let order = &mut order[..n];
                    (0..).zip(&mut *order).for_each(|(j, place)| *place = j);
                    if let Some(rng) = random {
                        order.shuffle(rng);
                    }
                    let square = start..start + n * n;
                    sums.ratios += sum_of_chosen(&self.ratios[square.clone()], order);
                    sums.ties += sum_of_chosen(ties_of(square), order);
                    start += n * n;
                }
            }
            Kind::Shifts(n) => {
                let shifts = self.pairs.len() / n - 1;
                let run = match random {
                    // Including the observed pairing: with few shifts p cannot be small.
                    Some(rng) => rng.random_range(0..=shifts),
                    None => 0,
                };
                let run = run * n..(run + 1) * n;
                let sum = |values: &[f32]| values.iter().map(|value| f64::from(*value)).sum();
                sums = Sums { ratios: sum(&self.ratios[run.clone()]), ties: sum(ties_of(run)) };
            }
        }
        sums
    }

    /// Returns the sums of each block for all rotations of its rows, which are put in a random order
    /// first. None for shifts.
    fn rotations(&self, rng: &mut Rng) -> Vec<Vec<Sums>> {
        let Kind::Blocks(sizes) = &self.kind else { return Vec::new() };
        let mut start = 0;
        let mut of_block = |&n: &usize| {
            let mut order: Vec<usize> = (0..n).collect();
            order.shuffle(rng);
            let mut sums = vec![Sums::default(); n];
            for (place, i) in order.iter().enumerate() {
                let row = start + i * n;
                // The row's partners, from itself on.
                let partners = order[place..].iter().chain(&order[..place]);
                for (sum, j) in sums.iter_mut().zip(partners) {
                    sum.ratios += f64::from(self.ratios[row + j]);
                    sum.ties += self.ties.get(row + j).copied().map_or(0.0, f64::from);
                }
            }
            start += n * n;
            sums
        };
        sizes.iter().map(&mut of_block).collect()
    }
}

/// The sums of log ratios and of ties over a pairing.
#[derive(Clone, Copy, Default)]
struct Sums {
    ratios: f64,
    ties: f64,
}

impl Sums {
    fn plus(self, other: Sums) -> Sums {
        Sums { ratios: self.ratios + other.ratios, ties: self.ties + other.ties }
    }

    /// Returns the statistic of the test: the sum of log ratios, where ties are broken.
    fn statistic(self) -> f64 {
        self.ratios + TIE_WEIGHT * self.ties
    }
}

/// Random pairings of all folds.
///
/// Shuffling thousands of rows for each pairing would take most of the time of an estimate with many
/// pairings. Rotations of the blocks are also a group of permutations, so a test that draws from them
/// is just as valid; their sums are computed once, and a pairing adds up one sum of each block.
enum Pairings<'a> {
    Shuffled(&'a [PairedNull]),
    Rotated(Vec<Vec<Sums>>),
}

impl<'a> Pairings<'a> {
    fn new(folds: &'a [PairedNull], rng: &mut Rng) -> Self {
        let sizes = folds.iter().flat_map(|fold| match &fold.kind {
            Kind::Blocks(sizes) => &sizes[..],
            Kind::Shifts(_) => &[],
        });
        let are_large = sizes.clone().all(|size| *size >= MIN_ROTATED_ROWS);
        match sizes.count() >= MIN_ROTATED_BLOCKS && are_large {
            true => Pairings::Rotated(folds.iter().flat_map(|fold| fold.rotations(rng)).collect()),
            false => Pairings::Shuffled(folds),
        }
    }

    /// Returns the sums over a random pairing.
    fn draw(&self, rng: &mut Rng) -> Sums {
        match self {
            Pairings::Shuffled(folds) => {
                folds.iter().map(|fold| fold.sums(&mut Some(rng))).fold(Sums::default(), Sums::plus)
            }
            Pairings::Rotated(blocks) => {
                let draw = |sums: &Vec<Sums>| sums[rng.random_range(0..sums.len())];
                blocks.iter().map(draw).fold(Sums::default(), Sums::plus)
            }
        }
    }
}

/// Returns the sum of one value of each row of a square matrix: the column of row i is `columns[i]`.
/// The sum of no matrix is 0. Four sums side by side take a third of the time of one; a function of
/// its own keeps them in registers.
#[inline(never)]
fn sum_of_chosen(square: &[f32], columns: &[u32]) -> f64 {
    let n = columns.len().max(1);
    let mut sums = [0.0; 4];
    for (rows, columns) in square.chunks(4 * n).zip(columns.chunks(4)) {
        for ((sum, row), column) in sums.iter_mut().zip(rows.chunks_exact(n)).zip(columns) {
            *sum += f64::from(row[*column as usize]);
        }
    }
    sums.iter().sum()
}

impl IndependenceTest {
    /// Combines two tests, of which the other one has this share of the level: the p-value is the
    /// smaller of p / (1 - share) and p' / share (Bonferroni). `other` may return `None` instead of a
    /// test whose p-value is at least the limit that it is given, because that test does not matter.
    pub(super) fn or(
        self,
        share: f64,
        other: impl FnOnce(f64) -> Result<Option<IndependenceTest>>,
    ) -> Result<IndependenceTest> {
        let p_value = self.p_value / (1.0 - share);
        Ok(match other(p_value * share)? {
            Some(other) if other.p_value / share < p_value => {
                IndependenceTest { p_value: (other.p_value / share).min(1.0), ..other }
            }
            _ => IndependenceTest { p_value: p_value.min(1.0), ..self },
        })
    }

    /// Tests all folds together with at most `m` random pairings. `freedom` is the number of correlations
    /// that critics can learn: the dimension of x times that of y. Fails if `progress` ends the
    /// estimate.
    pub(super) fn new(
        folds: &[PairedNull],
        m: usize,
        freedom: f64,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let count = folds.iter().map(PairedNull::observed_count).sum::<usize>() as f64;
        let mean = |sums: Sums| Sums { ratios: sums.ratios / count, ties: sums.ties / count };
        let observed =
            folds.iter().map(|fold| fold.sums(&mut None)).fold(Sums::default(), Sums::plus);
        let observed = mean(observed);
        let width = null_width(folds.len(), freedom);
        // Equal sums in another order differ by rounding.
        let least = observed.statistic() - ROUNDING * (1.0 + observed.statistic().abs());
        let as_large = |permuted: &[Sums]| {
            let null = widen(permuted.iter().copied().map(Sums::statistic).collect(), width);
            null.into_iter().filter(|value| *value >= least).count()
        };
        let mut rng = stream(seed, Purpose::Null, 1, 0);
        let pairings = Pairings::new(folds, &mut rng);
        let mut permuted = Vec::with_capacity(m.min(FIRST_PERMUTATIONS));
        while permuted.len() < m
            && !(permuted.len() == FIRST_PERMUTATIONS && as_large(&permuted) >= MANY_AS_LARGE)
        {
            check(progress)?;
            permuted.push(mean(pairings.draw(&mut rng)));
        }
        Ok(IndependenceTest {
            p_value: (as_large(&permuted) + 1) as f64 / (permuted.len() + 1) as f64,
            observed: observed.ratios,
            null: widen(permuted.into_iter().map(|sums| sums.ratios).collect(), width),
        })
    }
}

/// Moves values to `width` times their distance from the mean.
fn widen(values: Vec<f64>, width: f64) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    values.into_iter().map(|value| mean + width * (value - mean)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::NoProgress;

    /// Fills in random log ratios, with `dependence` added for the observed pairs.
    fn with_noise(mut null: PairedNull, dependence: f32, seed: u64) -> PairedNull {
        let mut rng = stream(seed, Purpose::Data, 0, 0);
        let mut noise = |&(i, j): &(u32, u32)| {
            rng.random_range(-1.0..1.0f32) + if i == j { dependence } else { 0.0 }
        };
        null.ratios = null.pairs.iter().map(&mut noise).collect();
        null
    }

    fn run_test(folds: &[PairedNull], seed: u64) -> IndependenceTest {
        IndependenceTest::new(folds, 99, 1.0, seed, &NoProgress).unwrap()
    }

    fn blocks() -> PairedNull {
        let rows: Vec<u32> = (0..70).collect();
        PairedNull::within_blocks(&cut(&rows, BLOCK))
    }

    /// Enough blocks that they are rotated.
    fn many_blocks() -> PairedNull {
        let rows: Vec<u32> = (0..400).collect();
        PairedNull::within_blocks(&cut(&rows, 50))
    }

    fn shifts() -> PairedNull {
        PairedNull::shifts(&(0..400).collect::<Vec<_>>(), 3, 10_000, 1)
    }

    #[test]
    fn dependence_gives_a_small_p_value() {
        for make in [blocks, many_blocks, shifts] {
            let test = run_test(&[with_noise(make(), 2.0, 1)], 0);
            // The 99 random shifts may include the observed pairing itself.
            assert!(test.p_value <= 0.03, "{}", test.p_value);
            assert!(test.observed > 1.5 && test.null.len() == 99);
        }
    }

    /// If every pairing has the same sum, up to rounding, the p-value is 1.
    #[test]
    fn sums_that_differ_by_rounding_are_equal() {
        let mut null = many_blocks();
        null.ratios = null.pairs.iter().map(|&(i, _)| 0.1 * i as f32).collect();
        assert_eq!(run_test(&[null], 0).p_value, 1.0);
    }

    /// Two tests share the level, and the second is not made if it cannot matter.
    #[test]
    fn a_p_value_is_divided_by_the_share_of_its_test() {
        let test = |p_value| IndependenceTest { p_value, observed: 0.0, null: Vec::new() };
        let combined = |first, share, second| {
            test(first)
                .or(share, |limit| Ok((second < limit).then(|| test(second))))
                .unwrap()
                .p_value
        };
        assert_eq!(combined(0.03, 0.5, 0.04), 0.06);
        assert_eq!(combined(0.5, 0.1, 0.002), 0.02);
        assert_eq!(combined(0.9, 0.25, 0.5), 1.0);
        assert!((combined(0.03, 0.1, 0.01) - 0.03 / 0.9).abs() < 1e-12);
    }

    /// Under independence p is uniform: of 400 tests at 10%, 40 +- 24 reject, which is 4 standard
    /// deviations (alpha of about 6e-5, fixed seeds).
    #[test]
    fn p_values_are_uniform_under_independence() {
        for make in [blocks, many_blocks, shifts] {
            let p = |seed| run_test(&[with_noise(make(), 0.0, seed)], seed).p_value;
            let count = (0..400).filter(|&seed| p(seed) <= 0.1).count();
            assert!((16..=64).contains(&count), "{count}");
        }
    }

    /// Rotations are pairings, and have the null distribution of shuffles. Means of 4,000 differ by at
    /// most 4.5 standard errors (alpha of about 1e-5, fixed seed). The spread of the rotations comes
    /// from 8 blocks of 50 sums, which is why it is less certain.
    #[test]
    fn rotations_have_the_null_distribution_of_shuffles() {
        let folds = [with_noise(many_blocks(), 0.3, 3)];
        let mut rng = stream(1, Purpose::Null, 0, 0);
        let rotated = Pairings::new(&folds, &mut rng);
        let Pairings::Rotated(blocks) = &rotated else { panic!("the blocks are shuffled") };
        let observed = folds[0].sums(&mut None).ratios;
        let unmoved: f64 = blocks.iter().map(|sums| sums[0].ratios).sum();
        assert!((observed - unmoved).abs() < 1e-9);
        let total: f64 = folds[0].ratios.iter().map(|ratio| f64::from(*ratio)).sum();
        let all: f64 = blocks.iter().flatten().map(|sums| sums.ratios).sum();
        assert!((total - all).abs() < 1e-6, "every pair is in one rotation of its block");

        let shuffled = Pairings::Shuffled(&folds);
        let mut moments = |pairings: &Pairings| {
            let draws: Vec<f64> = (0..4_000).map(|_| pairings.draw(&mut rng).ratios).collect();
            let mean = draws.iter().sum::<f64>() / 4e3;
            (mean, draws.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / 4e3)
        };
        let ((mean_a, variance_a), (mean_b, variance_b)) = (moments(&rotated), moments(&shuffled));
        let error = ((variance_a + variance_b) / 4e3).sqrt();
        assert!((mean_a - mean_b).abs() < 4.5 * error, "{mean_a} {mean_b}");
        assert!((0.7..1.4).contains(&(variance_a / variance_b)), "{variance_a} {variance_b}");
    }

    /// A test that may continue after 999 permutations does so only if p is small, and its p-values
    /// are uniform as well: of 400 tests at 1% and at 10%, at most 12 and 64 reject, which is 4 standard
    /// deviations (fixed seeds).
    #[test]
    fn long_tests_end_early_unless_the_p_value_is_small() {
        let long = |dependence: f32, seed: u64| {
            let fold = [with_noise(blocks(), dependence, seed)];
            IndependenceTest::new(&fold, 4_999, 1.0, seed, &NoProgress).unwrap()
        };
        let found = long(2.0, 1);
        assert_eq!((found.null.len(), found.p_value), (4_999, 1.0 / 5_000.0));
        let tests: Vec<IndependenceTest> = (0..400).map(|seed| long(0.0, seed)).collect();
        for test in &tests {
            let is_long = test.null.len() == 4_999;
            assert_eq!(test.null.len(), if is_long { 4_999 } else { FIRST_PERMUTATIONS });
            assert!(is_long || test.p_value > 0.01, "{}", test.p_value);
        }
        let rejected = |level: f64| tests.iter().filter(|test| test.p_value <= level).count();
        assert!(rejected(0.01) <= 12 && (16..=64).contains(&rejected(0.1)));
    }

    /// With few shifts in each of several folds, at most 64 of 400 tests at 10% reject (4 standard
    /// deviations above 40; fixed seeds).
    #[test]
    fn few_shifts_do_not_make_small_p_values() {
        let folds = |seed: u64| -> Vec<PairedNull> {
            let short = || PairedNull::shifts(&(0..5).collect::<Vec<_>>(), 0, 10_000, 1);
            (0..3).map(|k| with_noise(short(), 0.0, seed * 3 + k)).collect()
        };
        let count = (0..400).filter(|&seed| run_test(&folds(seed), seed).p_value <= 0.1).count();
        assert!(count <= 64, "{count}");
        let single = PairedNull::shifts(&(0..4).collect::<Vec<_>>(), 2, 10_000, 1);
        assert_eq!(run_test(&[with_noise(single, 2.0, 1)], 0).p_value, 1.0, "no shift is possible");
    }

    #[test]
    fn the_null_distribution_widens_with_freedom() {
        let widths = [1.0, 4.0, 25.0, 400.0].map(|freedom| null_width(5, freedom));
        for (width, simulated) in widths.into_iter().zip([1.0, 1.14, 1.30, 1.39]) {
            assert!((width - simulated).abs() < 0.05, "{width} {simulated}");
        }
        assert_eq!(null_width(1, 400.0), 1.0);
    }

    /// A critic with constant scores must not give p = 1 in every test.
    #[test]
    fn ties_are_broken_by_the_second_criterion() {
        let mut constant = with_noise(blocks(), 2.0, 3);
        constant.ties = std::mem::take(&mut constant.ratios);
        constant.ratios = vec![0.0; constant.ties.len()];
        assert_eq!(run_test(&[constant], 0).p_value, 0.01);
    }

    #[test]
    fn blocks_contain_every_row_once_and_at_least_two_rows() {
        for n in [2, 31, 32, 33, 100, 1000] {
            let rows: Vec<u32> = (0..n).collect();
            let cut = cut(&rows, BLOCK);
            assert!(cut.iter().all(|block| (2..=BLOCK).contains(&block.len())), "{n}");
            assert_eq!(cut.concat(), rows);
        }
    }

    #[test]
    fn shifts_are_larger_than_the_gap() {
        let null = shifts();
        let far = |(i, j): &(u32, u32)| {
            let apart = i.abs_diff(*j);
            apart == 0 || (apart > 3 && apart < 397)
        };
        assert!(null.pairs.iter().all(far));
        assert_eq!(null.pairs.len(), 400 * (MAX_SHIFTS + 1));
    }
}

//! Mutual information of two discrete variables from the counts of their combinations.

use super::folds::RowOrder;
use super::levels::{Levels, MIN_ROWS_PER_LEVEL};
use super::progress::{Progress, advance};
use crate::error::Result;
use crate::random::{Purpose, Rng, stream};
use rand::RngExt;
use rand::seq::SliceRandom;
use statrs::function::factorial::ln_factorial;

/// A quantile for the ends of the interval: the 98.75% point of the normal distribution. The tails
/// are heavier than normal, because the variance is estimated from the same counts. Chosen on
/// simulated tables (2 x 2 to 5 x 8, 200 to 10,000 rows, from no to complete dependence): with 1.96
/// the low end was above the truth in up to 6% of tables of a kind, with this quantile in up to 4%.
const END_QUANTILE: f64 = 2.241_402_728;

/// The least share of additional information that is assumed to show in the observed value, so that
/// a table that shows nothing does not give an unlimited estimate.
const MIN_SLOPE: f64 = 0.1;

/// The table of the numbers of rows with each level of x and of y.
struct Contingency {
    x: Levels,
    y: Levels,
    /// The rows ordered by their level of x.
    by_x: Vec<u32>,
    /// For each row, the number of rows with the same levels of x and y.
    cell_sizes: Vec<u32>,
}

impl Contingency {
    fn new(x: Levels, y: Levels) -> Self {
        let mut by_x: Vec<u32> = (0..x.codes.len() as u32).collect();
        by_x.sort_by_key(|&row| x.codes[row as usize]);
        let mut table = Contingency { cell_sizes: vec![0; by_x.len()], x, y, by_x };
        let mut sizes = vec![0; table.by_x.len()];
        table.visit_cells(&table.y.codes, |row, size| sizes[row] = size);
        table.cell_sizes = sizes;
        table
    }

    fn rows(&self) -> f64 {
        self.by_x.len() as f64
    }

    fn cells(&self) -> usize {
        self.x.counts.len() * self.y.counts.len()
    }

    /// Returns whether there are enough rows to expect several in each cell.
    fn is_dense(&self) -> bool {
        self.cells() * MIN_ROWS_PER_LEVEL <= self.by_x.len()
    }

    fn share_alone(&self) -> f64 {
        self.cell_sizes.iter().filter(|size| **size == 1).count() as f64 / self.rows()
    }

    /// Calls `visit` with every row and the size of its cell, if row i had the level `y[i]`.
    fn visit_cells(&self, y: &[u32], mut visit: impl FnMut(usize, u32)) {
        let mut sizes = vec![0; self.y.counts.len()];
        let mut start = 0;
        for &count in &self.x.counts {
            let rows = &self.by_x[start..start + count as usize];
            let level = |row: &u32| y[*row as usize] as usize;
            rows.iter().for_each(|row| sizes[level(row)] += 1);
            rows.iter().for_each(|row| visit(*row as usize, sizes[level(row)]));
            rows.iter().for_each(|row| sizes[level(row)] = 0);
            start += count as usize;
        }
    }

    /// Returns ln n_xy n / (n_x n_y) of every row.
    fn pointwise(&self) -> Vec<f64> {
        let rows = self.cell_sizes.iter().enumerate();
        rows.map(|(row, &size)| (f64::from(size) / self.rows() / self.product(row)).ln()).collect()
    }

    /// Returns the share that a row's cell has under independence, n_x n_y / n^2.
    fn product(&self, row: usize) -> f64 {
        let share = |levels: &Levels| f64::from(levels.counts[levels.codes[row] as usize]);
        share(&self.x) * share(&self.y) / self.rows().powi(2)
    }

    /// Returns the plug-in value of a table with these margins from sum_xy n_xy ln n_xy.
    fn plug_in(&self, sum: f64) -> f64 {
        let n = self.rows();
        (sum / n - n.ln() + self.x.entropy() + self.y.entropy()).max(0.0)
    }

    /// Returns the plug-in value if row i had the level `y[i]`.
    fn plug_in_of(&self, y: &[u32]) -> f64 {
        let mut sum = 0.0;
        self.visit_cells(y, |_, size| sum += f64::from(size).ln());
        self.plug_in(sum)
    }

    /// Returns the plug-in value of the observed table.
    fn observed(&self) -> f64 {
        self.plug_in_of(&self.y.codes)
    }

    /// Returns the plug-in value of a table with the same margins and independent x and y: for a random
    /// permutation of `y`, which holds the levels of y and is shuffled, unless a random table is drawn
    /// faster.
    fn independent(&self, y: &mut [u32], rng: &mut Rng) -> f64 {
        if self.is_dense() {
            return self.random_table(rng);
        }
        y.shuffle(rng);
        self.plug_in_of(y)
    }

    /// Returns the plug-in values for at most `m` different circular shifts of y by more than `gap`.
    /// Fails if `progress` ends the estimate.
    fn shifted(
        &self,
        gap: usize,
        m: usize,
        rng: &mut Rng,
        progress: &dyn Progress,
    ) -> Result<Vec<f64>> {
        let mut y = self.y.codes.clone();
        let mut offsets: Vec<usize> = (gap + 1..y.len().saturating_sub(gap)).collect();
        offsets.shuffle(rng);
        let shifted = |offset: usize| {
            advance(progress, 1)?;
            y.copy_from_slice(&self.y.codes);
            y.rotate_left(offset);
            Ok(self.plug_in_of(&y))
        };
        offsets.into_iter().take(m).map(shifted).collect()
    }

    /// Returns the plug-in value of a random table with the same margins. Like a permutation of y,
    /// but the time depends on the number of cells instead of rows.
    fn random_table(&self, rng: &mut Rng) -> f64 {
        let mut y_left: Vec<u64> = self.y.counts.iter().map(|&count| u64::from(count)).collect();
        let mut sum = 0.0;
        for &count in &self.x.counts {
            let mut left = u64::from(count);
            let mut total: u64 = y_left.iter().sum();
            for level in &mut y_left {
                let drawn = hypergeometric(total, *level, left, rng);
                total -= *level;
                *level -= drawn;
                left -= drawn;
                sum += drawn as f64 * (drawn.max(1) as f64).ln();
            }
        }
        self.plug_in(sum)
    }

    /// Returns what the distribution of the plug-in value follows from. The log ratios are those of a
    /// table with half a row more in each cell, distributed as under independence: a cell is empty by
    /// chance too, and would have a large |l|.
    fn moments(&self) -> Moments {
        let n = self.rows();
        let levels = |side: &Levels| side.counts.len() as f64;
        let (x, y) = (levels(&self.x), levels(&self.y));
        let occupied = self.cell_sizes.iter().map(|&size| 1.0 / f64::from(size)).sum::<f64>();
        let added = 0.5 * self.cells() as f64;
        let weight = added / (n + added);
        let (mut mean, mut squares, mut empty) = (0.0, 0.0, 1.0);
        let mut add = |p: f64, l: f64| {
            mean += p * l;
            squares += p * l * l;
        };
        for (row, &size) in self.cell_sizes.iter().enumerate() {
            let (size, product) = (f64::from(size), self.product(row));
            let p = (1.0 - weight) * size / n + weight * product;
            // A cell of k rows is visited k times.
            add(p / size, (p / product).ln());
            empty -= product / size;
        }
        add(weight * empty.max(0.0), weight.ln());
        Moments {
            bias: (occupied - x - y + 1.0) / (2.0 * n),
            limit: self.x.corrected_entropy().min(self.y.corrected_entropy()),
            largest: x.min(y).ln(),
            mean,
            squares,
        }
    }
}

/// Properties of a table.
struct Moments {
    /// The bias of the plug-in value where one side determines the other.
    bias: f64,
    /// The smaller entropy of x and y.
    limit: f64,
    /// The largest entropy that sides with so many levels can have.
    largest: f64,
    /// The mean of the log ratios and of their squares.
    mean: f64,
    squares: f64,
}

/// Tables of x and y, one for each level of what is held fixed; a single one if nothing is.
pub(super) struct Contingencies {
    /// The rows of each table.
    tables: Vec<(Vec<u32>, Contingency)>,
    rows: usize,
}

impl Contingencies {
    /// Counts without anything held fixed.
    pub(super) fn new(x: Levels, y: Levels) -> Self {
        let rows = x.codes.len();
        Contingencies { tables: vec![((0..rows as u32).collect(), Contingency::new(x, y))], rows }
    }

    /// Counts the rows of every level of z.
    pub(super) fn given(x: &Levels, y: &Levels, z: &Levels) -> Self {
        let mut rows_of: Vec<Vec<u32>> = vec![Vec::new(); z.counts.len()];
        for (row, &level) in (0u32..).zip(&z.codes) {
            rows_of[level as usize].push(row);
        }
        let table = |rows: Vec<u32>| {
            let table = Contingency::new(x.at(&rows), y.at(&rows));
            (rows, table)
        };
        Contingencies { tables: rows_of.into_iter().map(table).collect(), rows: z.codes.len() }
    }

    /// Returns the sum of a property of the tables, weighted by their shares of the rows.
    fn weighted(&self, property: impl Fn(&Contingency) -> f64) -> f64 {
        let share = |rows: &Vec<u32>| rows.len() as f64 / self.rows as f64;
        self.tables.iter().map(|(rows, table)| share(rows) * property(table)).sum()
    }

    /// Returns whether there are enough rows to expect several in each cell.
    pub(super) fn is_dense(&self) -> bool {
        let cells: usize = self.tables.iter().map(|(_, table)| table.cells()).sum();
        cells * MIN_ROWS_PER_LEVEL <= self.rows
    }

    /// Returns the share of rows that are alone in their cell. By Good and Turing, about as large a
    /// share of further rows would fall into cells that are empty now.
    pub(super) fn share_alone(&self) -> f64 {
        self.weighted(Contingency::share_alone)
    }

    /// Returns ln n_xy n / (n_x n_y) of every row, within its table.
    pub(super) fn pointwise(&self) -> Vec<f64> {
        let mut pointwise = vec![0.0; self.rows];
        for (rows, table) in &self.tables {
            for (&row, ratio) in rows.iter().zip(table.pointwise()) {
                pointwise[row as usize] = ratio;
            }
        }
        pointwise
    }

    /// Returns the plug-in value.
    pub(super) fn observed(&self) -> f64 {
        self.weighted(Contingency::observed)
    }

    /// Returns the plug-in values of `m` sets of tables with the same margins and independent x and y:
    /// of random permutations of y within the tables or, for a series, of at most `m` different
    /// circular shifts by more than the gap. Fails if `progress` ends the estimate.
    pub(super) fn null(
        &self,
        order: RowOrder,
        m: usize,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<Vec<f64>> {
        let mut rng = stream(seed, Purpose::Null, 0, 0);
        if let (RowOrder::Series { gap }, [(_, table)]) = (order, &self.tables[..]) {
            return table.shifted(gap, m, &mut rng, progress);
        }
        let mut ys: Vec<Vec<u32>> =
            self.tables.iter().map(|(_, table)| table.y.codes.clone()).collect();
        let independent = |_| {
            advance(progress, 1)?;
            let tables = self.tables.iter().zip(&mut ys);
            let values = tables.map(|((rows, table), y)| {
                rows.len() as f64 / self.rows as f64 * table.independent(y, &mut rng)
            });
            Ok(values.sum())
        };
        (0..m).map(independent).collect()
    }

    /// Returns how the plug-in value of this many rows is distributed, given the plug-in values of
    /// independent tables with the same margins. `inflation` is the factor by which the correlation
    /// of neighbouring rows increases the variance.
    pub(super) fn sampling(&self, null: &[f64], inflation: f64) -> Sampling {
        let count = null.len().max(1) as f64;
        let chance = null.iter().sum::<f64>() / count;
        let spread = null.iter().map(|value| (value - chance).powi(2)).sum::<f64>();
        let moments: Vec<(f64, Moments)> = self
            .tables
            .iter()
            .map(|(rows, table)| (rows.len() as f64 / self.rows as f64, table.moments()))
            .collect();
        let mean = |property: fn(&Moments) -> f64| -> f64 {
            moments.iter().map(|(share, moments)| share * property(moments)).sum()
        };
        let (limit, mean_ratio) = (mean(|m| m.limit), mean(|m| m.mean));
        // For weak dependence the variance of log ratios is twice their mean.
        let per_nat = match mean_ratio > 0.0 {
            true => (mean(|m| m.squares) - mean_ratio.powi(2)) / mean_ratio,
            false => 2.0,
        };
        let bias = mean(|m| m.bias);
        Sampling {
            chance,
            slope: if limit > 0.0 { 1.0 + (bias - chance) / limit } else { 1.0 },
            null_variance: spread / (count - 1.0).max(1.0),
            variance_per_nat: inflation * per_nat / self.rows as f64,
            limit,
            largest: mean(|m| m.largest),
        }
    }
}

/// The distribution of the plug-in value, given the true mutual information I.
///
/// Its mean is I + b(I). The bias b is that of independent tables at I = 0. At the other end, where
/// one side determines the other, most cells are empty for good and the bias is (occupied cells -
/// levels of x - levels of y + 1) / 2n (Miller and Madow); b is linear between the two. Its
/// variance is that of independent tables plus var(l) / n, which grows in proportion to I.
pub(super) struct Sampling {
    /// The mean of independent tables.
    pub(super) chance: f64,
    /// The derivative of the mean with respect to I.
    slope: f64,
    /// The variance of independent tables.
    null_variance: f64,
    /// The derivative of the variance with respect to I.
    variance_per_nat: f64,
    /// The smaller entropy of the two sides.
    pub(super) limit: f64,
    /// The largest entropy that sides with so many levels can have.
    largest: f64,
}

impl Sampling {
    /// Returns the I whose mean is the plug-in value. It may be negative or above the limit.
    pub(super) fn estimate(&self, plug_in: f64) -> f64 {
        (plug_in - self.chance) / self.slope.max(MIN_SLOPE)
    }

    /// Returns the 95% interval: the values of I for which the plug-in value is neither too large
    /// nor too small. It contains 0 unless the test of independence rejects, and is not narrower
    /// than that of independent tables.
    pub(super) fn interval(&self, plug_in: f64, p_value: f64) -> (f64, f64) {
        let low = if p_value > 0.025 { 0.0 } else { self.solve(plug_in, END_QUANTILE) };
        (low, self.solve(plug_in.max(self.chance), -END_QUANTILE).max(low))
    }

    /// Returns the plug-in value as a normal score if the truth is `mi`. The value is approximately
    /// chi-squared with this mean and variance (Patnaik); its cube root is almost normal (Wilson
    /// and Hilferty).
    fn normal_score(&self, plug_in: f64, mi: f64) -> f64 {
        let mean = self.chance + self.slope * mi;
        let variance = self.null_variance + self.variance_per_nat * mi;
        let ninth = variance / (9.0 * mean * mean);
        ((plug_in / mean).cbrt() - (1.0 - ninth)) / ninth.sqrt()
    }

    /// Returns the I for which the plug-in value has this normal score, by bisection.
    fn solve(&self, plug_in: f64, score: f64) -> f64 {
        let (mut low, mut high) = (0.0, self.largest);
        if self.normal_score(plug_in, low) < score {
            return low;
        }
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            match self.normal_score(plug_in, middle) > score {
                true => low = middle,
                false => high = middle,
            }
        }
        high
    }
}

/// Returns how many of `draws` items are marked if `marked` of all `total` items are. Values are
/// tried from the most likely one outwards, which takes about as many steps as the standard
/// deviation.
fn hypergeometric(total: u64, marked: u64, draws: u64, rng: &mut Rng) -> u64 {
    let (least, most) = ((draws + marked).saturating_sub(total), draws.min(marked));
    if least == most {
        return least;
    }
    let mode = ((draws + 1) as f64 * (marked + 1) as f64 / (total + 2) as f64) as u64;
    let mode = mode.clamp(least, most);
    let ln_choose = |n: u64, k: u64| ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    let p = ln_choose(marked, mode) + ln_choose(total - marked, draws - mode);
    let p = (p - ln_choose(total, draws)).exp();
    // p(k + 1) / p(k)
    let ratio = |k: u64| {
        let up = (marked - k) as f64 * (draws - k) as f64;
        up / ((k + 1) as f64 * (total + k + 1 - marked - draws) as f64)
    };
    let (mut above, mut below) = ((mode, p), (mode, p));
    let mut rest = rng.random::<f64>() - p;
    while rest > 0.0 && (above.0 < most || below.0 > least) {
        if above.0 < most {
            above = (above.0 + 1, above.1 * ratio(above.0));
            rest -= above.1;
            if rest <= 0.0 {
                return above.0;
            }
        }
        if below.0 > least {
            below = (below.0 - 1, below.1 / ratio(below.0 - 1));
            rest -= below.1;
            if rest <= 0.0 {
                return below.0;
            }
        }
    }
    mode
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::NoProgress;

    fn levels(codes: Vec<u32>) -> Levels {
        let count = codes.iter().max().map_or(0, |most| *most as usize + 1);
        let mut counts = vec![0; count];
        codes.iter().for_each(|&code| counts[code as usize] += 1);
        Levels { codes, counts }
    }

    /// Returns the table with these counts, row by row.
    fn table(counts: &[&[usize]]) -> Contingency {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for (i, row) in (0..).zip(counts) {
            for (j, &count) in (0..).zip(*row) {
                x.extend(vec![i; count]);
                y.extend(vec![j; count]);
            }
        }
        Contingency::new(levels(x), levels(y))
    }

    /// x = y in 80% of rows, with equal margins: I = ln 2 - h(.2) with h the binary entropy, and
    /// l = ln(.4 / .25) or ln(.1 / .25).
    #[test]
    fn the_plug_in_value_is_that_of_the_frequencies() {
        let table = table(&[&[40, 10], &[10, 40]]);
        let exact = 0.8 * f64::ln(1.6) + 0.2 * f64::ln(0.4);
        assert!((table.observed() - exact).abs() < 1e-12);
        let pointwise = table.pointwise();
        assert!((pointwise[0] - f64::ln(1.6)).abs() < 1e-12);
        assert!((pointwise.iter().sum::<f64>() / 100.0 - exact).abs() < 1e-12);
    }

    /// The mean is draws * marked / total, here 6, the variance 6 * .7 * (50 - 20) / 49 = 2.571; 5
    /// standard errors of 20,000 draws are .057 and .13 (alpha of about 6e-7 each, fixed seed).
    #[test]
    fn hypergeometric_numbers_have_their_mean_and_variance() {
        let mut rng = stream(1, Purpose::Null, 0, 0);
        let draws: Vec<f64> =
            (0..20_000).map(|_| hypergeometric(50, 15, 20, &mut rng) as f64).collect();
        let mean = draws.iter().sum::<f64>() / 2e4;
        let variance = draws.iter().map(|k| (k - mean).powi(2)).sum::<f64>() / 2e4;
        assert!((mean - 6.0).abs() < 0.057, "{mean}");
        assert!((variance - 2.571).abs() < 0.13, "{variance}");
        assert_eq!(hypergeometric(10, 10, 4, &mut rng), 4);
    }

    /// For independent data, 2 n times the plug-in value is nearly chi-squared with (r - 1)(c - 1)
    /// degrees of freedom, whether rows are permuted or tables drawn: 4 +- 5 standard errors of
    /// 2,000 values (alpha of about 6e-7, fixed seed), plus .06 for the finite table.
    #[test]
    fn permutations_and_random_tables_have_the_chi_squared_mean() {
        let table = table(&[&[30, 20, 50], &[40, 30, 30], &[30, 50, 20]]);
        let mut rng = stream(2, Purpose::Null, 0, 0);
        let mut y = table.y.codes.clone();
        let permuted = (0..2000).map(|_| {
            y.shuffle(&mut rng);
            table.plug_in_of(&y)
        });
        let permuted = permuted.sum::<f64>() / 2000.0;
        let drawn = (0..2000).map(|_| table.random_table(&mut rng)).sum::<f64>() / 2000.0;
        for mean in [permuted, drawn] {
            assert!((2.0 * table.rows() * mean - 4.0).abs() < 0.38, "{permuted} {drawn}");
        }
    }

    /// Ten levels on each side in 200 rows, so that two rows are expected in each cell: the plug-in
    /// value is .24 too high for independent data and .02 too low where x determines y. The
    /// estimate is not: .01 is more than 5 standard errors (alpha of about 6e-7, fixed seeds).
    #[test]
    fn the_estimate_has_little_bias_with_and_without_dependence() {
        let (independent, determined) = (mean_error(0.0), mean_error(1.0));
        assert!((independent.0 - 0.24).abs() < 0.02 && independent.1.abs() < 0.01);
        assert!((determined.0 + 0.02).abs() < 0.01 && determined.1.abs() < 0.01);
    }

    /// Returns the mean errors of the plug-in value and of the estimate over 200 tables; y is equal
    /// to x with this probability.
    fn mean_error(equal: f64) -> (f64, f64) {
        let truth = if equal > 0.0 { 10f64.ln() } else { 0.0 };
        let mut sums = (0.0, 0.0);
        for seed in 0..200 {
            let mut rng = stream(seed, Purpose::Data, 0, 0);
            let x: Vec<u32> = (0..200).map(|_| rng.random_range(0..10)).collect();
            let other = |&x: &u32| if rng.random_bool(equal) { x } else { rng.random_range(0..10) };
            let y = x.iter().map(other).collect();
            let table = Contingencies::new(levels(x), levels(y));
            let null = table.null(RowOrder::Exchangeable, 19, seed, &NoProgress).unwrap();
            let estimate = table.sampling(&null, 1.0).estimate(table.observed());
            sums = (sums.0 + table.observed() - truth, sums.1 + estimate - truth);
        }
        (sums.0 / 200.0, sums.1 / 200.0)
    }
}

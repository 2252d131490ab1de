//! Normalised log ratios, whose mean is a lower bound of the mutual information.
//!
//! A density ratio r = p(y|x) / p(y) averages to 1 over y for every x, and over x for every y. A
//! critic's ratio e^l does not, quite. Dividing it by its mean over y, Z(x), makes e^l p(y) / Z(x)
//! a conditional density q(y|x), so that
//!
//! `E[l - ln Z(x)] = I - E_x KL(p(.|x) || q(.|x)) <= I`
//!
//! for every critic. The same holds with the mean over x, Z(y), and we use the mean of the two
//! bounds. The more Z varies, the more they exceed the bound of Donsker and Varadhan,
//! `E[l] - ln E[Z(x)]`.

/// The variance of ln Z of a row, computed from the pairs of all rows, above which rows are not
/// normalised one by one: its estimate from a few pairs is then too noisy, and the correction for
/// the noise inexact.
const MAX_NOISE: f64 = 0.12;

/// How far the mean of ln Z may be below the logarithm of the mean of all Z. If it is further, most
/// rows have no pair that is likely, and a few rows have one.
const MAX_DIFFERENCE: f64 = 0.5;

/// The normalised log ratios of observed pairs.
pub(super) struct Normalised {
    /// The log ratio of every observed pair, in the order of the pairs.
    pub(super) ratios: Vec<f64>,
    /// The logarithm of its normaliser, (ln Z(x) + ln Z(y)) / 2.
    pub(super) log_normalisers: Vec<f64>,
    /// Whether every row has a normaliser of its own.
    is_by_row: bool,
}

impl Normalised {
    /// Normalises the log ratios of the observed pairs by those of the other pairs. Log ratios above
    /// `limit` count as `limit`: a critic that is cut off is still a critic, and a single pair
    /// cannot dominate a normaliser.
    pub(super) fn new(pairs: &[(u32, u32)], ratios: &[f32], limit: f32) -> Self {
        let (places, count) = places(pairs);
        let place = |row: u32| places[row as usize] as usize;
        let mut sums = Sums {
            x: vec![Moments::default(); count],
            y: vec![Moments::default(); count],
            all: Moments::default(),
        };
        let mut observed: Vec<(usize, f64)> = Vec::new();
        for (&(i, j), ratio) in pairs.iter().zip(ratios) {
            let ratio = f64::from(ratio.min(limit));
            if i == j {
                observed.push((place(i), ratio));
            } else {
                sums.add(place(i), place(j), ratio.exp());
            }
        }
        let count = observed.len().max(1) as f64;
        // The noise of a single row is often too small: the rare pairs that matter are not in it.
        let noise = sums.all.noise() * count;
        let by_row: Vec<f64> = observed.iter().map(|(row, _)| sums.log_mean(*row)).collect();
        let of_all = sums.all.log_mean();
        let is_by_row = noise <= MAX_NOISE && of_all - mean(&by_row) <= MAX_DIFFERENCE;
        Normalised {
            ratios: observed.iter().map(|(_, ratio)| *ratio).collect(),
            // If no pair is as likely as the observed ones, the mean is too small.
            log_normalisers: if is_by_row { by_row } else { vec![of_all.max(0.0); observed.len()] },
            is_by_row,
        }
    }

    /// Normalises with the largest log ratio of training rows as the limit, which do not depend on
    /// these pairs. Where rows cannot be normalised one by one, a few pairs may dominate, and the
    /// quantile of training rows that gives the largest bound is used. Returns the limit, too.
    pub(super) fn with_limit_of(
        train: &[f32],
        pairs: &[(u32, u32)],
        ratios: &[f32],
    ) -> (Self, f32) {
        let mut sorted = train.to_vec();
        sorted.sort_unstable_by(f32::total_cmp);
        let with_quantile = |share: f64| {
            let place = (sorted.len().saturating_sub(1) as f64 * share) as usize;
            let limit = sorted.get(place).copied().unwrap_or(f32::INFINITY);
            (Normalised::new(pairs, ratios, limit), limit)
        };
        let mut best = with_quantile(1.0);
        if !best.0.is_by_row {
            for share in [0.99, 0.9, 0.5] {
                let other = with_quantile(share);
                if other.0.lower_bound() > best.0.lower_bound() {
                    best = other;
                }
            }
        }
        best
    }

    /// Returns the mean of the normalised log ratios, a lower bound of the mutual information.
    pub(super) fn lower_bound(&self) -> f64 {
        mean(&self.ratios) - self.offset()
    }

    /// Returns the mean of the log normalisers.
    pub(super) fn offset(&self) -> f64 {
        mean(&self.log_normalisers)
    }
}

/// Numbers the rows that occur in pairs, which can be few of a long table. Returns the number of each
/// row, and how many there are.
fn places(pairs: &[(u32, u32)]) -> (Vec<u32>, usize) {
    let rows = pairs.iter().map(|(i, j)| i.max(j)).max().map_or(0, |row| row + 1);
    let mut places = vec![u32::MAX; rows as usize];
    let mut count = 0;
    for row in pairs.iter().flat_map(|(i, j)| [*i, *j]) {
        let place = &mut places[row as usize];
        if *place == u32::MAX {
            *place = count;
            count += 1;
        }
    }
    (places, count as usize)
}

/// Returns the mean, 0 for no values.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Sums of e^l and e^2l over marginal pairs: of each x, of each y, and of all.
struct Sums {
    x: Vec<Moments>,
    y: Vec<Moments>,
    all: Moments,
}

impl Sums {
    fn add(&mut self, i: usize, j: usize, ratio: f64) {
        for moments in [&mut self.x[i], &mut self.y[j], &mut self.all] {
            moments.count += 1.0;
            moments.sum += ratio;
            moments.squares += ratio * ratio;
        }
    }

    fn log_mean(&self, row: usize) -> f64 {
        0.5 * (self.x[row].log_mean() + self.y[row].log_mean())
    }
}

#[derive(Clone, Copy, Default)]
struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    /// Returns the variance of the logarithm of the mean, v = Var(e^l) / (count mean^2), at most 1.
    fn noise(&self) -> f64 {
        let relative = self.squares * self.count / (self.sum * self.sum);
        if relative.is_finite() { ((relative - 1.0) / self.count).clamp(0.0, 1.0) } else { 1.0 }
    }

    /// Returns an estimate of the logarithm of the mean. The logarithm of a mean of a few numbers is
    /// too low by v/2 on average.
    fn log_mean(&self) -> f64 {
        (self.sum / self.count).max(f64::MIN_POSITIVE).ln() + 0.5 * self.noise()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::independence::PairedNull;
    use crate::random::{Purpose, Rng, stream};
    use rand_distr::{Distribution, StandardNormal};

    /// Returns the pairs of Gaussian rows with correlation rho in blocks of 64, with log ratios
    /// from a critic that takes the correlation to be `assumed` and adds a function of x.
    fn gaussian(rho: f64, assumed: f64, shift: fn(f64) -> f64, rng: &mut Rng) -> PairedNull {
        let mut normal = || -> f64 { StandardNormal.sample(rng) };
        let rows: Vec<(f64, f64)> = (0..2048)
            .map(|_| {
                let x = normal();
                (x, rho * x + (1.0 - rho * rho).sqrt() * normal())
            })
            .collect();
        let all: Vec<u32> = (0..rows.len() as u32).collect();
        let blocks: Vec<&[u32]> = all.chunks(64).collect();
        let mut pairs = PairedNull::within_blocks(&blocks);
        let r2 = assumed * assumed;
        let ratio = |&(i, j): &(u32, u32)| {
            let (x, y) = (rows[i as usize].0, rows[j as usize].1);
            let exponent = (2.0 * assumed * x * y - r2 * (x * x + y * y)) / (2.0 * (1.0 - r2));
            (exponent - 0.5 * (1.0 - r2).ln() + shift(x)) as f32
        };
        pairs.ratios = pairs.pairs.iter().map(ratio).collect();
        pairs
    }

    fn bounds(rho: f64, assumed: f64, shift: fn(f64) -> f64) -> (f64, f64) {
        let bounds: Vec<f64> = (0..20)
            .map(|seed| {
                let mut rng = stream(seed, Purpose::Data, 0, 0);
                let pairs = gaussian(rho, assumed, shift, &mut rng);
                Normalised::new(&pairs.pairs, &pairs.ratios, f32::INFINITY).lower_bound()
            })
            .collect();
        let center = mean(&bounds);
        let squares: f64 = bounds.iter().map(|bound| (bound - center).powi(2)).sum();
        (center, (squares / 19.0 / 20.0).sqrt())
    }

    /// For the exact ratio the bound is the mutual information; the tolerance is 4 standard errors
    /// (alpha of about 1e-3, fixed seeds) and .003 for terms of higher order.
    #[test]
    fn the_bound_of_an_exact_critic_is_the_mutual_information() {
        for rho in [0.3f64, 0.6, 0.8] {
            let truth = -0.5 * (1.0 - rho * rho).ln();
            let (bound, error) = bounds(rho, rho, |_| 0.0);
            assert!((bound - truth).abs() < 4.0 * error + 0.003, "{rho}: {bound} {truth} {error}");
        }
    }

    /// A wrong critic gives a lower value, by the divergence between the true conditional
    /// distribution and the critic's.
    #[test]
    fn the_bound_of_a_wrong_critic_is_lower() {
        let truth = -0.5 * (1.0f64 - 0.36).ln();
        for assumed in [0.3, 0.75] {
            let (bound, error) = bounds(0.6, assumed, |_| 0.0);
            assert!(bound < truth - 4.0 * error, "{assumed}: {bound} {truth} {error}");
        }
    }

    /// The critic's plain mean would be wrong by 1.5. Half of the bound is normalised over y, which
    /// removes any function of x exactly; the other half loses the divergence between p(x) and the
    /// critic's p(x), so it can only be lower.
    #[test]
    fn constants_and_functions_of_x_do_not_raise_the_bound() {
        let truth = -0.5 * (1.0f64 - 0.36).ln();
        let (bound, error) = bounds(0.6, 0.6, |_| 1.5);
        assert!((bound - truth).abs() < 4.0 * error + 0.003, "{bound} {truth}");
        let (bound, error) = bounds(0.6, 0.6, |x| 1.5 + 0.5 * x.sin());
        assert!(bound < truth + 4.0 * error && bound > truth - 0.1, "{bound} {truth}");
    }

    /// A dependence so strong that no marginal pair is likely: the plain mean is all there is.
    #[test]
    fn a_normaliser_without_likely_pairs_is_left_out() {
        let pairs: Vec<(u32, u32)> = (0..50).flat_map(|i| (0..50).map(move |j| (i, j))).collect();
        let ratios: Vec<f32> =
            pairs.iter().map(|(i, j)| if i == j { 9.0 } else { -30.0 - *j as f32 }).collect();
        let normalised = Normalised::new(&pairs, &ratios, 9.0);
        assert!((normalised.lower_bound() - 9.0).abs() < 1e-9);
        // One row in ten has a likely pair; the others have none.
        let likely = |&(i, j): &(u32, u32)| i % 10 == 0 && j == i + 1;
        let ratio = |pair: &(u32, u32)| match pair.0 == pair.1 || likely(pair) {
            true => 6.0,
            false => -8.0,
        };
        let ratios: Vec<f32> = pairs.iter().map(ratio).collect();
        assert!(Normalised::new(&pairs, &ratios, 9.0).lower_bound() <= 6.0);
    }

    /// Pairs that a critic takes for certain although they are not: the limit is lowered.
    #[test]
    fn the_limit_is_lowered_where_a_few_pairs_dominate() {
        let mut pairs = gaussian(0.6, 0.6, |_| 0.0, &mut stream(1, Purpose::Data, 0, 0));
        let train: Vec<f32> = (0..1000).map(|k| if k < 950 { 1.0 } else { 20.0 }).collect();
        for (pair, ratio) in pairs.pairs.iter().zip(&mut pairs.ratios) {
            if pair.1 == pair.0 + 1 && pair.0 % 3 == 0 {
                *ratio = 60.0;
            }
        }
        let (normalised, limit) = Normalised::with_limit_of(&train, &pairs.pairs, &pairs.ratios);
        assert_eq!(limit, 1.0);
        assert!(normalised.lower_bound() > -0.2, "{}", normalised.lower_bound());
    }

    #[test]
    fn a_single_pair_cannot_ruin_the_bound() {
        let mut pairs = gaussian(0.6, 0.6, |_| 0.0, &mut stream(1, Purpose::Data, 0, 0));
        let before = Normalised::new(&pairs.pairs, &pairs.ratios, 3.0).lower_bound();
        pairs.ratios[1] = 60.0;
        let after = Normalised::new(&pairs.pairs, &pairs.ratios, 3.0).lower_bound();
        assert!((before - after).abs() < 0.001, "{before} {after}");
    }
}

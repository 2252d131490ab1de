//! Pairings: how a batch of joint pairs is turned into marginal pairs.

use crate::error::{Result, invalid, unknown_name};
use crate::message::Parameter;
use crate::scores::PairCounts;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The choice of a y for each x such that the pairs approximate independent draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pairing {
    /// All y_j, j != i, for each x_i: N(N-1) marginal pairs.
    AllPairs,
    /// A uniformly random permutation without fixed points: N marginal pairs.
    Derangement,
    /// y_{i+1} for x_i, and the first y for the last x: a derangement without random numbers.
    Shift,
    /// A uniformly random permutation. On average one pair remains joint, which limits every
    /// estimate to ln N; it exists to demonstrate this.
    Permutation,
}

impl Pairing {
    /// All pairings.
    pub const ALL: [Pairing; 4] =
        [Pairing::AllPairs, Pairing::Derangement, Pairing::Shift, Pairing::Permutation];

    /// Returns the name used in plans.
    pub fn name(self) -> &'static str {
        match self {
            Pairing::AllPairs => "all-pairs",
            Pairing::Derangement => "derangement",
            Pairing::Shift => "shift",
            Pairing::Permutation => "permutation",
        }
    }

    /// Returns the number of pairs in a batch of `n` rows.
    pub fn counts(self, n: usize) -> PairCounts {
        let marginal = if self == Pairing::AllPairs { n * (n - 1) } else { n };
        PairCounts { joint: n, marginal }
    }

    /// Fills `partner` so that `y[partner[i]]` is paired with `x[i]`; [`Pairing::AllPairs`] leaves
    /// it empty. Fails for fewer than two rows, since a single row has no other y.
    pub fn fill(self, n: usize, rng: &mut impl rand::Rng, partner: &mut Vec<u32>) -> Result<()> {
        if n < 2 {
            return Err(invalid(
                Parameter::Batch,
                n,
                "at least 2 rows are needed to pair x with another y",
            ));
        }
        let Ok(n) = u32::try_from(n) else {
            return Err(invalid(Parameter::Batch, n, "a batch holds at most 2^32 - 1 rows"));
        };
        partner.clear();
        match self {
            Pairing::AllPairs => {}
            Pairing::Shift => partner.extend((1..n).chain([0])),
            Pairing::Permutation => {
                partner.extend(0..n);
                shuffle(partner, rng, false);
            }
            // Rejection makes the result uniform over all derangements. An attempt ends at the
            // first fixed point; about e attempts are needed on average.
            Pairing::Derangement => loop {
                partner.clear();
                partner.extend(0..n);
                if shuffle(partner, rng, true) {
                    break;
                }
            },
        }
        Ok(())
    }
}

/// Shuffles by Fisher-Yates, last element first. With `refuse_fixed_points` it stops at the first
/// fixed point and returns false.
fn shuffle(partner: &mut [u32], rng: &mut impl rand::Rng, refuse_fixed_points: bool) -> bool {
    for i in (0..partner.len()).rev() {
        let j = rng.random_range(0..=i as u32) as usize;
        partner.swap(i, j);
        if refuse_fixed_points && partner[i] as usize == i {
            return false;
        }
    }
    true
}

impl fmt::Display for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Pairing {
    type Err = crate::Error;

    fn from_str(name: &str) -> Result<Self> {
        Pairing::ALL
            .into_iter()
            .find(|pairing| pairing.name() == name)
            .ok_or_else(|| unknown_name(Parameter::Pairing, name, Pairing::ALL.map(Pairing::name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, stream};
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn partners(pairing: Pairing, n: usize, seed: u64) -> Vec<u32> {
        let mut partner = Vec::new();
        pairing.fill(n, &mut stream(seed, Purpose::Pairing, 0, 0), &mut partner).unwrap();
        partner
    }

    fn fixed_points(partner: &[u32]) -> usize {
        partner.iter().enumerate().filter(|&(i, &j)| i == j as usize).count()
    }

    proptest! {
        #[test]
        fn derangements_are_permutations_without_fixed_points(n in 2usize..200, seed: u64) {
            for pairing in [Pairing::Derangement, Pairing::Shift] {
                let partner = partners(pairing, n, seed);
                prop_assert_eq!(fixed_points(&partner), 0);
                let mut sorted = partner.clone();
                sorted.sort_unstable();
                prop_assert!(sorted.iter().enumerate().all(|(i, &j)| i == j as usize));
            }
        }
    }

    /// Lemma 5.4: the number of fixed points of a random permutation has mean 1 (and variance 1),
    /// so the mean of 20,000 lies within 1 +- 4.4/sqrt(20,000) with probability 1 - 1e-5.
    #[test]
    fn a_naive_permutation_keeps_one_joint_pair_on_average() {
        let trials = 20_000;
        let total: usize =
            (0..trials).map(|seed| fixed_points(&partners(Pairing::Permutation, 50, seed))).sum();
        let mean = total as f64 / trials as f64;
        assert!((mean - 1.0).abs() < 4.4 / (trials as f64).sqrt(), "{mean}");
    }

    /// All 9 derangements of 4 are equally likely: chi-squared with 8 degrees of freedom stays
    /// below its 1 - 1e-4 quantile, 31.83 (alpha = 1e-4, fixed seeds).
    #[test]
    fn random_derangements_are_uniform() {
        let trials = 45_000;
        let mut seen: HashMap<Vec<u32>, f64> = HashMap::new();
        for seed in 0..trials {
            *seen.entry(partners(Pairing::Derangement, 4, seed)).or_default() += 1.0;
        }
        assert_eq!(seen.len(), 9);
        let expected = trials as f64 / 9.0;
        let chi_squared: f64 = seen.values().map(|c| (c - expected).powi(2) / expected).sum();
        assert!(chi_squared < 31.83, "{chi_squared}");
    }

    #[test]
    fn one_row_is_an_error() {
        for pairing in Pairing::ALL {
            let error = pairing.fill(1, &mut stream(0, Purpose::Pairing, 0, 0), &mut Vec::new());
            assert!(error.unwrap_err().to_string().contains("at least 2"));
        }
    }

    #[test]
    fn names_round_trip() {
        for pairing in Pairing::ALL {
            assert_eq!(pairing.name().parse::<Pairing>().unwrap(), pairing);
        }
    }
}

//! Channels with a few input levels, whose capacity is known exactly.

use crate::channel::{ExactChannel, Transmission};
use crate::data::{Column, Values};
use crate::error::{Result, invalid};
use crate::message::Parameter;
use crate::nats::Nats;
use crate::random::Rng;
use rand::RngExt;
use rand_distr::weighted::WeightedIndex;
use rand_distr::{Distribution, Normal, Poisson};
use statrs::function::factorial::ln_factorial;

/// The tolerance of exact capacities, in nats.
const TOLERANCE: f64 = 1e-9;

/// The distance between amplitudes in standard deviations of the noise, and the rate, up to which
/// channels can be integrated.
const MAX_DISTANCE: f64 = 10_000.0;
const MAX_RATE: f64 = 100_000.0;

/// A channel with a discrete input, its sampler and its exact capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelScenario {
    /// The value of each level.
    levels: Vec<f64>,
    noise: Noise,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Noise {
    /// A bit is flipped with these probabilities, that of 0 and that of 1.
    Flips(f64, f64),
    /// Normal noise with this standard deviation is added.
    Normal(f64),
    /// The output is a count with the level as its mean.
    Counts,
}

impl ChannelScenario {
    /// Returns the binary symmetric channel: bits that are flipped with probability `error`.
    ///
    /// ```
    /// let channel = fdime::scenario::ChannelScenario::binary_symmetric(0.11)?;
    /// assert!((channel.capacity().bits() - 0.5).abs() < 1e-4);
    /// # Ok::<(), fdime::Error>(())
    /// ```
    pub fn binary_symmetric(error: f64) -> Result<Self> {
        Self::bits(error, error, error)
    }

    /// Returns the Z-channel: a 0 always arrives, a 1 becomes 0 with probability `error`.
    pub fn z(error: f64) -> Result<Self> {
        Self::bits(0.0, error, error)
    }

    fn bits(of_zero: f64, of_one: f64, given: f64) -> Result<Self> {
        if !(0.0..=1.0).contains(&given) {
            return Err(invalid(Parameter::Scenario, given, "must be a probability from 0 to 1"));
        }
        Ok(ChannelScenario { levels: vec![0.0, 1.0], noise: Noise::Flips(of_zero, of_one) })
    }

    /// Returns a channel that adds normal noise with this standard deviation to the amplitudes.
    pub fn gaussian(amplitudes: &[f64], noise: f64) -> Result<Self> {
        if !(noise > 0.0 && noise.is_finite()) {
            return Err(invalid(Parameter::Scenario, noise, "noise needs a deviation above 0"));
        }
        let (low, high) = checked_range(amplitudes)?;
        if (high - low) / noise > MAX_DISTANCE {
            let expected = format!("amplitudes at most {MAX_DISTANCE} deviations apart");
            return Err(invalid(Parameter::Levels, high, expected));
        }
        Ok(ChannelScenario { levels: amplitudes.to_vec(), noise: Noise::Normal(noise) })
    }

    /// Returns a channel whose output is a Poisson count with the level as its mean.
    pub fn poisson(rates: &[f64]) -> Result<Self> {
        let (low, high) = checked_range(rates)?;
        if low < 0.0 || high > MAX_RATE {
            let given = if low < 0.0 { low } else { high };
            return Err(invalid(
                Parameter::Levels,
                given,
                format!("must be rates from 0 to {MAX_RATE}"),
            ));
        }
        Ok(ChannelScenario { levels: rates.to_vec(), noise: Noise::Counts })
    }

    /// Returns the value of each level.
    pub fn levels(&self) -> &[f64] {
        &self.levels
    }

    /// Returns the capacity.
    pub fn capacity(&self) -> Nats {
        Nats(self.optimum().information)
    }

    /// Returns the input distribution that reaches the capacity.
    pub fn optimum(&self) -> Transmission {
        self.exact().optimum(TOLERANCE)
    }

    /// Returns the mutual information of input and output for the given shares of the levels.
    pub fn mutual_information(&self, shares: &[f64]) -> Nats {
        Nats(self.exact().transmission(shares.to_vec()).information)
    }

    /// Returns the exact channel: all outputs with their probabilities. Normal noise is a fine grid,
    /// for which sums of smooth functions are integrals (see the trapezoidal rule).
    pub fn exact(&self) -> ExactChannel {
        let (low, high) = range(&self.levels);
        let of_level = |&level: &f64| -> Vec<f64> {
            match self.noise {
                Noise::Flips(of_zero, of_one) => match level > 0.0 {
                    true => vec![of_one, 1.0 - of_one],
                    false => vec![1.0 - of_zero, of_zero],
                },
                Noise::Normal(deviation) => {
                    const STEP: f64 = 0.125;
                    const TAIL: f64 = 9.0;
                    let count = ((high - low) / deviation + 2.0 * TAIL) / STEP;
                    let place = |k: usize| (low - level) / deviation - TAIL + k as f64 * STEP;
                    let scale = STEP / std::f64::consts::TAU.sqrt();
                    let density = |z: f64| scale * (-0.5 * z * z).exp();
                    (0..=count as usize).map(|k| density(place(k))).collect()
                }
                Noise::Counts => {
                    let most = (high + 12.0 * high.sqrt() + 40.0) as u64;
                    let log = |r: u64| r as f64 * level.ln() - level - ln_factorial(r);
                    let probability = |r: u64| match level > 0.0 {
                        true => log(r).exp(),
                        false => f64::from(u8::from(r == 0)),
                    };
                    (0..=most).map(probability).collect()
                }
            }
        };
        ExactChannel::new(&self.levels.iter().map(of_level).collect::<Vec<_>>())
    }

    /// Draws rows with these shares of the levels. Returns the columns `input` and `output`, both of
    /// numbers.
    ///
    /// # Errors
    /// Shares that are not one number of at least 0 for each level.
    pub fn sample(&self, shares: &[f64], rows: usize, rng: &mut Rng) -> Result<(Column, Column)> {
        let expected = "one share of at least 0 for each level";
        let refused = || invalid(Parameter::Levels, format!("{shares:?}"), expected);
        let choice = WeightedIndex::new(shares).map_err(|_| refused())?;
        if shares.len() != self.levels.len() {
            return Err(refused());
        }
        let input: Vec<f64> = (0..rows).map(|_| self.levels[choice.sample(rng)]).collect();
        let output = input.iter().map(|level| self.draw(*level, rng)).collect();
        let column =
            |name: &str, values| Column { name: name.into(), values: Values::Continuous(values) };
        Ok((column("input", input), column("output", output)))
    }

    /// Returns an output of a level.
    fn draw(&self, level: f64, rng: &mut Rng) -> f64 {
        match self.noise {
            Noise::Flips(of_zero, of_one) => {
                let flips = rng.random_bool(if level > 0.0 { of_one } else { of_zero });
                if flips { 1.0 - level } else { level }
            }
            // Both distributions exist: their parameters were checked.
            Noise::Normal(deviation) => {
                Normal::new(level, deviation).map_or(level, |d| d.sample(rng))
            }
            Noise::Counts => Poisson::new(level).map_or(0.0, |counts| counts.sample(rng)),
        }
    }
}

/// Returns the smallest and the largest of at least two finite levels.
fn checked_range(levels: &[f64]) -> Result<(f64, f64)> {
    if levels.len() < 2 || !levels.iter().all(|level| level.is_finite()) {
        return Err(invalid(Parameter::Levels, format!("{levels:?}"), "give two or more numbers"));
    }
    Ok(range(levels))
}

fn range(levels: &[f64]) -> (f64, f64) {
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    levels.iter().fold(ends, |(low, high), level| (low.min(*level), high.max(*level)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, stream};

    fn entropy(p: f64) -> f64 {
        -p * p.ln() - (1.0 - p) * (1.0 - p).ln()
    }

    #[test]
    fn bits_have_the_capacity_of_the_closed_forms() {
        for p in [0.01f64, 0.1, 0.3, 0.5] {
            let symmetric = ChannelScenario::binary_symmetric(p).unwrap().capacity().0;
            assert!((symmetric - (2f64.ln() - entropy(p))).abs() < 1e-8, "{p}: {symmetric}");
            let z = ChannelScenario::z(p).unwrap().capacity().0;
            let exact = (1.0 + (1.0 - p) * p.powf(p / (1.0 - p))).ln();
            assert!((z - exact).abs() < 1e-8, "{p}: {z} {exact}");
        }
    }

    /// Amplitudes far apart are a channel without noise, and amplitudes close together have the
    /// information of small signals, variance / 2 for two at +-a: a^2 / 2.
    #[test]
    fn amplitudes_range_from_no_information_to_ln_k() {
        let far = ChannelScenario::gaussian(&[0.0, 30.0, 60.0], 1.0).unwrap();
        assert!((far.capacity().0 - 3f64.ln()).abs() < 1e-7);
        let near = ChannelScenario::gaussian(&[-0.05, 0.05], 1.0).unwrap();
        assert!((near.capacity().0 / 0.00125 - 1.0).abs() < 0.01, "{}", near.capacity());
        let scaled = ChannelScenario::gaussian(&[-5.0, 5.0], 100.0).unwrap();
        assert!((near.capacity().0 - scaled.capacity().0).abs() < 1e-9);
    }

    /// A rate of 0 and one of r are a Z-channel whose error is e^-r.
    #[test]
    fn counts_of_zero_and_some_are_a_z_channel() {
        for rate in [0.2f64, 1.0, 3.0] {
            let counts = ChannelScenario::poisson(&[0.0, rate]).unwrap().capacity().0;
            let z = ChannelScenario::z((-rate).exp()).unwrap().capacity().0;
            assert!((counts - z).abs() < 1e-8, "{rate}: {counts} {z}");
        }
    }

    /// The mean log ratio of samples is the mutual information: 4 standard errors (alpha of about
    /// 6e-5 each, fixed seeds).
    #[test]
    fn samples_have_the_distribution_that_the_truth_is_computed_from() {
        let shares = [0.2, 0.5, 0.3];
        let normal = ChannelScenario::gaussian(&[-1.0, 0.0, 2.0], 0.8).unwrap();
        let counts = ChannelScenario::poisson(&[0.0, 2.0, 7.0]).unwrap();
        let density = |noise: Noise, level: f64, r: f64| match noise {
            Noise::Normal(deviation) => (-0.5 * ((r - level) / deviation).powi(2)).exp(),
            _ if level == 0.0 => f64::from(u8::from(r == 0.0)),
            _ => (r * level.ln() - level - ln_factorial(r as u64)).exp(),
        };
        for (seed, channel) in [normal, counts].into_iter().enumerate() {
            let mut rng = stream(seed as u64, Purpose::Data, 0, 0);
            let (input, output) = channel.sample(&shares, 20_000, &mut rng).unwrap();
            let (Values::Continuous(s), Values::Continuous(r)) = (input.values, output.values)
            else {
                panic!("numbers")
            };
            let ratios: Vec<f64> = s
                .iter()
                .zip(&r)
                .map(|(s, r)| {
                    let of = |level: f64| density(channel.noise, level, *r);
                    let levels = channel.levels.iter().zip(&shares);
                    (of(*s) / levels.map(|(level, share)| share * of(*level)).sum::<f64>()).ln()
                })
                .collect();
            let mean = ratios.iter().sum::<f64>() / 2e4;
            let variance = ratios.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / 2e4;
            let exact = channel.mutual_information(&shares).0;
            assert!((mean - exact).abs() < 4.0 * (variance / 2e4).sqrt(), "{mean} {exact}");
        }
    }

    #[test]
    fn impossible_channels_are_refused() {
        assert!(
            ChannelScenario::z(1.5).is_err() && ChannelScenario::binary_symmetric(-0.1).is_err()
        );
        assert!(ChannelScenario::gaussian(&[1.0], 1.0).is_err());
        assert!(ChannelScenario::gaussian(&[0.0, 1.0], 0.0).is_err());
        assert!(ChannelScenario::gaussian(&[0.0, 1e9], 1.0).is_err());
        assert!(ChannelScenario::poisson(&[-1.0, 1.0]).is_err());
        let channel = ChannelScenario::z(0.1).unwrap();
        let mut rng = stream(0, Purpose::Data, 0, 0);
        for shares in [&[1.0][..], &[0.0, 0.0], &[-1.0, 2.0], &[0.5, 0.2, 0.3]] {
            assert!(channel.sample(shares, 10, &mut rng).is_err(), "{shares:?}");
        }
    }
}

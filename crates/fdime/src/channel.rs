//! Channels with a discrete input, and the input distribution that reaches their capacity.
//!
//! A channel takes a level s and returns an output r with probability p(r|s). If levels are chosen
//! with probabilities q, output and level share
//!
//! `I(q) = sum_s q(s) D_s,  D_s = E_{r|s} ln [p(r|s) / sum_t q(t) p(r|t)]`
//!
//! and the capacity is the largest I(q). The algorithm of Blahut and Arimoto replaces q(s) by
//! q(s) e^{D_s} until all levels in use have the same D_s and no other level has more: the capacity
//! is between I(q) and the largest D_s.
//!
//! [`Outputs`] has the likelihoods and [`Channel`] the outputs that E_{r|s} is taken over. Those of an
//! exact channel are all outputs with their probabilities, those of a sample the rows of each level.
//! Only ratios of likelihoods matter, so learned ratios p(r|s)/p(r) serve as well. If they are wrong,
//! I(q) is lower, by the divergence between the true p(s|r) and q(s) p(r|s) / sum_t q(t) p(r|t).

/// The maximum number of iterations.
const MAX_ITERATIONS: usize = 20_000;

/// The factor by which a step of the iteration grows after each success.
const GROWTH: f64 = 1.5;

/// The smallest logarithm of a likelihood in proportion to that of the likeliest level, so that a
/// learned ratio cannot make an observed output impossible.
const MIN_LOG_LIKELIHOOD: f64 = -700.0;

/// The likelihoods of outputs under every level of the input.
#[derive(Clone, Debug)]
pub struct Outputs {
    levels: usize,
    /// Output by output, in proportion to that of the likeliest level.
    likelihoods: Vec<f64>,
}

impl Outputs {
    /// Creates outputs from ln p(r|s), output by output. A constant may be added to all levels of an
    /// output.
    pub fn new(levels: usize, mut log_likelihoods: Vec<f64>) -> Self {
        for output in log_likelihoods.chunks_exact_mut(levels) {
            let largest = output.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            for value in output {
                *value = match *value {
                    // Impossible under this level.
                    f64::NEG_INFINITY => 0.0,
                    finite => (finite - largest).max(MIN_LOG_LIKELIHOOD).exp(),
                };
            }
        }
        Outputs { levels, likelihoods: log_likelihoods }
    }

    fn of(&self, output: u32) -> &[f64] {
        &self.likelihoods[output as usize * self.levels..][..self.levels]
    }

    /// Returns ln sum_t q(t) p(r|t).
    fn log_mixture(&self, output: u32, input: &[f64]) -> f64 {
        let sum: f64 = self.of(output).iter().zip(input).map(|(p, q)| p * q).sum();
        sum.max(f64::MIN_POSITIVE).ln()
    }
}

/// An output of a level, with its weight in the mean over the outputs of this level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// The position of the output.
    pub output: u32,
    /// The level.
    pub level: u32,
    /// The weight.
    pub weight: f64,
}

/// Outputs, and how often each level gives them.
#[derive(Clone, Debug)]
pub struct Channel<'a> {
    outputs: &'a Outputs,
    /// Weights sum to 1 for each level.
    draws: Vec<Draw>,
    /// The mean of ln p(r|s) over the outputs of each level.
    own: Vec<f64>,
}

/// An input distribution with the information that it transmits.
#[derive(Clone, Debug, PartialEq)]
pub struct Transmission {
    /// The probability q(s) of each level.
    pub input: Vec<f64>,
    /// D_s of each level, in nats.
    pub divergences: Vec<f64>,
    /// I(q) in nats.
    pub information: f64,
}

impl Transmission {
    /// Returns how much the capacity can be above the information: max_s D_s - I(q).
    pub fn gap(&self) -> f64 {
        self.divergences.iter().copied().fold(f64::NEG_INFINITY, f64::max) - self.information
    }

    /// Returns q(s) e^{step D_s}, normalised. Blahut's and Arimoto's step is 1.
    fn next_input(&self, step: f64) -> Vec<f64> {
        let largest = self.divergences.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let raised = self.input.iter().zip(&self.divergences);
        let raised: Vec<f64> = raised.map(|(q, d)| q * (step * (d - largest)).exp()).collect();
        let sum: f64 = raised.iter().sum();
        raised.into_iter().map(|q| q / sum).collect()
    }
}

impl<'a> Channel<'a> {
    /// Creates a channel from drawn outputs, whose weights are normalised for each level. Every level
    /// needs an output with a positive weight.
    pub fn new(outputs: &'a Outputs, draws: impl IntoIterator<Item = Draw>) -> Self {
        let levels = outputs.levels;
        let mut draws = merged(outputs, draws.into_iter().filter(|draw| draw.weight > 0.0));
        let mut totals = vec![0.0; levels];
        draws.iter().for_each(|draw| totals[draw.level as usize] += draw.weight);
        let mut own = vec![0.0; levels];
        for draw in &mut draws {
            let level = draw.level as usize;
            draw.weight /= totals[level];
            own[level] += draw.weight * outputs.of(draw.output)[level].ln();
        }
        Channel { outputs, draws, own }
    }

    /// Returns I(q) and D_s for the input distribution q.
    pub fn transmission(&self, input: Vec<f64>) -> Transmission {
        let mut divergences = self.own.clone();
        let mut known = (u32::MAX, 0.0);
        for draw in &self.draws {
            if draw.output != known.0 {
                known = (draw.output, self.outputs.log_mixture(draw.output, &input));
            }
            divergences[draw.level as usize] -= draw.weight * known.1;
        }
        let information = input.iter().zip(&divergences).map(|(q, d)| q * d).sum();
        Transmission { input, divergences, information }
    }

    /// Returns the input distribution that reaches the capacity, to within `tolerance` nats, by the
    /// algorithm of Blahut and Arimoto from a distribution without zeros. Steps grow as long as they
    /// reduce the gap, because steps of 1 are small where levels are hard to tell apart.
    pub fn blahut_arimoto(&self, start: Vec<f64>, tolerance: f64) -> Transmission {
        let mut best = self.transmission(start);
        let mut step = 1.0;
        for _ in 0..MAX_ITERATIONS {
            if best.gap() < tolerance {
                break;
            }
            let next = self.transmission(best.next_input(step));
            // A step of 1 cannot lower I(q) if likelihoods are exact, even where it widens the gap.
            if step == 1.0 || next.gap() < best.gap() {
                best = next;
                step *= GROWTH;
            } else {
                step = (0.5 * step).max(1.0);
            }
        }
        best
    }

    /// Returns for all pairs of levels, row by row, the information in nats about a fair choice
    /// between the two: between 0 and ln 2 if likelihoods are exact, and 0 for a level and itself.
    pub fn pairwise_information(&self) -> Vec<f64> {
        let levels = self.outputs.levels;
        let mut by_level: Vec<Vec<&Draw>> = vec![Vec::new(); levels];
        self.draws.iter().for_each(|draw| by_level[draw.level as usize].push(draw));
        // E_{r|s} ln [p(r|s) / (p(r|s)/2 + p(r|t)/2)]
        let divergence = |s: usize, t: usize| -> f64 {
            let draws = by_level[s].iter();
            let sum = draws.map(|draw| {
                let likelihoods = self.outputs.of(draw.output);
                let ratio = likelihoods[t] / likelihoods[s];
                draw.weight * (std::f64::consts::LN_2 - ratio.ln_1p())
            });
            sum.sum()
        };
        let mut pairs = vec![0.0; levels * levels];
        for s in 0..levels {
            for t in 0..s {
                let information = 0.5 * (divergence(s, t) + divergence(t, s));
                pairs[s * levels + t] = information;
                pairs[t * levels + s] = information;
            }
        }
        pairs
    }
}

/// Adds up the weights of equal outputs and levels where there are fewer of them than draws.
fn merged(outputs: &Outputs, draws: impl Iterator<Item = Draw>) -> Vec<Draw> {
    let draws: Vec<Draw> = draws.collect();
    let levels = outputs.levels;
    if outputs.likelihoods.len() >= draws.len() {
        return draws;
    }
    let mut weights = vec![0.0; outputs.likelihoods.len()];
    for draw in draws {
        weights[draw.output as usize * levels + draw.level as usize] += draw.weight;
    }
    let cells = weights.into_iter().enumerate().filter(|(_, weight)| *weight > 0.0);
    let draw = |(cell, weight): (usize, f64)| Draw {
        output: (cell / levels) as u32,
        level: (cell % levels) as u32,
        weight,
    };
    cells.map(draw).collect()
}

/// A channel whose probabilities are known.
#[derive(Clone, Debug)]
pub struct ExactChannel {
    outputs: Outputs,
    draws: Vec<Draw>,
}

impl ExactChannel {
    /// Creates a channel from p(r|s), level by level. The probabilities of a level sum to 1.
    pub fn new(probabilities: &[Vec<f64>]) -> Self {
        let (levels, count) = (probabilities.len(), probabilities.first().map_or(0, Vec::len));
        let cells = || (0..count).flat_map(|r| (0..levels).map(move |s| (r, s)));
        let logs = cells().map(|(r, s)| probabilities[s][r].ln()).collect();
        let draw = |(r, s): (usize, usize)| Draw {
            output: r as u32,
            level: s as u32,
            weight: probabilities[s][r],
        };
        ExactChannel { outputs: Outputs::new(levels, logs), draws: cells().map(draw).collect() }
    }

    /// Returns the information that an input distribution transmits.
    pub fn transmission(&self, input: Vec<f64>) -> Transmission {
        self.channel().transmission(input)
    }

    /// Returns the input distribution that reaches the capacity, to within `tolerance` nats.
    pub fn optimum(&self, tolerance: f64) -> Transmission {
        self.channel().blahut_arimoto(uniform(self.outputs.levels), tolerance)
    }

    /// Returns the channel as outputs and their draws.
    pub fn channel(&self) -> Channel<'_> {
        Channel::new(&self.outputs, self.draws.iter().copied())
    }
}

/// Returns equal probabilities.
pub(crate) fn uniform(levels: usize) -> Vec<f64> {
    vec![1.0 / levels as f64; levels]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TOLERANCE: f64 = 1e-9;

    fn exact(probabilities: &[&[f64]]) -> ExactChannel {
        ExactChannel::new(&probabilities.iter().map(|level| level.to_vec()).collect::<Vec<_>>())
    }

    /// A binary erasure channel has the capacity (1 - e) ln 2; four keys of which each may give its
    /// neighbour ln 2; a channel without noise ln k; one that ignores its input 0.
    #[test]
    fn known_channels_have_their_capacity() {
        let erasure = exact(&[&[0.7, 0.3, 0.0], &[0.0, 0.3, 0.7]]);
        let typewriter = exact(&[
            &[0.5, 0.5, 0.0, 0.0],
            &[0.0, 0.5, 0.5, 0.0],
            &[0.0, 0.0, 0.5, 0.5],
            &[0.5, 0.0, 0.0, 0.5],
        ]);
        let noiseless = exact(&[&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0]]);
        let deaf = exact(&[&[0.2, 0.8], &[0.2, 0.8]]);
        let ln_2 = std::f64::consts::LN_2;
        let cases =
            [(erasure, 0.7 * ln_2), (typewriter, ln_2), (noiseless, 3f64.ln()), (deaf, 0.0)];
        for (channel, capacity) in cases {
            let found = channel.optimum(TOLERANCE);
            assert!((found.information - capacity).abs() < 1e-8, "{found:?} {capacity}");
        }
    }

    /// The middle level of three is the mixture of the others, so it is not needed.
    #[test]
    fn a_level_between_others_is_not_used() {
        let found = exact(&[&[0.9, 0.1], &[0.5, 0.5], &[0.1, 0.9]]).optimum(TOLERANCE);
        assert!(found.input[1] < 1e-6 && (found.input[0] - 0.5).abs() < 1e-6, "{found:?}");
        assert!(found.divergences[1] < 0.01 && found.gap() < TOLERANCE);
    }

    /// Levels that are hard to tell apart take many steps of 1.
    #[test]
    fn noisy_channels_converge() {
        let found =
            exact(&[&[0.51, 0.29, 0.2], &[0.49, 0.3, 0.21], &[0.48, 0.3, 0.22]]).optimum(1e-12);
        assert!(found.gap() < 1e-12, "{found:?}");
    }

    /// Draws give the same channel as the shares of rows that they are.
    #[test]
    fn draws_are_an_exact_channel_with_their_frequencies() {
        let outputs = Outputs::new(2, vec![0.6f64.ln(), 0.3f64.ln(), 0.4f64.ln(), 0.7f64.ln()]);
        let rows = [(0, 0, 6), (1, 0, 4), (0, 1, 6), (1, 1, 14)];
        let draws = rows.iter().flat_map(|&(output, level, count)| {
            (0..count).map(move |_| Draw { output, level, weight: 1.0 })
        });
        let found = Channel::new(&outputs, draws).blahut_arimoto(uniform(2), TOLERANCE);
        let expected = exact(&[&[0.6, 0.4], &[0.3, 0.7]]).optimum(TOLERANCE);
        assert!((found.information - expected.information).abs() < 1e-8);
        assert!((found.input[0] - expected.input[0]).abs() < 1e-6);
    }

    /// Wrong likelihoods lower the information for every input distribution.
    #[test]
    fn wrong_likelihoods_lower_the_information() {
        let truth = exact(&[&[0.8, 0.2], &[0.3, 0.7]]);
        let wrong = Outputs::new(2, [0.6, 0.1, 0.4, 0.9].map(f64::ln).to_vec());
        for q in [0.1, 0.4, 0.8] {
            let input = vec![q, 1.0 - q];
            let learned = Channel::new(&wrong, truth.draws.iter().copied());
            let learned = learned.transmission(input.clone()).information;
            assert!(learned < truth.transmission(input).information, "{q}");
        }
    }

    #[test]
    fn impossible_outputs_stay_finite() {
        let outputs = Outputs::new(2, vec![-5000.0, 0.0, 0.0, f64::NEG_INFINITY]);
        let draws =
            [(0, 0), (0, 1), (1, 0)].map(|(output, level)| Draw { output, level, weight: 1.0 });
        let channel = Channel::new(&outputs, draws);
        let found = channel.blahut_arimoto(uniform(2), TOLERANCE);
        assert!(found.information.is_finite() && found.input.iter().all(|q| q.is_finite()));
        assert!(channel.pairwise_information().iter().all(|value| value.is_finite()));
    }

    fn channels() -> impl Strategy<Value = Vec<Vec<f64>>> {
        (2usize..6, 2usize..7).prop_flat_map(|(levels, outputs)| {
            let level = proptest::collection::vec(0.01f64..1.0, outputs).prop_map(|weights| {
                let sum: f64 = weights.iter().sum();
                weights.into_iter().map(|weight| weight / sum).collect::<Vec<f64>>()
            });
            proptest::collection::vec(level, levels)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn capacity_is_between_that_of_pairs_and_the_entropy(p in channels()) {
            let channel = ExactChannel::new(&p);
            let found = channel.optimum(1e-7);
            prop_assert!(found.gap() < 1e-7, "{:?}", found);
            prop_assert!((found.input.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let pairs = channel.channel().pairwise_information();
            let largest = pairs.iter().copied().fold(0.0, f64::max);
            prop_assert!(pairs.iter().all(|&pair| (-1e-9..=std::f64::consts::LN_2).contains(&pair)));
            prop_assert!(found.information > largest - 1e-6);
            prop_assert!(found.information < (p.len() as f64).ln() + 1e-9);
            let even = channel.transmission(uniform(p.len())).information;
            prop_assert!(found.information > even - 1e-6);
        }

        #[test]
        fn the_order_of_levels_and_outputs_does_not_matter(p in channels()) {
            let mut turned: Vec<Vec<f64>> = p.iter().rev().cloned().collect();
            turned.iter_mut().for_each(|level| level.rotate_left(1));
            let (one, other) = (ExactChannel::new(&p).optimum(1e-9), ExactChannel::new(&turned).optimum(1e-9));
            prop_assert!((one.information - other.information).abs() < 1e-8);
            let reversed: Vec<f64> = other.divergences.iter().rev().copied().collect();
            for (one, other) in one.divergences.iter().zip(reversed) {
                prop_assert!((one - other).abs() < 1e-3);
            }
        }
    }
}

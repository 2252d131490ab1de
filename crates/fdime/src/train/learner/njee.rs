//! NJEE: mutual information as a difference of entropies that classifiers estimate.
//!
//! I(X; Y) = H(X_1) + sum over m = 2..d of CE(X_m | X_1..X_{m-1})
//!                  - sum over m = 1..d of CE(X_m | Y, X_1..X_{m-1})
//!
//! Within a batch, every component of x is cut into N - 1 equiprobable bins, which the classifiers
//! predict; CE is their cross-entropy, and H(X_1) the plug-in entropy of the bins with the
//! correction of Miller and Madow. The 2d - 1 classifiers share no parameters, so training them
//! together on the sum of their log-likelihoods trains each of them independently.

use super::Learner;
use crate::critic::{Batch, CHUNK, GradientParts, check_hidden};
use crate::error::{Error, Result};
use crate::message::Parameter;
use crate::nats::Nats;
use crate::nn::{Activation, Mlp, MlpScratch, Part, Transposed, Write};
use crate::numerics::Real;
use crate::parallel::Workers;
use crate::random::{Purpose, Rng, stream};
use crate::train::HeldOut;
use multiversion::multiversion;
use serde::{Deserialize, Serialize};

/// The classifiers of NJEE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NjeePlan {
    /// The widths of each classifier's hidden layers.
    pub hidden: Vec<usize>,
    /// The nonlinearity of hidden layers.
    pub activation: Activation,
}

impl NjeePlan {
    pub(super) fn check(&self) -> Result<()> {
        check_hidden(&self.hidden)
    }

    /// Estimates the memory, in bytes, of training: parameters with gradients, moments and a
    /// transposed copy.
    pub(super) fn memory(&self, (x_dim, y_dim): (usize, usize), n: usize) -> f64 {
        let (d, widths) = (x_dim as f64, self.hidden.iter().map(|width| *width as f64));
        let widths: Vec<f64> = widths.chain([n as f64]).collect();
        let inputs = d * (d - 1.0) + d * y_dim as f64;
        let between: f64 = widths.windows(2).map(|pair| pair[0] * pair[1]).sum();
        4.0 * (5.0 * (inputs * widths[0] + (2.0 * d - 1.0) * between)
            + n as f64 * (x_dim + y_dim) as f64)
    }

    pub(super) fn build(&self, dims: (usize, usize), n: usize, seed: u64, threads: usize) -> Njee {
        Njee::new(self, dims, n, &mut stream(seed, Purpose::Parameters, 0, 0), threads)
    }

    /// Returns the initial parameters of each classifier.
    #[cfg(feature = "cuda")]
    pub(crate) fn initial_parameters(
        &self,
        dims: (usize, usize),
        n: usize,
        seed: u64,
    ) -> Vec<Vec<f32>> {
        let Njee { classifiers, parameters, .. } = self.build(dims, n, seed, 1);
        let of = |c: &Classifier| parameters[c.offset..][..c.mlp.parameter_count()].to_vec();
        classifiers.iter().map(of).collect()
    }
}

/// Returns the number of bins of each component for batches of `n` rows.
pub(crate) fn bin_count(n: usize) -> usize {
    n.saturating_sub(FEWER_BINS).max(2)
}

/// Returns the component that each classifier predicts, and whether it uses y.
pub(crate) fn classifiers(x_dim: usize) -> impl Iterator<Item = (usize, bool)> {
    let without_y = (1..x_dim).map(|component| (component, false));
    without_y.chain((0..x_dim).map(|component| (component, true)))
}

/// The number of bins is the batch size minus this.
const FEWER_BINS: usize = 1;

/// The scale of initial weights: as in PyTorch's layers.
const INITIAL_SCALE: f32 = 1.0;

/// The classifiers in training.
pub(super) struct Njee {
    classifiers: Vec<Classifier>,
    parameters: Vec<f32>,
    parts: Vec<Part>,
    /// The buffers of each thread.
    scratch: Vec<MlpScratch>,
    bins: Bins,
    passes: u64,
    estimate: Nats,
}

/// Predicts the bin of one component from those before it and, if `uses_y`, from y.
struct Classifier {
    mlp: Mlp,
    transposed: Transposed,
    component: usize,
    uses_y: bool,
    /// The start of its parameters in the flat buffer.
    offset: usize,
}

impl Njee {
    fn new(
        plan: &NjeePlan,
        (x_dim, y_dim): (usize, usize),
        n: usize,
        rng: &mut Rng,
        threads: usize,
    ) -> Self {
        let bins = bin_count(n);
        let (mut classifiers, mut parameters) = (Vec::new(), Vec::new());
        for (component, uses_y) in self::classifiers(x_dim) {
            let inputs = component + if uses_y { y_dim } else { 0 };
            let mlp = Mlp::new(inputs, &plan.hidden, bins, plan.activation);
            let offset = parameters.len();
            parameters.resize(offset + mlp.parameter_count(), 0.0);
            mlp.initialise(&mut parameters[offset..], INITIAL_SCALE, rng);
            let transposed = mlp.transposed();
            classifiers.push(Classifier { mlp, transposed, component, uses_y, offset });
        }
        let parts = classifiers
            .iter()
            .map(|classifier| Part::new(classifier.offset, classifier.mlp.parameter_count()))
            .collect();
        // The last classifier has the most inputs, so its memory is large enough for all.
        let scratch = |last: &Classifier| last.mlp.scratch(CHUNK.min(n));
        Njee {
            scratch: (0..threads).flat_map(|_| classifiers.last().map(scratch)).collect(),
            classifiers,
            parameters,
            parts,
            bins: Bins::new(bins, n, x_dim),
            passes: 0,
            estimate: Nats(0.0),
        }
    }
}

impl Learner for Njee {
    /// The objective is the log-likelihood of the batch, summed over the classifiers.
    fn pass(&mut self, batch: &Batch, workers: &mut Workers) -> f64 {
        self.passes += 1;
        self.bins.cut(batch);
        let Njee { classifiers, parameters, parts, scratch, bins, passes, estimate } = self;
        workers.for_each(classifiers, parts, scratch, |_, classifier, part, scratch| {
            let parameters = &parameters[classifier.offset..][..part.gradient.len()];
            classifier.mlp.update_transposed(parameters, *passes, &mut classifier.transposed);
            part.value = classifier.pass(parameters, batch, bins, &mut part.gradient, scratch);
        });
        let log_likelihood = parts.iter().map(|part| part.value).sum::<f64>();
        // CE = -log-likelihood
        let conditional: f64 = classifiers
            .iter()
            .zip(&*parts)
            .map(|(classifier, part)| if classifier.uses_y { part.value } else { -part.value })
            .sum();
        *estimate = Nats(bins.first_entropy(batch.n) + conditional);
        log_likelihood
    }

    fn estimate(&self) -> Nats {
        self.estimate
    }

    fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    fn parameters_and_gradient(&mut self) -> (&mut [f32], GradientParts<'_>) {
        (&mut self.parameters, GradientParts(&self.parts))
    }

    fn operations(&self) -> f64 {
        let row = |mlp: &Mlp| 3 * mlp.multiply_adds(0..mlp.layers()) - mlp.multiply_adds(0..1);
        let rows = self.bins.labels.len() as f64 / self.bins.components as f64;
        2.0 * rows * self.classifiers.iter().map(|c| row(&c.mlp) as f64).sum::<f64>()
    }

    fn held_out_value(&mut self, _held_out: HeldOut) -> Result<f64> {
        Err(Error::Incompatible {
            parameter: Parameter::Estimator,
            value: "njee".into(),
            other: "rows of a table".into(),
            reason: "it needs fresh samples at every step".into(),
        })
    }
}

impl Classifier {
    /// Writes the gradient of the mean log-likelihood of this component's bins, and returns it.
    fn pass(
        &self,
        parameters: &[f32],
        batch: &Batch,
        bins: &Bins,
        gradient: &mut [f32],
        scratch: &mut MlpScratch,
    ) -> f64 {
        let (x_dim, y_dim) = batch.dims;
        let (inputs, layers) = (self.mlp.width(0), self.mlp.layers());
        let weight = 1.0 / batch.n as f32;
        let labels = &bins.labels[self.component * batch.n..][..batch.n];
        let (mut value, mut write) = (0.0, Write::Replace);
        for start in (0..batch.n).step_by(CHUNK) {
            let rows = CHUNK.min(batch.n - start);
            let input = &mut scratch.activations[0];
            for (row, input) in input[..rows * inputs].chunks_exact_mut(inputs).enumerate() {
                let (x, y) = input.split_at_mut(self.component);
                let i = start + row;
                x.copy_from_slice(&batch.x[i * x_dim..][..self.component]);
                if self.uses_y {
                    y.copy_from_slice(&batch.y[i * y_dim..][..y_dim]);
                }
            }
            self.mlp.forward(parameters, 0, rows, None, scratch);
            let logits = scratch.activations[layers].chunks_exact(bins.count);
            let score_gradients = scratch.gradient.chunks_exact_mut(bins.count);
            let labels = &labels[start..start + rows];
            for ((logits, gradient), &label) in logits.zip(score_gradients).zip(labels) {
                let likelihood = log_likelihood(logits, label as usize, weight, gradient);
                value += f64::from(weight) * f64::from(likelihood);
            }
            self.mlp.backward(&self.transposed, 0, rows, write, gradient, scratch);
            write = Write::Add;
        }
        value
    }
}

/// Returns `ln softmax(logits)[label]` and writes `weight` times its gradient.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn log_likelihood(logits: &[f32], label: usize, weight: f32, gradient: &mut [f32]) -> f32 {
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for (g, &logit) in gradient.iter_mut().zip(logits) {
        *g = Real::exp(logit - highest);
    }
    let total: f32 = gradient.iter().sum();
    let scale = -weight / total;
    gradient.iter_mut().for_each(|g| *g *= scale);
    gradient[label] += weight;
    logits[label] - highest - total.ln()
}

/// The bins of a batch.
struct Bins {
    count: usize,
    components: usize,
    /// The bin of every row for the first component, then for the second, and so on.
    labels: Vec<u32>,
    order: Vec<u32>,
}

impl Bins {
    fn new(count: usize, rows: usize, components: usize) -> Self {
        let labels = vec![0; rows * components];
        Bins { count, components, labels, order: Vec::with_capacity(rows) }
    }

    /// Cuts every component of x into equiprobable bins, by rank; equal values share a bin.
    fn cut(&mut self, batch: &Batch) {
        let (n, x_dim) = (batch.n, batch.dims.0);
        for (component, labels) in self.labels.chunks_exact_mut(n).enumerate() {
            let value = |row: u32| batch.x[row as usize * x_dim + component];
            self.order.clear();
            self.order.extend(0..n as u32);
            self.order.sort_unstable_by(|a, b| value(*a).total_cmp(&value(*b)));
            let (mut label, mut before) = (0, None);
            for (rank, &row) in self.order.iter().enumerate() {
                if before != Some(value(row)) {
                    label = (rank * self.count / n) as u32;
                }
                before = Some(value(row));
                labels[row as usize] = label;
            }
        }
    }

    /// Returns the plug-in entropy of the first component's bins with the correction
    /// (occupied bins - 1) / 2N.
    fn first_entropy(&self, n: usize) -> f64 {
        let mut counts = vec![0usize; self.count];
        self.labels[..n].iter().for_each(|&label| counts[label as usize] += 1);
        let n = n as f64;
        let occupied = counts.into_iter().filter(|count| *count > 0);
        let (mut entropy, mut bins) = (0.0, 0.0);
        for share in occupied.map(|count| count as f64 / n) {
            entropy -= share * share.ln();
            bins += 1.0;
        }
        entropy + (bins - 1.0) / (2.0 * n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::critic::Reference;
    use rand::RngExt;

    fn batch(n: usize, dims: (usize, usize)) -> Batch {
        let mut rng = stream(3, Purpose::Data, 0, 0);
        let mut numbers = |count: usize| (0..count).map(|_| rng.random_range(-1.0..1.0)).collect();
        let (x, y) = (numbers(n * dims.0), numbers(n * dims.1));
        Batch { n, dims, x, y, partner: Vec::new(), reference: Reference::default() }
    }

    fn njee(n: usize, dims: (usize, usize)) -> Njee {
        let plan = NjeePlan { hidden: vec![6, 5], activation: Activation::Relu };
        Njee::new(&plan, dims, n, &mut stream(1, Purpose::Parameters, 0, 0), 2)
    }

    #[test]
    fn bins_are_equiprobable_and_their_entropy_corrected() {
        let batch = batch(64, (3, 1));
        let mut bins = Bins::new(63, 64, 3);
        bins.cut(&batch);
        // 62 bins with one row and one with two.
        let plug_in = 64f64.ln() - 2f64.ln() / 32.0;
        assert!((bins.first_entropy(64) - (plug_in + 62.0 / 128.0)).abs() < 1e-12);
        for labels in bins.labels.chunks_exact(64) {
            let mut sorted = labels.to_vec();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), 63);
        }
    }

    #[test]
    fn equal_values_share_a_bin() {
        let mut batch = batch(6, (1, 1));
        batch.x = vec![2.0, 1.0, 2.0, 3.0, 1.0, 2.0];
        let mut bins = Bins::new(5, 6, 1);
        bins.cut(&batch);
        assert_eq!(bins.labels, [1, 0, 1, 4, 0, 1]);
    }

    /// The gradient along a random direction agrees with finite differences, and does not depend on
    /// the number of threads.
    #[test]
    fn gradients_are_those_of_the_log_likelihood() {
        let batch = batch(150, (3, 2));
        let value_at = |step: f32| {
            let mut njee = njee(150, (3, 2));
            let mut rng = stream(2, Purpose::Parameters, 0, 0);
            let direction: Vec<f32> =
                njee.parameters.iter().map(|_| rng.random_range(-1.0..1.0)).collect();
            let (parameters, _) = njee.parameters_and_gradient();
            parameters.iter_mut().zip(&direction).for_each(|(p, d)| *p += step * d);
            let value = njee.pass(&batch, &mut Workers::new(2));
            let count = njee.parameters.len();
            let gradient = njee.parameters_and_gradient().1.sum(count);
            let slope: f64 = gradient.iter().zip(&direction).map(|(g, d)| f64::from(g * d)).sum();
            (value, slope, gradient)
        };
        let h = 2e-3;
        let difference = (value_at(h).0 - value_at(-h).0) / (2.0 * f64::from(h));
        let (value, slope, gradient) = value_at(0.0);
        assert!((slope - difference).abs() < 2e-3 * slope.abs().max(1.0), "{slope} {difference}");
        let mut alone = njee(150, (3, 2));
        assert_eq!(alone.pass(&batch, &mut Workers::new(1)), value);
        let count = alone.parameters.len();
        assert_eq!(alone.parameters_and_gradient().1.sum(count), gradient);
    }

    #[test]
    fn there_are_2d_minus_1_classifiers() {
        let inputs: Vec<usize> =
            njee(8, (3, 2)).classifiers.iter().map(|classifier| classifier.mlp.width(0)).collect();
        assert_eq!(inputs, [1, 2, 2, 3, 4]);
    }
}

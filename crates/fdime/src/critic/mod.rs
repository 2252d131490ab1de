//! Critics: networks that score pairs, with the passes that train them.

mod conv;
mod deranged;
mod joint;
mod pair_network;
mod scorer;
mod separable;

pub(crate) use scorer::PairScorer;

use crate::error::{Error, Result, invalid, unknown_name};
use crate::message::Parameter;
use crate::nn::{Activation, ConvNet, Part, dot};
use crate::objective::Objective;
use crate::pairing::Pairing;
use crate::parallel::Workers;
use crate::random::{Purpose, Rng, stream};
use crate::scores::{ScoreBlock, Scores};
use pair_network::PairNetwork;
use serde::{Deserialize, Serialize};
use std::{fmt, ops::Range, str::FromStr};

/// A batch of joint samples, row-major, and the pairing that turns them into marginal samples.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The number of rows.
    pub n: usize,
    /// The dimensions of x and y.
    pub dims: (usize, usize),
    /// `n` rows of x.
    pub x: Vec<f32>,
    /// `n` rows of y.
    pub y: Vec<f32>,
    /// `y[partner[i]]` is paired with `x[i]`; empty if every y is paired with every x.
    pub partner: Vec<u32>,
    /// A known log ratio, to which the network's score is added.
    pub reference: Reference,
}

/// The rows of a table as inputs of a critic.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The dimensions of x and y.
    pub dims: (usize, usize),
    /// Row-major inputs from x.
    pub x: Vec<f32>,
    /// Row-major inputs from y.
    pub y: Vec<f32>,
    /// The reference log ratio.
    pub reference: Reference,
}

impl Inputs {
    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.x.len() / self.dims.0.max(1)
    }

    fn x_row(&self, i: u32) -> &[f32] {
        &self.x[i as usize * self.dims.0..][..self.dims.0]
    }

    fn y_row(&self, j: u32) -> &[f32] {
        &self.y[j as usize * self.dims.1..][..self.dims.1]
    }
}

/// A reference log ratio in the form of an inner product, r(x, y) = u(x) . v(y), with `width`
/// numbers for every row of x and of y. A width of 0 means no reference.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// The length of u and v.
    pub width: usize,
    /// u(x) of every row, row-major.
    pub x: Vec<f32>,
    /// v(y) of every row, row-major.
    pub y: Vec<f32>,
}

impl Reference {
    /// Returns r(x_i, y_j).
    pub fn log_ratio(&self, i: usize, j: usize) -> f32 {
        let row = |k: usize| k * self.width..(k + 1) * self.width;
        dot(&self.x[row(i)], &self.y[row(j)])
    }
}

impl Batch {
    fn x_row(&self, i: usize) -> &[f32] {
        &self.x[i * self.dims.0..(i + 1) * self.dims.0]
    }

    fn y_row(&self, j: usize) -> &[f32] {
        &self.y[j * self.dims.1..(j + 1) * self.dims.1]
    }

    /// Adds the reference log ratios of the pairs to their scores.
    fn add_reference(&self, pairs: impl Iterator<Item = (usize, usize)>, scores: &mut [f32]) {
        if self.reference.width > 0 {
            for ((i, j), score) in pairs.zip(scores) {
                *score += self.reference.log_ratio(i, j);
            }
        }
    }
}

/// A network that scores pairs, and its gradients.
pub trait Critic: Send {
    /// Returns all parameters as one flat buffer.
    fn parameters(&self) -> &[f32];

    /// Makes one pass over a batch and returns the value of the objective. Afterwards
    /// [`scores`](Self::scores) returns the scores of the batch and
    /// [`parameters_and_gradient`](Self::parameters_and_gradient) the objective's gradient.
    fn pass(&mut self, batch: &Batch, objective: &mut dyn Objective, workers: &mut Workers) -> f64;

    /// Returns the scores of the last pass.
    fn scores(&self) -> Scores<'_>;

    /// Returns the parameters for an update, and the gradient of the last pass.
    fn parameters_and_gradient(&mut self) -> (&mut [f32], GradientParts<'_>);

    /// Returns the number of floating-point operations of one pass; a multiply-add counts as two.
    fn operations(&self) -> f64;
}

/// A critic that evaluates its batch in groups of rows.
trait Evaluate {
    /// Scores the batch; with an objective, also computes the gradient and value of each group.
    fn evaluate(&mut self, batch: &Batch, objective: Option<&dyn Objective>, workers: &mut Workers);

    /// Returns the scores, gradients and values of the last evaluation.
    fn last_evaluation(&self) -> (&[ScoreBlock], &[Part]);
}

/// Makes a pass in one evaluation, or in two if the gradients need the scores of the whole batch.
fn evaluate_pass(
    critic: &mut impl Evaluate,
    batch: &Batch,
    objective: &mut dyn Objective,
    workers: &mut Workers,
) -> f64 {
    if objective.needs_whole_batch() {
        critic.evaluate(batch, None, workers);
        objective.observe(Scores(critic.last_evaluation().0));
    }
    critic.evaluate(batch, Some(objective), workers);
    objective.constant() + critic.last_evaluation().1.iter().map(|part| part.value).sum::<f64>()
}

/// The gradient of a pass, as parts whose sum it is.
pub struct GradientParts<'a>(pub(crate) &'a [Part]);

impl GradientParts<'_> {
    /// Returns the sum of the parts, as a gradient of `parameters` numbers.
    pub fn sum(&self, parameters: usize) -> Vec<f32> {
        let mut sum = vec![0.0; parameters];
        for part in self.0 {
            let range = part.offset..part.offset + part.gradient.len();
            sum[range].iter_mut().zip(&part.gradient).for_each(|(sum, value)| *sum += value);
        }
        sum
    }
}

/// The kinds of critic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CriticKind {
    /// One network over all pairs (x_i, y_j) of the batch: N^2 evaluations.
    Joint,
    /// Two networks, one for x and one for y; the score is the inner product of their outputs.
    Separable,
    /// One network over the joint pairs and as many marginal pairs: 2N evaluations.
    Deranged,
    /// A convolutional network over pairs of images, which become the channels of one image.
    Conv,
}

impl CriticKind {
    /// All kinds.
    pub const ALL: [CriticKind; 4] =
        [CriticKind::Joint, CriticKind::Separable, CriticKind::Deranged, CriticKind::Conv];

    /// Returns the name used in plans and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            CriticKind::Joint => "joint",
            CriticKind::Separable => "separable",
            CriticKind::Deranged => "deranged",
            CriticKind::Conv => "conv",
        }
    }

    /// Returns the pairing that is used if none is given.
    pub fn default_pairing(self) -> Pairing {
        match self {
            CriticKind::Joint | CriticKind::Separable => Pairing::AllPairs,
            CriticKind::Deranged | CriticKind::Conv => Pairing::Derangement,
        }
    }

    /// Returns an error if the critic does not support the pairing.
    pub fn check_pairing(self, pairing: Pairing) -> Result<()> {
        let unsupported = |reason: &str| {
            Err(Error::Incompatible {
                parameter: Parameter::Pairing,
                value: pairing.to_string(),
                other: format!("critic {self}").into(),
                reason: reason.into(),
            })
        };
        match (self, pairing) {
            (CriticKind::Joint, Pairing::AllPairs)
            | (CriticKind::Separable | CriticKind::Conv, _) => Ok(()),
            (CriticKind::Joint, _) => unsupported(
                "the joint critic takes all pairs; for one partner each use critic deranged",
            ),
            (CriticKind::Deranged, Pairing::AllPairs) => unsupported(
                "the deranged critic takes one partner each; for all pairs use critic joint",
            ),
            (CriticKind::Deranged, _) => Ok(()),
        }
    }
}

impl fmt::Display for CriticKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CriticKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        CriticKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            unknown_name(Parameter::Critic, name, CriticKind::ALL.map(CriticKind::name))
        })
    }
}

/// The settings of a critic: everything but its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CriticPlan {
    /// The kind.
    pub kind: CriticKind,
    /// The widths of the hidden layers. For the conv critic: the channels of its convolutions
    /// (5 x 5, stride 2), then the width of a dense layer.
    pub hidden: Vec<usize>,
    /// The nonlinearity of hidden layers.
    pub activation: Activation,
    /// The number of outputs of each of the separable critic's networks.
    #[serde(default = "default_embedding")]
    pub embedding: usize,
    /// The share of hidden activations dropped during training; only for the deranged and the
    /// separable critic.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropout: f64,
    /// Initial weights are uniform in +- this / sqrt(inputs). 1 is PyTorch's default; sqrt(6) is
    /// that of He et al., with which a network learns fine structure in fewer steps.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub initial_scale: f64,
    /// The width and height of the conv critic's images in pixels.
    #[serde(default = "image_side", skip_serializing_if = "is_image_side")]
    pub side: usize,
    /// The number of parts, with equal shares of the channels, that the conv critic splits x and y
    /// into. It scores each part with the same weights and adds the scores.
    #[serde(default = "one_part", skip_serializing_if = "is_one_part")]
    pub parts: usize,
    /// Whether the last layer starts at zero, so that the initial score of every pair is its
    /// reference. The separable critic's network of y starts there. Not for the conv critic.
    #[serde(default, skip_serializing_if = "is_false")]
    pub zero_output: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn one_part() -> usize {
    1
}

fn is_one_part(parts: &usize) -> bool {
    *parts == 1
}

fn image_side() -> usize {
    CriticPlan::IMAGE_SIDE
}

fn is_image_side(side: &usize) -> bool {
    *side == CriticPlan::IMAGE_SIDE
}

fn one() -> f64 {
    1.0
}

fn is_one(value: &f64) -> bool {
    *value == 1.0
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn default_embedding() -> usize {
    CriticPlan::EMBEDDING
}

impl CriticPlan {
    /// The number of outputs of the separable critic's networks in the paper.
    pub const EMBEDDING: usize = 32;

    /// The width and height of the paper's images in pixels.
    pub const IMAGE_SIDE: usize = 28;

    /// Names and hidden widths of the presets: `paper` follows the paper's text, `paper-code` the
    /// network that its tables match.
    pub const PRESETS: [(&'static str, &'static [usize]); 2] =
        [("paper", &[256, 256]), ("paper-code", &[256, 256, 256])];

    /// Returns a plan with ReLU and these hidden widths.
    pub fn new(kind: CriticKind, hidden: &[usize]) -> Self {
        CriticPlan {
            kind,
            hidden: hidden.to_vec(),
            activation: Activation::Relu,
            embedding: Self::EMBEDDING,
            dropout: 0.0,
            initial_scale: one(),
            side: image_side(),
            parts: one_part(),
            zero_output: false,
        }
    }

    /// Returns an error if a setting is out of range or does not apply to the kind of critic.
    pub fn check(&self) -> Result<()> {
        check_hidden(&self.hidden)?;
        if self.kind == CriticKind::Conv && self.hidden.len() < 2 {
            let expected = "the conv critic has channels and a dense layer, e.g. 64,128,1024";
            return Err(invalid(Parameter::Hidden, self.hidden[0], expected));
        }
        if !(1..=32).contains(&self.parts) {
            return Err(invalid(Parameter::Parts, self.parts, "must be between 1 and 32"));
        }
        if !(1..=4096).contains(&self.side) {
            return Err(invalid(
                Parameter::Side,
                self.side,
                "images have 1 to 4096 pixels on each side",
            ));
        }
        if !(1..=65_536).contains(&self.embedding) {
            return Err(invalid(
                Parameter::Embedding,
                self.embedding,
                "must be between 1 and 65536",
            ));
        }
        if !(self.initial_scale.is_finite() && self.initial_scale > 0.0) {
            let expected = "a positive number";
            return Err(invalid(Parameter::InitialScale, self.initial_scale, expected));
        }
        if !(0.0..=0.9).contains(&self.dropout) {
            return Err(invalid(Parameter::Dropout, self.dropout, "must be between 0 and 0.9"));
        }
        if self.dropout > 0.0 && matches!(self.kind, CriticKind::Joint | CriticKind::Conv) {
            return Err(Error::Incompatible {
                parameter: Parameter::Dropout,
                value: self.dropout.to_string(),
                other: format!("critic {}", self.kind).into(),
                reason: "only the deranged and the separable critic have dropout".into(),
            });
        }
        if self.zero_output && self.kind == CriticKind::Conv {
            return Err(Error::Incompatible {
                parameter: Parameter::ZeroOutput,
                value: "true".into(),
                other: format!("critic {}", self.kind).into(),
                reason: "its last layer cannot start at zero; use another critic".into(),
            });
        }
        Ok(())
    }

    /// Returns an error if the critic needs images and x or y has the wrong number of pixels.
    pub fn check_dims(&self, (x_dim, y_dim): (usize, usize)) -> Result<()> {
        let pixels = self.side * self.side * self.parts;
        if self.kind == CriticKind::Conv && (x_dim % pixels != 0 || y_dim % pixels != 0) {
            return Err(Error::Incompatible {
                parameter: Parameter::Critic,
                value: self.kind.to_string(),
                other: format!("pairs of {x_dim} and {y_dim} numbers").into(),
                reason: match self.parts {
                    1 => format!("x and y must be images of {0} x {0} pixels", self.side).into(),
                    parts => {
                        format!("x and y must be {parts} images of {0} x {0} pixels", self.side)
                            .into()
                    }
                },
            });
        }
        Ok(())
    }

    /// Estimates the memory, in bytes, of a critic for batches of `n` rows: its scores, activations
    /// and gradients.
    pub fn memory(&self, (x_dim, y_dim): (usize, usize), n: usize, pairing: Pairing) -> f64 {
        let widths: Vec<f64> = self.hidden.iter().map(|width| *width as f64).collect();
        let (n, inputs) = (n as f64, (x_dim + y_dim) as f64);
        let between: f64 = widths.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let parameters = inputs * widths[0] + between;
        let scores = if pairing == Pairing::AllPairs { n * n } else { 2.0 * n };
        let activations = match self.kind {
            CriticKind::Joint => 4.0 * n * widths[0],
            CriticKind::Deranged => 0.0,
            CriticKind::Conv => return self.conv_memory(x_dim + y_dim, scores),
            CriticKind::Separable => 4.0 * n * widths.iter().sum::<f64>(),
        };
        let groups = (scores / 256.0).clamp(2.0, 32.0);
        4.0 * (scores + activations + n * inputs + parameters * (groups + 4.0))
    }

    /// Estimates the memory of the conv critic: parameters, their gradients and moments, and the
    /// activations of a block of images, each at most as large as the input or the output of the
    /// first convolution.
    fn conv_memory(&self, inputs: usize, scores: f64) -> f64 {
        let channels = inputs / (self.side * self.side * self.parts);
        let net = ConvNet::new(channels.max(1), self.side, &self.hidden, self.activation);
        let image = inputs.max(self.side * self.side * self.hidden[0]) as f64;
        4.0 * (scores + 8.0 * net.parameter_count() as f64 + 512.0 * image)
    }

    /// Returns the initial parameters of the critic that [`build`](Self::build) returns.
    pub(crate) fn initial_parameters(&self, dims: (usize, usize), seed: u64) -> Result<Vec<f32>> {
        let pairing = self.kind.default_pairing();
        Ok(self.build(dims, 2, pairing, seed, 1)?.parameters().to_vec())
    }

    /// Builds the critic for batches of `n` rows, with parameters drawn from `seed`.
    pub fn build(
        &self,
        dims: (usize, usize),
        n: usize,
        pairing: Pairing,
        seed: u64,
        threads: usize,
    ) -> Result<Box<dyn Critic>> {
        self.check()?;
        self.kind.check_pairing(pairing)?;
        self.check_dims(dims)?;
        let mut rng: Rng = stream(seed, Purpose::Parameters, 0, 0);
        let mut critic: Box<dyn Critic> = match self.kind {
            CriticKind::Joint => {
                Box::new(PairNetwork::<joint::Joint>::new(self, dims, n, &mut rng, threads))
            }
            CriticKind::Deranged => {
                Box::new(PairNetwork::<deranged::Deranged>::new(self, dims, n, &mut rng, threads))
            }
            CriticKind::Separable => {
                Box::new(separable::Separable::new(self, dims, n, pairing, &mut rng, threads))
            }
            CriticKind::Conv => {
                Box::new(conv::Conv::new(self, dims, n, pairing, &mut rng, threads))
            }
        };
        if self.zero_output {
            let outputs = if self.kind == CriticKind::Separable { self.embedding } else { 1 };
            let output = self.hidden.last().map_or(0, |width| (width + 1) * outputs);
            let (parameters, _) = critic.parameters_and_gradient();
            let start = parameters.len() - output;
            parameters[start..].fill(0.0);
        }
        Ok(critic)
    }
}

/// Returns an error if there is no hidden layer or a width is out of range.
pub(crate) fn check_hidden(hidden: &[usize]) -> Result<()> {
    if hidden.is_empty() {
        return Err(invalid(
            Parameter::Hidden,
            "[]",
            "give at least one hidden layer, e.g. 256,256",
        ));
    }
    match hidden.iter().find(|width| !(1..=65_536).contains(*width)) {
        Some(width) => Err(invalid(Parameter::Hidden, width, "a width is between 1 and 65536")),
        None => Ok(()),
    }
}

/// The number of rows that pass through a network together: large enough for the matrix product
/// to run at full speed, small enough for the activations to stay in the L2 cache.
pub(crate) const CHUNK: usize = 128;

/// Splits `n` batch rows, each of which is part of `pairs` pairs, into groups. Each group has its
/// own part of the gradient, and the parts are added in order; the groups therefore depend only on
/// the batch, never on the number of threads. Adding up more than 32 parts would cost more than it
/// gains, and a group of fewer than 256 pairs is not worth a part, but there are always at least
/// two groups for two threads. A power of two divides evenly among the usual numbers of threads.
fn groups(n: usize, pairs: usize) -> Vec<Range<usize>> {
    let count = 1 << (n * pairs / 256).clamp(2, 32).min(n).ilog2();
    (0..count).map(|g| n * g / count..n * (g + 1) / count).collect()
}

/// Writes the gradient of the scores of consecutive columns, from `first_column` on, of one row of
/// the all-pairs matrix, which may include the joint pair. Returns their part of the objective's
/// value.
fn all_pairs_gradient(
    objective: &dyn Objective,
    row: usize,
    first_column: usize,
    scores: &[f32],
    gradient: &mut [f32],
) -> f64 {
    let Some(diagonal) = row.checked_sub(first_column).filter(|d| *d < scores.len()) else {
        return objective.marginal(row, first_column, scores, gradient);
    };
    let (before, rest) = gradient.split_at_mut(diagonal);
    let (joint, after) = rest.split_at_mut(1);
    objective.marginal(row, first_column, &scores[..diagonal], before)
        + objective.joint(row, &scores[diagonal..=diagonal], joint)
        + objective.marginal(row, row + 1, &scores[diagonal + 1..], after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_every_row_once() {
        for (n, pairs) in [(2, 2), (3, 3), (64, 64), (64, 2), (1000, 2), (30_000, 2), (1024, 1024)]
        {
            let groups = groups(n, pairs);
            assert!(groups.len() <= 32 && groups.iter().all(|g| !g.is_empty()));
            assert!(groups.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert_eq!((groups[0].start, groups[groups.len() - 1].end), (0, n));
        }
    }
}

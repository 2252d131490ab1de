use crate::error::{Result, unknown_name};
use crate::message::Parameter;
use crate::numerics::{Real, softplus};
use multiversion::multiversion;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The nonlinearity of hidden layers. Its slope is a function of its output, so only outputs are
/// kept between the forward and the backward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// max(0, z)
    #[default]
    Relu,
    /// z for z > 0, e^z - 1 below: ReLU with a continuous slope
    Elu,
    /// ln(1 + e^z): smooth everywhere
    Softplus,
}

impl Activation {
    /// All activations.
    pub const ALL: [Activation; 3] = [Activation::Relu, Activation::Elu, Activation::Softplus];

    /// Returns the name, as plans and users write it.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Relu => "relu",
            Activation::Elu => "elu",
            Activation::Softplus => "softplus",
        }
    }

    /// Returns the value at `z`.
    #[inline(always)]
    pub fn value<R: Real>(self, z: R) -> R {
        match self {
            // NaN must not turn into 0, or a diverged run would look like a result.
            Activation::Relu => R::select(z < R::from_f64(0.0), R::from_f64(0.0), z),
            Activation::Elu => R::select(z < R::from_f64(0.0), z.exp_m1(), z),
            Activation::Softplus => softplus(z),
        }
    }

    /// Returns the slope at the point where the value is `output`.
    #[inline(always)]
    pub fn slope_at_output<R: Real>(self, output: R) -> R {
        match self {
            Activation::Relu => {
                R::select(output > R::from_f64(0.0), R::from_f64(1.0), R::from_f64(0.0))
            }
            Activation::Elu => {
                R::select(output < R::from_f64(0.0), output + R::from_f64(1.0), R::from_f64(1.0))
            }
            // sigmoid(z) = 1 - e^-softplus(z)
            Activation::Softplus => -(-output).exp_m1(),
        }
    }
}

/// Adds the bias to every row and applies the activation, in one pass.
pub(crate) fn add_bias_and_activate(rows: &mut [f32], bias: &[f32], activation: Activation) {
    match activation {
        Activation::Relu => add_bias_relu(rows, bias),
        _ => add_bias_smooth(rows, bias, activation),
    }
}

#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn add_bias_relu(rows: &mut [f32], bias: &[f32]) {
    for row in rows.chunks_exact_mut(bias.len()) {
        for (z, b) in row.iter_mut().zip(bias) {
            *z = Activation::Relu.value(*z + b);
        }
    }
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+fma",
    "x86_64+avx2+fma",
    "aarch64+neon"
))]
fn add_bias_smooth(rows: &mut [f32], bias: &[f32], activation: Activation) {
    for row in rows.chunks_exact_mut(bias.len()) {
        for (z, b) in row.iter_mut().zip(bias) {
            *z = activation.value(*z + b);
        }
    }
}

/// Computes gradient *= slope and, in the same pass, adds the column sums of the result (the bias
/// gradient) to `sums`.
pub(crate) fn backward_and_column_sums(
    gradient: &mut [f32],
    outputs: &[f32],
    sums: &mut [f32],
    activation: Activation,
) {
    match activation {
        Activation::Relu => backward_relu(gradient, outputs, sums),
        _ => backward_smooth(gradient, outputs, sums, activation),
    }
}

/// Computes gradient *= slope.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
pub(crate) fn backward(gradient: &mut [f32], outputs: &[f32], activation: Activation) {
    for (g, a) in gradient.iter_mut().zip(outputs) {
        *g *= activation.slope_at_output(*a);
    }
}

#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn backward_relu(gradient: &mut [f32], outputs: &[f32], sums: &mut [f32]) {
    backward_by_columns(gradient, outputs, sums, Activation::Relu);
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+fma",
    "x86_64+avx2+fma",
    "aarch64+neon"
))]
fn backward_smooth(
    gradient: &mut [f32],
    outputs: &[f32],
    sums: &mut [f32],
    activation: Activation,
) {
    backward_by_columns(gradient, outputs, sums, activation);
}

/// Implements [`backward_and_column_sums`]. The outer loop goes over blocks of columns, so that
/// their sums stay in registers. The gradient is multiplied by a slope of 0 or 1 even for ReLU:
/// a selection would become masked stores, which are slow on some processors.
#[inline(always)]
fn backward_by_columns(
    gradient: &mut [f32],
    outputs: &[f32],
    sums: &mut [f32],
    activation: Activation,
) {
    const COLUMNS: usize = 64;
    let width = sums.len();
    let (blocks, rest) = sums.as_chunks_mut::<COLUMNS>();
    let first_of_rest = blocks.len() * COLUMNS;
    for (index, block) in blocks.iter_mut().enumerate() {
        let mut sum = *block;
        for (g, a) in gradient.chunks_exact_mut(width).zip(outputs.chunks_exact(width)) {
            let g = &mut g[index * COLUMNS..][..COLUMNS];
            let a = &a[index * COLUMNS..][..COLUMNS];
            for c in 0..COLUMNS {
                g[c] *= activation.slope_at_output(a[c]);
                sum[c] += g[c];
            }
        }
        *block = sum;
    }
    if !rest.is_empty() {
        for (g, a) in gradient.chunks_exact_mut(width).zip(outputs.chunks_exact(width)) {
            let columns = g[first_of_rest..].iter_mut().zip(&a[first_of_rest..]);
            for ((g, a), sum) in columns.zip(rest.iter_mut()) {
                *g *= activation.slope_at_output(*a);
                *sum += *g;
            }
        }
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Activation {
    type Err = crate::Error;

    fn from_str(name: &str) -> Result<Self> {
        Activation::ALL.into_iter().find(|activation| activation.name() == name).ok_or_else(|| {
            unknown_name(Parameter::Activation, name, Activation::ALL.map(Activation::name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_match_finite_differences() {
        for activation in Activation::ALL {
            for k in -30..=30 {
                let (z, h) = (f64::from(k) * 0.31 + 0.01, 1e-6);
                let difference = (activation.value(z + h) - activation.value(z - h)) / (2.0 * h);
                let slope = activation.slope_at_output(activation.value(z));
                assert!((slope - difference).abs() < 1e-6, "{activation} at {z}");
            }
        }
    }

    #[test]
    fn every_activation_keeps_nan() {
        for activation in Activation::ALL {
            let mut row = [f32::NAN, 1.0];
            add_bias_and_activate(&mut row, &[0.0, 0.0], activation);
            assert!(row[0].is_nan() && row[1] > 0.0, "{activation}");
        }
    }
}

//! The Adam optimiser, for gradients that are sums of parts.

use crate::error::{Result, invalid};
use crate::message::Parameter;
use crate::parallel::Workers;
use multiversion::multiversion;
use serde::{Deserialize, Serialize};

/// Adam's settings. The defaults are the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdamPlan {
    /// The learning rate.
    pub learning_rate: f64,
    /// The decay of the first moment.
    pub beta1: f64,
    /// The decay of the second moment.
    pub beta2: f64,
    /// The number added to the root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay (AdamW): every step also subtracts learning rate * decay times each
    /// parameter.
    pub decay: f64,
}

impl Default for AdamPlan {
    fn default() -> Self {
        AdamPlan { learning_rate: 5e-4, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, decay: 0.0 }
    }
}

impl AdamPlan {
    /// Returns an error if a setting is outside its range.
    pub fn check(&self) -> Result<()> {
        let positive = |v: f64| v.is_finite() && v > 0.0;
        if !positive(self.learning_rate) {
            return Err(invalid(
                Parameter::LearningRate,
                self.learning_rate,
                "a learning rate is a positive number",
            ));
        }
        for (parameter, beta) in [(Parameter::Beta1, self.beta1), (Parameter::Beta2, self.beta2)] {
            if !(0.0..1.0).contains(&beta) {
                return Err(invalid(parameter, beta, "a decay is in [0, 1)"));
            }
        }
        if !positive(self.epsilon) {
            return Err(invalid(Parameter::Epsilon, self.epsilon, "epsilon is a positive number"));
        }
        if !(0.0..=1.0).contains(&self.decay) {
            return Err(invalid(Parameter::Decay, self.decay, "a weight decay is in [0, 1]"));
        }
        Ok(())
    }
}

/// The contribution of one group of rows to the gradient of the parameters from `offset` on, and to
/// the objective's value.
pub(crate) struct Part {
    pub(crate) offset: usize,
    pub(crate) gradient: Vec<f32>,
    pub(crate) value: f64,
}

impl Part {
    pub(crate) fn new(offset: usize, parameters: usize) -> Self {
        Part { offset, gradient: vec![0.0; parameters], value: 0.0 }
    }
}

/// The optimiser's state. It maximises: parameters move along the gradient.
pub struct Adam {
    plan: AdamPlan,
    step: i32,
    /// For every block of parameters its first moments, then its second moments.
    moments: Vec<f32>,
}

/// The number of parameters updated together, so that the sum of the parts fits into the L1 cache.
const BLOCK: usize = 1024;

struct StepSizes {
    beta1: f32,
    beta2: f32,
    /// learning rate / (1 - beta1^t)
    rate: f32,
    /// 1 / sqrt(1 - beta2^t)
    root_correction: f32,
    epsilon: f32,
    /// 1 - learning rate * decay
    keep: f32,
}

impl Adam {
    /// Returns the initial state for this many parameters.
    pub fn new(plan: AdamPlan, parameters: usize) -> Self {
        Adam { plan, step: 0, moments: vec![0.0; 2 * BLOCK * parameters.div_ceil(BLOCK)] }
    }

    /// Sets the learning rate from the next step on.
    pub(crate) fn set_learning_rate(&mut self, learning_rate: f64) {
        self.plan.learning_rate = learning_rate;
    }

    /// Makes one step. The parts are summed in their order, so the result does not depend on the
    /// number of threads.
    pub(crate) fn ascend(&mut self, parameters: &mut [f32], parts: &[Part], workers: &mut Workers) {
        self.step = self.step.saturating_add(1);
        let sizes = StepSizes {
            beta1: self.plan.beta1 as f32,
            beta2: self.plan.beta2 as f32,
            rate: (self.plan.learning_rate / (1.0 - self.plan.beta1.powi(self.step))) as f32,
            root_correction: (1.0 / (1.0 - self.plan.beta2.powi(self.step)).sqrt()) as f32,
            epsilon: self.plan.epsilon as f32,
            keep: (1.0 - self.plan.learning_rate * self.plan.decay) as f32,
        };
        // Each thread gets consecutive blocks, the same in every step, so that it finds their
        // parameters and moments in its own cache.
        let share = parameters.len().div_ceil(BLOCK * workers.count()) * BLOCK;
        workers.for_each_block(
            (&mut self.moments, 2 * share),
            (parameters, share),
            |index, moments, parameters| {
                let blocks = parameters.chunks_mut(BLOCK).zip(moments.chunks_exact_mut(2 * BLOCK));
                for (block, (parameters, moments)) in blocks.enumerate() {
                    let mut gradient = [0f32; BLOCK];
                    let gradient = &mut gradient[..parameters.len()];
                    sum_parts(gradient, index * share + block * BLOCK, parts);
                    let (first, second) = moments.split_at_mut(BLOCK);
                    update(parameters, gradient, first, second, &sizes);
                }
            },
        );
    }
}

/// Adds the parts of the parameters from `start` on to `gradient`.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn sum_parts(gradient: &mut [f32], start: usize, parts: &[Part]) {
    for part in parts {
        let low = part.offset.max(start);
        let high = (part.offset + part.gradient.len()).min(start + gradient.len());
        if low < high {
            let values = &part.gradient[low - part.offset..high - part.offset];
            for (sum, value) in gradient[low - start..high - start].iter_mut().zip(values) {
                *sum += value;
            }
        }
    }
}

#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn update(
    parameters: &mut [f32],
    gradient: &[f32],
    first: &mut [f32],
    second: &mut [f32],
    sizes: &StepSizes,
) {
    let moments = first.iter_mut().zip(second);
    for ((p, g), (m, v)) in parameters.iter_mut().zip(gradient).zip(moments) {
        *m = sizes.beta1 * *m + (1.0 - sizes.beta1) * g;
        *v = sizes.beta2 * *v + (1.0 - sizes.beta2) * g * g;
        *p = sizes.keep * *p + sizes.rate * *m / (v.sqrt() * sizes.root_correction + sizes.epsilon);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_textbook_update_of_summed_parts() {
        let plan = AdamPlan { learning_rate: 0.1, decay: 0.05, ..AdamPlan::default() };
        let count = BLOCK + 10;
        let mut adam = Adam::new(plan, count);
        let mut parameters = vec![1.0f32; count];
        let mut workers = Workers::new(2);
        let (mut m, mut v, mut expected) = (0.0f64, 0.0f64, 1.0f64);
        for t in 1..=20 {
            let g = (f64::from(t) * 0.7).sin();
            let parts = [
                Part { offset: 0, gradient: vec![0.25 * g as f32; count], value: 0.0 },
                Part { offset: 5, gradient: vec![0.75 * g as f32; count - 5], value: 0.0 },
            ];
            adam.ascend(&mut parameters, &parts, &mut workers);
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + 0.001 * g * g;
            expected = expected * (1.0 - 0.1 * 0.05)
                + 0.1 * (m / (1.0 - 0.9f64.powi(t)))
                    / ((v / (1.0 - 0.999f64.powi(t))).sqrt() + 1e-8);
            assert!((f64::from(parameters[7]) - expected).abs() < 1e-4, "step {t}");
        }
        assert_eq!(parameters[7], parameters[count - 1], "blocks agree");
    }

    #[test]
    fn invalid_settings_are_named() {
        let bad = AdamPlan { learning_rate: -1.0, ..AdamPlan::default() };
        assert!(bad.check().unwrap_err().to_string().contains("learning rate"));
        let bad = AdamPlan { beta2: 1.0, ..AdamPlan::default() };
        assert!(bad.check().unwrap_err().to_string().contains("beta2"));
    }
}

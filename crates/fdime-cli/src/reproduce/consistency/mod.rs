//! Self-consistency on images, whose mutual information is not known: Y is the top t rows of an image
//! X, and an estimate I should satisfy
//!
//! - baseline: I(X; Y) / I(X; X) rises from 0 to 1 with t,
//! - data processing: I([X, X]; [Y, h(Y)]) / I(X; Y) = 1, where h hides further rows,
//! - additivity: I([X, X']; [Y, Y']) / I(X; Y) = 2 for independent images.
//!
//! A plan estimates one of these mutual informations at one t, with a fresh network.

mod source;

pub use source::{ImagePairs, View};

use crate::critic::CriticPlan;
use crate::data::Images;
use crate::engine::side_by_side;
use crate::error::{Error, Result, invalid};
use crate::message::Parameter;
use crate::nn::AdamPlan;
use crate::objective::Estimator;
use crate::pairing::Pairing;
use crate::scenario::PairSource;
use crate::train::{Setup, Trainer};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Everything about an estimate on images but the images themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsistencyPlan {
    /// What the images are called.
    pub images: String,
    /// What is estimated.
    pub view: View,
    /// The rows that y shows.
    pub rows: usize,
    /// Cost, link and readout.
    pub estimator: Estimator,
    /// The network.
    pub critic: CriticPlan,
    /// How marginal pairs are made.
    pub pairing: Pairing,
    /// Joint samples in a step.
    pub batch: usize,
    /// Training steps.
    pub iterations: usize,
    /// The optimiser.
    pub optimizer: AdamPlan,
    /// The seed of all randomness.
    pub seed: u64,
}

impl ConsistencyPlan {
    /// Refuses what cannot be run on any images.
    pub fn check(&self) -> Result<()> {
        if !self.estimator.has_critic() {
            let expected = "one that trains a critic: njee would need a classifier for every pixel";
            return Err(invalid(Parameter::Estimator, self.estimator.name(), expected));
        }
        if self.batch < 2 {
            return Err(invalid(Parameter::Batch, self.batch, "at least 2 samples"));
        }
        if self.iterations == 0 {
            return Err(invalid(Parameter::Iterations, 0, "at least one iteration"));
        }
        self.critic.check()?;
        self.critic.kind.check_pairing(self.pairing)?;
        self.estimator.check_pairing(self.pairing)?;
        self.optimizer.check()
    }

    /// Refuses what cannot be run on these images.
    pub fn check_images(&self, images: &Images) -> Result<()> {
        let (height, width) = images.size();
        if self.rows > height {
            let expected = format!("these images have {height} rows");
            return Err(invalid(Parameter::Rows, self.rows, expected));
        }
        if height != width || height != self.critic.side {
            return Err(Error::Incompatible {
                parameter: Parameter::Side,
                value: self.critic.side.to_string(),
                other: self.images.as_str().into(),
                reason: format!("its images have {height} x {width} pixels").into(),
            });
        }
        Ok(())
    }

    /// What is trained.
    pub fn setup(&self) -> Setup<'_> {
        Setup {
            estimator: &self.estimator,
            critic: &self.critic,
            pairing: self.pairing,
            batch: self.batch,
            optimizer: self.optimizer,
            seed: self.seed,
        }
    }

    /// The trainer and what it trains on.
    fn trainer<'a>(&self, images: &'a Images, threads: usize) -> Result<(Trainer, ImagePairs<'a>)> {
        self.check()?;
        self.check_images(images)?;
        let source = ImagePairs { images, view: self.view, rows: self.rows };
        Ok((Trainer::new(&self.setup(), source.dims(), threads)?, source))
    }

    /// The estimate at every step; fewer than planned if it became infinite.
    fn run(
        &self,
        images: &Images,
        threads: usize,
        watch: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<Vec<f64>> {
        let (mut trainer, source) = self.trainer(images, threads)?;
        let mut estimates = Vec::with_capacity(self.iterations);
        while estimates.len() < self.iterations {
            let Some((_, estimate)) = trainer.step(&source)? else { break };
            estimates.push(estimate.0);
            if watch(estimate.0).is_break() {
                return Err(Error::Interrupted);
            }
        }
        Ok(estimates)
    }
}

/// Looks on while a plan is executed.
pub trait Watch: Send {
    /// An estimate; `Break` ends the run.
    fn on_step(&mut self, estimate: f64) -> ControlFlow<()>;

    /// All estimates, when the run was not ended before.
    fn on_end(&mut self, estimates: &[f64]);
}

/// Runs plans side by side. `images` has the images of each, and `watch` makes what looks on.
pub fn execute(
    plans: &[(ConsistencyPlan, &Images)],
    threads: usize,
    watch: &(dyn Fn(usize) -> Box<dyn Watch> + Sync),
) -> Vec<Result<Vec<f64>>> {
    side_by_side(threads, plans.len(), |index, threads| {
        let (plan, images) = &plans[index];
        let mut watch = watch(index);
        let estimates = plan.run(images, threads, &mut |estimate| watch.on_step(estimate))?;
        watch.on_end(&estimates);
        Ok(estimates)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::critic::CriticKind;
    use crate::random::{Purpose, stream};
    use std::io::Write;

    /// Six images of 4 x 4, the k-th with pixels k * 20 + line.
    fn images() -> Images {
        let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 6, 0, 0, 0, 4, 0, 0, 0, 4];
        bytes.extend((0..6u8).flat_map(|k| (0..16u8).map(move |p| 40 * k + p / 4 + 1)));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        Images::open(file.path()).unwrap()
    }

    fn plan(view: View, rows: usize) -> ConsistencyPlan {
        ConsistencyPlan {
            images: "test".into(),
            view,
            rows,
            estimator: "gan-dime".parse().unwrap(),
            critic: CriticPlan { side: 4, ..CriticPlan::new(CriticKind::Conv, &[8, 12, 16]) },
            pairing: Pairing::Derangement,
            batch: 32,
            iterations: 900,
            optimizer: AdamPlan { learning_rate: 3e-3, ..AdamPlan::default() },
            seed: 0,
        }
    }

    #[test]
    fn views_show_and_hide_rows() {
        let images = images();
        for view in View::ALL {
            let source = ImagePairs { images: &images, view, rows: 3 };
            let (size, channels) = (source.dims().0, source.dims().0 / 16);
            let (mut x, mut y) = (vec![0.0; 50 * size], vec![0.0; 50 * size]);
            source.sample(&mut stream(1, Purpose::Data, 0, 0), &mut x, &mut y);
            let mut different = 0;
            for (x, y) in x.chunks_exact(size).zip(y.chunks_exact(size)) {
                let pixel = |image: &[f32], line: usize, channel: usize| {
                    image[line * 4 * channels + channel]
                };
                assert_eq!(pixel(y, 2, 0), pixel(x, 2, 0));
                assert_eq!((pixel(y, 3, 0), pixel(x, 3, 0) > 0.0), (0.0, true));
                match view {
                    View::Single => {}
                    View::Processed => {
                        assert_eq!((pixel(x, 0, 1), pixel(y, 0, 1)), (pixel(x, 0, 0), 0.0));
                    }
                    View::Pair => {
                        assert_eq!(pixel(y, 2, 1), pixel(x, 2, 1));
                        different += usize::from(pixel(x, 0, 0) != pixel(x, 0, 1));
                    }
                }
            }
            assert!(view != View::Pair || different > 25, "{different} of 50 differ");
        }
    }

    /// Six images that differ in every row: I(X; Y) = ln 6 as soon as a row is seen, twice that for a
    /// pair, and nothing when no row is seen.
    #[test]
    fn mutual_information_of_a_handful_of_images() {
        struct Silent;
        impl Watch for Silent {
            fn on_step(&mut self, _: f64) -> ControlFlow<()> {
                ControlFlow::Continue(())
            }
            fn on_end(&mut self, _: &[f64]) {}
        }
        let images = images();
        let plans = [
            plan(View::Single, 0),
            plan(View::Single, 2),
            plan(View::Processed, 4),
            plan(View::Pair, 4),
        ];
        let plans = plans.map(|plan| (plan, &images));
        let estimates = execute(&plans, 2, &|_| Box::new(Silent));
        let means: Vec<f64> = estimates
            .into_iter()
            .map(|estimates| estimates.unwrap()[800..].iter().sum::<f64>() / 100.0)
            .collect();
        let exact = 6f64.ln();
        assert!(means[0].abs() < 0.02, "{means:?}");
        for (mean, exact) in means[1..].iter().zip([exact, exact, 2.0 * exact]) {
            assert!((mean / exact - 1.0).abs() < 0.25, "{means:?}, not {exact}");
        }
    }

    #[test]
    fn plans_that_do_not_fit_the_images_are_refused() {
        let images = images();
        let error = |plan: ConsistencyPlan| {
            plan.check().and(plan.check_images(&images)).unwrap_err().to_string()
        };
        assert!(error(plan(View::Single, 5)).contains("4 rows"));
        let mut other = plan(View::Single, 2);
        other.critic.side = 28;
        assert!(error(other).contains("4 x 4"));
        let mut other = plan(View::Single, 2);
        other.estimator = "njee".parse().unwrap();
        assert!(error(other).contains("classifier"));
    }
}

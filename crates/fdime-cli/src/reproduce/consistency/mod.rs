//! Self-consistency on images, whose mutual information is not known. Y is the top t rows of an
//! image X, and an estimate I should satisfy
//!
//! - baseline: I(X; Y) / I(X; X) rises from 0 to 1 with t,
//! - data processing: I([X, X]; [Y, h(Y)]) / I(X; Y) = 1, where h hides further rows,
//! - additivity: I([X, X']; [Y, Y']) / I(X; Y) = 2 for independent images.
//!
//! A plan estimates one of these mutual informations at one t with a new network.

mod source;

pub use source::{ImagePairs, View};

use super::images::Images;
use fdime::engine::Task;
use fdime::train::Training;
use fdime::{BatchSource, Error, LearnerPlan, Parameter, Result};
use serde::{Deserialize, Serialize};

/// An estimate on images, except for the images themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsistencyPlan {
    /// The name of the set of images.
    pub images: String,
    /// The mutual information that is estimated.
    pub view: View,
    /// The number of rows that y shows.
    pub rows: usize,
    /// The training.
    #[serde(flatten)]
    pub training: Training,
    /// The number of training steps.
    pub iterations: usize,
}

impl ConsistencyPlan {
    /// Checks everything that does not depend on the images.
    pub fn check(&self) -> Result<()> {
        if let LearnerPlan::Njee(_) = self.training.learner {
            let expected = "one that trains a critic: njee would need a classifier for every pixel";
            return Err(invalid(Parameter::Estimator, "njee", expected));
        }
        if self.iterations == 0 {
            return Err(invalid(Parameter::Iterations, 0, "at least one iteration"));
        }
        self.training.check()
    }

    /// Checks that the plan fits these images.
    pub fn check_images(&self, images: &Images) -> Result<()> {
        let (height, width) = images.size();
        if self.rows > height {
            let expected = format!("these images have {height} rows");
            return Err(invalid(Parameter::Rows, self.rows, expected));
        }
        let side = self.side();
        if height != width || height != side {
            return Err(Error::Incompatible {
                parameter: Parameter::Side,
                value: side.to_string(),
                other: self.images.clone().into(),
                reason: format!("its images have {height} x {width} pixels").into(),
            });
        }
        Ok(())
    }

    /// Returns the number of parts of a pair that the critic scores one by one.
    pub fn parts(&self) -> usize {
        self.training.learner.critic().map_or(1, |learner| learner.critic.parts)
    }

    /// Returns the pixels on each side of the critic's images.
    pub fn side(&self) -> usize {
        self.training.learner.critic().map_or(0, |learner| learner.critic.side)
    }

    /// Returns the dimensions of x and y.
    pub fn dims(&self) -> (usize, usize) {
        let size = self.view.channels() * self.side() * self.side();
        (size, size)
    }

    /// Returns the pairs of images that the plan trains on.
    pub fn source<'a>(&self, images: &'a Images) -> ImagePairs<'a> {
        ImagePairs { images, view: self.view, rows: self.rows }
    }

    /// Returns the training of this plan on its pairs of images.
    pub fn task<'a>(&'a self, source: &'a dyn BatchSource) -> Task<'a> {
        Task { training: &self.training, source, steps: self.iterations }
    }
}

fn invalid(
    parameter: Parameter,
    value: impl ToString,
    expected: impl Into<fdime::Message>,
) -> Error {
    Error::InvalidParameter { parameter, value: value.to_string(), expected: expected.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fdime::random::{Purpose, stream};
    use fdime::{
        AdamPlan, CpuEngine, CriticKind, CriticPlan, Engine, Estimator, PairSource, silent,
    };

    /// Six images of 4 x 4, the k-th with pixels k * 20 + line.
    fn images() -> Images {
        let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 6, 0, 0, 0, 4, 0, 0, 0, 4];
        bytes.extend((0..6u8).flat_map(|k| (0..16u8).map(move |p| 40 * k + p / 4 + 1)));
        Images::parse(bytes).unwrap()
    }

    fn plan(view: View, rows: usize) -> ConsistencyPlan {
        let critic = CriticPlan { side: 4, ..CriticPlan::new(CriticKind::Conv, &[8, 12, 16]) };
        let estimator: Estimator = "gan-dime".parse().unwrap();
        let mut training = Training::new(LearnerPlan::new(&estimator.into(), &critic));
        training.batch = 32;
        training.optimizer = AdamPlan { learning_rate: 3e-3, ..AdamPlan::default() };
        ConsistencyPlan { images: "test".into(), view, rows, training, iterations: 900 }
    }

    #[test]
    fn views_show_and_hide_rows() {
        let images = images();
        for view in [View::Single, View::Processed, View::Pair] {
            let source = ImagePairs { images: &images, view, rows: 3 };
            let size = PairSource::dims(&source).0;
            let channels = size / 16;
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

    /// Six images that differ in every row: I(X; Y) = ln 6 if at least one row is visible, twice
    /// that for a pair, and 0 if no row is visible.
    #[test]
    fn mutual_information_of_a_handful_of_images() {
        let images = images();
        let plans = [
            plan(View::Single, 0),
            plan(View::Single, 2),
            plan(View::Processed, 4),
            plan(View::Pair, 4),
        ];
        let sources: Vec<ImagePairs> = plans.iter().map(|plan| plan.source(&images)).collect();
        let tasks: Vec<Task> =
            plans.iter().zip(&sources).map(|(plan, source)| plan.task(source)).collect();
        let means: Vec<f64> = CpuEngine::new(2)
            .execute(&tasks, &silent)
            .into_iter()
            .map(|outcome| {
                let steps = outcome.unwrap().steps;
                steps[800..].iter().map(|step| step.estimate.0).sum::<f64>() / 100.0
            })
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
        other.training.learner.critic_mut().unwrap().critic.side = 28;
        assert!(error(other).contains("4 x 4"));
        let mut other = plan(View::Single, 2);
        other.training.learner =
            LearnerPlan::new(&fdime::AnyEstimator::Njee, &CriticPlan::new(CriticKind::Conv, &[8]));
        assert!(error(other).contains("classifier"));
    }
}

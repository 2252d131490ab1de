//! Self-consistency on images, whose mutual information is not known. Y is the top t rows of an
//! image X, and an estimate I should satisfy
//!
//! - baseline: I(X; Y) / I(X; X) rises from 0 to 1 with t,
//! - data processing: I([X, X]; [Y, h(Y)]) / I(X; Y) = 1, where h hides further rows,
//! - additivity: I([X, X']; [Y, Y']) / I(X; Y) = 2 for independent images.
//!
//! A plan estimates one of these mutual informations at one t with a new network, or with a chain
//! over the two images of y, which has a network for each of its three terms.

mod source;

pub use source::{ImagePairs, View};

use super::images::Images;
use fdime::engine::Task;
use fdime::train::{SelectedColumns, Training};
use fdime::{BatchSource, Chain, ColumnSelection, Error, LearnerPlan, Parameter, Result, Term};
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;

/// An estimate on images, except for the images themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsistencyPlan {
    /// The name of the set of images.
    pub images: String,
    /// The number of images to draw from, the first of the set; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<NonZeroUsize>,
    /// The mutual information that is estimated.
    pub view: View,
    /// The number of rows that y shows.
    pub rows: usize,
    /// The training.
    #[serde(flatten)]
    pub training: Training,
    /// The number of training steps.
    pub iterations: usize,
    /// Whether the two images of y are the blocks of a chain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub chain: bool,
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
        if self.chain && (self.view.channels() < 2 || self.parts() > 1) {
            let expected = "a chain is for the views processed and pair, without parts";
            return Err(invalid(Parameter::Chain, self.chain, expected));
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
        if let Some(count) = self.count.filter(|count| count.get() > images.count()) {
            let problem =
                format!("it has {} images, fewer than the count of {count}", images.count());
            return Err(Error::Data { file: self.images.clone(), problem: problem.into() });
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

    /// Returns the blocks of y, one for each of its images; `None` for a direct estimate.
    pub fn blocks(&self) -> Option<Chain> {
        self.chain.then(|| Chain::Equal(self.view.channels()))
    }

    /// Returns the columns of a term's images.
    fn columns(&self, term: &Term) -> Result<ColumnSelection> {
        let channels = (self.view.channels(), self.view.channels());
        Ok(term.columns(channels)?.of_images(channels, self.side() * self.side()))
    }

    /// Returns the dimensions of x and y, or of those of a term.
    pub fn dims(&self, term: Option<&Term>) -> Result<(usize, usize)> {
        let size = self.view.channels() * self.side() * self.side();
        term.map_or(Ok((size, size)), |term| Ok(self.columns(term)?.dims()))
    }

    /// Returns the pairs of images that the plan trains on.
    pub fn pairs<'a>(&self, images: &'a Images) -> ImagePairs<'a> {
        let count = self.count.map_or(images.count(), NonZeroUsize::get);
        ImagePairs { images, count, view: self.view, rows: self.rows }
    }

    /// Returns the samples of a term; whole pairs for `None`.
    pub fn source<'a>(
        &self,
        pairs: &'a ImagePairs<'a>,
        term: Option<&Term>,
    ) -> Result<Box<dyn BatchSource + 'a>> {
        Ok(match term {
            Some(term) => Box::new(SelectedColumns { source: pairs, columns: self.columns(term)? }),
            None => Box::new(*pairs),
        })
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
    use fdime::train::Outcome;
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
        ConsistencyPlan {
            images: "test".into(),
            count: None,
            view,
            rows,
            training,
            iterations: 900,
            chain: false,
        }
    }

    #[test]
    fn views_show_and_hide_rows() {
        let images = images();
        for view in [View::Single, View::Processed, View::Pair] {
            let source = ImagePairs { images: &images, count: 6, view, rows: 3 };
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
        let sources: Vec<ImagePairs> = plans.iter().map(|plan| plan.pairs(&images)).collect();
        let tasks: Vec<Task> =
            plans.iter().zip(&sources).map(|(plan, source)| plan.task(source)).collect();
        let means = means(&tasks);
        let exact = 6f64.ln();
        assert!(means[0].abs() < 0.02, "{means:?}");
        for (mean, exact) in means[1..].iter().zip([exact, exact, 2.0 * exact]) {
            assert!((mean / exact - 1.0).abs() < 0.25, "{means:?}, not {exact}");
        }
    }

    /// Returns the mean of the last estimates of each task.
    fn means(tasks: &[Task]) -> Vec<f64> {
        let outcomes = CpuEngine::new(2).execute(tasks, &silent).into_iter();
        let mean = |outcome: Result<Outcome>| {
            let steps = outcome.unwrap().steps;
            steps[800..].iter().map(|step| step.estimate.0).sum::<f64>() / 100.0
        };
        outcomes.map(mean).collect()
    }

    /// I([X, X']; [Y, Y']) = I(X, X'; Y) + I(X, X', Y; Y') - I(Y; Y') = ln 6 + ln 6 - 0.
    #[test]
    fn terms_of_a_chain_over_two_independent_images() {
        let images = images();
        let plan = ConsistencyPlan { chain: true, ..plan(View::Pair, 4) };
        plan.check().unwrap();
        let (pairs, terms) = (plan.pairs(&images), plan.blocks().unwrap().terms());
        let sources: Vec<Box<dyn BatchSource>> =
            terms.iter().map(|term| plan.source(&pairs, Some(term)).unwrap()).collect();
        for (term, source) in terms.iter().zip(&sources) {
            assert_eq!(source.dims(), plan.dims(Some(term)).unwrap());
        }
        let tasks: Vec<Task> = sources.iter().map(|source| plan.task(&**source)).collect();
        let means = means(&tasks);
        let exact = 6f64.ln();
        for (mean, exact) in means.iter().zip([exact, exact, 0.0]) {
            assert!((mean - exact).abs() < 0.15, "{means:?}, not {exact}");
        }
        let sum: f64 = terms.iter().zip(&means).map(|(term, mean)| term.sign() * mean).sum();
        assert!((sum / (2.0 * exact) - 1.0).abs() < 0.1, "{means:?}");
    }

    #[test]
    fn only_views_of_two_images_have_a_chain() {
        let chained = |view| ConsistencyPlan { chain: true, ..plan(view, 2) };
        assert!(chained(View::Single).check().unwrap_err().to_string().contains("pair"));
        chained(View::Processed).check().unwrap();
        let mut parts = chained(View::Pair);
        parts.training.learner.critic_mut().unwrap().critic.parts = 2;
        assert!(parts.check().unwrap_err().to_string().contains("without parts"));
        let json = serde_json::to_string(&plan(View::Pair, 2)).unwrap();
        assert!(!json.contains("chain"), "entries of old logs have no chain: {json}");
        assert_eq!(serde_json::from_str::<ConsistencyPlan>(&json).unwrap(), plan(View::Pair, 2));
        let json = serde_json::to_string(&chained(View::Pair)).unwrap();
        assert_eq!(serde_json::from_str::<ConsistencyPlan>(&json).unwrap(), chained(View::Pair));
    }

    #[test]
    fn plans_that_do_not_fit_the_images_are_refused() {
        let images = images();
        let error = |plan: ConsistencyPlan| {
            plan.check().and(plan.check_images(&images)).unwrap_err().to_string()
        };
        assert!(error(plan(View::Single, 5)).contains("4 rows"));
        let too_many = ConsistencyPlan { count: NonZeroUsize::new(7), ..plan(View::Single, 2) };
        assert!(error(too_many).contains("6 images"));
        let mut other = plan(View::Single, 2);
        other.training.learner.critic_mut().unwrap().critic.side = 28;
        assert!(error(other).contains("4 x 4"));
        let mut other = plan(View::Single, 2);
        other.training.learner =
            LearnerPlan::new(&fdime::AnyEstimator::Njee, &CriticPlan::new(CriticKind::Conv, &[8]));
        assert!(error(other).contains("classifier"));
    }
}

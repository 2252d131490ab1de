//! The simplest interface: mutual information between two groups of columns in one expression.

use crate::data::{Column, PairTable, Reading, Values, load_pairs};
use crate::engine::{CpuEngine, Engine};
use crate::error::{Error, Result};
use crate::estimate::{
    ChainChoice, Effort, Estimate, EstimatePlan, Method, NoProgress, Progress, RowOrder, estimate,
    estimate_given,
};
use std::path::Path;

/// An estimate of mutual information, to be configured and run.
///
/// ```
/// use fdime::MutualInformation;
///
/// let x: Vec<f64> = (0..400).map(|k| f64::from(k * 37 % 400)).collect();
/// let y: Vec<f64> = x.iter().enumerate().map(|(k, x)| x + 60.0 * (k as f64).sin()).collect();
/// let result = MutualInformation::between(&x, &y).method("copula".parse()?).run()?;
/// println!("{:.2}, from {:.2} to {:.2}", result.mi, result.interval.0, result.interval.1);
/// assert!(result.mi.0 > 0.5);
/// # Ok::<(), fdime::Error>(())
/// ```
#[must_use = "call `run` to estimate"]
pub struct MutualInformation<'a> {
    x: Vec<Column>,
    y: Vec<Column>,
    given: Vec<Column>,
    method: Method,
    effort: Effort,
    folds: Option<usize>,
    permutations: Option<usize>,
    chain: Option<ChainChoice>,
    order: RowOrder,
    seed: u64,
    threads: usize,
    progress: &'a dyn Progress,
}

impl<'a> MutualInformation<'a> {
    /// Compares x with y: each a slice of numbers, a list of columns, or (with the feature
    /// `ndarray`) a view of one or two dimensions with a row for each sample.
    pub fn between(x: impl IntoColumns, y: impl IntoColumns) -> Self {
        MutualInformation {
            x: x.into_columns("x"),
            y: y.into_columns("y"),
            given: Vec::new(),
            method: Method::Auto,
            effort: Effort::Default,
            folds: None,
            permutations: None,
            chain: None,
            order: RowOrder::Exchangeable,
            seed: 0,
            threads: 0,
            progress: &NoProgress,
        }
    }

    /// Compares the columns of a file. `x` and `y` are selectors as for
    /// [`pair_columns`](crate::data::pair_columns); `None` means all columns that the other side
    /// does not take; if both are `None`, the two columns of the file, or those named x1, x2, ... and
    /// y1, y2, ...
    pub fn in_file(
        path: impl AsRef<Path>,
        x: Option<&str>,
        y: Option<&str>,
        reading: &Reading,
    ) -> Result<Self> {
        Ok(Self::from(load_pairs(path.as_ref(), x, y, reading)?))
    }

    /// Holds other columns fixed: the estimate is the conditional mutual information I(x; y | given).
    pub fn given(mut self, given: impl IntoColumns) -> Self {
        self.given = given.into_columns("z");
        self
    }

    /// Chooses the method; [`Method::Auto`] by default.
    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// Chooses how much work goes into the estimate.
    pub fn effort(mut self, effort: Effort) -> Self {
        self.effort = effort;
        self
    }

    /// Sets the number of folds of cross-fitting.
    pub fn folds(mut self, folds: usize) -> Self {
        self.folds = Some(folds);
        self
    }

    /// Sets the number of permutations of the test of independence.
    pub fn permutations(mut self, permutations: usize) -> Self {
        self.permutations = Some(permutations);
        self
    }

    /// Treats rows as a time series: rows closer than `gap` to a test row are not trained on.
    pub fn series(mut self, gap: usize) -> Self {
        self.order = RowOrder::Series { gap };
        self
    }

    /// Treats rows as a time series whose gap is computed from its autocorrelation time.
    pub fn automatic_series(mut self) -> Self {
        self.order = RowOrder::AutomaticSeries;
        self
    }

    /// Sets the seed of folds, parameters and permutations.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the number of threads; 0, the default, means one for each core. The result does not
    /// depend on it.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets whether large estimates use the chain rule. The default is that of the effort.
    pub fn chain(mut self, chain: ChainChoice) -> Self {
        self.chain = Some(chain);
        self
    }

    /// Reports progress to `progress`, which can end the estimate.
    pub fn progress(mut self, progress: &'a dyn Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Returns the plan of the estimate, with the gap of an automatic series.
    pub fn plan(&self) -> EstimatePlan {
        let mut plan = EstimatePlan::new(self.method.clone(), self.effort);
        plan.folds = self.folds.unwrap_or(plan.folds);
        plan.permutations = self.permutations.unwrap_or(plan.permutations);
        plan.order = self.order;
        plan.chain = self.chain.unwrap_or(plan.chain);
        plan.seed = self.seed;
        plan.for_data(&self.x, &[&self.y[..], &self.given].concat())
    }

    /// Estimates on the processor's cores.
    ///
    /// # Errors
    /// If a column is empty, has missing values or a different length from the others, or if the
    /// plan cannot be run on this number of rows.
    pub fn run(&self) -> Result<Estimate> {
        self.run_on(&CpuEngine::new(self.threads))
    }

    /// Estimates with an engine. See [`run`](Self::run).
    pub fn run_on(&self, engine: &dyn Engine) -> Result<Estimate> {
        let is_constant = |column: &&Column| !column.is_empty() && column.is_constant();
        let mut columns = self.x.iter().chain(&self.y).chain(&self.given);
        if let Some(column) = columns.find(is_constant) {
            let problem = format!("column '{}' has the same value in every row", column.name);
            return Err(Error::Columns { problem });
        }
        let (plan, given) = (self.plan(), &self.given);
        match given.is_empty() {
            true => estimate(&self.x, &self.y, &plan, engine, self.progress),
            false => estimate_given(&self.x, &self.y, given, &plan, engine, self.progress),
        }
    }
}

impl From<PairTable> for MutualInformation<'_> {
    fn from(table: PairTable) -> Self {
        MutualInformation { given: table.given, ..MutualInformation::between(table.x, table.y) }
    }
}

/// Data that can be one side of an estimate.
pub trait IntoColumns {
    /// Returns the columns. Those without a name are called `side`, or `side` and a number from 1.
    fn into_columns(self, side: &str) -> Vec<Column>;
}

fn numbers(name: String, values: Vec<f64>) -> Column {
    Column { name, values: Values::Continuous(values) }
}

impl IntoColumns for Vec<Column> {
    fn into_columns(self, _side: &str) -> Vec<Column> {
        self
    }
}

impl IntoColumns for &[Column] {
    fn into_columns(self, _side: &str) -> Vec<Column> {
        self.to_vec()
    }
}

/// One column of numbers.
impl IntoColumns for &[f64] {
    fn into_columns(self, side: &str) -> Vec<Column> {
        vec![numbers(side.into(), self.to_vec())]
    }
}

/// One column of numbers.
impl IntoColumns for &Vec<f64> {
    fn into_columns(self, side: &str) -> Vec<Column> {
        self.as_slice().into_columns(side)
    }
}

/// One column of numbers.
impl IntoColumns for Vec<f64> {
    fn into_columns(self, side: &str) -> Vec<Column> {
        vec![numbers(side.into(), self)]
    }
}

/// One column of numbers.
impl<const N: usize> IntoColumns for &[f64; N] {
    fn into_columns(self, side: &str) -> Vec<Column> {
        self.as_slice().into_columns(side)
    }
}

/// Columns of numbers.
impl IntoColumns for &Vec<Vec<f64>> {
    fn into_columns(self, side: &str) -> Vec<Column> {
        self.as_slice().into_columns(side)
    }
}

/// Columns of numbers.
impl IntoColumns for &[Vec<f64>] {
    fn into_columns(self, side: &str) -> Vec<Column> {
        let named =
            |(k, values): (usize, &Vec<f64>)| numbers(format!("{side}{}", k + 1), values.clone());
        self.iter().enumerate().map(named).collect()
    }
}

#[cfg(feature = "ndarray")]
impl IntoColumns for ndarray::ArrayView1<'_, f64> {
    fn into_columns(self, side: &str) -> Vec<Column> {
        vec![numbers(side.into(), self.to_vec())]
    }
}

/// A row for each sample.
#[cfg(feature = "ndarray")]
impl IntoColumns for ndarray::ArrayView2<'_, f64> {
    fn into_columns(self, side: &str) -> Vec<Column> {
        let columns = self.columns().into_iter().enumerate();
        columns.map(|(k, column)| numbers(format!("{side}{}", k + 1), column.to_vec())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> (Vec<f64>, Vec<f64>) {
        let x: Vec<f64> = (0..200).map(|k| f64::from(k * 37 % 200)).collect();
        let y = x.iter().enumerate().map(|(k, x)| x + 30.0 * (k as f64).sin()).collect();
        (x, y)
    }

    #[test]
    fn a_list_of_one_column_equals_the_column() {
        let (x, y) = samples();
        let run = |request: MutualInformation| {
            request.method(Method::GaussianCopula).seed(3).run().unwrap().mi
        };
        let single = run(MutualInformation::between(&x, &y));
        assert_eq!(single, run(MutualInformation::between(&vec![x], &[y][..])));
    }

    #[cfg(feature = "ndarray")]
    #[test]
    fn arrays_have_a_row_for_each_sample() {
        let (x, y) = samples();
        let array =
            ndarray::Array2::from_shape_fn(
                (200, 2),
                |(row, column)| {
                    if column == 0 { x[row] } else { -y[row] }
                },
            );
        let columns = array.view().into_columns("x");
        assert_eq!((columns.len(), columns[1].name.as_str()), (2, "x2"));
        assert_eq!(columns[0].values, Values::Continuous(x));
    }

    #[test]
    fn columns_that_cannot_be_compared_are_refused() {
        let (x, mut y) = samples();
        let refusal = |x: &Vec<f64>, y: &Vec<f64>| {
            MutualInformation::between(x, y).run().unwrap_err().to_string()
        };
        assert!(refusal(&x, &y[..199].to_vec()).contains("'y' has 199"));
        assert!(refusal(&x[..199].to_vec(), &y).contains("'x' has 199"));
        assert!(refusal(&vec![], &vec![]).contains("no rows"));
        assert!(refusal(&x, &vec![1.0; 200]).contains("the same value in every row"));
        y[7] = f64::INFINITY;
        assert!(refusal(&x, &y).contains("column 'y' is infinite in row 8"));
        y[7] = f64::NAN;
        assert!(refusal(&x, &y).contains("column 'y' has no value in row 8"));
        let none: &[Vec<f64>] = &[];
        let error = MutualInformation::between(none, &x).run().unwrap_err().to_string();
        assert!(error.contains("at least one column"), "{error}");
    }
}

//! A test of independence of two series at all lags of a profile together.

use super::conditional::residuals;
use super::fourier::Spectrum;
use super::lag::{LagPlan, LagSeries};
use super::progress::{Progress, check};
use super::regression::predict_with_spread;
use super::serial::features;
use super::timeline::Recording;
use crate::data::{Column, Values};
use crate::error::Result;
use crate::random::{Purpose, random_index, stream};
use serde::{Deserialize, Serialize};

/// The share of windows of shifted series whose largest statistic is below the band.
const BAND: f64 = 0.95;

/// The result of a test over all lags.
///
/// With features f_j of x and g_k of y as in the test of a short series (normal scores, their
/// squares with half the weight, indicators of categories), centred within each recording, and 0
/// where there is no value, the statistic of a shift s is
///
/// T(s) = 1/2m sum_jk (w_j w_k S_jk(s))^2 / N(s),   S_jk(s) = sum_i f_j(x_i) g_k(y_(i+s))
///
/// where i + s is circular within each recording, N(s) is the number of pairs with both values and
/// m its mean over s. T(lag) is about the mutual information at the lag if that is small.
///
/// If y is stationary and independent of x, then a shift of y moves the whole profile: the profile
/// at shift s, T(lag + s), is as likely as the observed one, and so is its largest value. The
/// adjusted p-value of a lag is the share of shifts whose largest value over all lags is at least
/// T(lag). One recording has as many shifts as steps, and all are used; of several recordings each is
/// shifted by a random number of steps.
///
/// If columns are held fixed, x, y and then their features are replaced by what is left of them after
/// regressions on these at the same step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LagTest {
    /// T at each lag of the plan, in nats.
    pub statistic_nats: Vec<f64>,
    /// The adjusted p-value of each lag of the plan.
    pub p_adjusted: Vec<f64>,
    /// The value that the largest T over all lags exceeds in 5% of the shifts, in nats.
    pub band_nats: f64,
    /// The smallest p-value that is possible: of all shifts of one recording, as many bring a given
    /// value into the window as there are lags.
    pub smallest_p: f64,
}

impl LagTest {
    /// Tests two series at the lags of a plan. Fails if `progress` ends it.
    pub fn new(series: &LagSeries, plan: &LagPlan, progress: &dyn Progress) -> Result<Self> {
        let statistic = Statistic::new(series, plan.estimate.seed, progress)?;
        let observed: Vec<f64> = plan.lags.iter().map(|lag| statistic.at(*lag, &[])).collect();
        let shifts = statistic.shifts(plan.estimate.permutations, plan.estimate.seed);
        let mut largest = Vec::with_capacity(shifts.len());
        for shift in &shifts {
            check(progress)?;
            let values = plan.lags.iter().map(|lag| statistic.at(*lag, shift));
            largest.push(values.fold(0.0, f64::max));
        }
        largest.sort_unstable_by(f64::total_cmp);
        let share = |count: usize| count as f64 / largest.len().max(1) as f64;
        let at_least = |value: &f64| largest.partition_point(|other| other < value);
        let p_adjusted = observed.iter().map(|value| share(largest.len() - at_least(value)));
        let place = (BAND * largest.len() as f64).ceil() as usize;
        let windows = if statistic.recordings.len() == 1 { plan.lags.len() } else { 1 };
        Ok(LagTest {
            p_adjusted: p_adjusted.collect(),
            statistic_nats: observed,
            band_nats: largest.get(place.saturating_sub(1)).copied().unwrap_or(0.0),
            smallest_p: share(windows).min(1.0),
        })
    }
}

/// The sums from which T is computed for any shift of each recording.
struct Statistic {
    recordings: Vec<Sums>,
    /// The mean number of pairs with both values over all shifts.
    mean_pairs: f64,
}

/// Sums over one recording, at each of its circular shifts.
struct Sums {
    /// The number of pairs with both values.
    pairs: Vec<f64>,
    /// The weighted sum of products of each two features.
    products: Vec<Vec<f64>>,
}

/// A feature of a column: its weight, and its value in each row, 0 where there is none.
type RowFeature = (f64, Vec<f64>);

impl Statistic {
    fn new(series: &LagSeries, seed: u64, progress: &dyn Progress) -> Result<Self> {
        let (x, y) = (series.x, series.y);
        let of_x = row_features(series, x, seed, progress)?;
        let of_y = row_features(series, y, seed, progress)?;
        let mut recordings = Vec::new();
        for recording in &series.timeline.recordings {
            check(progress)?;
            let has_value = |column: &Column| -> Vec<bool> {
                let steps = recording.steps.iter();
                steps.map(|row| row.is_some_and(|row| series.has_values(column, row))).collect()
            };
            let present = [has_value(x), has_value(y)];
            let spectra = |features: &[RowFeature], present: &[bool]| -> Vec<(f64, Spectrum)> {
                let spectrum = |(weight, values): &RowFeature| {
                    (*weight, Spectrum::new(centred(recording, values, present).into_iter()))
                };
                features.iter().map(spectrum).collect()
            };
            let (x, y) = (spectra(&of_x, &present[0]), spectra(&of_y, &present[1]));
            let [of_x, of_y] = present.map(|present| {
                Spectrum::new(present.into_iter().map(|there| f64::from(u8::from(there))))
            });
            let mut products = Vec::with_capacity(x.len() * y.len());
            for (f_weight, f) in &x {
                for (g_weight, g) in &y {
                    check(progress)?;
                    let sums = f.correlations(g).into_iter();
                    products.push(sums.map(|sum| f_weight * g_weight * sum).collect());
                }
            }
            recordings.push(Sums { pairs: of_x.correlations(&of_y), products });
        }
        let mean = |sums: &Sums| sums.pairs.iter().sum::<f64>() / sums.pairs.len() as f64;
        let mean_pairs = recordings.iter().map(mean).sum();
        Ok(Statistic { recordings, mean_pairs })
    }

    /// Returns T at a lag with each recording shifted; a recording without a shift stays in place.
    fn at(&self, lag: i64, shifts: &[usize]) -> f64 {
        let place = |(index, sums): (usize, &Sums)| -> usize {
            let shift = shifts.get(index).copied().unwrap_or(0) as i64;
            (lag + shift).rem_euclid(sums.pairs.len() as i64) as usize
        };
        let placed = || self.recordings.iter().zip(self.recordings.iter().enumerate().map(place));
        // Sums of whole numbers by transforms are exact but for rounding.
        let pairs = placed().map(|(sums, at)| sums.pairs[at]).sum::<f64>().max(1.0);
        let features = self.recordings.first().map_or(0, |sums| sums.products.len());
        let square =
            |k: usize| placed().map(|(sums, at)| sums.products[k][at]).sum::<f64>().powi(2);
        (0..features).map(square).sum::<f64>() / (2.0 * self.mean_pairs.max(1.0) * pairs)
    }

    /// Returns the shifts of the test, the first of which leaves all in place.
    fn shifts(&self, count: usize, seed: u64) -> Vec<Vec<usize>> {
        if let [sums] = &self.recordings[..] {
            return (0..sums.pairs.len()).map(|shift| vec![shift]).collect();
        }
        let mut rng = stream(seed, Purpose::Null, 0, 0);
        let mut random = |_| -> Vec<usize> {
            self.recordings.iter().map(|sums| random_index(&mut rng, sums.pairs.len())).collect()
        };
        let shifted: Vec<Vec<usize>> = (0..count).map(&mut random).collect();
        [vec![0; self.recordings.len()]].into_iter().chain(shifted).collect()
    }
}

/// Returns the features of a column in each row, 0 where a value is missing. If columns are held fixed,
/// first the column and then each feature is replaced by what is left of it after a regression on these:
/// otherwise a variance, or a category, that depends on them would count as dependence.
fn row_features(
    series: &LagSeries,
    column: &Column,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Vec<RowFeature>> {
    let present: Vec<usize> =
        (0..column.len()).filter(|row| series.has_values(column, *row)).collect();
    if present.is_empty() {
        return Ok(Vec::new());
    }
    let given: Vec<Column> = series.given.iter().map(|column| column.at(&present)).collect();
    let all: Vec<u32> = (0..present.len() as u32).collect();
    let left = |column: Column| -> Result<Column> {
        let side = [column];
        let predictions = match given.is_empty() {
            true => vec![None],
            false => predict_with_spread(&side, &given, &all, seed, &|| check(progress))?,
        };
        Ok(residuals(&side, &predictions).remove(0))
    };
    let complete = [left(column.at(&present))?];
    let mut found = Vec::new();
    for feature in features(&complete, usize::MAX, || check(progress))? {
        let values = feature.values.iter().map(|value| f64::from(*value)).collect();
        let feature_column =
            Column { name: column.name.clone(), values: Values::Continuous(values) };
        let Values::Continuous(values) = left(feature_column)?.values else { continue };
        let mut at_rows = vec![0.0; column.len()];
        present.iter().zip(values).for_each(|(row, value)| at_rows[*row] = value);
        found.push((f64::from(feature.weight), at_rows));
    }
    Ok(found)
}

/// Returns a feature at the steps of a recording, minus its mean over the recording; 0 where there is
/// no value.
fn centred(recording: &Recording, values: &[f64], present: &[bool]) -> Vec<f64> {
    let value = |(row, there): (&Option<usize>, &bool)| row.filter(|_| *there).map(|r| values[r]);
    let placed = || recording.steps.iter().zip(present).map(value);
    let count = placed().flatten().count().max(1) as f64;
    let mean = placed().flatten().sum::<f64>() / count;
    placed().map(|value| value.map_or(0.0, |value| value - mean)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::progress::NoProgress;
    use super::super::serial::tests::{autoregressive, numbers};
    use super::super::timeline::Timeline;
    use super::super::{Effort, Method};
    use super::*;
    use crate::random::Rng;
    use rand::RngExt;

    fn random(seed: u64) -> Rng {
        stream(seed, Purpose::Data, 0, 0)
    }

    fn run_test(x: Vec<f64>, y: Vec<f64>, group: Option<&Column>, largest: i64) -> LagTest {
        let timeline = Timeline::new(x.len(), None, group).unwrap();
        let (x, y) = (numbers("x", x), numbers("y", y));
        let series = LagSeries { x: &x, y: &y, given: &[], timeline: &timeline };
        let mut plan = LagPlan::new(-largest..=largest, Method::Auto, Effort::Quick);
        plan.estimate.permutations = 199;
        LagTest::new(&series, &plan, &NoProgress).unwrap()
    }

    fn smallest(test: &LagTest) -> f64 {
        test.p_adjusted.iter().copied().fold(1.0, f64::min)
    }

    /// Of 200 tests over 21 lags at 5%, 10 +- 9 reject, which is 3 standard deviations (alpha of
    /// about .003, fixed seeds), whether it is one series or 10 recordings with levels of their own.
    #[test]
    fn independent_series_are_rejected_at_the_level_of_the_test() {
        let rejected = |recordings: usize| {
            let group: Vec<f64> = (0..500).map(|row| (row * recordings / 500) as f64).collect();
            let group = numbers("trial", group);
            let p_value = |seed: u64| {
                let mut rng = random(seed);
                let [mut x, mut y] = [0, 1].map(|_| autoregressive(0.8, 500, &mut rng));
                if recordings > 1 {
                    let Values::Continuous(trials) = &group.values else { unreachable!() };
                    for (row, trial) in trials.iter().enumerate() {
                        x[row] += trial;
                        y[row] -= trial;
                    }
                }
                smallest(&run_test(x, y, (recordings > 1).then_some(&group), 10))
            };
            (0..200).filter(|&seed| p_value(seed) <= 0.05).count()
        };
        for recordings in [1, 10] {
            let count = rejected(recordings);
            assert!((1..=19).contains(&count), "{recordings}: {count}");
        }
    }

    #[test]
    fn a_planted_lag_has_the_smallest_p_value() {
        for seed in 0..5 {
            let mut rng = random(seed);
            let x = autoregressive(0.5, 1000, &mut rng);
            let noise = autoregressive(0.5, 1000, &mut rng);
            let y: Vec<f64> =
                (0..1000).map(|t| x[(t + 996) % 1000].powi(2) + 0.5 * noise[t]).collect();
            let test = run_test(x, y, None, 10);
            assert_eq!(test.p_adjusted[14], smallest(&test), "{seed}");
            assert!(test.p_adjusted[14] <= 0.03 && test.p_adjusted[0] > 0.05, "{test:?}");
            assert_eq!(test.smallest_p, 0.021);
        }
    }

    /// Where the same rows lack both values, lag 0 has more pairs than other lags, which must not
    /// make its statistic larger: of 200 tests at 5%, 10 +- 9 reject (3 standard deviations), and
    /// lag 0 of 3 has the largest value in 67 +- 27 (4 standard deviations; fixed seeds).
    #[test]
    fn missing_rows_do_not_favour_a_lag() {
        let (mut rejected, mut middle) = (0, 0);
        for seed in 0..200 {
            let mut rng = random(seed);
            let missing: Vec<bool> = (0..300).map(|_| rng.random_bool(0.4)).collect();
            let [x, y] = [0, 1].map(|_| {
                let values = autoregressive(0.0, 300, &mut rng).into_iter().zip(&missing);
                values.map(|(value, missing)| if *missing { f64::NAN } else { value }).collect()
            });
            let test = run_test(x, y, None, 1);
            rejected += usize::from(smallest(&test) <= 0.05);
            middle += usize::from(test.p_adjusted[1] == smallest(&test));
        }
        assert!((1..=19).contains(&rejected), "{rejected}");
        assert!((40..=94).contains(&middle), "{middle}");
    }

    fn test_given(x: Column, y: Column, given: Column) -> LagTest {
        let (given, timeline) = ([given], Timeline::new(x.len(), None, None).unwrap());
        let series = LagSeries { x: &x, y: &y, given: &given, timeline: &timeline };
        let plan = LagPlan::new(-3..=3, Method::GaussianCopula, Effort::Quick);
        LagTest::new(&series, &plan, &NoProgress).unwrap()
    }

    /// A driver of the means, of the variances or of categories makes x and y dependent, but not given
    /// the driver. Of 40 tests at 5%, more than 7 reject with a probability of .002 (fixed seeds).
    #[test]
    fn a_driver_that_is_held_fixed_is_explained_away() {
        let mean = |d: f64, a: f64| (d + 1.0).powi(2) + 0.3 * a;
        let variance = |d: f64, a: f64| d.exp() * a;
        let category = |d: f64, a: f64| f64::from(u8::from(d + 0.5 * a > 0.0));
        let drivers: [fn(f64, f64) -> f64; 3] = [mean, variance, category];
        for (k, driven) in drivers.into_iter().enumerate() {
            let is_category = k == 2;
            let (mut rejected, mut given_rejected) = (0, 0);
            for seed in 0..40 {
                let mut rng = random(seed);
                let [driver, a, b] = [0, 1, 2].map(|_| autoregressive(0.5, 400, &mut rng));
                let side = |noise: &[f64]| -> Vec<f64> {
                    driver.iter().zip(noise).map(|(d, a)| driven(*d, *a)).collect()
                };
                let (x, y) = (side(&a), side(&b));
                rejected += usize::from(smallest(&run_test(x.clone(), y.clone(), None, 3)) <= 0.05);
                let column = |values: Vec<f64>| match is_category {
                    false => numbers("v", values),
                    true => Column {
                        name: "v".into(),
                        values: Values::Discrete {
                            codes: values.iter().map(|value| *value as u32).collect(),
                            labels: vec!["no".into(), "yes".into()],
                        },
                    },
                };
                let test = test_given(column(x), column(y), numbers("driver", driver));
                given_rejected += usize::from(smallest(&test) <= 0.05);
            }
            assert!(rejected >= 15, "{k}: {rejected}");
            assert!(given_rejected <= 7, "{k}: {given_rejected}");
        }
    }

    #[test]
    fn rows_that_never_have_all_values_are_not_rejected() {
        let half = |first: bool| -> Column {
            let value = |row: i32| if (row < 30) == first { f64::from(row % 7) } else { f64::NAN };
            numbers("v", (0..60).map(value).collect())
        };
        let test = test_given(half(true), half(true), half(false));
        assert_eq!((smallest(&test), test.band_nats), (1.0, 0.0));
    }

    #[test]
    fn columns_without_features_are_not_rejected() {
        let test = run_test(vec![1.0; 30], (0..30).map(f64::from).collect(), None, 2);
        assert_eq!((smallest(&test), test.band_nats), (1.0, 0.0));
    }
}

//! Signed sums of estimates on the same folds: the terms of a chain, or those of a conditional
//! mutual information.

use super::Fitted;
use super::crossfit::CrossFit;
use super::progress::Progress;
use super::result::FoldFigures;
use std::ops::ControlFlow;

/// Returns the signed sum of the terms' estimates, with their uncertainties combined. Critics may miss
/// the share `unseen` of a term. The race is that of the first term; there are no models and no pairs
/// for a test.
pub(super) fn sum(signs: &[f64], fits: &[Fitted], unseen: f64) -> Fitted {
    let rows = fits[0].fit.pointwise.len();
    let mut pointwise = vec![0.0; rows];
    let (mut lower_bound, mut variance, mut gap, mut spread) = (0.0, 0.0, 0.0, 0.0);
    let mut largest_term = f64::NEG_INFINITY;
    for (sign, fit) in signs.iter().zip(fits) {
        for (sum, ratio) in pointwise.iter_mut().zip(&fit.fit.pointwise) {
            *sum += sign * ratio;
        }
        // A subtracted term counts with what its critics may have missed; that is no strict bound.
        lower_bound += match *sign > 0.0 {
            true => fit.fit.lower_bound,
            false => -(fit.mi() + fit.gap + unseen * fit.mi().max(0.0)),
        };
        variance += fit.fit.lower_bound_variance;
        spread += fit.spread.powi(2);
        gap += if *sign > 0.0 { fit.gap } else { 0.0 };
        largest_term = largest_term.max(fit.mi());
    }
    let folds = (0..fits[0].fit.folds.len()).map(|fold| sum_of_fold(signs, fits, fold)).collect();
    let fit = CrossFit {
        pointwise,
        folds,
        lower_bound,
        lower_bound_variance: variance,
        race: fits[0].fit.race.clone(),
        models: Vec::new(),
        nulls: Vec::new(),
        cost: fits[0].fit.cost,
    };
    Fitted { fit, gap, spread: spread.sqrt(), largest_term, chain: None }
}

/// Returns the signed sum of the terms' figures of one fold, with the critics of all terms.
fn sum_of_fold(signs: &[f64], fits: &[Fitted], fold: usize) -> FoldFigures {
    let folds = || fits.iter().map(|fit| &fit.fit.folds[fold]);
    let total = |value: fn(&FoldFigures) -> f64| {
        signs.iter().zip(folds()).map(|(sign, figures)| sign * value(figures)).sum::<f64>()
    };
    let squares: f64 = folds().map(|figures| figures.standard_error.powi(2)).sum();
    FoldFigures {
        rows: fits[0].fit.folds[fold].rows,
        mi_nats: total(|figures| figures.mi_nats),
        standard_error: squares.sqrt(),
        train_mi_nats: total(|figures| figures.train_mi_nats),
        members: folds().flat_map(|figures| figures.members.iter().cloned()).collect(),
    }
}

/// Passes on work done, but not the announcements of single terms.
pub(super) struct WithoutBegin<'a>(pub(super) &'a dyn Progress);

impl Progress for WithoutBegin<'_> {
    fn begin(&self, _total: u64) {}

    fn advance(&self, units: u64) -> ControlFlow<()> {
        self.0.advance(units)
    }
}

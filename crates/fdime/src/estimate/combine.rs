//! One model of several critics: l = sum of w_m l_m.

/// Weights for critics, from their log ratios of the same validation pairs: first the `joint`
/// observed ones, then those that were put together. The best by GAN loss takes all.
pub(super) fn combine(ratios: &[&[f32]], joint: usize) -> Vec<f64> {
    let best = (0..ratios.len())
        .max_by(|&a, &b| gan_value(ratios[a], joint).total_cmp(&gan_value(ratios[b], joint)))
        .unwrap_or(0);
    (0..ratios.len()).map(|m| f64::from(u8::from(m == best))).collect()
}

/// `E_joint[-softplus(-l)] - E_marginal[softplus(l)]`
fn gan_value(ratios: &[f32], joint: usize) -> f64 {
    let softplus = |l: f32| crate::numerics::softplus(f64::from(l));
    let (on, off) = ratios.split_at(joint);
    let mean = |sum: f64, count: usize| sum / count.max(1) as f64;
    -mean(on.iter().map(|l| softplus(-l)).sum(), on.len())
        - mean(off.iter().map(|l| softplus(*l)).sum(), off.len())
}

//! The rows of the table. Each is f, then a, b, a' and b' as functions of l = ln u.

use crate::numerics::{Real, sigmoid, softplus};
use std::f64::consts::LN_2;

/// One divergence. `a`, `b` and their slopes are generic over the number type: `f64` is the
/// definition, `f32` the version that the training loops vectorise.
pub(crate) trait Row {
    fn f(&self, u: f64) -> f64;
    fn a<R: Real>(&self, l: R) -> R;
    fn b<R: Real>(&self, l: R) -> R;
    fn a_slope<R: Real>(&self, l: R) -> R;
    fn b_slope<R: Real>(&self, l: R) -> R;
}

/// Declares a row from formulas in `u` (for f) and `l` (for the others).
macro_rules! row {
    ($name:ident, f($u:ident) = $f:expr, [$l:ident, $R:ident] a = $a:expr, b = $b:expr, a_slope = $a_slope:expr, b_slope = $b_slope:expr) => {
        pub(crate) struct $name;
        impl Row for $name {
            fn f(&self, $u: f64) -> f64 {
                $f
            }
            #[inline(always)]
            fn a<$R: Real>(&self, $l: $R) -> $R {
                $a
            }
            #[inline(always)]
            fn b<$R: Real>(&self, $l: $R) -> $R {
                $b
            }
            #[inline(always)]
            fn a_slope<$R: Real>(&self, $l: $R) -> $R {
                $a_slope
            }
            #[inline(always)]
            fn b_slope<$R: Real>(&self, $l: $R) -> $R {
                $b_slope
            }
        }
    };
}

row!(Kl, f(u) = u * u.ln(), [l, R]
    a = l + R::of(1.0),
    b = l.exp(),
    a_slope = {
        let _ = l;
        R::of(1.0)
    },
    b_slope = l.exp());

row!(Gan, f(u) = u * u.ln() - (u + 1.0) * (u + 1.0).ln() + 2.0 * LN_2, [l, R]
    a = -softplus(-l),
    b = softplus(l) - R::of(2.0 * LN_2),
    a_slope = sigmoid(-l),
    b_slope = sigmoid(l));

row!(Hellinger, f(u) = (u.sqrt() - 1.0).powi(2), [l, R]
    a = -(R::of(-0.5) * l).exp_m1(),
    b = (R::of(0.5) * l).exp_m1(),
    a_slope = R::of(0.5) * (R::of(-0.5) * l).exp(),
    b_slope = R::of(0.5) * (R::of(0.5) * l).exp());

row!(ReverseKl, f(u) = -u.ln(), [l, R]
a = -(-l).exp(),
b = l - R::of(1.0),
a_slope = (-l).exp(),
b_slope = {
    let _ = l;
    R::of(1.0)
});

row!(JensenShannon, f(u) = 0.5 * (u * u.ln() - (u + 1.0) * (0.5 * (u + 1.0)).ln()), [l, R]
    a = R::of(0.5) * (R::of(LN_2) - softplus(-l)),
    b = R::of(0.5) * (softplus(l) - R::of(LN_2)),
    a_slope = R::of(0.5) * sigmoid(-l),
    b_slope = R::of(0.5) * sigmoid(l));

row!(Pearson, f(u) = (u - 1.0).powi(2), [l, R]
    a = R::of(2.0) * l.exp_m1(),
    b = (R::of(2.0) * l).exp_m1(),
    a_slope = R::of(2.0) * l.exp(),
    b_slope = R::of(2.0) * (R::of(2.0) * l).exp());

row!(Neyman, f(u) = (u - 1.0).powi(2) / u, [l, R]
    a = -(R::of(-2.0) * l).exp_m1(),
    b = R::of(-2.0) * (-l).exp_m1(),
    a_slope = R::of(2.0) * (R::of(-2.0) * l).exp(),
    b_slope = R::of(2.0) * (-l).exp());

row!(Jeffreys, f(u) = (u - 1.0) * u.ln(), [l, R]
    a = l - (-l).exp_m1(),
    b = l + l.exp_m1(),
    a_slope = R::of(1.0) + (-l).exp(),
    b_slope = R::of(1.0) + l.exp());

row!(ShiftedLog, f(u) = LN_2 - (1.0 + u).ln(), [l, R]
    a = -sigmoid(-l),
    b = softplus(l) - sigmoid(l) - R::of(LN_2),
    a_slope = sigmoid(l) * sigmoid(-l),
    b_slope = sigmoid(l) * sigmoid(l));

/// The alpha family, with its two limits: (u^c - 1)/c tends to ln u for c -> 0.
pub(crate) struct Alpha(pub f64);

/// (e^{c l} - 1) / c
#[inline(always)]
fn power_minus_one_over<R: Real>(c: f64, l: R) -> R {
    if c == 0.0 { l } else { (R::of(c) * l).exp_m1() / R::of(c) }
}

impl Row for Alpha {
    fn f(&self, u: f64) -> f64 {
        let alpha = self.0;
        if alpha == 1.0 {
            u * u.ln() - u + 1.0
        } else if alpha == 0.0 {
            u - 1.0 - u.ln()
        } else {
            (u.powf(alpha) - alpha * u - (1.0 - alpha)) / (alpha * (alpha - 1.0))
        }
    }
    #[inline(always)]
    fn a<R: Real>(&self, l: R) -> R {
        power_minus_one_over(self.0 - 1.0, l)
    }
    #[inline(always)]
    fn b<R: Real>(&self, l: R) -> R {
        power_minus_one_over(self.0, l)
    }
    #[inline(always)]
    fn a_slope<R: Real>(&self, l: R) -> R {
        (R::of(self.0 - 1.0) * l).exp()
    }
    #[inline(always)]
    fn b_slope<R: Real>(&self, l: R) -> R {
        (R::of(self.0) * l).exp()
    }
}

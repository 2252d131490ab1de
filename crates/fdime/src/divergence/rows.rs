//! The rows of the table: f as a function of u; a, b, a' and b' as functions of l = ln u.

use crate::numerics::{Real, sigmoid, softplus};
use std::f64::consts::LN_2;

/// A divergence. `a`, `b` and their slopes are generic over the number type: `f64` is the
/// definition, `f32` the version that training vectorises.
pub(crate) trait Row {
    fn f(&self, u: f64) -> f64;
    fn a<R: Real>(&self, l: R) -> R;
    fn b<R: Real>(&self, l: R) -> R;
    fn a_slope<R: Real>(&self, l: R) -> R;
    fn b_slope<R: Real>(&self, l: R) -> R;

    /// Returns (a(l), a'(l)).
    #[inline(always)]
    fn a_and_slope<R: Real>(&self, l: R) -> (R, R) {
        (self.a(l), self.a_slope(l))
    }

    /// Returns (b(l), b'(l)).
    #[inline(always)]
    fn b_and_slope<R: Real>(&self, l: R) -> (R, R) {
        (self.b(l), self.b_slope(l))
    }
}

/// Declares a row by formulas in `u` (f) and `l` (a, b and their slopes).
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
    a = l + R::from_f64(1.0),
    b = l.exp(),
    a_slope = {
        let _ = l;
        R::from_f64(1.0)
    },
    b_slope = l.exp());

row!(Gan, f(u) = u * u.ln() - (u + 1.0) * (u + 1.0).ln() + 2.0 * LN_2, [l, R]
    a = -softplus(-l),
    b = softplus(l) - R::from_f64(2.0 * LN_2),
    a_slope = sigmoid(-l),
    b_slope = sigmoid(l));

row!(Hellinger, f(u) = (u.sqrt() - 1.0).powi(2), [l, R]
    a = -(R::from_f64(-0.5) * l).exp_m1(),
    b = (R::from_f64(0.5) * l).exp_m1(),
    a_slope = R::from_f64(0.5) * (R::from_f64(-0.5) * l).exp(),
    b_slope = R::from_f64(0.5) * (R::from_f64(0.5) * l).exp());

row!(ReverseKl, f(u) = -u.ln(), [l, R]
a = -(-l).exp(),
b = l - R::from_f64(1.0),
a_slope = (-l).exp(),
b_slope = {
    let _ = l;
    R::from_f64(1.0)
});

row!(JensenShannon, f(u) = 0.5 * (u * u.ln() - (u + 1.0) * (0.5 * (u + 1.0)).ln()), [l, R]
    a = R::from_f64(0.5) * (R::from_f64(LN_2) - softplus(-l)),
    b = R::from_f64(0.5) * (softplus(l) - R::from_f64(LN_2)),
    a_slope = R::from_f64(0.5) * sigmoid(-l),
    b_slope = R::from_f64(0.5) * sigmoid(l));

row!(Pearson, f(u) = (u - 1.0).powi(2), [l, R]
    a = R::from_f64(2.0) * l.exp_m1(),
    b = (R::from_f64(2.0) * l).exp_m1(),
    a_slope = R::from_f64(2.0) * l.exp(),
    b_slope = R::from_f64(2.0) * (R::from_f64(2.0) * l).exp());

row!(Neyman, f(u) = (u - 1.0).powi(2) / u, [l, R]
    a = -(R::from_f64(-2.0) * l).exp_m1(),
    b = R::from_f64(-2.0) * (-l).exp_m1(),
    a_slope = R::from_f64(2.0) * (R::from_f64(-2.0) * l).exp(),
    b_slope = R::from_f64(2.0) * (-l).exp());

row!(Jeffreys, f(u) = (u - 1.0) * u.ln(), [l, R]
    a = l - (-l).exp_m1(),
    b = l + l.exp_m1(),
    a_slope = R::from_f64(1.0) + (-l).exp(),
    b_slope = R::from_f64(1.0) + l.exp());

row!(ShiftedLog, f(u) = LN_2 - (1.0 + u).ln(), [l, R]
    a = -sigmoid(-l),
    b = softplus(l) - sigmoid(l) - R::from_f64(LN_2),
    a_slope = sigmoid(l) * sigmoid(-l),
    b_slope = sigmoid(l) * sigmoid(l));

/// The alpha family, including its two limits: (u^c - 1)/c tends to ln u for c -> 0.
pub(crate) struct Alpha(pub f64);

/// Returns (e^{c l} - 1) / c, or its limit l for c = 0.
#[inline(always)]
fn power_minus_one_over<R: Real>(c: f64, l: R) -> R {
    if c == 0.0 { l } else { (R::from_f64(c) * l).exp_m1() / R::from_f64(c) }
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
        (R::from_f64(self.0 - 1.0) * l).exp()
    }
    #[inline(always)]
    fn b_slope<R: Real>(&self, l: R) -> R {
        (R::from_f64(self.0) * l).exp()
    }
}

//! Numerically stable elementary functions for two number types: `f64`, the reference, and `f32`,
//! whose versions are branch-free so that loops over scores are vectorised.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// The number type of divergences, links and activations.
pub trait Real:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// Rounds a constant to this type.
    fn from_f64(constant: f64) -> Self;
    /// Converts to `f64` without loss.
    fn to_f64(self) -> f64;
    /// Returns e^x.
    fn exp(self) -> Self;
    /// Returns e^x - 1.
    fn exp_m1(self) -> Self;
    /// Returns ln x for x > 0.
    fn ln(self) -> Self;
    /// Returns ln(1 + x) for x >= 0.
    fn ln_1p(self) -> Self;
    /// Returns |x|.
    fn abs(self) -> Self;
    /// Returns `yes` if `condition` holds, else `no`. Both are evaluated, so that loops vectorise.
    #[inline(always)]
    fn select(condition: bool, yes: Self, no: Self) -> Self {
        if condition { yes } else { no }
    }
}

impl Real for f64 {
    #[inline(always)]
    fn from_f64(constant: f64) -> Self {
        constant
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn exp(self) -> Self {
        f64::exp(self)
    }
    #[inline(always)]
    fn exp_m1(self) -> Self {
        f64::exp_m1(self)
    }
    #[inline(always)]
    fn ln(self) -> Self {
        f64::ln(self)
    }
    #[inline(always)]
    fn ln_1p(self) -> Self {
        f64::ln_1p(self)
    }
    #[inline(always)]
    fn abs(self) -> Self {
        f64::abs(self)
    }
}

impl Real for f32 {
    #[inline(always)]
    fn from_f64(constant: f64) -> Self {
        constant as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    /// e^x = 2^n e^r with n = round(x / ln 2) and a polynomial of degree 6 in r, accurate to 2
    /// units in the last place. The result is infinite above 88.37 and 1.2e-38 below -87.3.
    #[inline(always)]
    fn exp(self) -> Self {
        // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low mantissa bits.
        const ROUND: f32 = 12_582_912.0;
        let x = self.clamp(-87.336_54, 88.8);
        let shifted = x * std::f32::consts::LOG2_E + ROUND;
        let n = shifted - ROUND;
        let r = n.mul_add(2.121_944_4e-4, n.mul_add(-0.693_359_4, x));
        let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
        let p = polynomial(
            r,
            [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5],
        );
        (p.mul_add(r * r, r) + 1.0) * power
    }

    #[inline(always)]
    fn exp_m1(self) -> Self {
        let series = self + self * self * (0.5 + self * (1.0 / 6.0 + self * (1.0 / 24.0)));
        Self::select(Real::abs(self) < 0.03, series, Real::exp(self) - 1.0)
    }

    /// ln x = e ln 2 + ln m with sqrt(1/2) <= m < sqrt 2 (Cephes' polynomial); x must be normal.
    #[inline(always)]
    fn ln(self) -> Self {
        const SQRT_HALF_BITS: u32 = 0x3f35_04f3;
        let shifted = self.to_bits().wrapping_sub(SQRT_HALF_BITS);
        let e = ((shifted as i32) >> 23) as f32;
        let m = f32::from_bits((shifted & 0x007f_ffff).wrapping_add(SQRT_HALF_BITS)) - 1.0;
        let z = m * m;
        let p = polynomial(
            m,
            [
                7.037_683_6e-2,
                -1.151_461e-1,
                1.167_699_9e-1,
                -1.242_014_1e-1,
                1.424_932_3e-1,
                -1.666_805_7e-1,
                2.000_071_5e-1,
                -2.499_999_4e-1,
                3.333_333e-1,
            ],
        );
        let tail = (m * z).mul_add(p, -0.5 * z);
        let value = e.mul_add(std::f32::consts::LN_2, tail + m);
        // Without this, infinity and NaN would give a large finite number.
        Self::select(self < f32::INFINITY, value, self)
    }

    #[inline(always)]
    fn ln_1p(self) -> Self {
        let series = self * (1.0 - self * (0.5 - self * (1.0 / 3.0)));
        Self::select(self < 0.01, series, Real::ln(1.0 + self))
    }

    #[inline(always)]
    fn abs(self) -> Self {
        f32::abs(self)
    }
}

/// Evaluates a polynomial; the coefficient of the highest power comes first. Loops over scores are
/// compiled for CPUs with fused multiply-add instructions, so `mul_add` is fast there.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut value = 0.0f32;
    for coefficient in coefficients {
        value = value.mul_add(x, coefficient);
    }
    value
}

/// Returns ln(1 + e^x).
#[inline(always)]
pub(crate) fn softplus<R: Real>(x: R) -> R {
    let tail = (-x.abs()).exp().ln_1p();
    R::select(x > R::from_f64(0.0), x + tail, tail)
}

/// Returns 1 / (1 + e^-x). It is computed from e^-|x|, which `softplus` uses as well.
#[inline(always)]
pub(crate) fn sigmoid<R: Real>(x: R) -> R {
    let tail = (-x.abs()).exp();
    R::select(x > R::from_f64(0.0), R::from_f64(1.0), tail) / (R::from_f64(1.0) + tail)
}

/// Returns ln softplus(x), which tends to x for x -> -inf.
#[inline(always)]
pub(crate) fn ln_softplus<R: Real>(x: R) -> R {
    let far_left = x - R::from_f64(0.5) * x.exp();
    R::select(x < R::from_f64(-12.0), far_left, softplus(x).ln())
}

/// Returns d/dx ln softplus(x) = sigmoid(x) / softplus(x).
#[inline(always)]
pub(crate) fn ln_softplus_slope<R: Real>(x: R) -> R {
    let far_left = R::from_f64(1.0) - R::from_f64(0.5) * x.exp();
    R::select(x < R::from_f64(-12.0), far_left, sigmoid(x) / softplus(x))
}

/// Returns ln(e^x + e^y).
pub(crate) fn log_add_exp(x: f64, y: f64) -> f64 {
    let (low, high) = if x < y { (x, y) } else { (y, x) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allows a few units in the last place, because 1 + x is rounded before its logarithm is
    /// taken.
    fn assert_close(fast: f32, exact: f64, at: f64) {
        let error = (f64::from(fast) - exact).abs() / exact.abs().max(1e-30);
        assert!(error < 6e-6, "at {at}: {fast}, expected {exact}, relative error {error:e}");
    }

    #[test]
    fn f32_functions_agree_with_f64() {
        for k in -8000i32..=8000 {
            let x = f64::from(k) * 0.01;
            let x32 = x as f32;
            let x = f64::from(x32);
            assert_close(Real::exp(x32), x.exp(), x);
            assert_close(sigmoid(x32), 1.0 / (1.0 + (-x).exp()), x);
            assert_close(softplus(x32), softplus(x), x);
            assert_close(ln_softplus_slope(x32), ln_softplus_slope(x), x);
            let positive = Real::exp(x32);
            if (positive - 1.0).abs() > 0.1 {
                assert_close(Real::ln(positive), f64::from(positive).ln(), x);
            }
            assert_close(Real::ln_1p(positive), f64::from(positive).ln_1p(), x);
            assert!((f64::from(ln_softplus(x32)) - ln_softplus(x)).abs() < 6e-6 * (1.0 + x.abs()));
            if k != 0 {
                let error = (f64::from(Real::exp_m1(x32)) / x.exp_m1() - 1.0).abs();
                assert!(error < 5e-6, "exp_m1 at {x}: {error:e}");
            }
        }
    }

    #[test]
    fn infinities_and_nan_are_preserved() {
        assert_eq!(Real::exp(100.0f32), f32::INFINITY);
        assert!(Real::exp(-100.0f32) < 2e-38);
        assert!(Real::exp(f32::NAN).is_nan());
        assert!(Real::ln(f32::NAN).is_nan());
        assert_eq!(Real::ln(f32::INFINITY), f32::INFINITY);
        assert!(sigmoid(-200.0f32) < 2e-38);
        assert!(softplus(f32::NAN).is_nan());
        assert_eq!(softplus(1e5f32), 1e5);
    }

    #[test]
    fn log_add_exp_is_stable() {
        assert_eq!(log_add_exp(1000.0, 1000.0), 1000.0 + std::f64::consts::LN_2);
        assert_eq!(log_add_exp(f64::NEG_INFINITY, 3.0), 3.0);
        assert_eq!(log_add_exp(3.0, f64::NEG_INFINITY), 3.0);
    }
}

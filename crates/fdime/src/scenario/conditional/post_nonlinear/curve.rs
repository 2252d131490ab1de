//! The functions of post-nonlinear models.

/// A function of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::scenario) enum Curve {
    /// t
    Identity,
    /// tanh t
    Tanh,
    /// t^2
    Square,
    /// exp(-|t|)
    Peak,
    /// cos t
    Cosine,
}

/// Which arguments of a curve have the same value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fold {
    /// No two.
    None,
    /// t and -t.
    Absolute,
    /// t, -t and those at a distance of 2 pi from one of them.
    Cosine,
}

impl Curve {
    /// Returns the value at t.
    pub(in crate::scenario) fn at(self, t: f64) -> f64 {
        match self {
            Curve::Identity => t,
            Curve::Tanh => t.tanh(),
            Curve::Square => t * t,
            Curve::Peak => (-t.abs()).exp(),
            Curve::Cosine => t.cos(),
        }
    }

    /// Returns an argument with this value, the one that is not negative and at most pi if there
    /// are several.
    pub(super) fn argument(self, value: f64) -> f64 {
        match self {
            Curve::Identity => value,
            Curve::Tanh => value.atanh(),
            Curve::Square => value.sqrt(),
            Curve::Peak => -value.ln(),
            Curve::Cosine => value.acos(),
        }
    }

    /// Returns which arguments have the same value.
    pub(super) fn fold(self) -> Fold {
        match self {
            Curve::Identity | Curve::Tanh => Fold::None,
            Curve::Square | Curve::Peak => Fold::Absolute,
            Curve::Cosine => Fold::Cosine,
        }
    }

    /// Returns bounds of the absolute value and of the slope for |t| <= `largest`.
    pub(super) fn bounds(self, largest: f64) -> (f64, f64) {
        match self {
            Curve::Identity => (largest, 1.0),
            Curve::Square => (largest * largest, 2.0 * largest),
            Curve::Tanh | Curve::Peak | Curve::Cosine => (1.0, 1.0),
        }
    }

    /// Returns whether the slope jumps at 0.
    pub(super) fn has_kink(self) -> bool {
        self == Curve::Peak
    }
}

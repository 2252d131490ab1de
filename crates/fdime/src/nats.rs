use serde::{Deserialize, Serialize};
use std::fmt;

/// An amount of information in nats (natural units, 1 nat = 1/ln 2 bits).
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Nats(pub f64);

impl Nats {
    /// Returns the amount in bits.
    pub fn bits(self) -> f64 {
        self.0 / std::f64::consts::LN_2
    }

    /// Returns whether the number is neither infinite nor NaN.
    pub fn is_finite(self) -> bool {
        self.0.is_finite()
    }
}

impl fmt::Display for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)?;
        f.write_str(" nats")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_is_ln_2_nats() {
        assert_eq!(Nats(std::f64::consts::LN_2).bits(), 1.0);
        assert_eq!(format!("{:.2}", Nats(1.5)), "1.50 nats");
    }
}

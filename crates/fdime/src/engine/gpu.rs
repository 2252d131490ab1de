//! The description and the precision of GPUs, in builds with and without CUDA.

use crate::error::{Error, Result, unknown_name};

/// What can be said of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo {
    /// Its number.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Compute capability times 10.
    pub architecture: u32,
    /// Bytes in all.
    pub memory: usize,
    /// Bytes not in use now.
    pub free: usize,
    /// Why it cannot be used, if it cannot.
    pub problem: Option<String>,
}

/// What the tensor cores multiply in. Sums, objectives and the optimiser are fp32 always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// As exact as fp32: each number as the sum of two of tf32.
    Fp32,
    /// Factors rounded to 11 significant bits.
    #[default]
    Tf32,
    /// Factors rounded to 8 significant bits.
    Bf16,
}

impl Precision {
    /// Every precision.
    pub const ALL: [Precision; 3] = [Precision::Fp32, Precision::Tf32, Precision::Bf16];

    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
        }
    }
}

impl std::str::FromStr for Precision {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Precision::ALL
            .into_iter()
            .find(|precision| precision.name() == name)
            .ok_or_else(|| unknown_name("precision", name, Precision::ALL.map(Precision::name)))
    }
}

//! The description and the precision of GPUs, in builds with and without CUDA.

use crate::error::{Error, Result, unknown_name};
use crate::message::Parameter;

/// Properties of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo {
    /// Its number.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Compute capability times 10.
    pub architecture: u32,
    /// The size of its memory in bytes.
    pub memory: usize,
    /// The free memory in bytes.
    pub free: usize,
    /// The reason why it cannot be used, or `None` if it can.
    pub problem: Option<String>,
}

/// The precision of products on the tensor cores. Sums, objectives and the optimiser are always
/// fp32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// As exact as fp32: each factor is split into the sum of two tf32 numbers.
    Fp32,
    /// Factors rounded to 11 significant bits.
    #[default]
    Tf32,
    /// Factors rounded to 8 significant bits.
    Bf16,
}

impl Precision {
    /// All precisions.
    pub const ALL: [Precision; 3] = [Precision::Fp32, Precision::Tf32, Precision::Bf16];

    /// Returns the name, as users write it.
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
        Precision::ALL.into_iter().find(|precision| precision.name() == name).ok_or_else(|| {
            unknown_name(Parameter::Precision, name, Precision::ALL.map(Precision::name))
        })
    }
}

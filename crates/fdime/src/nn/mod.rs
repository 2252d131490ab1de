//! Neural networks and their optimiser.
//!
//! They are built on the `gemm` crate, which is measurably faster for small networks than general
//! tensor libraries (see `bench/`): parameters are one flat buffer, scratch memory is allocated
//! once, bias and activation are applied in one pass, and a few rows at a time go through the
//! forward and the backward pass while they are in the cache.

mod activation;
mod adam;
mod conv;
pub(crate) mod matrix;
mod mlp;

pub use activation::Activation;
pub(crate) use adam::Part;
pub use adam::{Adam, AdamPlan};
#[cfg(feature = "cuda")]
pub(crate) use conv::{ConvLayer, Window};
pub(crate) use conv::{ConvNet, ConvScratch};
pub(crate) use matrix::Write;
pub(crate) use mlp::{Mlp, MlpScratch, Transposed, dot};

//! Classical estimators, used as reference models and for comparison.

mod gaussian;
mod ksg;

pub use gaussian::CanonicalModel;
pub use ksg::ksg;

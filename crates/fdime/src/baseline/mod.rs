//! Classical estimators: references to add to, and to check against.

mod gaussian;
mod ksg;

pub use gaussian::CanonicalModel;
pub use ksg::ksg;

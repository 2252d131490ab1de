//! Pictures of results.

pub mod staircase;
mod svg;

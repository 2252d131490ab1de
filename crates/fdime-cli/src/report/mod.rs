//! Figures and pages that show results.

pub mod chart;
pub mod estimate;
pub mod heat_map;
pub mod staircase;

pub use crate::plot::shortened;

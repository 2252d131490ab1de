//! Figures and pages that show results.

pub mod capacity;
pub mod chart;
pub mod estimate;
pub mod graphml;
pub mod heat_map;
pub mod lag;
pub mod power;
pub mod selection;
pub mod staircase;
mod terms;

pub use crate::plot::shortened;

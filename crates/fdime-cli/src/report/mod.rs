//! What runs look like: tables, plots and reports.

pub mod chart;
pub mod estimate;
pub mod figure;
pub mod heat_map;
pub mod staircase;
pub mod svg;

pub use svg::shortened;

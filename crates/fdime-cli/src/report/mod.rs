//! What runs look like: tables, plots and reports.

pub mod estimate;
pub mod figure;
pub mod heat_map;
pub mod staircase;
mod svg;

pub use svg::shortened;

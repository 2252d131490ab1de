//! The paper's experiments: recipes, their jobs and results, and reports about them.

mod block_limit;
pub mod claims;
mod consistency;
pub mod cost;
pub mod figures;
pub mod groups;
pub mod image_sets;
mod images;
pub mod jobs;
pub mod pages;
pub mod paper;
pub mod publish;
pub mod recipe;
pub mod results;
pub mod runner;
pub mod summary;

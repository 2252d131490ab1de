//! The paper's experiments: recipes, their runs, and what is made of them.

pub mod checks;
pub mod figures;
pub mod jobs;
pub mod pages;
pub mod paper;
pub mod recipe;
pub mod results;
pub mod summary;

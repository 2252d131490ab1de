//! The native part of the Python package: it takes columns, plans as JSON and scores, and gives back
//! arrays and JSON. Everything that is pleasant to use is Python, in `python/fdime`.

mod blocks;
mod estimate;
mod failure;
mod staircase;
mod table;
mod watch;
mod words;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::blocks::{Divergence, Objective, Scenario, names, suite};
    #[pymodule_export]
    use super::estimate::{Model, adjust, check_plan, estimate, estimate_plan, notice, pair};
    #[pymodule_export]
    use super::staircase::{Trace, execute, run_plans, staircase_plan, summarise};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::watch::panic_in_a_worker;

    /// Silences panics that the library returns as errors.
    #[pymodule_init]
    fn init(_module: &super::Bound<'_, super::PyModule>) -> super::PyResult<()> {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !fdime::panic_is_caught() {
                print(info);
            }
        }));
        Ok(())
    }

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

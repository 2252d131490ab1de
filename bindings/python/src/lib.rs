//! The native part of the Python package. It takes columns, scores and plans as JSON, and returns
//! arrays and JSON. The public interface is written in Python, in `python/fdime`.

mod background;
mod blocks;
mod capacity;
mod estimate;
mod execution;
mod failure;
mod lag;
mod matrix;
mod power;
mod select;
mod staircase;
mod table;
mod transfer;
mod wording;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::background::panic_in_a_worker;
    #[pymodule_export]
    use super::blocks::{
        ConditionalTask, Divergence, Objective, Scenario, conditional_suite, names, suite,
    };
    #[pymodule_export]
    use super::capacity::channel_capacity;
    #[pymodule_export]
    use super::estimate::{Model, check_plan, estimate, estimate_plan, notice};
    #[pymodule_export]
    use super::execution::concurrent_estimates;
    #[pymodule_export]
    use super::lag::{LagJournal, adjust_lag_profiles, check_lags, estimate_lag, lag_profile};
    #[pymodule_export]
    use super::matrix::{Journal, adjust_pairs, estimate_pair};
    #[pymodule_export]
    use super::power::power_analysis;
    #[pymodule_export]
    use super::select::select_features;
    #[pymodule_export]
    use super::staircase::{Run, Trace, combine, execute, run_plans, staircase_plan, summarise};
    #[pymodule_export]
    use super::table::{Table, parse_times};
    #[pymodule_export]
    use super::transfer::{
        TransferJournal, check_transfer, compare_transfers, estimate_transfer,
        transfer_plan_for_target,
    };

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

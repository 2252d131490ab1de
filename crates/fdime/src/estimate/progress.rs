//! How far an estimate has come.

use crate::error::{Error, Result};
use std::ops::ControlFlow;

/// Follows an estimate and can end it.
pub trait Progress: Sync {
    /// There are this many units of work in all (about a million multiply-adds each).
    fn begin(&self, total: u64);
    /// So many more are done.
    fn advance(&self, units: u64) -> ControlFlow<()>;
}

/// Follows nothing.
pub struct Unwatched;

impl Progress for Unwatched {
    fn begin(&self, _total: u64) {}

    fn advance(&self, _units: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// [`Progress::advance`] as a result.
pub(super) fn advance(progress: &dyn Progress, units: u64) -> Result<()> {
    match progress.advance(units) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Interrupted),
    }
}

//! The progress of an estimate.

use crate::error::{Error, Result};
use std::ops::ControlFlow;

/// Follows an estimate and can end it.
pub trait Progress: Sync {
    /// Announces the work of the whole estimate, in units of about a million multiply-adds.
    fn begin(&self, total: u64);
    /// Reports work done. `Break` ends the estimate.
    fn advance(&self, units: u64) -> ControlFlow<()>;
}

/// Ignores progress.
pub struct NoProgress;

impl Progress for NoProgress {
    fn begin(&self, _total: u64) {}

    fn advance(&self, _units: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Passes on the wish to end, but not the work of single estimates.
pub(super) struct OnlyChecks<'a>(pub(super) &'a dyn Progress);

impl Progress for OnlyChecks<'_> {
    fn begin(&self, _total: u64) {}

    fn advance(&self, _units: u64) -> ControlFlow<()> {
        self.0.advance(0)
    }
}

/// Reports work done; returns [`Error::Interrupted`] if the estimate should end.
pub(super) fn advance(progress: &dyn Progress, units: u64) -> Result<()> {
    match progress.advance(units) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Interrupted),
    }
}

/// Returns [`Error::Interrupted`] if the estimate should end.
pub(super) fn check(progress: &dyn Progress) -> Result<()> {
    advance(progress, 0)
}

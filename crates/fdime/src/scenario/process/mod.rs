//! Pairs of series whose transfer entropy is known.
//!
//! The transfer entropy from a series s to a series t with histories of k and l values is
//! I(t_n; s_(n-1), ..., s_(n-l) | t_(n-1), ..., t_(n-k)).

mod autoregression;
mod suite;

pub use suite::{TransferTask, transfer_suite};

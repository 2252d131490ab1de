//! What is printed besides results: notes and errors on stderr, which may be closed or full.

use crate::printable::printable;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

static QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses notes and progress from now on.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Returns whether notes and progress are suppressed.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Prints a note.
pub fn note(text: &str) {
    if !is_quiet() {
        complain(text);
    }
}

/// Prints lines even if notes are suppressed.
pub fn complain(text: &str) {
    // There is nowhere left to say that stderr cannot be written.
    let _ = writeln!(std::io::stderr(), "{}", printable(text));
}

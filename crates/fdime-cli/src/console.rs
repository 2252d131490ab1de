//! What is printed besides results: notes and errors on stderr, which may be closed or full.

use crate::printable::printable;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use textwrap::{Options, WordSplitter};

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
    let text = printable(text);
    let mut stderr = std::io::stderr();
    // There is nowhere left to say that stderr cannot be written.
    let _ = match stderr.is_terminal() {
        true => writeln!(stderr, "{}", textwrap::fill(&text, textwrap_options())),
        false => writeln!(stderr, "{text}"),
    };
}

/// Returns how messages are wrapped on a terminal. Names and options with hyphens stay whole.
fn textwrap_options() -> Options<'static> {
    Options::new(80).subsequent_indent("  ").word_splitter(WordSplitter::NoHyphenation)
}

use crate::message::Message;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether a panic on this thread would be caught by this crate and returned as an error.
/// A panic hook can call it, in order not to print such panics.
pub fn panic_is_caught() -> bool {
    CAUGHT.get()
}

/// Runs `decode` and returns its value, or the message of its panic as an error.
///
/// The Parquet and Arrow crates return errors for most damaged files, but some files trip their
/// assertions and index checks. A file is input, so it must not end the program.
pub(crate) fn without_panic<T>(decode: impl FnOnce() -> T) -> Result<T, Message> {
    let outer = CAUGHT.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    CAUGHT.set(outer);
    outcome.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        text.unwrap_or("the decoder failed").into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(without_panic(|| 1), Ok(1));
        assert_eq!(without_panic(panic_is_caught), Ok(true));
        let index = std::hint::black_box(3);
        let reason = without_panic(|| [1, 2][index]).unwrap_err().to_string();
        assert!(reason.contains("out of bounds"), "{reason}");
        assert!(!panic_is_caught());
    }
}

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Runs a decoder of damaged files to its end or its panic, which becomes the reason of an error.
///
/// The Parquet and Arrow crates return errors for most damage, but contain assertions and
/// indexing that some damaged files trip. A file is input: it must not take the program down, and
/// the message of a caught panic must not appear among the program's own. Hence the hook, which
/// stays silent for this thread while it decodes and otherwise does what was set before.
pub(crate) fn without_panic<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !SILENT.get() {
                before(info);
            }
        }));
    });
    let was_silent = SILENT.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    SILENT.set(was_silent);
    outcome.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        text.unwrap_or("the decoder gave up").to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(without_panic(|| 1), Ok(1));
        let index = std::hint::black_box(3);
        let reason = without_panic(|| [1, 2][index]).unwrap_err();
        assert!(reason.contains("out of bounds"), "{reason}");
        assert!(!SILENT.get());
    }
}

//! Integers as floating-point numbers, or an error where those would be other integers.
//!
//! Columns hold numbers of 64 bits, 53 of which are digits. Of the integers above 2^53 only some
//! are such numbers; others would be rounded to them, and differences between rows, which may be all
//! the information that a column has, would be lost without notice. Such integers are refused. (To
//! subtract a number from the column here would be of no help: critics that are saved would have to
//! subtract the same from other tables.)

/// 2^53. A number below it was not read from an integer by rounding.
const FIRST_ROUNDED: f64 = 9_007_199_254_740_992.0;

/// What is wrong with an integer that would be rounded.
pub(super) const ROUNDED: &str = "an integer above 2^53, which would be rounded,";

/// What to do about it.
pub(super) const ADVICE: &str =
    "subtract the same number from all rows, or leave it out if it identifies something";

/// Returns what is wrong with a column whose integer in this row, from 1, would be rounded.
pub(super) fn rounded_in_row(row: usize) -> String {
    format!("has {ROUNDED} in row {row}; {ADVICE}")
}

/// Returns an integer of 64 bits as a number, or `None` if it would be rounded.
pub(super) fn exact(integer: impl Into<i128>) -> Option<f64> {
    let integer = integer.into();
    let number = integer as f64;
    (number as i128 == integer).then_some(number)
}

/// Returns whether a text is an integer and `number`, which was read from it, is not. Programs that
/// write a number such as 1e23 in full write its significant digits and then zeros; that is the
/// number and not an integer that was rounded.
pub(super) fn is_rounded(text: &str, number: f64) -> bool {
    if number.abs() < FIRST_ROUNDED || !number.is_finite() {
        return false;
    }
    let digits = text.trim_start_matches(['+', '-']).trim_start_matches('0');
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit());
    let magnitude = number.abs();
    is_integer && format!("{magnitude}") != digits && format!("{magnitude:.0}") != digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_or_refused() {
        assert_eq!(exact(1i64 << 53), Some(2f64.powi(53)));
        assert_eq!(exact((1i64 << 53) + 1), None);
        assert_eq!(exact(-(1i64 << 62)), Some(-(2f64.powi(62))));
        assert_eq!((exact(i64::MIN), exact(i64::MAX)), (Some(-(2f64.powi(63))), None));
        assert_eq!((exact(1u64 << 63), exact(u64::MAX)), (Some(2f64.powi(63)), None));
    }

    #[test]
    fn texts_of_integers_and_of_other_numbers() {
        let is_rounded = |text: &str| is_rounded(text, text.parse().unwrap());
        for text in ["4611686018427387905", "-9007199254740993", "+09007199254740993"] {
            assert!(is_rounded(text), "{text}");
        }
        // Exact integers, numbers written in full by Rust and by C, and numbers that are no integers.
        let in_full = [1e23, 1e300, 2f64.powi(60)].map(|number| format!("{number}"));
        let by_c = format!("{:.0}", 2f64.powi(90));
        let others = ["9007199254740992", "4611686018427387904", "0", "-12"]
            .into_iter()
            .chain(["1.0000000000000000000001", "9007199254740993.5", "4.611686018427387905e18"])
            .chain(["inf", &by_c])
            .chain(in_full.iter().map(String::as_str));
        for text in others {
            assert!(!is_rounded(text), "{text}");
        }
    }
}

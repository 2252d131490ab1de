//! Text of files and file names, made safe to show in a terminal, a figure or a page.

/// Returns the text with escapes for characters that are not shown but act. Line breaks stay.
pub fn printable(text: &str) -> String {
    text.split('\n').map(fdime::printable).collect::<Vec<_>>().join("\n")
}

/// Returns the printable text in one line.
pub fn one_line(text: &str) -> String {
    fdime::printable(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_and_controls_do_not() {
        assert_eq!(printable("a\u{1b}[31m\nb"), "a\\u{1b}[31m\nb");
        assert_eq!(one_line(" a\n\n b\u{7}\tc "), "a b\\u{7} c");
    }
}

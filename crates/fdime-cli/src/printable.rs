//! Text of files and file names, made safe to show in a terminal, a figure or a page.

/// Returns the text with � for characters that are not shown but act: control characters, such as
/// those that start a terminal's escape sequences, and marks that change the direction of writing.
/// Line breaks and tabs stay.
pub fn printable(text: &str) -> String {
    text.chars().map(|character| if acts(character) { '�' } else { character }).collect()
}

/// Returns the printable text in one line.
pub fn one_line(text: &str) -> String {
    printable(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn acts(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // Marks, embeddings, overrides and isolates of direction.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            true
        }
        // XML has no way to write these two.
        '\u{fffe}' | '\u{ffff}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_act_are_replaced_and_others_stay() {
        assert_eq!(printable("a\u{1b}[31m\u{202e}b\0\u{9b}c\r"), "a�[31m�b��c�");
        let text = "naïve Ω ابجد 漢字 👩‍🔬 <&>\"'\n\t";
        assert_eq!(printable(text), text);
        assert_eq!(one_line(" a\n\n b\u{7}\tc "), "a b� c");
    }
}

//! Summaries for people, in lines of at most 80 characters.

use fdime::estimate::Paragraph;
use textwrap::{Options, WordSplitter};

const WIDTH: usize = 80;

/// Returns the paragraphs wrapped to lines of at most 80 characters, where words allow it.
pub fn wrap(paragraphs: &[Paragraph]) -> String {
    let options = Options::new(WIDTH).word_splitter(WordSplitter::NoHyphenation).break_words(false);
    let fill = |text: &str, first: &str, rest: &str| {
        textwrap::fill(text, options.clone().initial_indent(first).subsequent_indent(rest))
    };
    let lines = paragraphs.iter().map(|paragraph| match paragraph {
        Paragraph::Text(text) => fill(text, "", "  "),
        Paragraph::Item(text) => fill(text, "  - ", "    "),
        Paragraph::Gap => String::new(),
    });
    lines.collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paragraphs_are_indented_and_long_words_stay_whole() {
        let long = "well-known word ".repeat(8);
        let paragraphs = [
            Paragraph::Text("I = 1   interval".into()),
            Paragraph::Item(long.trim().into()),
            Paragraph::Gap,
            Paragraph::Text("w".repeat(90)),
        ];
        let text = wrap(&paragraphs);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "I = 1   interval");
        assert!(lines[1].starts_with("  - well-known") && lines[1].len() <= WIDTH, "{text}");
        assert!(lines[2].starts_with("    w") && !lines[1].ends_with('-'), "{text}");
        assert_eq!((lines.len(), lines[3], lines[4].len()), (5, "", 90));
    }
}

//! Summaries for people, in lines of at most 80 characters.

use crate::failure::Outcome;
use anstyle::{AnsiColor, Style};
use fdime::estimate::Paragraph;
use std::io::Write;
use textwrap::{Options, WordSplitter};

const WIDTH: usize = 80;

/// Prints paragraphs as [`wrap`] returns them: with colours on a terminal, unless NO_COLOR is set.
pub fn print(paragraphs: &[Paragraph]) -> Outcome {
    Ok(writeln!(anstream::stdout(), "{}", coloured(&wrap(paragraphs)))?)
}

/// Returns the text with the first line in bold and the reliability in its colour.
fn coloured(text: &str) -> String {
    let colour = |reliability: &str| match reliability {
        "good" => Some(AnsiColor::Green),
        "fair" => Some(AnsiColor::Yellow),
        "doubtful" => Some(AnsiColor::Red),
        _ => None,
    };
    let line = |(index, line): (usize, &str)| {
        let reliability = line.strip_prefix("reliability: ");
        match reliability.and_then(|word| Some((word, colour(word)?.on_default().bold()))) {
            Some((word, style)) => format!("reliability: {style}{word}{style:#}"),
            None if index == 0 => format!("{BOLD}{line}{BOLD:#}"),
            None => line.to_string(),
        }
    };
    text.lines().enumerate().map(line).collect::<Vec<String>>().join("\n")
}

const BOLD: Style = Style::new().bold();

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
    fn the_number_is_bold_and_the_reliability_has_its_colour() {
        let text = coloured("I(x; y) = 1\nreliability: doubtful\n  - reliability: good");
        let expected = "\u{1b}[1mI(x; y) = 1\u{1b}[0m\nreliability: \u{1b}[1m\u{1b}[31mdoubtful\u{1b}[0m\n  - reliability: good";
        assert_eq!(text, expected);
        assert_eq!(anstream::adapter::strip_str(&text).to_string().lines().count(), 3);
    }

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

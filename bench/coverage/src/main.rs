//! A Monte-Carlo study: how accurate estimates are, how often intervals contain the truth, what
//! verdicts are worth.
//!
//!     fdime-coverage run --tasks families --rows 200,1000,10000 --draws 20 > families.jsonl
//!     fdime-coverage run --tasks bmi --rows 1000,5000,10000 --draws 3 > bmi.jsonl
//!     fdime-coverage tables families.jsonl bmi.jsonl

mod families;
mod run;
mod tables;

use std::process::ExitCode;

const USAGE: &str = "\
usage: fdime-coverage run [--tasks families|seen|unseen|SUITE] [--only NAME,...] [--rows N,...]
                          [--draws N] [--first-draw K] [--estimator NAME]
                          [--effort quick|default|max] [--threads N]
       fdime-coverage tables FILE...

`run` prints one line of JSON for every estimate; `tables` summarises such lines as Markdown.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((command, rest)) if command == "run" => run::run(rest),
        Some((command, rest)) if command == "tables" => tables::print(rest),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

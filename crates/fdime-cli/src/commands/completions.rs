use crate::args::{Cli, Completions};
use crate::failure::Outcome;
use clap::CommandFactory;
use std::io::Write;

pub fn run(args: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "fdime", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

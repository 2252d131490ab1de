//! `fdime`: mutual information estimation on the command line.

mod args;
mod commands;
mod console;
mod failure;
mod flags;
mod outputs;
mod plot;
mod printable;
mod report;
mod reproduce;
mod saved;
mod summary;
mod values;

use args::Command;
use clap::{CommandFactory, FromArgMatches};
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The library returns some panics as errors; those must not be printed.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !fdime::panic_is_caught() {
            print(info);
        }
    }));
    let outcome = parse().and_then(run);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Returns the command. Ends the process with a message if the arguments are invalid.
fn parse() -> Result<Command, failure::Failure> {
    // A negative number is a value that is not accepted, rather than an unknown flag.
    let negative_numbers = |arg: clap::Arg| match arg.get_action().takes_values() {
        true if !arg.is_positional() => arg.allow_negative_numbers(true),
        _ => arg,
    };
    let command =
        args::Cli::command().mut_subcommands(|command| command.mut_args(negative_numbers));
    let matches = command.try_get_matches();
    matches
        .and_then(|matches| args::Cli::from_arg_matches(&matches))
        .map(|cli| {
            if cli.quiet {
                console::be_quiet();
            }
            cli.command
        })
        .map_err(|error| {
            match error.source().and_then(|source| source.downcast_ref::<values::Refusal>()) {
                Some(refusal) => failure::Failure::Usage(refusal.to_string()),
                None => error.exit(),
            }
        })
}

fn run(command: Command) -> failure::Outcome {
    match command {
        Command::Estimate(args) => commands::estimate::run(&args),
        Command::Apply(args) => commands::apply::run(&args),
        Command::Matrix(args) => commands::matrix::run(&args),
        Command::Select(args) => commands::select::run(&args),
        Command::Lag(args) => commands::lag::run(&args),
        Command::Capacity(args) => commands::capacity::run(&args),
        Command::Transfer(args) => commands::transfer::run(&args),
        Command::Power(args) => commands::power::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Suite(args) => commands::suite::run(&args),
        Command::List(args) => commands::list::run(&args),
        Command::Sample(args) => commands::sample::run(&args),
        Command::Staircase(args) => commands::staircase::run(&args),
        Command::Reproduce(args) => commands::reproduce::run(&args),
        Command::Schema(args) => commands::schema::run(&args),
        Command::Devices(args) => commands::devices::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Man(args) => commands::man::run(&args),
    }
}

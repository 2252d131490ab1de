//! `fdime`: mutual information estimation on the command line.

mod args;
mod commands;
mod failure;
mod plot;
mod report;
mod reproduce;

use clap::Parser;

fn main() -> std::process::ExitCode {
    let outcome = match args::Cli::parse().command {
        args::Command::Estimate(estimate) => commands::estimate::run(&estimate),
        args::Command::Apply(apply) => commands::apply::run(&apply),
        args::Command::Matrix(matrix) => commands::matrix::run(&matrix),
        args::Command::Suite(suite) => commands::suite::run(&suite),
        args::Command::List(list) => commands::list::run(&list),
        args::Command::Sample(sample) => commands::sample::run(&sample),
        args::Command::Staircase(staircase) => commands::staircase::run(&staircase),
        args::Command::Reproduce(reproduce) => commands::reproduce::run(&reproduce),
        args::Command::Devices(devices) => commands::devices::run(&devices),
        args::Command::Bench(bench) => commands::bench::run(&bench),
    };
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

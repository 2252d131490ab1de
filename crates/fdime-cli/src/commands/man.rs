use crate::args::{Cli, Man};
use crate::failure::{Failure, Outcome};
use clap::{Command, CommandFactory};
use std::io::Write;

/// Prints the page of `fdime` followed by those of its commands, or the page of one command.
pub fn run(args: &Man) -> Outcome {
    let mut program = Cli::command();
    program.build();
    let mut commands: Vec<&Command> = vec![&program];
    commands.extend(program.get_subcommands().filter(|command| command.get_name() != "help"));
    if let Some(name) = &args.command {
        let names = commands.iter().map(|command| command.get_name());
        let unknown =
            Failure::unknown_name("command", name, names, "'fdime --help' lists all commands");
        commands.retain(|command| command.get_name() == name);
        if commands.is_empty() {
            return Err(unknown);
        }
    }
    let mut pages = Vec::new();
    for command in commands {
        clap_mangen::Man::new(command.clone()).render(&mut pages)?;
    }
    Ok(std::io::stdout().write_all(&pages)?)
}

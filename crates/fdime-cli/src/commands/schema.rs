use super::print_json;
use crate::args::Schema;
use crate::failure::Outcome;
use crate::saved::SCHEMAS;

pub fn run(args: &Schema) -> Outcome {
    match SCHEMAS.iter().find(|(command, _)| *command == args.command) {
        Some((_, schema)) => print_json(&schema()),
        None => Ok(()),
    }
}

use super::progress_bar;
use crate::args::Sample;
use crate::console::note;
use crate::failure::{Failure, Outcome};
use crate::flags::Flags;
use fdime::data::{Table, check_writable, write_csv, write_npy, write_npz};
use fdime::random::{Purpose, stream};
use fdime::{PairSource, Parameter, ScenarioPlan};
use std::io::Write;

/// The flags of this command, which has one level and takes the scenario as an argument.
const FLAGS: Flags =
    Flags { renamed: &[(Parameter::Levels, "--level"), (Parameter::Scenario, "SCENARIO")] };

pub fn run(args: &Sample) -> Outcome {
    let extension = args.output.extension().and_then(|e| e.to_str()).unwrap_or_default();
    if !["csv", "npy", "npz"].contains(&extension) {
        return Err(Failure::Usage(format!(
            "--output {}: the name must end in .csv, .npy or .npz",
            args.output.display()
        )));
    }
    if args.rows == 0 {
        return Err(Failure::Usage("--rows 0: at least one row".into()));
    }
    check_writable(&args.output)?;
    let scenario = ScenarioPlan::new(&args.scenario, args.dim)
        .and_then(|plan| plan.at(args.level))
        .map_err(|error| Failure::new(error, &FLAGS))?;
    scenario.check_rows(args.rows)?;
    let (x_dim, y_dim) = scenario.dims();
    let mut rng = stream(args.seed, Purpose::Data, 0, 0);
    let (mut x_row, mut y_row) = (Vec::new(), Vec::new());
    let (mut x, mut y) = (Vec::new(), Vec::new());
    let bar = progress_bar(args.rows as u64);
    for row in 0..args.rows {
        if row.is_multiple_of(1000) {
            bar.set_position(row as u64);
        }
        scenario.draw(&mut rng, &mut x_row, &mut y_row);
        x.extend_from_slice(&x_row);
        y.extend_from_slice(&y_row);
    }
    bar.set_message("writing");
    if extension == "npz" {
        write_npz(&args.output, &[("x", &x, x_dim), ("y", &y, y_dim)])?;
    } else {
        let names = |letter: &str, dim: usize| -> Vec<String> {
            (1..=dim).map(|k| format!("{letter}{k}")).collect()
        };
        let columns = [names("x", x_dim), names("y", y_dim)].concat();
        let rows = x.chunks_exact(x_dim).zip(y.chunks_exact(y_dim));
        let values = rows.flat_map(|(x, y)| x.iter().chain(y).copied()).collect();
        let table = Table { columns, values };
        if extension == "csv" {
            write_csv(&args.output, &table)?;
        } else {
            write_npy(&args.output, &table.values, x_dim + y_dim)?;
        }
    }
    bar.finish_and_clear();
    let mi = scenario.mutual_information();
    note(&format!(
        "wrote {} rows of {x_dim} + {y_dim} columns to {}",
        args.rows,
        args.output.display()
    ));
    writeln!(std::io::stdout(), "true MI: {:.6} nats ({:.6} bits)", mi.0, mi.bits())?;
    Ok(())
}

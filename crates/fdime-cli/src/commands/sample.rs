use super::progress_bar;
use crate::args::Sample;
use crate::console::note;
use crate::failure::{Failure, Outcome};
use crate::flags::Flags;
use fdime::data::{Table, check_writable, write_csv, write_npy, write_npz};
use fdime::random::{Purpose, Rng, stream};
use fdime::{
    ConditionalTask, Level, Nats, PairSource, Parameter, ScenarioPlan, TransferTask,
    conditional_suite, counted, transfer_suite,
};
use indicatif::ProgressBar;
use std::io::Write;

/// The flags of this command, which has one level and takes the scenario as an argument.
const FLAGS: Flags =
    Flags { renamed: &[(Parameter::Levels, "--level"), (Parameter::Scenario, "SCENARIO")] };

/// What was drawn: row-major arrays with their names and dimensions, and what is known exactly.
struct Drawn {
    arrays: Vec<(&'static str, Vec<f64>, usize)>,
    known: String,
    truth: Nats,
}

impl Drawn {
    /// Returns all arrays as one table with columns x1, x2, ..., y1, ...
    fn table(&self) -> Table {
        let names = |letter: &str, dim: usize| -> Vec<String> {
            (1..=dim).map(|k| format!("{letter}{k}")).collect()
        };
        let columns = self.arrays.iter().flat_map(|(name, _, dim)| names(name, *dim)).collect();
        let mut rows: Vec<_> =
            self.arrays.iter().map(|(_, values, dim)| values.chunks_exact(*dim)).collect();
        let mut values = Vec::new();
        while let Some(parts) = rows.iter_mut().map(Iterator::next).collect::<Option<Vec<_>>>() {
            parts.into_iter().for_each(|part| values.extend_from_slice(part));
        }
        Table { columns, values }
    }
}

pub fn run(args: &Sample) -> Outcome {
    let extension = args.output.extension().and_then(|e| e.to_str()).unwrap_or_default();
    if !["csv", "npy", "npz"].contains(&extension) {
        return Err(Failure::Usage(format!(
            "--output {}: the name must end in .csv, .npy or .npz",
            args.output.display()
        )));
    }
    if args.rows == 0 {
        return Err(Failure::Usage("--rows 0: must be at least 1".into()));
    }
    check_writable(&args.output)?;
    let bar = progress_bar(args.rows as u64);
    let drawn = draw(args, &bar)?;
    bar.set_message("writing");
    match extension {
        "npz" => {
            let arrays: Vec<(&str, &[f64], usize)> =
                drawn.arrays.iter().map(|(name, values, dim)| (*name, &values[..], *dim)).collect();
            write_npz(&args.output, &arrays)?;
        }
        "csv" => write_csv(&args.output, &drawn.table())?,
        _ => {
            let table = drawn.table();
            write_npy(&args.output, &table.values, table.columns.len())?;
        }
    }
    bar.finish_and_clear();
    let dims: Vec<String> = drawn.arrays.iter().map(|(_, _, dim)| dim.to_string()).collect();
    note(&format!(
        "wrote {} rows of {} columns to {}",
        args.rows,
        dims.join(" + "),
        args.output.display()
    ));
    let Drawn { known, truth, .. } = drawn;
    writeln!(std::io::stdout(), "true {known}: {:.6} nats ({:.6} bits)", truth.0, truth.bits())?;
    Ok(())
}

/// Draws from the task of this name, or else from the scenario.
fn draw(args: &Sample, bar: &ProgressBar) -> Result<Drawn, Failure> {
    let rng = stream(args.seed, Purpose::Data, 0, 0);
    let triples = conditional_suite().into_iter().find(|task| task.name == args.scenario);
    let series = transfer_suite().into_iter().find(|task| task.name == args.scenario);
    if (triples.is_some() || series.is_some()) && (args.dim.is_some() || args.level.is_some()) {
        let name = &args.scenario;
        return Err(Failure::Usage(format!("{name} is one task; leave out --dim and --level")));
    }
    match (triples, series) {
        (Some(task), _) => draw_triples(&task, args.rows, rng, bar),
        (None, Some(task)) => draw_series(&task, args.rows, rng),
        (None, None) => draw_pairs(args, rng, bar),
    }
}

/// Calls `row` as often as there are rows, and shows the progress.
fn each_row(rows: usize, bar: &ProgressBar, mut row: impl FnMut()) {
    for index in 0..rows {
        if index.is_multiple_of(1000) {
            bar.set_position(index as u64);
        }
        row();
    }
}

fn draw_pairs(args: &Sample, mut rng: Rng, bar: &ProgressBar) -> Result<Drawn, Failure> {
    let scenario = ScenarioPlan::new(&args.scenario, args.dim.unwrap_or(1))
        .and_then(|plan| plan.at(args.level.unwrap_or(Level::Mi(1.0))))
        .map_err(|error| Failure::new(error, &FLAGS))?;
    scenario.check_rows(args.rows)?;
    let (x_dim, y_dim) = scenario.dims();
    let (mut x_row, mut y_row) = (Vec::new(), Vec::new());
    let (mut x, mut y) = (Vec::new(), Vec::new());
    each_row(args.rows, bar, || {
        scenario.draw(&mut rng, &mut x_row, &mut y_row);
        x.extend_from_slice(&x_row);
        y.extend_from_slice(&y_row);
    });
    Ok(Drawn {
        arrays: vec![("x", x, x_dim), ("y", y, y_dim)],
        known: "MI".into(),
        truth: scenario.mutual_information(),
    })
}

fn draw_triples(
    task: &ConditionalTask,
    rows: usize,
    mut rng: Rng,
    bar: &ProgressBar,
) -> Result<Drawn, Failure> {
    task.check_rows(rows)?;
    let scenario = task.scenario()?;
    let (mut row, mut all) = ([const { Vec::new() }; 3], [const { Vec::new() }; 3]);
    each_row(rows, bar, || {
        scenario.draw(&mut rng, &mut row);
        all.iter_mut().zip(&row).for_each(|(all, row)| all.extend_from_slice(row));
    });
    let named = ["x", "y", "z"].into_iter().zip(all).zip(scenario.dims());
    Ok(Drawn {
        arrays: named.map(|((name, values), dim)| (name, values, dim)).collect(),
        known: "I(x; y | z)".into(),
        truth: scenario.conditional_mutual_information(),
    })
}

fn draw_series(task: &TransferTask, rows: usize, mut rng: Rng) -> Result<Drawn, Failure> {
    task.check_rows(rows)?;
    let [x, y] = task.simulate(&mut rng, rows);
    Ok(Drawn {
        arrays: vec![("x", x, 1), ("y", y, 1)],
        known: format!(
            "transfer entropy from x to y, given {}, from {}",
            counted(task.target_history, "past value"),
            counted(task.source_history, "past value")
        ),
        truth: task.transfer_entropy()?,
    })
}

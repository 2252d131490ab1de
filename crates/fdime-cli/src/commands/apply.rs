use super::{amount, estimation_engine, print_json, write_pointwise};
use crate::args::Apply;
use crate::failure::{Failure, Outcome};
use crate::flags::FLAGS;
use crate::outputs::{self, Outputs, check_extension};
use fdime::data::{Reading, load_named};
use fdime::estimate::{SavedColumn, SavedModel};
use fdime::{Error, Nats};
use serde::Serialize;
use std::io::Write;

#[derive(Serialize)]
struct Json {
    mi_nats: f64,
    standard_error: f64,
    trained_mi_nats: f64,
    n_rows: usize,
    n_dropped: usize,
    notes: Vec<String>,
    version: &'static str,
}

pub fn run(args: &Apply) -> Outcome {
    check_extension("--pointwise", args.pointwise.as_ref(), &["csv"])?;
    let outputs = args.pointwise.as_deref().map(|path| ("--pointwise", path));
    outputs::check(&[("the table", &args.file), ("the model", &args.model)], outputs.as_slice())?;
    let model = SavedModel::load(&args.model).map_err(|error| match error {
        Error::Read { .. } | Error::Data { .. } => {
            Failure::from(error).with_hint("'fdime estimate --save FILE' saves critics")
        }
        error => error.into(),
    })?;
    let kinds = |columns: &[SavedColumn]| -> Vec<(String, bool)> {
        columns.iter().map(SavedColumn::kind).collect()
    };
    let reading = Reading { missing: args.missing, ..args.notation.options() };
    let table = load_named(&args.file, &kinds(model.x()), &kinds(model.y()), &reading)?;
    let engine = estimation_engine(&args.execution)?;
    let ratios = model.log_ratios(&table.x, &table.y, &*engine)?;
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let variance = ratios.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let standard_error = (variance / n).sqrt();
    let unknown = model.unknown_categories(&table.x, &table.y);
    let notes = table.notes.iter().chain(&unknown).map(|note| note.render(&FLAGS));
    let notes: Vec<String> = notes.collect();
    let mut outputs = Outputs::default();
    outputs.write(args.pointwise.as_ref(), |path| {
        write_pointwise(path, &ratios, &table.kept, table.input_rows)
    });
    outputs.finish(|| {
        if args.json {
            return print_json(&Json {
                mi_nats: mean,
                standard_error,
                trained_mi_nats: model.trained_mi_nats(),
                n_rows: ratios.len(),
                n_dropped: table.n_dropped,
                notes,
                version: env!("CARGO_PKG_VERSION"),
            });
        }
        let unit = if args.bits { "bits" } else { "nats" };
        let in_unit = |nats: f64| amount(Nats(nats), args.bits);
        let rows =
            if ratios.len() == 1 { "1 row".into() } else { format!("{} rows", ratios.len()) };
        let dropped = match table.n_dropped {
            0 => String::new(),
            1 => " (1 with missing values was left out)".into(),
            dropped => format!(" ({dropped} with missing values were left out)"),
        };
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "mean log ratio {:.3} {unit} (standard error {:.3})\nestimate from the training table: {:.3} {unit}",
            in_unit(mean),
            in_unit(standard_error),
            in_unit(model.trained_mi_nats())
        )?;
        writeln!(out, "{rows}{dropped}")?;
        for note in &notes {
            let options = textwrap::Options::new(80).subsequent_indent("  ");
            writeln!(out, "{}", textwrap::fill(&format!("note: {note}"), options))?;
        }
        Ok(())
    })
}

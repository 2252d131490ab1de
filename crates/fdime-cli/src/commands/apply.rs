use super::estimate::amount;
use super::{check_outputs, print_json, write_pointwise};
use crate::args::Apply;
use crate::failure::{Failure, Outcome};
use fdime::data::load_named;
use fdime::estimate::{SavedColumn, SavedModel};
use fdime::parallel::thread_count;
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
    version: &'static str,
}

pub fn run(args: &Apply) -> Outcome {
    check_outputs(&args.file, [args.pointwise.as_ref()])?;
    let model = SavedModel::load(&args.model).map_err(|error| match error {
        Error::Read { .. } => {
            Failure::from(error).with_hint("'fdime estimate --save' writes a folder with critics")
        }
        error => error.into(),
    })?;
    let named = |columns: &[SavedColumn]| -> Vec<(String, bool)> {
        columns.iter().map(|column| (column.name.clone(), column.discrete)).collect()
    };
    let table = load_named(&args.file, &named(model.x()), &named(model.y()), args.missing)?;
    let ratios = model.log_ratios(&table.x, &table.y, thread_count(0));
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let variance = ratios.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let standard_error = (variance / n).sqrt();
    if let Some(path) = &args.pointwise {
        write_pointwise(path, &ratios, &table.kept, table.input_rows)?;
    }
    if args.json {
        return print_json(&Json {
            mi_nats: mean,
            standard_error,
            trained_mi_nats: model.trained_mi_nats(),
            n_rows: ratios.len(),
            n_dropped: table.n_dropped(),
            version: env!("CARGO_PKG_VERSION"),
        });
    }
    let unit = if args.bits { "bits" } else { "nats" };
    let in_unit = |nats: f64| amount(Nats(nats), args.bits);
    writeln!(
        std::io::stdout(),
        "mean log ratio {:.3} {unit} (standard error {:.3}) over {} rows; in training {:.3}",
        in_unit(mean),
        in_unit(standard_error),
        ratios.len(),
        in_unit(model.trained_mi_nats())
    )?;
    Ok(())
}

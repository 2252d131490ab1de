use super::print_json;
use crate::args::Devices;
use crate::failure::Outcome;
use fdime::engine::cuda::{cuda_devices, kernel_compiler_found};
use fdime::parallel::thread_count;
use serde::Serialize;
use std::io::Write;

#[derive(Serialize)]
struct Row {
    device: String,
    name: String,
    memory_gb: Option<f64>,
    free_gb: Option<f64>,
    compute_capability: Option<String>,
    ready: bool,
    /// The reason why it cannot be used.
    problem: Option<String>,
}

pub fn run(args: &Devices) -> Outcome {
    let threads = thread_count(0);
    let mut rows = vec![Row {
        device: "cpu".into(),
        name: format!("{threads} thread{}", if threads == 1 { "" } else { "s" }),
        memory_gb: None,
        free_gb: None,
        compute_capability: None,
        ready: true,
        problem: None,
    }];
    match cuda_devices() {
        Ok(devices) => {
            let compiler = kernel_compiler_found().err().map(|error| error.to_string());
            for device in devices {
                // Plans run on the first GPU.
                let others = (device.ordinal > 0).then(|| "only the first GPU is used".to_string());
                let problem = device.problem.or(others).or_else(|| compiler.clone());
                let opened = device.architecture > 0;
                let (major, minor) = (device.architecture / 10, device.architecture % 10);
                rows.push(Row {
                    device: format!("cuda:{}", device.ordinal),
                    name: device.name,
                    memory_gb: opened.then_some(device.memory as f64 / 1e9),
                    free_gb: opened.then_some(device.free as f64 / 1e9),
                    compute_capability: opened.then(|| format!("{major}.{minor}")),
                    ready: problem.is_none(),
                    problem,
                });
            }
        }
        Err(error) => rows.push(Row {
            device: "cuda".into(),
            name: "none".into(),
            memory_gb: None,
            free_gb: None,
            compute_capability: None,
            ready: false,
            problem: Some(error.to_string()),
        }),
    }
    if args.json {
        return print_json(&rows);
    }
    let mut out = std::io::stdout().lock();
    for row in &rows {
        let memory = match (row.free_gb, row.memory_gb) {
            (Some(free), Some(all)) => format!(", {free:.0} of {all:.0} GB free"),
            _ => String::new(),
        };
        let capability = row.compute_capability.as_ref();
        let capability = capability.map_or(String::new(), |text| format!(", capability {text}"));
        let state = if row.ready { "ready" } else { "not usable" };
        writeln!(out, "{:<8} {}{memory}{capability}: {state}", row.device, row.name)?;
        if let Some(problem) = &row.problem {
            writeln!(out, "         {problem}")?;
        }
    }
    Ok(())
}

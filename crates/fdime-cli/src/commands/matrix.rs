use super::{Interruptible, check_outputs, interrupt_flag, progress_bar};
use crate::args::Matrix;
use crate::failure::{Failure, Outcome};
use crate::report::{heat_map, shortened};
use fdime::data::{Frame, Reading, load_frame, write_whole};
use fdime::estimate::{Effort, EstimatePlan, PairFinding as Pair};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What an unfinished run was about: it can only go on with the same.
#[derive(PartialEq, Serialize, Deserialize)]
struct Heading {
    groups: Vec<(String, Vec<usize>)>,
    /// Of the columns that were read, as numbers or categories.
    data: String,
    plan: EstimatePlan,
    version: String,
}

#[derive(Serialize)]
struct Report<'a> {
    results: &'a [Pair],
    names: &'a [String],
    plan: &'a EstimatePlan,
    seconds: f64,
    version: &'static str,
}

pub fn run(args: &Matrix) -> Outcome {
    let extension = args.output.extension().and_then(|e| e.to_str()).unwrap_or_default();
    if !["csv", "json"].contains(&extension) {
        return Err(Failure::Usage(format!(
            "--output {}: the name must end in .csv or .json",
            args.output.display()
        )));
    }
    check_outputs(&args.file, [Some(&args.output), args.svg.as_ref()])?;
    let reading = args.reading.options();
    let plan = args.estimation.plan(Effort::Quick);
    let role = if args.groups.is_empty() { "--columns" } else { "--group" };
    let (frame, chosen) = load_frame(&args.file, &selectors(args)?, role, &reading)?;
    let groups = groups(args, &frame, chosen)?;
    let names: Vec<String> = groups.iter().map(|(name, _)| name.clone()).collect();
    plan.check(frame.rows)?;

    let heading = Heading {
        groups: groups.clone(),
        data: frame.fingerprint(),
        plan: plan.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let journal = Journal::open(&args.output, &heading, args.resume)?;
    let start = Instant::now();
    let (done, seconds) = {
        let work = Work { frame: &frame, groups: &groups, plan: &plan, reading };
        let done = args.estimation.on_threads(|| work.run(journal))??;
        (done, start.elapsed().as_secs_f64())
    };
    let mut pairs: Vec<Pair> = done.into_values().collect();
    Pair::adjust(&mut pairs);
    write_output(&args.output, extension, &pairs, &names, &plan, seconds)?;
    eprintln!("wrote {}", args.output.display());
    if let Some(path) = &args.svg {
        let mut cells = vec![None; names.len() * names.len()];
        for pair in &pairs {
            let place = |name: &str| names.iter().position(|other| other == name);
            if let (Some(x), Some(y)) = (place(&pair.x), place(&pair.y)) {
                cells[x * names.len() + y] = pair.mi_nats;
                cells[y * names.len() + x] = pair.mi_nats;
            }
        }
        let svg = heat_map::render(&names, &cells, "Mutual information (nats)");
        write_whole(path, |file| file.write_all(svg.as_bytes()))?;
        eprintln!("wrote {}", path.display());
    }
    // The journal has served once the results are on disk.
    let _ = std::fs::remove_file(journal_path(&args.output));
    print_top(&pairs, seconds)
}

/// NAME=COLUMNS
fn name_and_selector(group: &str) -> Result<(&str, &str), Failure> {
    group.split_once('=').ok_or_else(|| {
        Failure::Usage(format!("--group {group}: write NAME=COLUMNS, as in 'left=l_*'"))
    })
}

/// What chooses the columns to read.
fn selectors(args: &Matrix) -> Result<Vec<&str>, Failure> {
    let groups = args.groups.iter().map(|group| Ok(name_and_selector(group)?.1));
    args.columns.iter().map(|columns| Ok(columns.as_str())).chain(groups).collect()
}

/// Names and columns of what is compared.
fn groups(
    args: &Matrix,
    frame: &Frame,
    chosen: Vec<Vec<usize>>,
) -> Result<Vec<(String, Vec<usize>)>, Failure> {
    let names: Vec<&str> = frame.columns.iter().map(|column| column.name.as_str()).collect();
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (group, columns) in args.groups.iter().zip(chosen) {
        groups.push((name_and_selector(group)?.0.to_string(), columns));
    }
    if groups.is_empty() {
        let named = names.iter().enumerate();
        groups.extend(named.map(|(index, name)| (name.to_string(), vec![index])));
    }
    if let Some((name, _)) = groups.iter().find(|(_, columns)| columns.is_empty()) {
        return Err(Failure::Usage(format!("--group {name}: it has no column that varies")));
    }
    if groups.len() < 2 {
        let message = "there is one column or group; at least two are needed to compare";
        return Err(Failure::Usage(format!("{}: {message}", args.file.display())));
    }
    for (index, (name, columns)) in groups.iter().enumerate() {
        for (other, others) in &groups[..index] {
            if name == other {
                return Err(Failure::Usage(format!(
                    "{}: two columns or groups are called '{name}'; names must differ",
                    args.file.display()
                )));
            }
            if let Some(column) = columns.iter().find(|column| others.contains(column)) {
                return Err(Failure::Usage(format!(
                    "--group: column '{}' is in both '{other}' and '{name}'",
                    names[*column]
                )));
            }
        }
    }
    Ok(groups)
}

type Done = BTreeMap<(usize, usize), Pair>;

struct Work<'a> {
    frame: &'a Frame,
    groups: &'a [(String, Vec<usize>)],
    plan: &'a EstimatePlan,
    reading: Reading<'a>,
}

impl Work<'_> {
    fn run(&self, journal: Journal) -> Result<Done, Failure> {
        let count = self.groups.len();
        let Journal { file, done } = journal;
        let open: Vec<(usize, usize)> = (0..count)
            .flat_map(|i| (i + 1..count).map(move |j| (i, j)))
            .filter(|pair| !done.contains_key(pair))
            .collect();
        let bar = progress_bar((open.len() + done.len()) as u64);
        bar.set_position(done.len() as u64);
        bar.set_message("pairs");
        let interrupted = interrupt_flag();
        let state = Mutex::new((file, done));
        let outcome = open.par_iter().try_for_each(|&(i, j)| -> Result<(), Failure> {
            let pair = self.pair(i, j, &interrupted)?;
            let line = serde_json::to_string(&((i, j), &pair))
                .map_err(|error| Failure::Run(error.to_string()))?;
            let mut state = state.lock().unwrap_or_else(|e| e.into_inner());
            // One write for one line, so that a kill leaves at most the last line unfinished.
            state
                .0
                .write_all(format!("{line}\n").as_bytes())
                .map_err(|error| Failure::Run(format!("cannot write the journal: {error}")))?;
            state.1.insert((i, j), pair);
            bar.inc(1);
            Ok(())
        });
        bar.finish_and_clear();
        match outcome {
            Err(Failure::Interrupted) => Err(Failure::Paused),
            Err(failure) => Err(failure),
            Ok(()) => Ok(state.into_inner().unwrap_or_else(|e| e.into_inner()).1),
        }
    }

    fn pair(&self, i: usize, j: usize, interrupted: &Arc<AtomicBool>) -> Result<Pair, Failure> {
        let ((x_name, x), (y_name, y)) = (&self.groups[i], &self.groups[j]);
        let progress = Interruptible(Arc::clone(interrupted));
        let (x, y) = ((x_name.as_str(), &x[..]), (y_name.as_str(), &y[..]));
        Ok(Pair::new(self.frame, x, y, self.plan, &self.reading, &progress)?)
    }
}

/// Finished pairs on disk, one line each behind a heading, while a run is unfinished.
struct Journal {
    file: File,
    done: Done,
}

fn journal_path(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".unfinished");
    PathBuf::from(name)
}

impl Journal {
    fn open(output: &Path, heading: &Heading, resume: bool) -> Result<Self, Failure> {
        let path = journal_path(output);
        let fail = |reason: String| Failure::Usage(format!("{}: {reason}", path.display()));
        let exists = path.exists();
        if exists && !resume {
            return Err(fail(
                "there is an unfinished run; continue it with --resume, or delete this file".into(),
            ));
        }
        let mut done = Done::new();
        if exists {
            let file = File::open(&path).map_err(|error| fail(error.to_string()))?;
            let mut lines = BufReader::new(file).lines().map_while(Result::ok);
            let first = lines.next().and_then(|line| serde_json::from_str::<Heading>(&line).ok());
            if first.as_ref() != Some(heading) {
                return Err(fail(
                    "the unfinished run has other columns, settings or another version; \
                     delete this file to start anew"
                        .into(),
                ));
            }
            // The last line may be cut off by a kill; that pair is done again.
            done.extend(
                lines.map_while(|line| serde_json::from_str::<((usize, usize), Pair)>(&line).ok()),
            );
        }
        // What is whole is written anew, so that nothing follows a line cut off in the middle.
        let mut text = serde_json::to_string(heading).map_err(|error| fail(error.to_string()))?;
        for entry in &done {
            let line = serde_json::to_string(&entry).map_err(|error| fail(error.to_string()))?;
            text.push('\n');
            text.push_str(&line);
        }
        text.push('\n');
        write_whole(&path, |file| file.write_all(text.as_bytes()))?;
        let file =
            OpenOptions::new().append(true).open(&path).map_err(|error| fail(error.to_string()))?;
        Ok(Journal { file, done })
    }
}

/// A CSV field, quoted if it must be.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

fn write_output(
    path: &Path,
    extension: &str,
    pairs: &[Pair],
    names: &[String],
    plan: &EstimatePlan,
    seconds: f64,
) -> Outcome {
    if extension == "json" {
        let version = env!("CARGO_PKG_VERSION");
        let report = Report { results: pairs, names, plan, seconds, version };
        let text = serde_json::to_string_pretty(&report)
            .map_err(|error| Failure::Run(format!("cannot write JSON: {error}")))?;
        return Ok(write_whole(path, |file| writeln!(file, "{text}"))?);
    }
    let number = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
    Ok(write_whole(path, |file| {
        writeln!(file, "x,y,mi_nats,ci_low,ci_high,p_value,p_adjusted,n_rows,reliability,problem")?;
        for pair in pairs {
            writeln!(
                file,
                "{},{},{},{},{},{},{},{},{},{}",
                field(&pair.x),
                field(&pair.y),
                number(pair.mi_nats),
                number(pair.ci_low),
                number(pair.ci_high),
                number(pair.p_value),
                number(pair.p_adjusted),
                pair.n_rows,
                pair.reliability.as_deref().unwrap_or_default(),
                field(pair.problem.as_deref().unwrap_or_default())
            )?;
        }
        Ok(())
    })?)
}

/// The strongest pairs, for people.
fn print_top(pairs: &[Pair], seconds: f64) -> Outcome {
    const SHOWN: usize = 10;
    let mut found: Vec<&Pair> = pairs.iter().filter(|pair| pair.mi_nats.is_some()).collect();
    found.sort_by(|a, b| b.mi_nats.partial_cmp(&a.mi_nats).unwrap_or(std::cmp::Ordering::Equal));
    let mut out = std::io::stdout().lock();
    let dependent = found.iter().filter(|pair| pair.p_adjusted.is_some_and(|p| p <= 0.05)).count();
    writeln!(
        out,
        "{} pairs, {dependent} dependent at a false discovery rate of 5%; {seconds:.1} s",
        pairs.len()
    )?;
    let failed = pairs.len() - found.len();
    if failed > 0 {
        writeln!(out, "{failed} without an estimate: see the column 'problem'")?;
    }
    writeln!(out, "\n{:24} {:24} {:>7} {:>15} {:>6}", "x", "y", "nats", "95% interval", "p adj")?;
    let short = |name: &str| shortened(name, 24);
    for pair in found.iter().take(SHOWN) {
        let value = |v: Option<f64>| v.unwrap_or(f64::NAN);
        writeln!(
            out,
            "{:24} {:24} {:7.3} {:>15} {:>6}",
            short(&pair.x),
            short(&pair.y),
            value(pair.mi_nats),
            format!("{:.3} to {:.3}", value(pair.ci_low), value(pair.ci_high)),
            pair.p_adjusted.map(|p| format!("{p:.3}")).unwrap_or_default()
        )?;
    }
    if found.len() > SHOWN {
        writeln!(out, "... and {} more in the file", found.len() - SHOWN)?;
    }
    Ok(())
}

use super::{Interruptible, check_outputs, interrupt_flag, progress_bar};
use crate::args::Matrix;
use crate::failure::{Failure, Outcome};
use crate::flags::FLAGS;
use crate::report::{heat_map, shortened};
use fdime::data::{Frame, MissingRows, Reading, load_frame, write_whole};
use fdime::estimate::{
    Effort, EstimatePlan, MatrixHeading, MatrixJournal, PairEstimate, PairRecord,
};
use fdime::parallel::{run_jobs, thread_count};
use fdime::{CpuEngine, Parameter};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

#[derive(Serialize)]
struct Report<'a> {
    results: &'a [PairEstimate],
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
    let parameter = if args.groups.is_empty() { Parameter::Columns } else { Parameter::Groups };
    let (frame, chosen) = load_frame(&args.file, &selectors(args)?, parameter, &reading)?;
    let groups = groups(args, &frame, chosen)?;
    let names: Vec<String> = groups.iter().map(|(name, _)| name.clone()).collect();
    plan.check(frame.rows)?;

    let heading = MatrixHeading {
        groups: groups.clone(),
        data: frame.fingerprint(),
        drop_missing: reading.missing == MissingRows::Drop,
        plan: plan.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let journal = open_journal(&args.output, &heading, args.resume)?;
    let start = Instant::now();
    let work = Work { frame: &frame, groups: &groups, plan: &plan, reading };
    let mut pairs = work.run(journal, thread_count(args.estimation.threads))?;
    let seconds = start.elapsed().as_secs_f64();
    PairEstimate::adjust(&mut pairs);
    write_output(&args.output, extension, &pairs, &names, &plan, seconds)?;
    eprintln!("wrote {}", args.output.display());
    if let Some(path) = &args.svg {
        write_heat_map(path, &pairs, &names)?;
    }
    // The results are on disk, so the journal is no longer needed.
    let _ = std::fs::remove_file(journal_path(&args.output));
    print_top(&pairs, seconds)
}

fn write_heat_map(path: &Path, pairs: &[PairEstimate], names: &[String]) -> Outcome {
    let mut cells = vec![None; names.len() * names.len()];
    for pair in pairs {
        let place = |name: &str| names.iter().position(|other| other == name);
        if let (Some(x), Some(y)) = (place(&pair.x), place(&pair.y)) {
            cells[x * names.len() + y] = pair.mi_nats;
            cells[y * names.len() + x] = pair.mi_nats;
        }
    }
    let svg = heat_map::render(names, &cells, "Mutual information (nats)");
    write_whole(path, |file| file.write_all(svg.as_bytes()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// Splits NAME=COLUMNS.
fn name_and_selector(group: &str) -> Result<(&str, &str), Failure> {
    group.split_once('=').ok_or_else(|| {
        Failure::Usage(format!("--group {group}: write NAME=COLUMNS, as in 'left=l_*'"))
    })
}

/// Returns the selectors of the columns to read.
fn selectors(args: &Matrix) -> Result<Vec<&str>, Failure> {
    let groups = args.groups.iter().map(|group| Ok(name_and_selector(group)?.1));
    args.columns.iter().map(|columns| Ok(columns.as_str())).chain(groups).collect()
}

/// Returns the names and columns of the groups to compare.
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

struct Work<'a> {
    frame: &'a Frame,
    groups: &'a [(String, Vec<usize>)],
    plan: &'a EstimatePlan,
    reading: Reading<'a>,
}

impl Work<'_> {
    /// Estimates the pairs that the journal does not hold. Returns all pairs in order.
    fn run(&self, journal: MatrixJournal, threads: usize) -> Result<Vec<PairEstimate>, Failure> {
        let count = self.groups.len();
        let all: Vec<(usize, usize)> =
            (0..count).flat_map(|i| (i + 1..count).map(move |j| (i, j))).collect();
        let open: Vec<(usize, usize)> =
            all.iter().copied().filter(|pair| journal.find(pair).is_empty()).collect();
        let bar = progress_bar(all.len() as u64);
        bar.set_position((all.len() - open.len()) as u64);
        bar.set_message("pairs");
        let progress = Interruptible(interrupt_flag());
        let journal = Mutex::new(journal);
        let outcomes = run_jobs(threads, open.len(), |index, threads| -> fdime::Result<()> {
            let found = self.estimate(open[index], threads, &progress)?;
            let mut journal = journal.lock().unwrap_or_else(|error| error.into_inner());
            journal.append(PairRecord { pair: open[index], found })?;
            bar.inc(1);
            Ok(())
        });
        bar.finish_and_clear();
        outcomes.into_iter().collect::<fdime::Result<()>>().map_err(|error| match error {
            fdime::Error::Interrupted => Failure::Paused,
            error => error.into(),
        })?;
        let journal = journal.into_inner().unwrap_or_else(|error| error.into_inner());
        Ok(all.iter().flat_map(|pair| journal.find(pair).last()).map(|r| r.found.clone()).collect())
    }

    fn estimate(
        &self,
        (i, j): (usize, usize),
        threads: usize,
        progress: &Interruptible,
    ) -> fdime::Result<PairEstimate> {
        let ((x_name, x), (y_name, y)) = (&self.groups[i], &self.groups[j]);
        let (x, y) = ((x_name.as_str(), &x[..]), (y_name.as_str(), &y[..]));
        let engine = CpuEngine::new(threads);
        PairEstimate::new(self.frame, x, y, self.plan, &self.reading, &FLAGS, &engine, progress)
    }
}

fn journal_path(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".unfinished");
    PathBuf::from(name)
}

/// Opens the journal of a matrix. A journal of an earlier run is continued only if that was asked
/// for.
fn open_journal(
    output: &Path,
    heading: &MatrixHeading,
    resume: bool,
) -> Result<MatrixJournal, Failure> {
    let path = journal_path(output);
    if path.exists() && !resume {
        return Err(Failure::Usage(format!(
            "{}: there is an unfinished run; continue it with --resume, or delete this file",
            path.display()
        )));
    }
    Ok(MatrixJournal::open_with_heading(&path, heading)?)
}

fn write_output(
    path: &Path,
    extension: &str,
    pairs: &[PairEstimate],
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
    Ok(write_whole(path, |file| {
        let mut table = csv::Writer::from_writer(file);
        pairs.iter().try_for_each(|pair| table.serialize(pair))?;
        table.flush()
    })?)
}

/// Prints the strongest pairs.
fn print_top(pairs: &[PairEstimate], seconds: f64) -> Outcome {
    const MAX_SHOWN: usize = 10;
    let mut found: Vec<&PairEstimate> =
        pairs.iter().filter(|pair| pair.mi_nats.is_some()).collect();
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
    for pair in found.iter().take(MAX_SHOWN) {
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
    if found.len() > MAX_SHOWN {
        writeln!(out, "... and {} more in the file", found.len() - MAX_SHOWN)?;
    }
    Ok(())
}

use super::unfinished::{journal_path, open_journal};
use super::{Interruptible, amount, estimation_engine, limits, p_cell, unfinished};
use crate::args::Matrix;
use crate::console::note;
use crate::failure::{Failure, Outcome};
use crate::flags::FLAGS;
use crate::outputs::{self, Outputs, check_extension, spreadsheet_text};
use crate::report::heat_map::HeatMap;
use crate::report::shortened;
use crate::saved::Saved;
use crate::values::Part;
use fdime::data::{Frame, LoadedFrame, MissingRows, Reading, load_frame};
use fdime::estimate::{
    Effort, EstimatePlan, MatrixHeading, MatrixJournal, PairEstimate, PairRecord,
};
use fdime::journal::Entries;
use fdime::{Engine, Nats, Parameter, counted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The results of the command.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// The estimate of each pair.
    results: Vec<PairEstimate>,
    /// The names of the columns or groups that were compared: with each other, or with `rows`.
    names: Vec<String>,
    /// The names of the rows of a matrix whose rows are not its columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows: Option<Vec<String>>,
    /// Everything that determines the estimates, except the data.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    plan: EstimatePlan,
    /// The duration in seconds.
    seconds: f64,
    /// The version of fdime.
    version: String,
}

pub fn run(args: &Matrix) -> Outcome {
    check_extension("--output", Some(&args.output), &["csv", "json"])?;
    check_extension("--svg", args.svg.as_ref(), &["svg"])?;
    let journal_path = journal_of_part(&args.output, args.part);
    let svg = args.svg.as_deref().map(|path| ("--svg", path));
    let outputs: Vec<_> = [("--output", args.output.as_path())].into_iter().chain(svg).collect();
    outputs::check(&[("the table", &args.file), ("the journal", &journal_path)], &outputs)?;
    let reading = args.reading.options();
    let mut plan = args.estimation.plan(Effort::Quick);
    plan.order = args.series.order();
    let parameter = if args.groups.is_empty() { Parameter::Columns } else { Parameter::Groups };
    let LoadedFrame { frame, chosen } =
        load_frame(&args.file, &selectors(args, parameter)?, &reading)?;
    for text in &frame.notes {
        note(&format!("note: {}", text.render(&FLAGS)));
    }
    let rows = args.rows.is_some().then(|| Sides::chosen(&chosen));
    let groups = groups(args, &frame, chosen)?;
    let names: Vec<String> = groups.iter().map(|(name, _)| name.clone()).collect();
    let sides = match &args.y {
        Some(target) => Some(Sides::with_target(target, &names)?),
        None => rows,
    };
    let pairs = match &sides {
        Some(sides) => sides.pairs()?,
        None => all_pairs(names.len())?,
    };
    let plan = plan.for_tests(pairs.len());
    plan.check(frame.rows)?;

    let heading = MatrixHeading {
        groups: groups.clone(),
        data: frame.fingerprint(),
        drop_missing: reading.missing == MissingRows::Drop,
        plan: plan.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let journal = open_journal(&journal_path, &heading, args.resume)?;
    let engine = estimation_engine(&args.estimation.execution)?;
    let start = Instant::now();
    let work = Work { frame: &frame, groups: &groups, plan: &plan, reading };
    let mut found = match args.part {
        None => work.run(&pairs, journal, &*engine)?,
        Some(part) => {
            let own: Vec<_> = (0..).zip(&pairs).filter(|(index, _)| part.has(*index)).collect();
            let own: Vec<_> = own.into_iter().map(|(_, pair)| *pair).collect();
            work.run(&own, journal, &*engine)?;
            match of_all_parts(&args.output, part, &heading, &pairs)? {
                Ok(found) => found,
                Err(missing) => {
                    let Part { number, of } = part;
                    let missing = counted(missing, "pair");
                    note(&format!(
                        "part {number} of {of} is finished; {missing} of other parts are missing, \
                         and the part that finishes last writes {}",
                        args.output.display()
                    ));
                    return Ok(());
                }
            }
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    PairEstimate::adjust(&mut found);
    let version = env!("CARGO_PKG_VERSION").into();
    let named = |places: Vec<usize>| places.into_iter().map(|place| names[place].clone()).collect();
    let (rows, names) = match sides {
        Some(Sides { rows, columns }) => (Some(named(rows)), named(columns)),
        None => (None, names),
    };
    let results = Results { results: found, names, rows, plan, seconds, version };
    let mut outputs = Outputs::default();
    outputs.write(Some(&args.output), |path| results.write_table(path));
    outputs.write_text(args.svg.as_ref(), || results.figure());
    if outputs.failure.is_none() {
        // The results are on disk, so the journals are no longer needed.
        let parts = args.part.into_iter().flat_map(Part::all).map(Some);
        for part in parts.chain(args.part.is_none().then_some(None)) {
            let _ = std::fs::remove_file(journal_of_part(&args.output, part));
        }
    }
    outputs.finish(|| match args.json {
        true => Saved::new("matrix", &results).print(),
        false => results.print(args.bits),
    })
}

/// Returns the path of the journal of a part, or of the whole matrix.
fn journal_of_part(output: &Path, part: Option<Part>) -> PathBuf {
    match part {
        None => journal_path(output),
        Some(Part { number, of }) => {
            let mut name = output.as_os_str().to_owned();
            name.push(format!(".part-{number}-of-{of}"));
            journal_path(Path::new(&name))
        }
    }
}

/// Returns the pairs from the journals of all parts in order, or the number of those that are
/// missing.
fn of_all_parts(
    output: &Path,
    part: Part,
    heading: &MatrixHeading,
    pairs: &[(usize, usize)],
) -> Result<Result<Vec<PairEstimate>, usize>, Failure> {
    let read = |part: Part| {
        let path = journal_of_part(output, Some(part));
        Entries::<PairRecord>::read_with_heading(&path, heading)
    };
    let journals = part.all().map(read).collect::<fdime::Result<Vec<_>>>()?;
    let find = |index: usize| {
        let journal = &journals[index % part.of];
        journal.find(&pairs[index]).last().map(|record| record.found.clone())
    };
    let found: Vec<_> = (0..pairs.len()).filter_map(find).collect();
    Ok(match pairs.len() - found.len() {
        0 => Ok(found),
        missing => Err(missing),
    })
}

/// The positions of a matrix's rows and columns, if not all are compared with each other.
struct Sides {
    rows: Vec<usize>,
    columns: Vec<usize>,
}

impl Sides {
    /// Returns the sides that `--columns` and `--rows` chose.
    fn chosen(chosen: &[Vec<usize>]) -> Self {
        let side = |index: usize| chosen.get(index).cloned().unwrap_or_default();
        Sides { columns: side(0), rows: side(1) }
    }

    /// Returns all names against a target, which is the only row.
    fn with_target(target: &str, names: &[String]) -> Result<Self, Failure> {
        let Some(row) = names.iter().position(|name| name == target) else {
            let known = names.iter().map(String::as_str);
            let hint = "--y takes the name of a column or group that is compared";
            return Err(Failure::unknown_name("column", target, known, hint).within("--y"));
        };
        let columns = (0..names.len()).filter(|place| *place != row).collect();
        Ok(Sides { rows: vec![row], columns })
    }

    /// Returns the pairs of a column (x) and a row (y), each once.
    fn pairs(&self) -> Result<Vec<(usize, usize)>, Failure> {
        check_number(self.rows.len() as u64 * self.columns.len() as u64)?;
        let mut seen = HashSet::new();
        let pairs = self.rows.iter().flat_map(|&j| self.columns.iter().map(move |&i| (i, j)));
        let pairs: Vec<_> =
            pairs.filter(|&(i, j)| i != j && seen.insert((i.min(j), i.max(j)))).collect();
        if pairs.is_empty() {
            let message =
                "--rows and --columns do not include two different columns that are not constant";
            return Err(Failure::Usage(message.into()));
        }
        Ok(pairs)
    }
}

/// Returns all pairs of this many columns or groups.
fn all_pairs(count: usize) -> Result<Vec<(usize, usize)>, Failure> {
    check_number(count as u64 * (count as u64 - 1) / 2)?;
    Ok((0..count).flat_map(|i| (i + 1..count).map(move |j| (i, j))).collect())
}

/// Checks that there are not too many pairs.
fn check_number(pairs: u64) -> Outcome {
    if pairs > MAX_PAIRS {
        return Err(Failure::Usage(format!(
            "there are {pairs} pairs, more than {MAX_PAIRS}; choose columns with --columns and --rows, \
             or compare all columns with one using --y"
        )));
    }
    Ok(())
}

impl Results {
    /// Returns the heat map.
    pub fn figure(&self) -> String {
        let columns = &self.names;
        let rows = self.rows.as_ref().unwrap_or(columns);
        let found: HashMap<(&str, &str), f64> = self
            .results
            .iter()
            .filter_map(|pair| Some(((&*pair.x, &*pair.y), pair.mi_nats?)))
            .flat_map(|((x, y), mi)| [((x, y), mi), ((y, x), mi)])
            .collect();
        let cells: Vec<Option<f64>> = rows
            .iter()
            .flat_map(|row| columns.iter().map(|column| found.get(&(&**row, &**column)).copied()))
            .collect();
        HeatMap { rows, columns, cells: &cells, axes: None }.to_svg("Mutual information (nats)")
    }

    /// Writes the pairs to a .csv file, or everything to a .json file.
    pub fn write_table(&self, path: &Path) -> Outcome {
        outputs::write_table(path, &Saved::new("matrix", self), |table| {
            self.results.iter().try_for_each(|pair| {
                let (x, y) = (spreadsheet_text(&pair.x), spreadsheet_text(&pair.y));
                table.serialize(PairEstimate { x, y, ..pair.clone() })
            })
        })
    }
    /// Prints the strongest pairs.
    pub fn print(&self, bits: bool) -> Outcome {
        let pairs = &self.results;
        const MAX_SHOWN: usize = 20;
        let mut found: Vec<&PairEstimate> =
            pairs.iter().filter(|pair| pair.mi_nats.is_some()).collect();
        // Pairs of equal information are in the order of their p-values.
        let key = |pair: &PairEstimate| (-pair.mi_nats.unwrap_or(0.0), pair.p_value.unwrap_or(1.0));
        found.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
        let mut out = std::io::stdout().lock();
        let is_dependent = |pair: &&&PairEstimate| pair.p_adjusted.is_some_and(|p| p <= 0.05);
        let dependent = match found.iter().any(|pair| pair.p_value.is_some()) {
            true => {
                let count = found.iter().filter(is_dependent).count();
                format!("{count} dependent at a false discovery rate of 5%")
            }
            false => format!("{} has no test of independence", self.plan.method),
        };
        let count = counted(pairs.len(), "pair");
        let problem = pairs.iter().find_map(|pair| pair.problem.as_deref());
        if let Some(problem) = problem.filter(|_| found.is_empty()) {
            return Err(Failure::Run(format!("none of {count} has an estimate: {problem}")));
        }
        writeln!(out, "{count}, {dependent}; {:.1} s", self.seconds)?;
        let failed = pairs.len() - found.len();
        if failed > 0 {
            writeln!(out, "{failed} without an estimate: see the column 'problem'")?;
        }
        let unit = if bits { "bits" } else { "nats" };
        writeln!(
            out,
            "\n{:18} {:18} {unit:>7} {:>15} {:>6} reliability",
            "x", "y", "95% interval", "p adj"
        )?;
        let short = |name: &str| shortened(name, 18);
        for pair in found.iter().take(MAX_SHOWN) {
            let value = |v: Option<f64>| amount(Nats(v.unwrap_or(f64::NAN)), bits);
            writeln!(
                out,
                "{:18} {:18} {:7.3} {:>15} {:>6} {}",
                short(&pair.x),
                short(&pair.y),
                value(pair.mi_nats),
                format!("{:.3} to {:.3}", value(pair.ci_low), value(pair.ci_high)),
                p_cell(pair.p_adjusted),
                pair.reliability.as_deref().unwrap_or_default()
            )?;
        }
        if found.len() > MAX_SHOWN {
            writeln!(out, "... and {} more in the file", found.len() - MAX_SHOWN)?;
        }
        let reasons = pairs.iter().map(|pair| (&pair.reliability, &pair.reasons));
        write!(out, "{}", limits("pair", reasons))?;
        Ok(())
    }
}

/// Splits NAME=COLUMNS.
fn name_and_selector(group: &str) -> Result<(&str, &str), Failure> {
    group.split_once('=').ok_or_else(|| {
        Failure::Usage(format!("--group {group}: write NAME=COLUMNS, as in 'left=l_*'"))
    })
}

/// Returns the selectors of the columns to read.
fn selectors(args: &Matrix, parameter: Parameter) -> Result<Vec<(&str, Parameter)>, Failure> {
    if let Some(rows) = &args.rows {
        let columns = args.columns.as_deref().unwrap_or("*");
        return Ok(vec![(columns, parameter), (rows, Parameter::Rows)]);
    }
    let groups = args.groups.iter().map(|group| Ok((name_and_selector(group)?.1, parameter)));
    // The target need not be among the columns that are ranked.
    let target = args.y.as_deref().filter(|_| args.columns.is_some());
    let columns = args.columns.as_deref().into_iter().chain(target);
    columns.map(|columns| Ok((columns, parameter))).chain(groups).collect()
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
        return Err(Failure::Usage(format!("--group {name}: all of its columns are constant")));
    }
    if groups.len() < 2 {
        let message = "there is only one column or group; at least two are needed";
        return Err(Failure::Usage(format!("{}: {message}", args.file.display())));
    }
    let (mut seen, mut owners) = (HashSet::new(), HashMap::new());
    for (name, columns) in &groups {
        if !seen.insert(name) {
            return Err(Failure::Usage(format!(
                "{}: two columns or groups have the name '{name}'; names must be unique",
                args.file.display()
            )));
        }
        for column in columns {
            if let Some(other) = owners.insert(column, name) {
                return Err(Failure::Usage(format!(
                    "--group: column '{}' is in both '{other}' and '{name}'",
                    names[*column]
                )));
            }
        }
    }
    Ok(groups)
}

/// The most pairs of a matrix: at a second each, a year on one core.
const MAX_PAIRS: u64 = 30_000_000;

struct Work<'a> {
    frame: &'a Frame,
    groups: &'a [(String, Vec<usize>)],
    plan: &'a EstimatePlan,
    reading: Reading<'a>,
}

impl Work<'_> {
    /// Estimates the pairs that the journal does not hold. Returns all of these pairs in order.
    fn run(
        &self,
        pairs: &[(usize, usize)],
        journal: MatrixJournal,
        engine: &dyn Engine,
    ) -> Result<Vec<PairEstimate>, Failure> {
        let (columns, rows) = (self.groups.len(), self.frame.rows);
        let count = counted(pairs.len(), "pair");
        note(&format!("{count} of {columns} columns or groups, {}", counted(rows, "row")));
        let records = unfinished::run(
            Some(journal),
            pairs,
            "pair",
            (engine, rows),
            |&pair, engine, progress| {
                Ok(PairRecord { pair, found: self.estimate(pair, engine, progress)? })
            },
        )?;
        Ok(records.into_iter().map(|record| record.found).collect())
    }

    fn estimate(
        &self,
        (i, j): (usize, usize),
        engine: &dyn Engine,
        progress: &Interruptible,
    ) -> fdime::Result<PairEstimate> {
        let ((x_name, x), (y_name, y)) = (&self.groups[i], &self.groups[j]);
        let (x, y) = ((x_name.as_str(), &x[..]), (y_name.as_str(), &y[..]));
        PairEstimate::new(self.frame, x, y, self.plan, &self.reading, &FLAGS, engine, progress)
    }
}

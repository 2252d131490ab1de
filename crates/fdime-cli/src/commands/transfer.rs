use super::unfinished::{journal_path, open_journal};
use super::{Interruptible, estimation_engine, interrupt_flag, series::SeriesTable, unfinished};
use super::{amount, limits, p_cell};
use crate::args::Transfer;
use crate::console::note;
use crate::failure::{Failure, Outcome};
use crate::flags::FLAGS;
use crate::outputs::{self, NamedFile, Outputs, check_extension, spreadsheet_text};
use crate::report::heat_map::HeatMap;
use crate::report::{graphml, shortened};
use crate::saved::Saved;
use fdime::data::Reading;
use fdime::estimate::{
    Effort, TransferEntropy, TransferJournal, TransferPlan, TransferRecord, TransferSeries,
};
use fdime::parallel::run_jobs;
use fdime::{Engine, Nats, Parameter, counted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// The most directions of a network: at a second each, a year on one core.
const MAX_DIRECTIONS: usize = 30_000_000;

/// The results of the command.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// The transfer entropy in each direction.
    results: Vec<TransferEntropy>,
    /// The names of the series, in the order of the table.
    names: Vec<String>,
    /// Everything that determines the estimates, except the data.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    plan: TransferPlan,
    /// The duration in seconds.
    seconds: f64,
    /// The version of fdime.
    version: String,
}

pub fn run(args: &Transfer) -> Outcome {
    check_files(args)?;
    let mut plan = plan(args)?;
    let reading = args.reading.options();
    let network = Network::load(args, &reading)?;
    plan.estimate = plan.estimate.for_tests(network.directions.len());
    plan.check(&network.table.timeline)?;
    let path = args.output.as_deref().map(journal_path);
    let journal = path
        .as_deref()
        .map(|path| open_journal(path, &network.table.heading(&[], &plan), args.resume))
        .transpose()?;
    let start = Instant::now();
    let work = Work { network: &network, plan: &plan, reading };
    let found = work.run(journal, &*estimation_engine(&args.estimation.execution)?)?;
    let results = Results {
        results: found,
        names: network.names().into_iter().map(str::to_string).collect(),
        plan,
        seconds: start.elapsed().as_secs_f64(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let mut outputs = Outputs::default();
    outputs.write(args.output.as_ref(), |path| results.write_table(path));
    outputs.write_text(args.graphml.as_ref(), || results.graphml());
    outputs.write_text(args.svg.as_ref(), || results.figure());
    if let Some(path) = path.filter(|_| outputs.failure.is_none()) {
        // The results are on disk, so the journal is no longer needed.
        let _ = std::fs::remove_file(path);
    }
    outputs.finish(|| match args.json {
        true => Saved::new("transfer", &results).print(),
        false => results.print(args.bits),
    })
}

fn check_files(args: &Transfer) -> Outcome {
    check_extension("--output", args.output.as_ref(), &["csv", "json"])?;
    check_extension("--graphml", args.graphml.as_ref(), &["graphml", "xml"])?;
    check_extension("--svg", args.svg.as_ref(), &["svg"])?;
    let journal = args.output.as_deref().map(journal_path);
    let mut inputs: Vec<NamedFile> = vec![("the table", &args.file)];
    inputs.extend(journal.as_deref().map(|path| ("the journal", path)));
    let files = [("--output", &args.output), ("--graphml", &args.graphml), ("--svg", &args.svg)];
    let outputs: Vec<NamedFile> =
        files.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?))).collect();
    outputs::check(&inputs, &outputs)
}

/// Returns the plan that the flags describe.
fn plan(args: &Transfer) -> Result<TransferPlan, Failure> {
    let mut estimate = args.estimation.plan(Effort::Quick);
    estimate.order = args.timing.order();
    let step = |lag: &i64| {
        usize::try_from(*lag).map_err(|_| {
            Failure::Usage(format!("--lags {lag}: lags must be at least 1: only the past is used"))
        })
    };
    let lags = args.lags.as_ref().map(|lags| lags.0.iter().map(step).collect());
    // In ascending order, and each once.
    let lags: Option<BTreeSet<usize>> = lags.transpose()?;
    let lags = lags.map(|lags| lags.into_iter().collect());
    Ok(TransferPlan { history: args.history, lags, estimate })
}

/// The directions that are asked for.
struct Network {
    table: SeriesTable,
    /// The positions of the source and the target of each direction.
    directions: Vec<(usize, usize)>,
}

impl Network {
    fn load(args: &Transfer, reading: &Reading) -> Result<Self, Failure> {
        let all = args.columns.as_deref().unwrap_or("*");
        let selectors = match (&args.from, &args.to) {
            (Some(from), Some(to)) => {
                vec![(from.as_str(), Parameter::From), (to.as_str(), Parameter::To)]
            }
            _ => vec![(all, Parameter::Columns)],
        };
        let table = SeriesTable::load(&args.file, &selectors, &args.timing, reading)?;
        let directions = match &table.chosen[..] {
            [from, to] => between(from, to),
            _ => between(&table.chosen[0], &table.chosen[0]),
        };
        let network = Network { table, directions };
        network.check(args)?;
        Ok(network)
    }

    fn check(&self, args: &Transfer) -> Outcome {
        let refused =
            |problem: String| Err(Failure::Usage(format!("{}: {problem}", args.file.display())));
        if self.directions.is_empty() {
            return refused(
                "the source and the target must be two different columns that are not constant"
                    .into(),
            );
        }
        if self.directions.len() > MAX_DIRECTIONS {
            let count = self.directions.len();
            return refused(format!(
                "there are {count} directions, more than {MAX_DIRECTIONS}; choose columns with \
                 --columns"
            ));
        }
        let mut names = self.names();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                refused(format!("two columns have the name '{}'; names must be unique", pair[0]))
            }
            None => Ok(()),
        }
    }

    /// Returns the names of the series, in the order of the table.
    fn names(&self) -> Vec<&str> {
        let places: BTreeSet<usize> =
            self.directions.iter().flat_map(|&(from, to)| [from, to]).collect();
        places.into_iter().map(|place| self.table.frame.columns[place].name.as_str()).collect()
    }
}

/// Returns both directions between every source and every target, each once.
fn between(from: &[usize], to: &[usize]) -> Vec<(usize, usize)> {
    let mut seen = BTreeSet::new();
    let pairs = from.iter().flat_map(|i| to.iter().map(move |j| (*i, *j)));
    let both = pairs.filter(|(i, j)| i != j).flat_map(|(i, j)| [(i, j), (j, i)]);
    both.filter(|direction| seen.insert(*direction)).collect()
}

struct Work<'a> {
    network: &'a Network,
    plan: &'a TransferPlan,
    reading: Reading<'a>,
}

impl Work<'_> {
    /// Estimates the directions that the journal does not hold. Returns all in order, compared with
    /// each other.
    fn run(
        &self,
        journal: Option<TransferJournal>,
        engine: &dyn Engine,
    ) -> Result<Vec<TransferEntropy>, Failure> {
        let Network { table: SeriesTable { frame, timeline, .. }, directions } = self.network;
        let count = counted(directions.len(), "direction");
        note(&format!("{count}, {}", counted(timeline.rows(), "row")));
        let plans = self.plans(engine.threads())?;
        let job = |&direction: &(usize, usize), engine: &dyn Engine, progress: &Interruptible| {
            let (source, target) = (&frame.columns[direction.0], &frame.columns[direction.1]);
            let series = TransferSeries { source, target, timeline };
            let plan = &plans[&direction.1];
            let found =
                TransferEntropy::new(&series, plan, &self.reading, &FLAGS, engine, progress)?;
            Ok(TransferRecord { direction, found })
        };
        let records =
            unfinished::run(journal, directions, "direction", (engine, timeline.rows()), job)?;
        let mut found: Vec<TransferEntropy> =
            records.into_iter().map(|record| record.found).collect();
        TransferEntropy::compare(&mut found);
        Ok(found)
    }

    /// Returns the plan of each target, with its history.
    fn plans(&self, threads: usize) -> Result<HashMap<usize, TransferPlan>, Failure> {
        let targets: BTreeSet<usize> =
            self.network.directions.iter().map(|(_, target)| *target).collect();
        let targets: Vec<usize> = targets.into_iter().collect();
        let progress = Interruptible(interrupt_flag());
        let plans = run_jobs(threads, targets.len(), |index, _| {
            let SeriesTable { frame, timeline, .. } = &self.network.table;
            self.plan.for_target(&frame.columns[targets[index]], timeline, &progress)
        });
        let plans: Vec<TransferPlan> = plans.into_iter().collect::<fdime::Result<_>>()?;
        Ok(targets.into_iter().zip(plans).collect())
    }
}

/// A line of a .csv file.
#[derive(Serialize)]
struct Row<'a> {
    from: String,
    to: String,
    te_nats: Option<f64>,
    ci_low: Option<f64>,
    ci_high: Option<f64>,
    p_value: Option<f64>,
    p_adjusted: Option<f64>,
    net_nats: Option<f64>,
    is_stronger: Option<bool>,
    history: usize,
    lags: String,
    n_rows: usize,
    reliability: Option<&'a str>,
    reasons: Option<&'a str>,
    problem: Option<&'a str>,
}

impl Results {
    /// Returns the network in the format of graph programs.
    pub fn graphml(&self) -> String {
        graphml::render(&self.names, &self.results)
    }

    /// Returns a map of the directions in which something is transferred.
    pub fn figure(&self) -> String {
        map(&self.names, &self.results)
    }

    /// Writes the directions to a .csv file, or everything to a .json file.
    pub fn write_table(&self, path: &Path) -> Outcome {
        outputs::write_table(path, &Saved::new("transfer", self), |table| {
            self.results.iter().try_for_each(|found| {
                table.serialize(Row {
                    from: spreadsheet_text(&found.from),
                    to: spreadsheet_text(&found.to),
                    te_nats: found.te_nats,
                    ci_low: found.ci_low,
                    ci_high: found.ci_high,
                    p_value: found.p_value,
                    p_adjusted: found.p_adjusted,
                    net_nats: found.net_nats,
                    is_stronger: found.is_stronger,
                    history: found.history,
                    lags: ranges(&found.lags),
                    n_rows: found.n_rows,
                    reliability: found.reliability.as_deref(),
                    reasons: found.reasons.as_deref(),
                    problem: found.problem.as_deref(),
                })
            })
        })
    }

    /// Prints the strongest directions, and for a single pair which one is stronger.
    pub fn print(&self, bits: bool) -> Outcome {
        const MAX_SHOWN: usize = 10;
        let all = &self.results[..];
        let mut found: Vec<&TransferEntropy> =
            all.iter().filter(|found| found.te_nats.is_some()).collect();
        let problem = all.iter().find_map(|found| found.problem.as_deref());
        let count = counted(all.len(), "direction");
        if let Some(problem) = problem.filter(|_| found.is_empty()) {
            return Err(Failure::Run(format!("none of {count} has an estimate: {problem}")));
        }
        if all.len() > 2 {
            found.sort_by(|a, b| {
                b.te_nats.partial_cmp(&a.te_nats).unwrap_or(std::cmp::Ordering::Equal)
            });
        }
        let mut out = std::io::stdout().lock();
        let significant = found.iter().filter(|found| found.is_significant()).count();
        let is_zero = |found: &&&TransferEntropy| {
            !found.is_significant() && found.p_adjusted.is_some_and(|p| p <= 0.05)
        };
        writeln!(out, "{count}, {significant} significant at a false discovery rate of 5%")?;
        let zeros = found.iter().filter(is_zero).count();
        if zeros > 0 {
            writeln!(out, "({zeros} more with a small p-value, but an estimate of 0)")?;
        }
        if found.len() < all.len() {
            let failed = all.len() - found.len();
            writeln!(out, "{failed} without an estimate: {}", problem.unwrap_or_default())?;
        }
        let unit = if bits { "bits" } else { "nats" };
        writeln!(
            out,
            "\n{:15} {:15} {unit:>7} {:>15} {:>6} {:>4} reliability",
            "from", "to", "95% interval", "p adj", "hist"
        )?;
        for found in found.iter().take(MAX_SHOWN) {
            let value = |value: Option<f64>| amount(Nats(value.unwrap_or(f64::NAN)), bits);
            writeln!(
                out,
                "{:15} {:15} {:7.3} {:>15} {:>6} {:>4} {}",
                shortened(&found.from, 15),
                shortened(&found.to, 15),
                value(found.te_nats),
                format!("{:.3} to {:.3}", value(found.ci_low), value(found.ci_high)),
                p_cell(found.p_adjusted),
                found.history,
                found.reliability.as_deref().unwrap_or_default()
            )?;
        }
        if found.len() > MAX_SHOWN {
            writeln!(out, "... and {} more; -o writes all", found.len() - MAX_SHOWN)?;
        }
        if let [first, ..] = all
            && all.iter().all(|found| found.lags == first.lags)
        {
            writeln!(out, "\nlags of the source: {}", ranges(&first.lags))?;
        }
        let reasons = all.iter().map(|found| (&found.reliability, &found.reasons));
        write!(out, "{}", limits("direction", reasons))?;
        match all {
            [one, _] if one.net_nats.is_some() => writeln!(out, "\n{}", net(all)),
            _ => Ok(()),
        }?;
        Ok(())
    }
}

/// Returns lags as `--lags` takes them, such as `1..5 8`, with spaces for commas, which separate the
/// columns of a table.
fn ranges(lags: &[usize]) -> String {
    let runs = lags.chunk_by(|a, b| *b == a + 1).map(|run| match run {
        [first, .., last] => format!("{first}..{last}"),
        _ => run.iter().map(usize::to_string).collect(),
    });
    runs.collect::<Vec<_>>().join(" ")
}

/// Returns a map of the directions in which something is transferred.
fn map(names: &[String], directions: &[TransferEntropy]) -> String {
    let places: HashMap<&str, usize> =
        names.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
    let mut cells = vec![None; names.len() * names.len()];
    for found in directions.iter().filter(|found| found.is_significant()) {
        if let (Some(from), Some(to)) = (places.get(&*found.from), places.get(&*found.to)) {
            cells[from * names.len() + to] = found.te_nats;
        }
    }
    let title = "Transfer entropy (nats); grey: not significant";
    HeatMap { axes: Some(["to", "from"]), ..HeatMap::square(names, &cells) }.to_svg(title)
}

/// Returns in words which of two opposite directions is stronger.
fn net(directions: &[TransferEntropy]) -> String {
    match directions.iter().find(|found| found.is_stronger == Some(true)) {
        Some(found) => {
            let (from, to) = (shortened(&found.from, 20), shortened(&found.to, 20));
            format!("{from} -> {to} is stronger: the intervals do not overlap")
        }
        None => "neither direction is shown to be stronger: the intervals overlap".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lags_are_written_as_ranges() {
        assert_eq!(ranges(&[1]), "1");
        assert_eq!(ranges(&[1, 2, 3, 5, 8, 9]), "1..3 5 8..9");
    }

    #[test]
    fn directions_go_both_ways_and_occur_once() {
        assert_eq!(between(&[0], &[1, 2]), [(0, 1), (1, 0), (0, 2), (2, 0)]);
        assert_eq!(between(&[0, 1], &[0, 1]), [(0, 1), (1, 0)]);
        assert!(between(&[3], &[3]).is_empty());
    }
}

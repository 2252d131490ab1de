use super::unfinished::{journal_path, open_journal};
use super::{Interruptible, estimation_engine, interrupt_flag, series::SeriesTable, unfinished};
use super::{amount, limits, p_cell};
use crate::args::Lag;
use crate::console::note;
use crate::failure::{Failure, Outcome};
use crate::flags::FLAGS;
use crate::outputs::{self, NamedFile, Outputs, check_extension, spreadsheet_text};
use crate::report::{lag, shortened};
use crate::saved::Saved;
use fdime::data::{Column, Reading};
use fdime::estimate::{
    Effort, LagEstimate, LagJournal, LagPlan, LagProfile, LagRecord, LagSeries, LagTest,
    format_p_value,
};
use fdime::parallel::run_jobs;
use fdime::{Engine, Nats, Parameter, counted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// The results of the command.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// The profile of each pair of series.
    results: Vec<LagProfile>,
    /// Everything that determines the profiles, except the data.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    plan: LagPlan,
    /// The duration in seconds.
    seconds: f64,
    /// The version of fdime.
    version: String,
}

pub fn run(args: &Lag) -> Outcome {
    check_files(args)?;
    let reading = args.reading.options();
    let request = Request::load(args, &reading)?;
    let (table, plan) = (&request.table, &request.plan);
    for &(x, y) in &request.pairs {
        plan.check(&request.series(x, y))?;
    }
    let path = args.output.as_deref().map(journal_path);
    let heading = table.heading(given_columns(table), &plan.estimate);
    let journal =
        path.as_deref().map(|path| open_journal(path, &heading, args.resume)).transpose()?;
    let start = Instant::now();
    let profiles = request.run(journal, &*estimation_engine(&args.estimation.execution)?)?;
    let results = Results {
        results: profiles,
        plan: plan.clone(),
        seconds: start.elapsed().as_secs_f64(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    note_on_few_shifts(&results);
    let mut outputs = Outputs::default();
    outputs.write(args.output.as_ref(), |path| results.write_table(path));
    outputs.write_text(args.svg.as_ref(), || results.figure());
    if let Some(path) = path.filter(|_| outputs.failure.is_none()) {
        // The results are on disk, so the journal is no longer needed.
        let _ = std::fs::remove_file(path);
    }
    outputs.finish(|| match args.json {
        true => Saved::new("lag", &results).print(),
        false => results.print(args.bits),
    })
}

fn check_files(args: &Lag) -> Outcome {
    check_extension("--output", args.output.as_ref(), &["csv", "json"])?;
    check_extension("--svg", args.svg.as_ref(), &["svg"])?;
    let journal = args.output.as_deref().map(journal_path);
    let mut inputs: Vec<NamedFile> = vec![("the table", &args.file)];
    inputs.extend(journal.as_deref().map(|path| ("the journal", path)));
    let outputs = [("--output", args.output.as_deref()), ("--svg", args.svg.as_deref())];
    let outputs: Vec<NamedFile> =
        outputs.into_iter().filter_map(|(flag, path)| Some((flag, path?))).collect();
    outputs::check(&inputs, &outputs)
}

/// Returns all pairs of an x and a y. A column is compared with itself only if there is no other
/// pair.
fn pairs(x: &[usize], y: &[usize]) -> Vec<(usize, usize)> {
    let all = || x.iter().flat_map(|x| y.iter().map(|y| (*x, *y)));
    let different: Vec<(usize, usize)> = all().filter(|(x, y)| x != y).collect();
    if different.is_empty() { all().collect() } else { different }
}

/// Returns the positions of the columns that are held fixed.
fn given_columns(table: &SeriesTable) -> &[usize] {
    table.chosen.get(2).map_or(&[], Vec::as_slice)
}

/// The profiles that are asked for.
struct Request<'a> {
    table: SeriesTable,
    /// The positions of the x and the y of each profile.
    pairs: Vec<(usize, usize)>,
    /// The columns that are held fixed.
    given: Vec<Column>,
    plan: LagPlan,
    reading: Reading<'a>,
}

impl<'a> Request<'a> {
    fn load(args: &Lag, reading: &Reading<'a>) -> Result<Self, Failure> {
        let mut selectors = vec![(args.x.as_str(), Parameter::X), (args.y.as_str(), Parameter::Y)];
        selectors.extend(args.given.as_deref().map(|names| (names, Parameter::Given)));
        let table = SeriesTable::load(&args.file, &selectors, &args.timing, reading)?;
        for ((selector, parameter), columns) in selectors.iter().zip(&table.chosen) {
            if columns.is_empty() {
                let flag = parameter.name();
                return Err(Failure::Usage(format!(
                    "--{flag} {selector}: no usable column is left; constant columns and those of --time \
                     and --group are excluded"
                )));
            }
        }
        let mut estimate = args.estimation.plan(Effort::Quick);
        estimate.order = args.timing.order();
        let pairs = pairs(&table.chosen[0], &table.chosen[1]);
        // A single recording is shifted by every number of steps, however many pairs there are.
        if args.timing.group.is_some() {
            estimate = estimate.for_tests(pairs.len());
        }
        let plan = LagPlan { lags: Vec::new(), estimate }.with_lags(args.lags.0.iter().copied());
        let mut given = Vec::new();
        for place in given_columns(&table) {
            let column = &table.frame.columns[*place];
            if pairs.iter().any(|(x, y)| [x, y].contains(&place)) {
                let name = &column.name;
                let message = format!("--given: column '{name}' is also a column of x or y");
                return Err(Failure::Usage(message));
            }
            given.push(column.clone());
        }
        Ok(Request { table, pairs, given, plan, reading: *reading })
    }

    fn series(&self, x: usize, y: usize) -> LagSeries<'_> {
        let [x, y]: [&Column; 2] = [x, y].map(|place| &self.table.frame.columns[place]);
        LagSeries { x, y, given: &self.given, timeline: &self.table.timeline }
    }

    /// Estimates the lags that the journal does not hold, and tests each pair. Returns all profiles
    /// in order.
    fn run(
        &self,
        journal: Option<LagJournal>,
        engine: &dyn Engine,
    ) -> Result<Vec<LagProfile>, Failure> {
        let (pairs, lags) = (&self.pairs, &self.plan.lags);
        let keys: Vec<(usize, usize, i64)> =
            pairs.iter().flat_map(|&(x, y)| lags.iter().map(move |lag| (x, y, *lag))).collect();
        note(&format!(
            "{} of series, {}, {}",
            counted(pairs.len(), "pair"),
            counted(lags.len(), "lag"),
            counted(self.table.timeline.rows(), "row")
        ));
        let job = |&key: &(usize, usize, i64), engine: &dyn Engine, progress: &Interruptible| {
            let (x, y, lag) = key;
            let (series, plan, reading) = (self.series(x, y), &self.plan.estimate, &self.reading);
            let found = LagEstimate::new(&series, lag, plan, reading, &FLAGS, engine, progress)?;
            Ok(LagRecord { lag: key, found })
        };
        let records =
            unfinished::run(journal, &keys, "lag", (engine, self.table.timeline.rows()), job)?;
        let progress = Interruptible(interrupt_flag());
        let tests = run_jobs(engine.threads(), pairs.len(), |index, _| {
            let (x, y) = pairs[index];
            LagTest::new(&self.series(x, y), &self.plan, &progress)
        });
        let tests = tests.into_iter().collect::<fdime::Result<Vec<LagTest>>>()?;
        let profiles = pairs.iter().zip(&tests).zip(records.chunks(lags.len()));
        let mut profiles: Vec<LagProfile> = profiles
            .map(|((&(x, y), test), records)| {
                let lags = records.iter().map(|record| record.found.clone()).collect();
                LagProfile::new(&self.series(x, y), lags, test)
            })
            .collect();
        LagProfile::adjust(&mut profiles);
        Ok(profiles)
    }
}

/// Says so if no p-value can be small.
fn note_on_few_shifts(report: &Results) {
    const ALPHA: f64 = 0.05;
    let smallest = report.results.first().map_or(0.0, |profile| profile.smallest_p);
    if smallest > ALPHA {
        note(&format!(
            "note: with {} in so few rows, p-values adjusted over all lags are {smallest:.3} or \
             more; use fewer lags, or more rows",
            counted(report.plan.lags.len(), "lag")
        ));
    }
}

/// A line of a .csv file.
#[derive(Serialize)]
struct Row<'a> {
    x: &'a str,
    y: &'a str,
    given: &'a str,
    lag: i64,
    mi_nats: Option<f64>,
    ci_low: Option<f64>,
    ci_high: Option<f64>,
    p_value: Option<f64>,
    p_adjusted: Option<f64>,
    statistic_nats: Option<f64>,
    n_rows: usize,
    reliability: Option<&'a str>,
    reasons: Option<&'a str>,
    problem: Option<&'a str>,
}

impl Results {
    /// Returns the figure of all profiles.
    pub fn figure(&self) -> String {
        lag::render(&self.results)
    }

    /// Writes the lags to a .csv file, or everything to a .json file.
    pub fn write_table(&self, path: &Path) -> Outcome {
        outputs::write_table(path, &Saved::new("lag", self), |table| {
            for profile in &self.results {
                let given = profile.given.join(", ");
                let [x, y, given] =
                    [&profile.x, &profile.y, &given].map(|name| spreadsheet_text(name));
                for lag in &profile.lags {
                    table.serialize(Row {
                        x: &x,
                        y: &y,
                        given: &given,
                        lag: lag.lag,
                        mi_nats: lag.mi_nats,
                        ci_low: lag.ci_low,
                        ci_high: lag.ci_high,
                        p_value: lag.p_value,
                        p_adjusted: lag.p_adjusted,
                        statistic_nats: lag.statistic_nats,
                        n_rows: lag.n_rows,
                        reliability: lag.reliability.as_deref(),
                        reasons: lag.reasons.as_deref(),
                        problem: lag.problem.as_deref(),
                    })?;
                }
            }
            Ok(())
        })
    }

    /// Prints the summary.
    pub fn print(&self, bits: bool) -> Outcome {
        let lags = self.results.iter().flat_map(|profile| &profile.lags);
        let problem = lags.clone().find_map(|lag| lag.problem.as_deref());
        let failed = lags.clone().filter(|lag| lag.mi_nats.is_none()).count();
        if let Some(problem) = problem.filter(|_| failed == lags.count()) {
            return Err(Failure::Run(format!("no lag has an estimate: {problem}")));
        }
        match &self.results[..] {
            [profile] => print_profile(profile, bits)?,
            profiles => print_profiles(profiles, bits)?,
        }
        if failed > 0 {
            let lags = counted(failed, "lag");
            writeln!(
                std::io::stdout(),
                "{lags} without an estimate: {}",
                problem.unwrap_or_default()
            )?;
        }
        Ok(())
    }
}

/// Returns the estimate of a lag and its interval, in bits or in nats.
fn numbers(lag: &LagEstimate, bits: bool) -> (f64, String) {
    let value = |value: Option<f64>| amount(Nats(value.unwrap_or(f64::NAN)), bits);
    let interval = format!("{:.3} to {:.3}", value(lag.ci_low), value(lag.ci_high));
    (value(lag.mi_nats), interval)
}

/// Prints one profile: the largest value, the test and all lags.
fn print_profile(profile: &LagProfile, bits: bool) -> Outcome {
    let mut out = std::io::stdout().lock();
    let unit = if bits { "bits" } else { "nats" };
    if let Some(largest) = profile.largest() {
        let (mi, interval) = numbers(largest, bits);
        let (x, y) = (shortened(&profile.x, 20), shortened(&profile.y, 20));
        let given = match &profile.given[..] {
            [] => String::new(),
            names => format!(" | {}", shortened(&names.join(", "), 20)),
        };
        writeln!(out, "I({x}; {y} {}{given}) = {mi:.3} {unit}", later(largest.lag))?;
        let of_lags = match profile.lags.len() {
            1 => String::new(),
            lags => format!("; the largest of {}", counted(lags, "lag")),
        };
        writeln!(out, "95% interval {interval}{of_lags}")?;
    }
    let verdict = if profile.p_value <= 0.05 { "dependent" } else { "no dependence found" };
    let p = format_p_value(profile.p_value);
    writeln!(out, "{verdict}: p = {p} (adjusted over all lags)")?;
    let statistics = profile.lags.iter().filter_map(|lag| lag.statistic_nats);
    let [highest, band] =
        [statistics.fold(0.0, f64::max), profile.band_nats].map(|value| amount(Nats(value), bits));
    writeln!(
        out,
        "largest test statistic: {highest:.4} {unit}; 95% of independent series stay below {band:.4}"
    )?;
    writeln!(out, "\n{:>6} {unit:>7} {:>15} {:>6} reliability", "lag", "95% interval", "p adj")?;
    for lag in profile.lags.iter().filter(|lag| lag.mi_nats.is_some()) {
        let (mi, interval) = numbers(lag, bits);
        let p_adjusted = p_cell(lag.p_adjusted);
        let reliability = lag.reliability.as_deref().unwrap_or_default();
        writeln!(out, "{:>6} {mi:7.3} {interval:>15} {p_adjusted:>6} {reliability}", lag.lag)?;
    }
    let reasons = profile.lags.iter().map(|lag| (&lag.reliability, &lag.reasons));
    write!(out, "{}", limits("lag", reasons))?;
    Ok(())
}

/// Returns when y is read, in words.
fn later(lag: i64) -> String {
    match lag {
        0 => "at the same time".into(),
        lag if lag > 0 => format!("{} later", counted(lag as usize, "step")),
        lag => format!("{} earlier", counted(lag.unsigned_abs() as usize, "step")),
    }
}

/// Prints the largest value of each of many profiles, strongest first.
fn print_profiles(profiles: &[LagProfile], bits: bool) -> Outcome {
    const MAX_SHOWN: usize = 20;
    let mut found: Vec<(&LagProfile, &LagEstimate)> =
        profiles.iter().filter_map(|profile| Some((profile, profile.largest()?))).collect();
    found.sort_by(|(_, a), (_, b)| {
        b.mi_nats.partial_cmp(&a.mi_nats).unwrap_or(std::cmp::Ordering::Equal)
    });
    let is_dependent = |profile: &&LagProfile| profile.p_over_pairs.is_some_and(|p| p <= 0.05);
    let dependent = profiles.iter().filter(is_dependent).count();
    let mut out = std::io::stdout().lock();
    let pairs = counted(profiles.len(), "pair");
    writeln!(out, "{pairs}, {dependent} dependent at a false discovery rate of 5%")?;
    let unit = if bits { "bits" } else { "nats" };
    writeln!(
        out,
        "\n{:16} {:16} {:>6} {unit:>7} {:>15} {:>6} {:>6}",
        "x", "y", "lag", "95% interval", "p", "p adj"
    )?;
    for (profile, largest) in found.iter().take(MAX_SHOWN) {
        let (mi, interval) = numbers(largest, bits);
        writeln!(
            out,
            "{:16} {:16} {:>6} {mi:7.3} {interval:>15} {:>6} {:>6}",
            shortened(&profile.x, 16),
            shortened(&profile.y, 16),
            largest.lag,
            p_cell(Some(profile.p_value)),
            p_cell(profile.p_over_pairs)
        )?;
    }
    if found.len() > MAX_SHOWN {
        writeln!(out, "... and {} more; -o writes all", found.len() - MAX_SHOWN)?;
    }
    Ok(())
}

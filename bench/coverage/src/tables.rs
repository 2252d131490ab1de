//! Tables of the results, in Markdown.

use crate::run::Record;
use std::collections::BTreeMap;
use std::error::Error;

/// An estimate within this share of the truth, or within this many nats, is close.
const CLOSE: (f64, f64) = (0.1, 0.03);

impl Record {
    fn error(&self) -> f64 {
        self.mi - self.truth
    }

    fn is_covered(&self) -> bool {
        (self.low..=self.high).contains(&self.truth)
    }

    fn is_low_end_above_truth(&self) -> bool {
        self.low > self.truth
    }

    /// Returns whether the estimate is within a factor of 1.5 of the truth.
    fn is_solved(&self) -> bool {
        (self.truth / 1.5..=self.truth * 1.5).contains(&self.mi)
    }

    fn is_close(&self) -> bool {
        self.error().abs() <= (CLOSE.0 * self.truth).max(CLOSE.1)
    }

    fn is_suite(&self) -> bool {
        self.kind.starts_with("bmi")
    }

    fn is(&self, reliability: &str) -> bool {
        self.reliability == reliability
    }
}

/// Prints all tables of the records in these files.
pub fn print(files: &[String]) -> Result<(), Box<dyn Error>> {
    let mut records: Vec<Record> = Vec::new();
    for file in files {
        for line in std::fs::read_to_string(file)?.lines() {
            records.push(serde_json::from_str(line)?);
        }
    }
    let (suites, families): (Vec<&Record>, Vec<&Record>) =
        records.iter().partition(|record| record.is_suite());
    if !suites.is_empty() {
        accuracy(&suites);
    }
    if !families.is_empty() {
        coverage(&families);
        verdicts(&families);
        tests(&families);
    }
    Ok(())
}

/// Groups records by a key, in order.
fn by<'a, K: Ord>(
    records: &[&'a Record],
    key: impl Fn(&Record) -> K,
) -> BTreeMap<K, Vec<&'a Record>> {
    let mut groups: BTreeMap<K, Vec<&Record>> = BTreeMap::new();
    records.iter().for_each(|record| groups.entry(key(record)).or_default().push(record));
    groups
}

fn count(records: &[&Record], holds: impl Fn(&Record) -> bool) -> usize {
    records.iter().filter(|record| holds(record)).count()
}

/// Returns "12 of 40 (30%)".
fn share(part: usize, all: usize) -> String {
    format!("{part} of {all} ({:.1}%)", 100.0 * part as f64 / all.max(1) as f64)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

fn mean_absolute_error(records: &[&Record]) -> f64 {
    mean(records.iter().map(|record| record.error().abs()))
}

fn accuracy(records: &[&Record]) {
    println!("## Accuracy\n");
    println!(
        "| suite | rows | draws | solved | mean absolute error | of each draw | intervals that \
         contain the truth | low end above the truth | seconds |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for ((suite, rows), group) in by(records, |record| (record.kind.clone(), record.rows)) {
        let draws = by(&group, |record| record.draw);
        let errors: Vec<String> =
            draws.values().map(|draw| format!("{:.4}", mean_absolute_error(draw))).collect();
        println!(
            "| {suite} | {rows} | {} | {} | {:.4} | {} | {} | {} | {:.1} |",
            draws.len(),
            share(count(&group, Record::is_solved), group.len()),
            mean_absolute_error(&group),
            errors.join(" "),
            share(count(&group, Record::is_covered), group.len()),
            share(count(&group, Record::is_low_end_above_truth), group.len()),
            mean(group.iter().map(|record| record.seconds)),
        );
    }
    println!(
        "\nMean error of each task, in nats, and the smallest and the largest of the draws:\n"
    );
    println!("| task | true | rows: error |");
    println!("| --- | --- | --- |");
    for ((_, task), group) in by(records, |record| (record.kind.clone(), record.task.clone())) {
        let figures = by(&group, |record| record.rows).into_iter().map(|(rows, group)| {
            let errors = || group.iter().map(|record| record.error());
            let (low, high) =
                (errors().fold(f64::MAX, f64::min), errors().fold(f64::MIN, f64::max));
            format!("{rows}: {:+.3} ({low:+.3} to {high:+.3})", mean(errors()))
        });
        let figures: Vec<String> = figures.collect();
        println!("| {task} | {:.3} | {} |", group[0].truth, figures.join("; "));
    }
    println!();
}

fn coverage(records: &[&Record]) {
    println!("## Coverage\n");
    println!("Families marked with * were not used for any choice.\n");
    println!(
        "| family | kind | true | rows | mean estimate | mean interval | contains the truth | low \
         end above the truth | verdict good / fair / doubtful |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let key = |record: &Record| (record.unseen, record.task.clone(), record.rows);
    for ((unseen, task, rows), group) in by(records, key) {
        let average = |value: fn(&Record) -> f64| mean(group.iter().map(|record| value(record)));
        let verdicts = ["good", "fair", "doubtful"]
            .map(|reliability| count(&group, |record| record.is(reliability)).to_string());
        println!(
            "| {task}{} | {} | {:.3} | {rows} | {:.3} | {:.3} to {:.3} | {} | {} | {} |",
            if unseen { " *" } else { "" },
            group[0].kind,
            group[0].truth,
            average(|record| record.mi),
            average(|record| record.low),
            average(|record| record.high),
            share(count(&group, Record::is_covered), group.len()),
            count(&group, Record::is_low_end_above_truth),
            verdicts.join(" / "),
        );
    }
    println!("\n| families | rows | contains the truth | low end above the truth |");
    println!("| --- | --- | --- | --- |");
    for ((unseen, rows), group) in by(records, |record| (record.unseen, record.rows)) {
        println!(
            "| {} | {rows} | {} | {} |",
            if unseen { "unseen *" } else { "seen" },
            share(count(&group, Record::is_covered), group.len()),
            share(count(&group, Record::is_low_end_above_truth), group.len()),
        );
    }
    println!();
}

fn verdicts(records: &[&Record]) {
    println!("## Verdicts\n");
    println!(
        "An estimate is close if its error is at most {:.0}% of the truth or {} nats.\n",
        100.0 * CLOSE.0,
        CLOSE.1
    );
    println!("| families | verdict | estimates | interval misses the truth | close and covered |");
    println!("| --- | --- | --- | --- | --- |");
    for unseen in [false, true] {
        for reliability in ["good", "fair", "doubtful"] {
            let chosen = |record: &&&Record| record.unseen == unseen && record.is(reliability);
            let group: Vec<&Record> = records.iter().filter(chosen).copied().collect();
            let missed = count(&group, |record| !record.is_covered());
            let fine = count(&group, |record| record.is_close() && record.is_covered());
            println!(
                "| {} | {reliability} | {} | {} | {} |",
                if unseen { "unseen *" } else { "seen" },
                group.len(),
                share(missed, group.len()),
                share(fine, group.len()),
            );
        }
    }
    println!();
}

fn tests(records: &[&Record]) {
    println!("## Test of independence at 5%\n");
    println!("| family | true | rows: rejected |");
    println!("| --- | --- | --- |");
    for ((dependent, task), group) in
        by(records, |record| (record.truth > 0.0, record.task.clone()))
    {
        let figures = by(&group, |record| record.rows).into_iter().map(|(rows, group)| {
            let rejected = count(&group, |record| record.p_value.is_some_and(|p| p <= 0.05));
            format!("{rows}: {}", share(rejected, group.len()))
        });
        let figures: Vec<String> = figures.collect();
        let kind = if dependent { "" } else { " (independent)" };
        println!("| {task}{kind} | {:.3} | {} |", group[0].truth, figures.join("; "));
    }
    println!();
}

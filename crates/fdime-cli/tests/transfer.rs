//! `fdime transfer` as a user sees it: planted directions, gaps, recordings, refusals, files, kill and
//! resume.

mod common;

use common::{Folder, fdime, json, refusal, stdout};
use serde_json::Value;
use std::process::{Command, Stdio};

const COPULA: &str = "--estimator copula";

/// Returns numbers that look random, the same on every machine.
fn noise(k: i64) -> f64 {
    let mixed = (k as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ (mixed >> 29)) >> 11) as f64 / (1u64 << 53) as f64 - 0.5
}

/// Writes series x, y and z with a time and a trial of 200 steps. y follows x by 1 step, and z follows
/// y by 2; `row` may leave out or change a line.
fn table(folder: &Folder, name: &str, row: impl Fn(i64, String) -> Option<String>) -> String {
    let mut text = String::from("t,trial,x,y,z,same\n");
    let y = |t: i64| noise(t - 1) + 0.5 * noise(t + 1_000_000);
    for t in 0..800 {
        let z = y(t - 2) + 0.5 * noise(t + 2_000_000);
        let line = format!("{},{},{},{},{z},1", 5 * t, t / 200, noise(t), y(t));
        text += &row(t, line).map_or(String::new(), |line| line + "\n");
    }
    folder.write(name, text)
}

fn whole(folder: &Folder) -> String {
    table(folder, "series.csv", |_, line| Some(line))
}

#[test]
fn a_pair_has_both_directions() {
    let folder = Folder::new();
    let request = format!("transfer {} --from x --to y {COPULA}", whole(&folder));
    let results = json(&format!("{request} --json"))["results"].clone();
    assert_eq!([&results[0]["from"], &results[1]["from"]], ["x", "y"]);
    assert!(results[0]["te_nats"].as_f64().unwrap() > 0.5);
    assert!(results[1]["te_nats"].as_f64().unwrap() < 0.02);
    assert!(results[0]["p_adjusted"].as_f64().unwrap() <= 0.01);
    assert!(results[1]["p_adjusted"].as_f64().unwrap() > 0.05);
    assert_eq!((&results[0]["history"], &results[0]["lags"]), (&1.into(), &vec![1].into()));
    let text = stdout(&request);
    assert!(text.contains("x -> y is stronger: the intervals do not overlap"), "{text}");
    assert!(text.starts_with("2 directions, 1 significant"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    let request = format!("transfer {} --from y --to z --lags 2,1 --history 2", whole(&folder));
    let results = json(&format!("{request} {COPULA} --json"))["results"].clone();
    assert_eq!(results[0]["lags"], serde_json::json!([1, 2]));
    assert_eq!(results[0]["n_rows"], 798);
}

#[test]
fn rows_without_values_do_not_move_others() {
    let folder = Folder::new();
    let is_gap = |t: i64| t % 17 == 3 || (400..430).contains(&t);
    let blank = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        format!("{},{},,,,{}", fields[0], fields[1], fields[5])
    };
    let blanks =
        table(&folder, "blank.csv", |t, line| Some(if is_gap(t) { blank(&line) } else { line }));
    let cut = table(&folder, "cut.csv", |t, line| (!is_gap(t)).then_some(line));
    let results = |file: &str, more: &str| {
        let request = format!("transfer {file} --from x --to y --history 1 {COPULA} {more}");
        json(&format!("{request} --json"))["results"].clone()
    };
    let expected = results(&blanks, "");
    assert!(expected[0]["te_nats"].as_f64().unwrap() > 0.5);
    let rows = (1..800).filter(|t| !is_gap(*t) && !is_gap(t - 1)).count();
    assert_eq!(expected[0]["n_rows"], rows);
    assert_eq!(results(&cut, "--time t"), expected, "left out rows are like rows without values");
    let trials = results(&blanks, "--group trial");
    let rows = rows - [200, 400, 600].iter().filter(|t| !is_gap(**t) && !is_gap(**t - 1)).count();
    assert_eq!(trials[0]["n_rows"], rows, "no instant has its past in another recording");
}

#[test]
fn bad_requests_are_refused_with_advice() {
    let folder = Folder::new();
    let file = whole(&folder);
    let refused = |request: &str, expected: &str| {
        let message = refusal(&format!("transfer {file} {request}"));
        assert!(message.contains(expected), "{request}: {message}");
    };
    refused("--from x", "--to");
    refused("--from x --to y --columns x,y", "cannot be used with");
    refused("--from x --to nothing", "--to nothing");
    refused("--from x --to x", "must be two different columns that are not constant");
    refused("--from x --to y --history 0", "--history 0: must be between 1");
    refused("--from x --to y --lags 0..3", "--lags 0: lags must be at least 1");
    refused("--from x --to y --lags=-1", "--lags -1: lags must be at least 1");
    refused("--from x --to y --lags one", "--lags one: write a range");
    refused("--from x --to y --lags 500", "--lags 500: must be at most 399, half of the 800 steps");
    refused("--from x --to y --group trial --lags 150", "recording '0' has 200 steps");
    refused("--from x --to y --group trial,z", "--group trial,z: choose one column");
    refused(
        "--from x --to y --estimator ksg",
        "--estimator ksg cannot be used with transfer entropy",
    );
    refused("--from x --to y --sample-rows 50", "--sample-rows: rows of a series");
    refused("--from x --to y --resume", "--output");
    refused("--from x --to y --graphml graph.txt", "must end in .graphml or .xml");
    refused("--from x --to same", "same value in every row");
}

#[test]
fn a_network_is_written_in_all_formats() {
    let folder = Folder::new();
    let [csv, graph, svg] = ["n.csv", "n.graphml", "n.svg"].map(|name| folder.path(name));
    let request = format!(
        "transfer {} --columns x,y,z --lags 1..2 {COPULA} -o {} --graphml {} --svg {}",
        whole(&folder),
        csv.display(),
        graph.display(),
        svg.display()
    );
    let text = stdout(&request);
    assert!(text.contains("6 directions") && text.lines().all(|line| line.len() <= 80), "{text}");
    let mut table = csv::Reader::from_path(&csv).unwrap();
    let rows: Vec<std::collections::HashMap<String, String>> =
        table.deserialize().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 6);
    let significant: Vec<(&str, &str)> = rows
        .iter()
        .filter(|row| row["p_adjusted"].parse::<f64>().unwrap() <= 0.05)
        .map(|row| (row["from"].as_str(), row["to"].as_str()))
        .collect();
    assert_eq!(significant, [("x", "y"), ("y", "z")]);
    assert!(rows.iter().all(|row| row["lags"] == "1..2"));
    let graph = std::fs::read_to_string(&graph).unwrap();
    assert_eq!((graph.matches("<node ").count(), graph.matches("<edge ").count()), (3, 6));
    assert!(graph.contains("<edge source=\"n0\" target=\"n1\"><data key=\"te_nats\">"));
    let svg = std::fs::read_to_string(&svg).unwrap();
    assert_eq!(
        svg.matches("class=\"none\"").count(),
        7,
        "the diagonal and what is not significant"
    );
    assert!(svg.contains("x → y: ") && svg.contains(">from<") && svg.contains(">to<"));
}

/// A killed network is continued: finished directions are not run again, and the result is that of an
/// uninterrupted run.
#[test]
fn an_unfinished_network_is_continued() {
    let folder = Folder::new();
    let (table, out) = (whole(&folder), folder.path("n.json"));
    let request = format!("transfer {table} --columns x,y,z --history 1 -o {}", out.display());
    let results = || -> Value {
        let text = std::fs::read_to_string(&out).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["results"].clone()
    };
    stdout(&format!("{request} {COPULA}"));
    let whole = results();
    let journal = folder.path("n.json.unfinished");
    assert!(!journal.exists(), "a finished run has no journal");
    // The process is killed as soon as the journal has its heading. The journal is then changed to
    // what a later kill would leave: one finished direction (marked, to recognise it) and half a line.
    let mut child = Command::new(env!("CARGO_BIN_EXE_fdime"))
        .args(request.split_whitespace())
        .args(["--effort", "max"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let heading = loop {
        match std::fs::read_to_string(&journal) {
            Ok(text) if text.ends_with('\n') => break text,
            _ => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(results(), whole, "the old result is untouched");
    assert!(refusal(&format!("{request} {COPULA} --resume")).contains("other settings"));
    let mut heading: Value = serde_json::from_str(heading.lines().next().unwrap()).unwrap();
    heading["plan"] = plan(&table);
    let mut expected = whole.clone();
    expected[0]["n_rows"] = 801.into();
    let done = serde_json::json!({ "direction": [0, 1], "found": expected[0] });
    std::fs::write(&journal, format!("{heading}\n{done}\n{{\"direction\":[1,0],\"fou")).unwrap();
    assert!(refusal(&format!("{request} {COPULA}")).contains("--resume"));
    assert!(fdime(&format!("{request} {COPULA} --resume")).status.success());
    assert_eq!(results(), expected, "the finished direction was not run again");
    assert!(!journal.exists());
}

/// Returns the plan of a network with a history of 1 and the copula, as files have it.
fn plan(table: &str) -> Value {
    json(&format!("transfer {table} --from x --to y --history 1 {COPULA} --json"))["plan"].clone()
}

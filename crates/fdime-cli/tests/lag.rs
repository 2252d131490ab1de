//! `fdime lag` as a user sees it: planted lags, gaps, recordings, refusals, files, kill and resume.

mod common;

use common::{Folder, fdime, json, refusal, shipped, stdout};
use serde_json::Value;
use std::process::{Command, Stdio};

const COPULA: &str = "--estimator copula";

/// Returns numbers that look random, the same on every machine.
fn noise(k: i64) -> f64 {
    let mixed = (k as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ (mixed >> 29)) >> 11) as f64 / (1u64 << 53) as f64 - 0.5
}

/// Returns x, and y that follows it by 3 steps.
fn values(t: i64) -> (f64, f64) {
    (noise(t), noise(t - 3) + 0.4 * noise(t + 1_000_000))
}

/// Writes a table with a time, a trial of 100 steps, two series and a constant; `row` may leave out or
/// change a line.
fn table(folder: &Folder, name: &str, row: impl Fn(i64, String) -> Option<String>) -> String {
    let mut text = String::from("t,trial,x,y,same\n");
    for t in 0..400 {
        let (x, y) = values(t);
        let line = format!("{},{},{x},{y},1", 10 + 2 * t, t / 100);
        text += &row(t, line).map_or(String::new(), |line| line + "\n");
    }
    folder.write(name, text)
}

fn whole(folder: &Folder) -> String {
    table(folder, "series.csv", |_, line| Some(line))
}

fn lags(profile: &Value, key: &str) -> Vec<Value> {
    profile["lags"].as_array().unwrap().iter().map(|lag| lag[key].clone()).collect()
}

#[test]
fn the_example_finds_a_lag_without_correlation() {
    let file = shipped("series.csv");
    let request = format!("lag {file} --x news --y change --time hour --lags=-10..10");
    let shown = stdout(&format!("{request} --estimator ksg"));
    let page = include_str!("../../../docs/LAG.md");
    assert!(page.contains(shown.split("\n\n").next().unwrap()), "{shown}");
    let linear = json(&format!("{request} {COPULA} --json"));
    for mi in lags(&linear["results"][0], "mi_nats") {
        assert!(mi.as_f64().unwrap() < 0.005, "{mi}: no correlation");
    }
}

#[test]
fn rows_without_values_do_not_move_others() {
    let folder = Folder::new();
    let is_gap = |t: i64| t % 17 == 3 || (200..230).contains(&t);
    let blank = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        format!("{},{},,,{}", fields[0], fields[1], fields[4])
    };
    let blanks =
        table(&folder, "blank.csv", |t, line| Some(if is_gap(t) { blank(&line) } else { line }));
    let cut = table(&folder, "cut.csv", |t, line| (!is_gap(t)).then_some(line));
    let results = |file: &str, more: &str| {
        let request = format!("lag {file} --x x --y y --lags 0..5 {COPULA} --json {more}");
        json(&request)["results"].clone()
    };
    let expected = results(&blanks, "");
    assert_eq!(expected[0]["largest_at"], 3);
    let rows = lags(&expected[0], "n_rows");
    assert!(rows[0].as_i64() > rows[3].as_i64() && rows[3].as_i64() > Some(250), "{rows:?}");
    assert_eq!(results(&blanks, "--time t"), expected, "times do not change anything");
    assert_eq!(results(&cut, "--time t"), expected, "left out rows are like rows without values");
    assert_ne!(results(&cut, ""), expected, "without times the rows move");
}

#[test]
fn recordings_are_never_compared_with_each_other() {
    let folder = Folder::new();
    let file = whole(&folder);
    let report = json(&format!("lag {file} --x x --y y --group trial --lags 0..4 {COPULA} --json"));
    let profile = &report["results"][0];
    assert_eq!(lags(profile, "n_rows"), [400, 396, 392, 388, 384]);
    assert_eq!(profile["largest_at"], 3);
    assert!(profile["p_value"].as_f64().unwrap() <= 0.01);
    assert!(lags(profile, "p_value").iter().all(Value::is_null));
    let single = json(&format!("lag {file} --x x --y y --lags 0..4 {COPULA} --json"));
    assert_eq!(lags(&single["results"][0], "n_rows"), [400, 399, 398, 397, 396]);
    assert!(lags(&single["results"][0], "p_value").iter().all(Value::is_number));
}

/// A driver acts on x at once and on y two steps later. Given the driver at both times, nothing is left.
#[test]
fn columns_can_be_held_fixed() {
    let folder = Folder::new();
    let driven = |t: i64| (noise(t) + 0.3 * noise(t + 5000), noise(t - 2) + 0.3 * noise(t + 9000));
    let file = folder.write(
        "driven.csv",
        (0..400).fold("driver,x,y\n".to_string(), |text, t| {
            let (x, y) = driven(t);
            text + &format!("{},{x},{y}\n", noise(t))
        }),
    );
    let request = format!("lag {file} --x x --y y --lags 1..3 {COPULA}");
    let alone = &json(&format!("{request} --json"))["results"][0];
    assert_eq!((&alone["largest_at"], &alone["given"]), (&2.into(), &serde_json::json!([])));
    assert!(alone["p_value"].as_f64().unwrap() <= 0.05);
    let fixed = &json(&format!("{request} --given driver --json"))["results"][0];
    assert_eq!(fixed["given"], serde_json::json!(["driver"]));
    assert!(fixed["p_value"].as_f64().unwrap() > 0.05);
    let largest = lags(fixed, "mi_nats").iter().filter_map(Value::as_f64).fold(0.0, f64::max);
    assert!(largest < 0.03, "{largest}");
    let shown = stdout(&format!("{request} --given driver"));
    assert!(shown.contains(" | driver) = "), "{shown}");
    let message = refusal(&format!("{request} --given x"));
    assert!(message.contains("--given: column 'x' is also a column of x or y"), "{message}");
    let message = refusal(&format!("lag {file} --x x --y y --given driver --estimator ksg"));
    assert!(message.contains("--estimator ksg") && message.contains("use auto"), "{message}");
}

#[test]
fn bad_requests_are_refused_with_advice() {
    let folder = Folder::new();
    let file = whole(&folder);
    let irregular = folder.write(
        "irregular.csv",
        (0..60).fold("t,x,y\n".to_string(), |text, t| {
            let jump = (t / 20) as f64 * 0.5;
            text + &format!("{},{},{}\n", t as f64 + jump, noise(t), noise(t + 99))
        }),
    );
    let refused = |request: &str, expected: &str| {
        let message = refusal(&format!("lag {request}"));
        assert!(message.contains(expected), "{request}: {message}");
    };
    let series = format!("{file} --x x --y y");
    refused(
        &format!("{series} --lags 5..-5"),
        "--lags 5..-5: a range begins with its smallest lag",
    );
    refused(&format!("{series} --lags ,"), "--lags ,: write a range such as -20..20");
    refused(
        &format!("{series} --lags=-300..3"),
        "--lags -300: the series has 400 steps; lags must be at",
    );
    refused(
        &format!("{series} --group trial --lags 0..60"),
        "--lags 60: recording '0' has 100 steps",
    );
    refused(&format!("{series} --group trial --lags 0..60"), "short recordings of --group");
    refused(&format!("{file} --x z --y y"), "--x z: there is no column 'z'");
    refused(&format!("{file} --x x --y z"), "--y z: there is no column 'z'");
    refused(&format!("{series} --time z"), "--time z: there is no column 'z'");
    refused(&format!("{file} --x same --y y"), "column 'same' has the same value in every row");
    refused(&format!("{series} --time t,trial"), "--time t,trial: choose one column");
    refused(&format!("{series} --time trial"), "name the column of recordings in --group");
    refused(&format!("{series} --sample-rows 50"), "--sample-rows: rows of a series");
    refused(&format!("{series} --resume"), "--output");
    refused(&format!("{series} -o lags.txt"), "the name must end in .csv or .json");
    refused(&format!("{series} --folds 1"), "--folds 1: must be between 2 and 20");
    refused(&format!("{series} --blocks x"), "--blocks x: write a number of rows");
    let grid = "the times are not at equal steps: row ";
    refused(&format!("{irregular} --x x --y y --time t"), grid);
    refused(&format!("{irregular} --x x --y y --time t"), "leave out --time to count lags in rows");
    let empty = Command::new(env!("CARGO_BIN_EXE_fdime"))
        .args(["lag", &file, "--x", "x", "--y", "y", "--lags", ""])
        .output()
        .unwrap();
    assert_eq!(empty.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&empty.stderr).contains("--lags '': write a range"));
}

#[test]
fn files_and_tables_have_every_lag() {
    let folder = Folder::new();
    let file = whole(&folder);
    let [csv, json, svg] = ["lags.csv", "lags.json", "lags.svg"].map(|name| folder.path(name));
    let request = format!("lag {file} --x x --y y --lags 2..4 {COPULA}");
    let shown = stdout(&format!("{request} -o {} --svg {}", csv.display(), svg.display()));
    assert!(shown.starts_with("I(x; y 3 steps later) = "), "{shown}");
    assert!(shown.contains("\ndependent: p = ") && shown.lines().all(|line| line.len() <= 80));
    let table = std::fs::read_to_string(&csv).unwrap();
    let heading = "x,y,given,lag,mi_nats,ci_low,ci_high,p_value,p_adjusted,statistic_nats,n_rows,\
                   reliability,reasons,problem";
    assert_eq!(table.lines().next(), Some(heading));
    assert_eq!(table.lines().filter(|line| line.starts_with("x,y,")).count(), 4);
    assert_eq!(std::fs::read_to_string(&svg).unwrap().matches("<circle").count(), 8);
    stdout(&format!("{request} -o {}", json.display()));
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["plan"]["lags"], serde_json::json!([2, 3, 4]));
    for key in ["largest_at", "p_value", "p_over_pairs", "band_nats", "smallest_p"] {
        assert!(report["results"][0][key].is_number(), "{key}");
    }
    let few = fdime(&format!("lag {file} --x x --y y --lags=-20..20 {COPULA}"));
    let message = String::from_utf8_lossy(&few.stderr).into_owned();
    assert!(message.contains("with 41 lags in so few rows, p-values"), "{message}");
    let itself = stdout(&format!("lag {file} --x x --y x --lags 1..2 {COPULA}"));
    assert!(itself.starts_with("I(x; x "), "{itself}");
}

/// A kill loses nothing that was finished: a marked lag in the journal is not estimated again.
#[test]
fn many_pairs_continue_after_a_kill() {
    let folder = Folder::new();
    let (file, out) = (whole(&folder), folder.path("lags.csv"));
    let request = format!("lag {file} --x x,t --y y --lags 2..4 -o {}", out.display());
    let quick = format!("{request} {COPULA}");
    let shown = stdout(&quick);
    assert!(shown.starts_with("2 pairs, ") && shown.lines().all(|line| line.len() <= 80));
    let whole = std::fs::read_to_string(&out).unwrap();
    let journal = folder.path("lags.csv.unfinished");
    assert!(!journal.exists(), "a finished run has no journal");
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
    assert_eq!(std::fs::read_to_string(&out).unwrap(), whole, "the old result is untouched");
    assert!(refusal(&format!("{quick} --resume")).contains("other settings"));
    // What a later kill of the quick request would leave: one finished lag, marked to recognise it,
    // and half a line.
    let mut heading: Value = serde_json::from_str(heading.lines().next().unwrap()).unwrap();
    heading["plan"] =
        json(&format!("lag {file} --x x --y y --lags 3 {COPULA} --json"))["plan"]["estimate"]
            .clone();
    let done = "{\"lag\":[0,2,3],\"found\":{\"lag\":3,\"mi_nats\":9.5,\"ci_low\":9.0,\"ci_high\":10.0,\
                \"p_value\":0.001,\"n_rows\":7,\"reliability\":\"good\",\"problem\":null}}";
    let text = format!("{heading}\n{done}\n{{\"lag\":[1,2,2],\"found\":{{\"lag\":");
    std::fs::write(&journal, text).unwrap();
    assert!(refusal(&quick).contains("--resume"));
    let resumed = stdout(&format!("{quick} --resume"));
    assert!(resumed.contains(" 9.500 "), "{resumed}");
    let continued = std::fs::read_to_string(&out).unwrap();
    let differing: Vec<(&str, &str)> =
        whole.lines().zip(continued.lines()).filter(|(a, b)| a != b).collect();
    assert_eq!(differing.len(), 1, "{differing:?}");
    assert!(differing[0].1.starts_with("x,y,,3,9.5,"), "the finished lag was not run again");
    assert!(!journal.exists());
}

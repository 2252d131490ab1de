//! `report` and `schema`: everything again from the JSON of an earlier run.

mod common;

use common::{Folder, refusal, shipped, stdout};
use std::path::Path;

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Runs a command that prints JSON, saves it, and returns the path.
fn saved(folder: &Folder, arguments: &str) -> String {
    folder.write("run.json", stdout(&format!("{arguments} --json")))
}

/// Returns the words of a summary.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[test]
fn the_page_of_an_estimate_is_the_same_from_its_json() {
    let folder = Folder::new();
    let requests = [
        format!("estimate {} --effort quick --permutations 99", shipped("pairs.csv")),
        format!(
            "estimate {} --x x --y y --given z --estimator copula --permutations 99",
            shipped("common_cause.csv")
        ),
    ];
    for request in &requests {
        let (first, again) = (folder.path("first.html"), folder.path("again.html"));
        let run = saved(&folder, &format!("{request} --report {}", first.display()));
        let summary = stdout(&format!("report {run} --html {}", again.display()));
        assert_eq!(text(&first), text(&again), "{request}");
        assert!(text(&again).contains("coloured by pointwise information"));
        assert!(summary.starts_with("I(x; y"), "{summary}");
        // The JSON of Python has neither the name of the command nor figures.
        let mut value: serde_json::Value = serde_json::from_str(&text(Path::new(&run))).unwrap();
        value.as_object_mut().unwrap().retain(|key, _| key != "command" && key != "figures");
        let plain = folder.write("plain.json", value.to_string());
        assert_eq!(stdout(&format!("report {plain}")), summary);
    }
}

#[test]
fn figures_tables_and_summaries_are_the_same_from_json() {
    let folder = Folder::new();
    let (pairs, regions) = (shipped("pairs.csv"), shipped("regions.csv"));
    let quick = "--estimator copula --permutations 99";
    let requests = [
        format!("lag {regions} --x r1 --y r2 --lags 0..2 --time second {quick}"),
        format!("transfer {regions} --columns r* --time second --history 1 {quick}"),
        format!("select {pairs} --y y1 -k 2 {quick}"),
    ];
    for request in requests {
        let [svg, csv, svg_again, csv_again] =
            ["a.svg", "a.csv", "b.svg", "b.csv"].map(|name| folder.path(name));
        let outputs = format!("--svg {} -o {}", svg.display(), csv.display());
        let run = saved(&folder, &format!("{request} {outputs}"));
        let outputs = format!("--svg {} -o {}", svg_again.display(), csv_again.display());
        let summary = stdout(&format!("report {run} {outputs}"));
        assert_eq!(text(&svg), text(&svg_again), "{request}");
        assert_eq!(text(&csv), text(&csv_again), "{request}");
        assert!(summary.lines().count() > 2, "{summary}");
    }
    // A matrix writes JSON to a file; a capacity and a study of power have a figure only.
    let (json, svg, again) = (folder.path("m.json"), folder.path("m.svg"), folder.path("n.svg"));
    let request = format!("matrix {pairs} {quick} -o {} --svg {}", json.display(), svg.display());
    let printed = stdout(&request);
    let (json, again_path) = (json.display(), again.display());
    let summary = stdout(&format!("report {json} --svg {again_path}"));
    assert_eq!((text(&svg), words(&printed)), (text(&again), words(&summary)));
    let capacity =
        format!("capacity {} --input dose --output r1 --effort quick", shipped("doses.csv"));
    for request in [capacity, format!("power --mi 0.3 --rows 60 --tables 5 {quick}")] {
        let run = saved(&folder, &format!("{request} --svg {}", svg.display()));
        stdout(&format!("report {run} --svg {again_path}"));
        assert_eq!(text(&svg), text(&again), "{request}");
    }
}

#[test]
fn what_is_not_there_is_refused() {
    let folder = Folder::new();
    let power = saved(&folder, "power --mi 0.3 --rows 60 --tables 5 --estimator copula");
    let broken = folder.write("broken.json", "{\"mi_nats\": 1");
    let other = folder.write("other.json", "{\"command\": \"bench\"}");
    let wrong = folder.write("wrong.json", "{\"command\": \"lag\", \"results\": 3}");
    for (request, expected) in [
        (format!("{power} --html x.html"), "--html: only estimates have a page"),
        (format!("{power} --open"), "--open: only estimates have a page"),
        (format!("{power} -o x.csv"), "--output: these results have no table"),
        (format!("{power} --graphml x.graphml"), "--graphml: these results are not a network"),
        (format!("{power} --svg {power}"), "must end in .svg"),
        (broken, "this is not JSON"),
        (other, "there is no report of results of 'bench'"),
        (wrong, "these are not the results of 'fdime lag --json'"),
        ("nothing.json".into(), "there is no such file"),
    ] {
        let message = refusal(&format!("report {request}"));
        assert!(message.contains(expected), "{request}: {message}");
    }
    assert!(refusal("schema bench").contains("possible values: estimate, matrix"));
}

#[test]
fn schemas_are_json_and_describe_every_field() {
    for command in ["estimate", "matrix", "select", "lag", "transfer", "capacity", "power", "suite"]
    {
        let schema: serde_json::Value =
            serde_json::from_str(&stdout(&format!("schema {command}"))).unwrap();
        let properties = schema["properties"].as_object().unwrap();
        assert!(properties.contains_key("command") && properties.contains_key("version"));
        for (name, property) in properties {
            let described = property["description"].is_string() || property["$ref"].is_string();
            assert!(described || property["anyOf"].is_array(), "{command}: {name}");
        }
    }
}

/// A page that cannot be shown is a failure with the path of the page, after the results.
#[cfg(unix)]
#[test]
fn a_page_without_a_browser_is_named() {
    let table = shipped("pairs.csv");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_fdime"))
        .args(["estimate", &table, "--estimator", "copula", "--permutations", "99", "--open"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    let (out, err) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(String::from_utf8_lossy(&out).starts_with("I(x; y)"));
    assert!(err.contains("--open: no browser could be started") && err.contains(".html"), "{err}");
    assert_eq!(output.status.code(), Some(1));
}

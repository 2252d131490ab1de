//! `estimate --given`: what it prints, writes and refuses.

mod common;

use common::{Folder, json, refusal, shipped, stdout};

const QUICK: &str = "--effort quick --permutations 99";

/// The worked example of docs/CONDITIONAL.md: z explains all that x and y have in common.
#[test]
fn a_common_cause_is_explained_away() {
    let table = shipped("common_cause.csv");
    let alone = json(&format!("estimate {table} --x x --y y --json {QUICK}"));
    assert!(alone["mi_nats"].as_f64().unwrap() > 0.3 && alone["p_value"].as_f64() < Some(0.02));
    assert!(alone.get("given").is_none());
    let given = json(&format!("estimate {table} --x x --y y --given z --json {QUICK}"));
    assert!(given["mi_nats"].as_f64().unwrap() < 0.02, "{}", given["mi_nats"]);
    assert!(given["p_value"].as_f64().unwrap() > 0.05);
    let figures = &given["given"];
    assert_eq!(figures["columns"], serde_json::json!(["z"]));
    assert_eq!(figures["unconditional_nats"], alone["mi_nats"]);
    assert!(figures["explained_x"].as_f64().unwrap() > 0.7);
}

#[test]
fn the_summary_and_the_report_say_what_z_explains() {
    let folder = Folder::new();
    let report = folder.path("report.html");
    let table = shipped("common_cause.csv");
    let request = format!("estimate {table} --given z {QUICK} --report {}", report.display());
    let text = stdout(&request);
    assert!(text.starts_with("I(x; y | z) = "), "{text}");
    assert!(text.contains("no dependence found given z: p = "), "{text}");
    assert!(text.contains("x: x; y: y; z: z") && text.contains("without z: I(x; y) = "), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    let page = std::fs::read_to_string(report).unwrap();
    assert!(page.contains("What z explains") && page.contains("Conditional mutual information"));
}

#[test]
fn impossible_requests_name_the_flag() {
    let folder = Folder::new();
    let (table, model) = (shipped("common_cause.csv"), folder.path("model.safetensors"));
    let refused = |rest: &str| refusal(&format!("estimate {table} {rest}"));
    for (request, words) in [
        ("--x x --y y --given nothing", vec!["--given nothing", "no column"]),
        ("--x x --y y --given y", vec!["--given y", "--y", "held fixed"]),
        ("--x x --y y --given *", vec![]),
        ("--given *", vec!["--given", "--x"]),
        ("--x x --y y --given z --estimator ksg", vec!["--estimator ksg", "--given"]),
        ("--x x --y y --given z --chain 2", vec!["--chain 2", "--given"]),
    ] {
        if words.is_empty() {
            // A pattern leaves the columns to the sides that name them.
            let found = json(&format!("estimate {table} {request} --json --estimator copula"));
            assert_eq!(found["given"]["columns"], serde_json::json!(["z"]));
            continue;
        }
        let message = refused(request);
        assert!(words.iter().all(|word| message.contains(word)), "{request}: {message}");
    }
    let message = refused(&format!("--x x --y y --given z --save {}", model.display()));
    assert!(message.contains("--save") && !model.exists(), "{message}");
    let two_files = format!("estimate --x-file {table} --y-file {table} --given z");
    assert!(refusal(&two_files).contains("--given"));
}

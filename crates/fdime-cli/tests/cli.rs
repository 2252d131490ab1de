//! The command line as a user sees it: help and errors as snapshots, written files, exit codes.

mod common;

use common::{fdime, is_empty, json, refusal, stdout};
use std::process::Command;

#[test]
fn help_fits_a_terminal_of_80_columns() {
    for command in [
        "",
        "estimate",
        "apply",
        "matrix",
        "lag",
        "capacity",
        "transfer",
        "suite",
        "list",
        "sample",
        "staircase",
        "reproduce",
        "devices",
        "bench",
        "completions",
        "man",
    ] {
        let help = stdout(&format!("{command} --help"));
        let longest = help.lines().map(str::len).max().unwrap_or(0);
        assert!(longest <= 80, "{command}: {longest} columns");
        assert!(command.is_empty() || help.contains("Examples:"), "{command}");
    }
    assert!(stdout("list").lines().all(|line| line.len() <= 80));
    assert!(stdout("bench deranged-d2-n8 --seconds 0.01").lines().all(|line| line.len() <= 80));
}

#[test]
fn the_version_names_the_features() {
    let version = stdout("--version");
    assert!(version.starts_with(concat!("fdime ", env!("CARGO_PKG_VERSION"))), "{version}");
    assert!(version.lines().nth(1).unwrap().starts_with("features: "), "{version}");
    assert_eq!(stdout("-V"), concat!("fdime ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn completions_and_manual_pages_cover_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&format!("completions {shell}"));
        for part in ["staircase", "--pairing", "derangement", "separable", "quick"] {
            let part = if shell == "fish" { part.trim_start_matches("--") } else { part };
            assert!(script.contains(part), "{shell}: {part}");
        }
    }
    let pages = stdout("man");
    for command in ["fdime", "estimate", "staircase", "completions"] {
        let title = if command == "fdime" { "fdime".into() } else { format!("fdime-{command}") };
        assert!(pages.contains(&format!("\n.TH {title} 1")), "{command}");
    }
    assert_eq!(stdout("man estimate").matches("\n.TH ").count(), 1);
    assert!(refusal("man estimat").contains("did you mean 'estimate'"));
}

#[test]
fn help_of_the_staircase() {
    insta::assert_snapshot!(stdout("staircase --help"));
}

#[test]
fn help_of_the_estimate() {
    insta::assert_snapshot!(stdout("estimate --help"));
}

#[test]
fn list_shows_every_name() {
    insta::assert_snapshot!(stdout("list"));
    let names = json("list --json");
    assert_eq!(names["critics"], serde_json::json!(["joint", "separable", "deranged", "conv"]));
    assert_eq!(stdout("list pairings").lines().count(), 5);
}

#[test]
fn impossible_requests_name_the_flag() {
    let requests = [
        "staircase --estimator kl-dmie",
        "staircase --estimator gan-dime,f:ln(u)",
        "staircase --estimator smile-0",
        "staircase --estimator alpha-x-dime",
        "staircase --critic conv",
        "matrix pairs.csv -o mi.csv --estimator njee",
        "staircase --estimator cpc --critic deranged",
        "staircase --critic jiont",
        "staircase --critic joint --pairing shift",
        "staircase --critic deranged --pairing all-pairs",
        "staircase --pairing derangment",
        "staircase --scenario gausian",
        "staircase --scenario swiss-roll --dim 5",
        "staircase --dim 0",
        "staircase --batch 1",
        "staircase --device gpu",
        "staircase --device cpu --precision bf16",
        "staircase --precision tf23",
        "staircase --levels ,",
        "staircase --levels rho=1.2",
        "staircase --levels -1",
        "staircase --levels df=3",
        "staircase --levels two",
        "staircase --iterations 0",
        "staircase --hidden 256,x",
        "staircase --hidden 0",
        "staircase --embedding 0",
        "staircase --lr -1",
        "staircase --lr NaN",
        "staircase --runs 0",
        "staircase --last 0",
        "staircase --chain 0",
        "staircase --dim 3 --chain 4",
        "staircase --dim 1 --chain 10000000000",
        "staircase --chain two",
        "staircase --chain 2 --estimator njee",
        "staircase --estimator cpc --critic deranged --chain 2",
        "staircase --lr-schedule cosine",
        "staircase --readout nvj",
        "staircase --activation rleu",
        "staircase --plan no-such-file.json",
        "sample gaussian -o pairs.txt",
        "sample gaussian --level x -o pairs.csv",
        "sample gaussian --rows 0 -o pairs.csv",
        "sample gaussian --level -1 -o pairs.csv",
        "sample gausian -o pairs.csv",
        "bench deranged-d5-n1",
        "bench foo-d5-n64",
        "staircase --readout clipped-x",
        "staircase --iterations 1000000000000000000",
        "staircase --runs 10000000000",
        "staircase --scenario uniform --levels 800",
        "bench joint-5-64",
        "bench joint-d5-n64 --seconds 0",
        "list estimator",
        "staircase --batch 10000000000",
        "staircase --hidden 10000000000",
        "staircase --dim 1000000",
        "sample gaussian --dim 1000000 -o pairs.csv",
        "bench deranged-d20-n10000000000",
        "bench deranged-d20-n64 --hidden 10000000000",
    ];
    let text: String = requests.iter().map(|r| format!("$ fdime {r}\n{}\n", refusal(r))).collect();
    insta::assert_snapshot!(text);
    for flag in
        ["--estimator", "--critic", "--pairing", "--scenario", "--dim", "--batch", "--levels"]
    {
        assert!(text.contains(&format!("error: {flag}")), "{flag}");
    }
}

#[test]
fn requests_larger_than_the_memory_name_the_flag() {
    for (request, flag) in [
        ("sample gaussian --dim 100000 -n 1000000000 -o pairs.csv", "--rows 1000000000"),
        ("suite bmi -n 4000000000000", "--rows 4000000000000"),
        ("suite bmi -n 4000000000", "--rows 4000000000"),
        ("bench joint-d20-n4000000", "joint-d20-n4000000: --batch 4000000"),
        ("staircase --device cpu --batch 4000000000", "--batch 4000000000"),
        ("staircase --device cpu --hidden 65536,65536,65536,65536,65536", "--hidden 65536,"),
    ] {
        let refusal = refusal(request);
        assert!(refusal.starts_with(&format!("error: {flag}")), "{refusal}");
    }
}

const QUICK: &str = "staircase --dim 2 --levels 0.5,1 --iterations 40 --last 20 --hidden 16,16";

#[test]
fn staircase_json_has_the_documented_shape() {
    let report = json(&format!("{QUICK} --estimator kl-dime,cpc --critic joint --batch 16 --json"));
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    for (row, (estimator, mi)) in
        results.iter().zip([("kl-dime", 0.5), ("kl-dime", 1.0), ("cpc", 0.5), ("cpc", 1.0)])
    {
        assert_eq!(row["estimator"], estimator);
        assert!((row["true_mi"].as_f64().unwrap() - mi).abs() < 1e-9);
        assert_eq!((&row["critic"], &row["pairing"]), (&"joint".into(), &"all-pairs".into()));
        assert_eq!(
            (&row["scenario"], &row["dim"], &row["batch"], &row["window"]),
            (&"gaussian".into(), &2.into(), &16.into(), &20.into())
        );
        let number = |key: &str| row[key].as_f64().unwrap();
        assert!((number("bias") - (number("mean") - number("true_mi")).abs()).abs() < 1e-9);
        assert!((number("mse") - number("bias").powi(2) - number("variance")).abs() < 1e-9);
    }
    assert!(report["seconds"].as_f64().unwrap() > 0.0 && report["plan"].is_object());
}

#[test]
fn the_bias_of_several_runs_is_that_of_their_mean() {
    let report = json(&format!("{QUICK} --estimator hd-dime --runs 3 --json"));
    for row in report["results"].as_array().unwrap() {
        let number = |key: &str| row[key].as_f64().unwrap();
        assert!((number("bias") - (number("mean") - number("true_mi")).abs()).abs() < 1e-9);
    }
}

#[test]
fn an_estimator_that_is_named_twice_is_run_and_listed_once() {
    let twice = format!("{QUICK} --estimator gan-dime,kl-dime,gan-dime --runs 2");
    let table = stdout(&twice);
    for estimator in ["gan-dime", "kl-dime"] {
        let rows = table.lines().filter(|line| line.starts_with(estimator)).count();
        assert_eq!(rows, 2, "one row for each level: {table}");
    }
    let report = json(&format!("{twice} --json"));
    assert_eq!(report["results"].as_array().unwrap().len(), 4);
    assert_eq!(report["plan"]["estimators"].as_array().unwrap().len(), 2);
}

#[test]
fn a_printed_plan_gives_the_same_numbers_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("first.json");
    let first = stdout(&format!("{QUICK} --estimator gan-dime --seed 3 --runs 2 --json"));
    std::fs::write(&path, &first).unwrap();
    let again = json(&format!("staircase --plan {} --threads 1 --json", path.display()));
    let first: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!(first["results"], again["results"]);
    let other = json(&format!("staircase --plan {} --seed 4 --json", path.display()));
    assert_ne!(first["results"], other["results"], "flags override the plan");
}

#[test]
fn the_plan_of_a_single_run_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    let mut plan = fdime::RunPlan::new(
        fdime::ScenarioPlan::new("uniform", 1).unwrap(),
        "hd-dime".parse::<fdime::Estimator>().unwrap(),
        fdime::CriticPlan::new(fdime::CriticKind::Deranged, &[8]),
    );
    plan.schedule.iterations = 5;
    std::fs::write(&path, serde_json::to_string(&plan).unwrap()).unwrap();
    let report = json(&format!("staircase --plan {} --json", path.display()));
    assert_eq!(report["results"].as_array().unwrap().len(), 5);
}

#[test]
fn the_shipped_plan_runs() {
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/quickstart.json");
    let table = stdout(&format!("staircase --plan {plan} --iterations 3"));
    assert_eq!(table.lines().filter(|line| line.contains("-dime")).count(), 9, "{table}");
}

#[test]
fn the_columns_of_the_table_hold_very_large_numbers() {
    let run = "staircase --dim 2 --levels 2 --iterations 300 --lr 0.05 --estimator smile-own-1";
    let table = stdout(run);
    assert!(table.lines().all(|line| line.len() <= 80), "{table}");
    let row = table.lines().find(|line| line.starts_with("smile-own-1")).unwrap();
    assert!(row.split_whitespace().skip(1).any(|cell| cell.contains('e')), "{table}");
}

#[test]
fn another_readout_is_shown_in_table_and_json() {
    let table = stdout(&format!("{QUICK} --estimator gan-dime --readout nwj"));
    assert!(table.contains("gan-dime (nwj)"), "{table}");
    let report = json(&format!("{QUICK} --estimator gan-dime --readout nwj --json"));
    assert_eq!(report["results"][0]["readout"], "nwj");
    assert_eq!(report["results"][0]["mean_spread"], serde_json::Value::Null);
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_any_work() {
    let pairs = common::shipped("pairs.csv");
    for request in [
        "staircase --iterations 1000000 --svg no/such/folder/out.svg".to_string(),
        "staircase --iterations 1000000 --log no/such/folder/out.jsonl".to_string(),
        "sample gaussian -o no/such/folder/out.csv".to_string(),
        format!("estimate {pairs} --y y1,y2 --effort max --report no/such/folder/out.html"),
        format!("estimate {pairs} --y y1,y2 --effort max --pointwise no/such/folder/out.csv"),
        format!("matrix {pairs} -o no/such/folder/out.csv"),
    ] {
        let message = refusal(&request);
        assert!(message.contains("no/such/folder"), "{request}: {message}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_batch_that_does_not_fit_is_refused_with_its_size() {
    let error = refusal("staircase --critic joint --batch 1000000");
    assert!(error.starts_with("error: --batch 1000000: with this critic it takes about 4004"));
}

#[test]
fn the_table_and_the_plot_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("plot.svg");
    let arguments = format!("{QUICK} --estimator kl-dime,f:u*ln(u)+<1 --svg {}", svg.display());
    assert!(refusal(&arguments).contains("f(u) = u*ln(u)+<1"), "a malformed f is shown");
    assert!(!svg.exists(), "a refused request writes nothing");
    let table = stdout(&format!("{QUICK} --estimator kl-dime,f:u*ln(u) --svg {}", svg.display()));
    assert_eq!(table.lines().filter(|line| line.starts_with("f:u*ln(u)")).count(), 2);
    assert!(table.lines().all(|line| line.len() <= 80));
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    for part in ["pale line-0", "solid line-0", "dashed line-truth", "ln 64", "kl-dime"] {
        assert!(picture.contains(part), "{part}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

const CHAINED: &str = "staircase --scenario dense-gaussian --dim 4 --levels 0.5,1 --iterations 40 \
    --last 20 --hidden 16,16 --estimator kl-dime,gan-dime --chain 4 --device cpu \
    --lr-schedule warm-up-and-cosine --seed 3";

#[test]
fn a_chained_staircase_prints_what_each_block_adds() {
    let table = stdout(&format!("{CHAINED} --runs 2"));
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{table}");
    let text = table.replace('\n', " ");
    let shown = [
        "dense-gaussian, d = 4, N = 64, critic deranged (16-16), pairing derangement, chain of 4 \
         blocks of y last 20 of 40 iterations at each level; 2 runs of 7 trainings, seed 3",
        "what blocks b of y add: I(X, Y_<b; Y_b) - I(Y_<b; Y_b)",
    ];
    for shown in shown {
        assert!(text.contains(shown), "{shown}: {table}");
    }
    assert!(!table.contains("-0.00"), "{table}");
    let mut sums = 0;
    for (row, terms) in lines.iter().zip(&lines[1..]).filter(|(_, terms)| terms.starts_with("  = "))
    {
        let mean: f64 = row.split_whitespace().nth(2).unwrap().parse().unwrap();
        let terms = terms.trim_start_matches("  = ").replace(['(', ')'], "");
        let block = |block: &str| -> f64 {
            let (added, subtracted) = block.split_once(" - ").unwrap_or((block, "0"));
            added.parse::<f64>().unwrap() - subtracted.parse::<f64>().unwrap()
        };
        let blocks: Vec<f64> = terms.split("  +  ").map(block).collect();
        assert_eq!(blocks.len(), 4, "{table}");
        // Seven terms and the mean are rounded.
        assert!((blocks.iter().sum::<f64>() - mean).abs() < 7.5 * 0.005, "{table}");
        sums += 1;
    }
    assert_eq!(sums, 4, "two estimators at two levels: {table}");
}

#[test]
fn the_terms_of_a_chain_add_up_in_json_and_its_plan_repeats_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("first.json");
    let text = stdout(&format!("{CHAINED} --runs 2 --json"));
    std::fs::write(&path, &text).unwrap();
    let first: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(first["plan"]["chain"], 4);
    assert_eq!(first["plan"]["learning_rate_schedule"], "warm-up-and-cosine");
    let results = first["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    for row in results {
        let terms = row["terms"].as_array().unwrap();
        let names: Vec<&str> = terms.iter().map(|term| term["term"].as_str().unwrap()).collect();
        let expected = [
            "I(X; Y_1)",
            "I(X, Y_1; Y_2)",
            "I(Y_1; Y_2)",
            "I(X, Y_<3; Y_3)",
            "I(Y_<3; Y_3)",
            "I(X, Y_<4; Y_4)",
            "I(Y_<4; Y_4)",
        ];
        assert_eq!(names, expected);
        let signed = |term: &serde_json::Value| {
            assert!(term["variance"].as_f64().unwrap() >= 0.0 && term["block"].is_u64());
            let sign = if term["with_x"] == true { 1.0 } else { -1.0 };
            sign * term["mean"].as_f64().unwrap()
        };
        let sum: f64 = terms.iter().map(signed).sum();
        assert!((sum - row["mean"].as_f64().unwrap()).abs() < 1e-9, "{row}");
    }
    let again =
        json(&format!("staircase --plan {} --threads 1 --json --device cpu", path.display()));
    assert_eq!(first["results"], again["results"]);
    assert!(json(&format!("{QUICK} --json"))["results"][0].get("terms").is_none());
}

#[test]
fn a_log_continues_a_chained_run() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("runs.jsonl");
    let run = format!("{CHAINED} --json --log {}", log.display());
    let first = json(&run);
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(text.lines().count(), 14, "a line for each term of both estimators");
    // An interruption leaves the first five.
    let kept: String = text.split_inclusive('\n').take(5).collect();
    std::fs::write(&log, kept).unwrap();
    let resumed = fdime(&run);
    let messages = String::from_utf8_lossy(&resumed.stderr);
    assert!(messages.contains("5 of 14 runs are already in the log"), "{messages}");
    let resumed: serde_json::Value = serde_json::from_slice(&resumed.stdout).unwrap();
    assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 14);
    assert_eq!(first["results"], resumed["results"]);
}

#[test]
fn the_plot_of_a_chain_shows_its_terms() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("plot.svg");
    let picture = |flags: &str| {
        stdout(&format!("{flags} --svg {}", svg.display()));
        std::fs::read_to_string(&svg).unwrap()
    };
    let chained = picture(CHAINED);
    assert_eq!(chained.matches("I(X, Y_&lt;3; Y_3) = ").count(), 4, "estimators and levels");
    assert_eq!(chained.matches(", subtracted</title>").count(), 12);
    for part in ["block 1", "block 4", "terms (pale: subtracted)", "sum of the terms"] {
        assert!(chained.contains(part), "{part}");
    }
    let direct = picture(&CHAINED.replace("--chain 4", ""));
    assert!(direct.contains("moving average") && !direct.contains("terms"));
}

#[test]
fn the_diverged_terms_of_a_run_are_named_and_counted_as_one_run() {
    let output = fdime(
        "staircase --dim 3 --levels 1 --iterations 500 --hidden 40,24 --estimator pearson-dime \
         --lr 10 --chain 3 --device cpu",
    );
    assert_eq!(output.status.code(), Some(1));
    let (table, messages) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(table.contains("1 of 1 runs diverged"), "{table}");
    assert!(messages.contains("pearson-dime (seed 0, I(X, Y_1; Y_2)) diverged at"), "{messages}");
}

#[test]
fn a_custom_f_that_is_not_zero_at_one_is_noted() {
    let output = fdime(&format!("{QUICK} --estimator f:u*ln(u)+2"));
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("f(1) is 2 instead of 0"));
}

#[test]
fn divergence_is_reported_and_never_a_number() {
    let output = fdime(
        "staircase --dim 3 --levels 1 --iterations 500 --hidden 40,24 --estimator pearson-dime \
         --lr 10 --json",
    );
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["results"].as_array().unwrap().len(), 0);
    assert_eq!(report["failures"][0]["reason"], "diverged");
    assert!(String::from_utf8_lossy(&output.stderr).contains("diverged at iteration"));
}

#[test]
fn results_and_failures_name_an_estimator_in_the_same_way() {
    let run = "staircase --dim 3 --levels 1 --hidden 40,24 --readout nwj --json";
    let report = |flags: &str| -> serde_json::Value {
        let output = fdime(&format!("{run} --estimator pearson-dime {flags}"));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (result, failure) =
        (report("--lr 1e-4 --iterations 10"), report("--lr 10 --iterations 500"));
    let (result, failure) = (&result["results"][0], &failure["failures"][0]);
    for key in ["estimator", "link", "readout"] {
        assert!(!result[key].is_null() && result[key] == failure[key], "{key}: {result} {failure}");
    }
    assert_eq!(
        (&failure["estimator"], &failure["readout"]),
        (&"pearson-dime".into(), &"nwj".into())
    );
}

#[test]
fn samples_are_written_in_every_format_with_their_true_mi() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a.csv", "a.npy", "a.npz"] {
        let text = stdout(&format!(
            "sample gaussian --dim 2 --level 1 -n 7 --seed 5 -o {}",
            path(name).display()
        ));
        assert_eq!(text, "true MI: 1.000000 nats (1.442695 bits)\n");
    }
    let csv = std::fs::read_to_string(path("a.csv")).unwrap();
    assert_eq!(csv.lines().count(), 8);
    assert!(csv.starts_with("x1,x2,y1,y2\n"));
    let npy = std::fs::read(path("a.npy")).unwrap();
    let last = f64::from_le_bytes(npy[npy.len() - 8..].try_into().unwrap());
    assert!(csv.trim_end().ends_with(&last.to_string()), "the same numbers in both");
    let npz = std::fs::read(path("a.npz")).unwrap();
    assert!(npz.starts_with(b"PK"));
    let roll =
        stdout(&format!("sample swiss-roll --level 0.8 -n 3 -o {}", path("r.csv").display()));
    assert!(roll.starts_with("true MI: 0.8"));
    assert!(std::fs::read_to_string(path("r.csv")).unwrap().starts_with("x1,x2,y1\n"));
}

#[test]
fn samples_of_tasks_have_their_true_information() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let draw = |task: &str, name: &str| {
        let text = stdout(&format!("sample {task} -n 7 -o {}", path(name).display()));
        (text, std::fs::read_to_string(path(name)).unwrap())
    };
    let (text, csv) = draw("gaussian-collider-1x1x1", "t.csv");
    assert_eq!(text, "true I(x; y | z): 0.510826 nats (0.736966 bits)\n");
    assert!(csv.starts_with("x1,y1,z1\n") && csv.lines().count() == 8, "{csv}");
    let (text, csv) = draw("delayed", "s.csv");
    assert!(text.starts_with("true transfer entropy from x to y, given 3 past values"), "{text}");
    assert!(csv.starts_with("x1,y1\n"), "{csv}");
    let request = format!("sample delayed --dim 2 -o {}", path("d.csv").display());
    assert!(refusal(&request).contains("leave out --dim and --level"));
}

#[test]
fn bench_measures() {
    let rows = json("bench deranged-d2-n16 separable-d2-n16-shift --seconds 0.02 --json");
    for row in rows.as_array().unwrap() {
        assert!(row["median_ms"].as_f64().unwrap() > 0.0 && row["gflops"].as_f64().unwrap() > 0.0);
    }
}

/// Ctrl-C gives exit code 130 and no output file.
#[cfg(unix)]
#[test]
fn an_interrupt_ends_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("plot.svg");
    let mut child = Command::new(env!("CARGO_BIN_EXE_fdime"))
        .args(["staircase", "--iterations", "1000000", "--svg"])
        .arg(&svg)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(is_empty(folder.path()));
}

#[test]
fn devices_are_listed() {
    let text = stdout("devices");
    assert!(text.starts_with("cpu ") && text.contains("ready"), "{text}");
    assert!(text.contains("cuda"), "a GPU, or why there is none: {text}");
    let rows = json("devices --json");
    assert_eq!(rows[0]["device"], "cpu");
    assert_eq!(rows[0]["ready"], true);
}

#[test]
fn a_missing_gpu_is_an_error_only_if_it_is_requested() {
    let run =
        "staircase --scenario gaussian --dim 1 --levels 1 --iterations 2 --hidden 4,4 --last 1";
    if json("devices --json")[1]["ready"] == true {
        println!("SKIPPED: there is a GPU here");
        return;
    }
    assert!(stdout(&format!("{run} --device auto")).contains("true MI"));
    let output = fdime(&format!("{run} --device cuda"));
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: cuda: ") && error.lines().count() == 1, "{error}");
}

/// A killed sweep keeps its finished runs, and continues with the others.
#[test]
fn a_killed_sweep_keeps_its_finished_runs() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("runs.jsonl");
    let sweep = format!(
        "staircase --device cpu --threads 1 --scenario gaussian --dim 2 --levels 1,2 --iterations 150 \
         --hidden 16,16 --estimator gan-dime --runs 40 --last 50 --log {}",
        log.display()
    );
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_fdime"))
        .args(sweep.split_whitespace())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let lines = || std::fs::read_to_string(&log).map_or(0, |text| text.matches('\n').count());
    while lines() < 2 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = lines();
    assert!(kept >= 2);

    let resumed = fdime(&sweep);
    let messages = String::from_utf8_lossy(&resumed.stderr).into_owned();
    assert!(messages.contains(&format!("{kept} of 40 runs are already in the log")), "{messages}");
    assert_eq!(lines(), 40, "every run once");
    // The log has traces in single precision, and summaries agree to that precision.
    let table = |output: Vec<u8>| {
        let text = String::from_utf8(output).unwrap();
        text.lines().skip(3).map(str::to_string).collect::<Vec<_>>()
    };
    let whole = stdout(&sweep.replace(&format!(" --log {}", log.display()), ""));
    assert_eq!(table(resumed.stdout), table(whole.into_bytes()));
}

//! `fdime reproduce`: the user's own recipes, resuming, and messages about what is missing.

mod common;

use common::{refusal, stdout};
use std::path::Path;
use std::process::{Command, Output};

const RECIPE: &str = r#"
title = "A small staircase"
paper = "nowhere"
claim = "CPC is bounded by ln N."
figure = "stairs"

[[staircases]]
scenarios = ["gaussian"]
dims = [2]
batches = [8]
estimators = ["gan-dime", "cpc", "njee"]
critics = ["separable", "deranged"]
hidden = [8, 8]
activation = "relu"
levels = "1,2"
iterations = 20
last = 10
learning_rate = 1e-3
seeds = [0, 1]

[[checks]]
claim = { kind = "capped-at-ln-n", estimators = ["cpc"], pairing = "all-pairs" }
"#;

fn reproduce(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fdime"));
    command.current_dir(folder).arg("reproduce").args(arguments).env_remove("FDIME_IMAGES");
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().map(String::from).collect()
}

#[test]
fn own_recipes_run_once_and_resume_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("own.toml"), RECIPE).unwrap();
    let first = reproduce(folder.path(), &["own.toml"]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    // GAN-DIME with two critics, CPC with the one that has all pairs, NJEE with its own; two seeds.
    assert!(text(&first.stderr).contains("8 runs"), "{}", text(&first.stderr));
    assert!(
        text(&first.stdout)
            .contains("ok     with the pairing all-pairs, estimates are at most ln N: cpc")
    );
    let log = at("results/runs.jsonl");
    let whole = std::fs::read_to_string(&log).unwrap();
    assert_eq!(lines(&log).len(), 8);
    let numbers = lines(&at("results/own.csv"));
    assert_eq!(numbers.len(), 1 + 8 * 2);
    for file in ["own.svg", "report.md", "index.html", "environment.json"] {
        assert!(std::fs::metadata(at("results").join(file)).unwrap().len() > 100, "{file}");
    }
    let page = std::fs::read_to_string(at("results/index.html")).unwrap();
    assert!(page.contains("own.csv") && page.contains("<svg"));
    assert!(
        !page.contains("src=\"http") && !page.contains("@import"),
        "it loads nothing from elsewhere"
    );

    // After a kill in the middle of the last line only that run is repeated, with the same numbers.
    std::fs::write(&log, &whole[..whole.len() - 40]).unwrap();
    let again = reproduce(folder.path(), &["own.toml"]);
    assert!(again.status.success());
    let message = text(&again.stderr);
    assert!(message.contains("1 run,") && message.contains("already finished: 7"), "{message}");
    assert_eq!(lines(&at("results/own.csv")), numbers);
    assert_eq!(lines(&log).len(), 8);
    let third = reproduce(folder.path(), &["own.toml"]);
    assert!(third.status.success() && text(&third.stderr).is_empty(), "{}", text(&third.stderr));
}

/// The staircases of [`RECIPE`], direct and with chains of two blocks, at one level of d / 2 nats.
fn chained_recipe() -> String {
    RECIPE
        .replace("levels = \"1,2\"", "levels_per_dim = 0.5\nchains = [1, 4]")
        .replace(
            "learning_rate = 1e-3",
            "learning_rate = 1e-3\nlearning_rate_schedule = \"warm-up-and-cosine\"",
        )
        .replace("figure = \"stairs\"", "figure = \"estimate-against-blocks\"")
        .replace(
            "{ kind = \"capped-at-ln-n\", estimators = [\"cpc\"], pairing = \"all-pairs\" }",
            "{ kind = \"relative-error-below\", estimators = [\"gan-dime\"], chain = 4, \
             limits = [{ scenario = \"gaussian\", dim = 2, below = 9 }] }",
        )
}

#[test]
fn a_chain_is_one_job_whose_terms_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("own.toml"), chained_recipe()).unwrap();
    let first = reproduce(folder.path(), &["own.toml"]);
    // After 20 steps a chain is not better than a direct estimate.
    assert_eq!(first.status.code(), Some(1), "{}", text(&first.stderr));
    // The 8 direct runs, and 6 with a chain because NJEE has none; a chain of 2 has 3 terms.
    let message = text(&first.stderr);
    assert!(
        message.contains(&format!("14 runs, {} training steps", 20 * (8 + 6 * 3))),
        "{message}"
    );
    let shown = text(&first.stdout);
    assert!(
        shown.contains(
            "FAILED the relative error of gan-dime, chains of up to 4 blocks, is below 900%"
        ),
        "{shown}"
    );
    let log = at("results/runs.jsonl");
    let entries: Vec<serde_json::Value> =
        lines(&log).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(entries.len(), 14);
    let (chained, direct): (Vec<_>, Vec<_>) =
        entries.iter().partition(|entry| entry["plan"]["chain"] == 2);
    assert_eq!((chained.len(), direct.len()), (6, 8));
    for entry in direct {
        assert!(entry["plan"].get("chain").is_none() && entry["result"].get("terms").is_none());
    }
    for entry in chained {
        let terms = entry["result"]["terms"].as_array().unwrap();
        let named: Vec<(u64, bool)> = terms
            .iter()
            .map(|term| (term["block"].as_u64().unwrap(), term["with_x"].as_bool().unwrap()))
            .collect();
        assert_eq!(named, [(1, true), (2, true), (2, false)]);
        let means: Vec<f64> = terms.iter().map(|term| term["mean"].as_f64().unwrap()).collect();
        let level = &entry["result"]["levels"][0];
        assert!((level["true_mi"].as_f64().unwrap() - 1.0).abs() < 1e-9);
        let sum = means[0] + means[1] - means[2];
        assert!((level["mean"].as_f64().unwrap() - sum).abs() < 1e-9, "{entry}");
    }
    let figure = std::fs::read_to_string(at("results/own.svg")).unwrap();
    assert!(figure.contains("blocks of y") && figure.contains("gaussian: gan-dime"));
    let page = std::fs::read_to_string(at("results/report.md")).unwrap();
    assert!(page.contains("| true MI | direct | chain of 2 |"), "{page}");
    let numbers = lines(&at("results/own.csv"));
    assert_eq!((numbers.len(), numbers[0].contains(",chain,")), (1 + 14, true));

    // A job without its last entry is run again, with all its terms.
    let whole = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, &whole[..whole.len() - 40]).unwrap();
    let again = reproduce(folder.path(), &["own.toml"]);
    assert!(text(&again.stderr).contains("already finished: 13"), "{}", text(&again.stderr));
    assert_eq!(lines(&at("results/own.csv")), numbers);
}

#[test]
fn impossible_chains_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |from: &str, to: &str| {
        let recipe = chained_recipe();
        assert!(recipe.contains(from), "{from}");
        std::fs::write(folder.path().join("own.toml"), recipe.replace(from, to)).unwrap();
        let output = reproduce(folder.path(), &["own.toml"]);
        assert_eq!(output.status.code(), Some(2), "{to}: {}", text(&output.stderr));
        text(&output.stderr)
    };
    let chains = "chains = [1, 4]";
    assert!(refused(chains, "chains = [0]").contains("nonzero"));
    assert!(refused("warm-up-and-cosine", "warm-up").contains("warm-up-and-cosine"));
    let levels = "either levels or levels_per_dim";
    assert!(refused("levels_per_dim = 0.5", "").contains(levels));
    assert!(
        refused("levels_per_dim = 0.5", "levels_per_dim = 0.5\nlevels = \"1\"").contains(levels)
    );
    assert!(refused("levels_per_dim = 0.5", "levels_per_dim = -1.0").contains("levels"));
    assert!(!folder.path().join("results").exists());
}

#[test]
fn false_claims_and_missing_runs_end_in_failure() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("own.toml"), RECIPE).unwrap();
    let missing = reproduce(folder.path(), &["own.toml", "--no-run"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stdout).contains("8 runs are missing, so no claim is checked"));
    let false_claim = RECIPE.replace("capped-at-ln-n", "exceeds-ln-n");
    std::fs::write(at("own.toml"), false_claim).unwrap();
    let failed = reproduce(folder.path(), &["own.toml"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(
        text(&failed.stdout)
            .contains("FAILED with the pairing all-pairs, estimates exceed ln N: cpc")
    );
    assert!(text(&failed.stderr).contains("1 claim does not hold"));
    assert!(at("results/index.html").exists(), "the report is written nevertheless");
}

#[test]
fn malformed_recipes_are_refused_with_their_name() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |from: &str, to: &str| {
        assert!(RECIPE.contains(from), "{from}");
        std::fs::write(folder.path().join("own.toml"), RECIPE.replace(from, to)).unwrap();
        let output = reproduce(folder.path(), &["own.toml"]);
        assert_eq!(output.status.code(), Some(2), "{to}: {}", text(&output.stderr));
        let message = text(&output.stderr);
        assert!(message.contains("own"), "{message}");
        message
    };
    assert!(refused("cpc\", \"njee", "cpx\", \"njee").contains("unknown estimator 'cpx'"));
    assert!(refused("last = 10", "last = 21").contains("between 1 and the 20 iterations"));
    assert!(refused("batches = [8]", "batches = [1]").contains("at least 2 samples"));
    assert!(refused("iterations = 20\n", "iteratoins = 20\n").contains("iteratoins"));
    assert!(refused("estimators = [\"cpc\"]", "estimators = [\"cpd\"]").contains("cpc"));
    assert!(refused("levels = \"1,2\"", "levels = \"1,x\"").contains("x"));
    assert!(!folder.path().join("results").exists());
}

#[test]
fn texts_of_a_recipe_are_shown_as_texts() {
    let folder = tempfile::tempdir().unwrap();
    let name = "x\"><img src=x onerror=alert(1)>";
    let title = "\\u001b[2J\\u202e<b>*small*</b>\\nok | fake";
    let recipe = RECIPE.replace("A small staircase", title).replace("nowhere", "[a](b)");
    std::fs::write(folder.path().join(format!("{name}.toml")), recipe).unwrap();
    let output = reproduce(folder.path(), &[&format!("{name}.toml")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(
        shown.starts_with(&format!("{name}: \\u{{1b}}[2J\\u{{202e}}<b>*small*</b> ok | fake\n")),
        "{shown}"
    );
    let file =
        |name: &str| std::fs::read_to_string(folder.path().join("results").join(name)).unwrap();
    let (page, markdown, svg) =
        (file("index.html"), file("report.md"), file(&format!("{name}.svg")));
    for text in [&page, &markdown, &svg] {
        assert!(!text.contains("<img") && !text.contains("<b>*"), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
    }
    let address = "x%22%3E%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E.csv";
    assert!(
        page.contains(&format!("href=\"{address}\"")) && markdown.contains(&format!("({address})"))
    );
    assert!(
        markdown.contains(r"*\[a\](b).*") && markdown.contains(r"\*small\*&lt;/b&gt; ok \| fake")
    );
}

#[test]
fn names_that_stand_for_another_recipe_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |names: &[&str]| {
        for name in names.iter().filter(|name| name.ends_with(".toml")) {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, RECIPE).unwrap();
        }
        let output = reproduce(folder.path(), names);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(!folder.path().join("results").exists());
        text(&output.stderr)
    };
    let message = refused(&["derangement.toml"]);
    assert!(message.contains("a built-in recipe has the same name; rename the file"), "{message}");
    let message = refused(&["a/own.toml", "b/own.toml"]);
    assert!(message.contains("b/own.toml: another recipe has the same name"), "{message}");
    let message = refused(&["a\u{1b}[31m.toml"]);
    assert!(message.contains("a\\u{1b}[31m.toml") && !message.contains('\u{1b}'), "{message}");
}

#[test]
fn a_report_on_finished_runs_only_reads_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("own.toml"), RECIPE).unwrap();
    assert!(reproduce(folder.path(), &["own.toml"]).status.success());
    let log = at("results/runs.jsonl");
    let mut content = std::fs::read_to_string(&log).unwrap();
    content.push_str("damaged\n{\"plan\":{\"kind\"");
    std::fs::write(&log, &content).unwrap();
    // Another process is writing to it.
    let writer = std::fs::File::options().append(true).open(&log).unwrap();
    writer.lock().unwrap();
    let report = reproduce(folder.path(), &["own.toml", "--no-run"]);
    assert!(report.status.success(), "{}", text(&report.stderr));
    assert!(text(&report.stderr).contains("line 9 is damaged"), "{}", text(&report.stderr));
    assert_eq!(std::fs::read_to_string(&log).unwrap(), content);
    let run = reproduce(folder.path(), &["own.toml"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(text(&run.stderr).contains("another process is writing to it"));
}

#[test]
fn files_are_checked_first_and_written_even_if_nobody_reads_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("own.toml"), RECIPE).unwrap();
    std::fs::create_dir_all(at("results/index.html")).unwrap();
    let refused = reproduce(folder.path(), &["own.toml"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("it is a folder"), "{}", text(&refused.stderr));
    assert!(!at("results/runs.jsonl").exists(), "nothing was run");
    std::fs::remove_dir(at("results/index.html")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fdime"));
    command.current_dir(folder.path()).args(["reproduce", "own.toml"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for file in ["own.csv", "own.svg", "report.md", "index.html", "environment.json"] {
        assert!(at("results").join(file).exists(), "{file}");
    }
}

#[test]
fn recipes_on_images_name_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let alone = reproduce(folder.path(), &["consistency-baseline", "--quick"]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(text(&alone.stderr).contains("--images FOLDER"), "{}", text(&alone.stderr));
    let nowhere =
        reproduce(folder.path(), &["consistency-baseline", "--quick", "--images", "none"]);
    assert!(text(&nowhere.stderr).contains("train-images-idx3-ubyte.gz"));
}

#[test]
fn names_are_listed_and_suggested() {
    insta::assert_snapshot!(stdout("reproduce list"));
    insta::assert_snapshot!(stdout("reproduce --help"));
    assert!(refusal("reproduce derangment").contains("did you mean 'derangement'"));
}

//! `estimate`, `apply`, `matrix` and `suite`: what they print, write and refuse.

mod common;

use common::{Folder, fdime, is_empty, json, refusal, shipped, stdout};
use fdime::estimate::{Effort, EstimatePlan, Method};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const QUICK: &str = "--effort quick --permutations 99";

#[test]
fn json_has_the_documented_keys_and_is_reproducible() {
    let folder = Folder::new();
    let table = folder.table();
    let request = format!("estimate {table} --x x --y y --json {QUICK} --threads");
    let first = json(&format!("{request} 1"));
    for key in ["mi_nats", "ci_low", "ci_high", "p_value", "seconds", "lower_bound_nats"] {
        assert!(first[key].as_f64().unwrap() >= 0.0, "{key}");
    }
    assert!(first["ci_low"].as_f64() < first["mi_nats"].as_f64());
    assert!(first["mi_nats"].as_f64() < first["ci_high"].as_f64());
    assert_eq!((&first["n_rows"], &first["n_dropped"]), (&300.into(), &0.into()));
    assert_eq!((&first["estimator"], &first["seed"]), (&"auto".into(), &0.into()));
    assert_eq!((&first["x"][0], &first["y"][0]), (&"x".into(), &"y".into()));
    assert!(first["verdict"]["reliability"].is_string() && first["verdict"]["reasons"].is_array());
    assert_eq!(first["folds"].as_array().unwrap().len(), 5);
    assert!(first["folds"][0]["members"][0]["curve"].as_array().unwrap().len() > 5);
    assert!(first["version"].is_string() && first["plan"]["portfolio"].is_object());
    let mut again = json(&format!("{request} 2"));
    again["seconds"] = first["seconds"].clone();
    assert_eq!(first, again, "threads change nothing");
    let other = json(&format!("{request} 2 --seed 1"));
    assert_ne!(first["mi_nats"], other["mi_nats"]);
}

/// The summary of the shipped table, in a terminal of 80 columns; times differ between runs.
#[test]
fn summary_of_the_shipped_table() {
    let pairs = shipped("pairs.csv");
    let text = stdout(&format!("estimate {pairs} {QUICK} --bits"));
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    assert!(text.starts_with("I(x; y) = ") && text.contains("bits   95% interval"), "{text}");
    assert!(text.contains("reliability: good") && text.contains("for comparison: Gaussian copula"));
}

/// The estimate is within a quarter of the one from 4,000 rows of MNIST with the default recipe,
/// and below the entropy of ten digits, ln 10 = 2.30.
#[test]
fn pixels_determine_the_digit() {
    let digits = shipped("digits.csv.gz");
    let report = json(&format!("estimate {digits} --y label --discrete label --json {QUICK}"));
    let mi = report["mi_nats"].as_f64().unwrap();
    assert!((1.5..2.31).contains(&mi), "{mi}");
    assert_eq!(report["p_value"], 0.01);
}

#[test]
fn standard_input_is_read() {
    let folder = Folder::new();
    let text = std::fs::read(folder.table()).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fdime"))
        .args(["estimate", "-", "--x", "1", "--y", "2", "--json", "--estimator", "copula"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let output = child.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["mi_nats"].as_f64().unwrap() > 0.3);
}

#[test]
fn every_method_gives_an_estimate() {
    let folder = Folder::new();
    let table = folder.table();
    let methods = [
        "copula",
        "cca",
        "ksg",
        "kl-dime",
        "hd-dime",
        "mine",
        "nwj",
        "smile-1",
        "cpc",
        "f:u*ln(u)",
    ];
    for method in methods {
        let request = format!("estimate {table} --x x --y y --json {QUICK} --estimator {method}");
        let report = json(&request);
        let mi = report["mi_nats"].as_f64().unwrap();
        // The Gaussian copula of y = x + v/2 of uniform x and v has .8 nats.
        assert!((0.4..1.6).contains(&mi), "{method}: {mi}");
        assert_eq!(report["estimator"], method);
        assert_eq!(report["p_value"].is_null(), method == "ksg", "{method}");
    }
}

/// The chain's estimate and its pointwise values are sums over its terms; the critics that are saved
/// are those without a chain, which a note tells.
#[test]
fn a_chain_prints_its_terms_and_saves_the_critics_without_it() {
    let folder = Folder::new();
    let (table, model) = (folder.path("pairs.csv"), folder.path("model"));
    stdout(&format!(
        "sample dense-gaussian --dim 3 --level 2 -n 400 -o {} --seed 1",
        table.display()
    ));
    let request = format!("estimate {} --estimator copula", table.display());
    let direct = json(&format!("{request} --json --chain off"));
    assert!(direct["chain"].is_null() && direct["plan"]["chain"] == "off");

    let pointwise = folder.path("pointwise.csv");
    let chained = json(&format!("{request} --json --chain 2 --pointwise {}", pointwise.display()));
    let chain = &chained["chain"];
    assert_eq!((&chained["plan"]["chain"], &chain["side"]), (&2.into(), &"y".into()));
    assert_eq!(chain["direct_nats"], direct["mi_nats"]);
    assert_eq!(chain["blocks"].as_array().unwrap().len(), 2);
    let terms = chain["terms"].as_array().unwrap();
    let names: Vec<&str> = terms.iter().map(|term| term["term"].as_str().unwrap()).collect();
    assert_eq!(names, ["I(X; Y_1)", "I(X, Y_1; Y_2)", "I(Y_1; Y_2)"]);
    let signed = terms.iter().map(|term| {
        let mi = term["mi_nats"].as_f64().unwrap();
        if term["is_added"].as_bool().unwrap() { mi } else { -mi }
    });
    let (sum, mi) = (signed.sum::<f64>(), chained["unclipped_nats"].as_f64().unwrap());
    assert!((sum - mi).abs() < 1e-9, "{sum} {mi}");
    let rows = std::fs::read_to_string(&pointwise).unwrap();
    let ratios = rows.lines().skip(1).map(|row| row.split_once(',').unwrap().1.parse::<f64>());
    let mean = ratios.map(Result::unwrap).sum::<f64>() / 400.0;
    assert!((mean - mi).abs() < 1e-6, "{mean} {mi}");
    assert!(chained["notes"].as_array().unwrap().is_empty(), "nothing is saved");

    let text = stdout(&format!("{request} --chain 2 --save {}", model.display()));
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in
        ["chain over 2 blocks of y: ", "without the chain ", "note: critics for new rows are those"]
    {
        assert!(one_line.contains(part), "{part}: {text}");
    }
    let applied = json(&format!("apply {} {} --json", model.display(), table.display()));
    assert_eq!(applied["trained_mi_nats"], direct["mi_nats"]);
}

#[test]
fn a_series_is_cut_into_blocks() {
    let folder = Folder::new();
    let table = folder.table();
    let report = json(&format!("estimate {table} --x x --y y --blocks=5 --json {QUICK}"));
    assert_eq!(report["plan"]["order"], serde_json::json!({"series": {"gap": 5}}));
    assert!(report["p_value"].as_f64().unwrap() <= 0.05);
    let rows = &report["folds"][0]["rows"];
    let used: u64 = ["train", "validation", "test"].map(|k| rows[k].as_u64().unwrap()).iter().sum();
    assert_eq!(used, 300 - 3 * 5, "gaps are left out");
}

#[test]
fn a_series_in_disguise_is_recognised_and_has_an_automatic_gap() {
    let folder = Folder::new();
    // Independent series whose autocorrelations fall slowly: sums of 20 pseudo-random numbers.
    let noise = |k: u64| f64::from((k.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u32);
    let sum = |first: u64| (first..first + 20).map(|k| noise(k * k + k)).sum::<f64>();
    let lines: String = (0..400).map(|k| format!("{},{}\n", sum(k), sum(k + 7_000))).collect();
    let table = folder.write("series.csv", format!("x,y\n{lines}"));
    let rows = json(&format!("estimate {table} --estimator copula --json"));
    assert_eq!(rows["verdict"]["reliability"], "doubtful");
    let text = rows["verdict"]["reasons"][0]["text"].as_str().unwrap();
    assert!(text.contains("rows are similar") && text.ends_with("--blocks"), "{text}");
    let series = json(&format!("estimate {table} --estimator copula --json --blocks"));
    let gap = series["plan"]["order"]["series"]["gap"].as_u64().unwrap();
    assert!((10..=38).contains(&gap), "{gap}");
    let chosen = json(&format!("estimate {table} --estimator copula --json --blocks 9"));
    assert_eq!(chosen["plan"]["order"]["series"]["gap"], 9);
}

#[test]
fn missing_rows_are_dropped_counted_and_empty_in_the_pointwise_file() {
    let folder = Folder::new();
    let mut text = String::from("x,y\n");
    for k in 0..100 {
        let y = if k == 3 { "NA".to_string() } else { ((k * 37) % 100).to_string() };
        text += &format!("{k},{y}\n");
    }
    let (table, out) = (folder.write("gaps.csv", text), folder.path("pointwise.csv"));
    let request =
        format!("estimate {table} --json --estimator copula --pointwise {}", out.display());
    let report = json(&request);
    assert_eq!((&report["n_rows"], &report["n_dropped"]), (&99.into(), &1.into()));
    let pointwise = std::fs::read_to_string(&out).unwrap();
    let lines: Vec<&str> = pointwise.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[4]), (101, "row,log_ratio_nats", "4,"));
    let mean = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(',')?.1.parse::<f64>().ok())
        .sum::<f64>()
        / 99.0;
    assert!((mean - report["unclipped_nats"].as_f64().unwrap()).abs() < 1e-6);
    let error = refusal(&format!("estimate {table} --missing error"));
    assert!(error.contains("column 'y' has no value in row 4"), "{error}");
}

/// Every bad input gives one line that names the file, and exit code 2.
#[test]
fn bad_input_is_refused_in_one_line_and_nothing_is_written() {
    let folder = Folder::new();
    let table = folder.table();
    let fewer: String = (0..19).map(|k| format!("{k},{}\n", k % 5)).collect();
    let parquet_magic = [b"PAR1".as_slice(), &[7; 100], b"PAR1"].concat();
    let object = {
        let header = "{'descr': '|O', 'fortran_order': False, 'shape': (30, 2), }";
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend([0; 480]);
        bytes
    };
    let sample = folder.path("sample.npy");
    stdout(&format!("sample gaussian -n 50 -o {}", sample.display()));
    let npy = std::fs::read(&sample).unwrap();
    let files = [
        ("empty.csv", Vec::new()),
        ("ragged.csv", b"x,y\n1,2\n3\n".to_vec()),
        ("infinite.csv", b"x,y\n1,2\n3,inf\n".to_vec()),
        ("few.csv", fewer.into_bytes()),
        ("corrupt.parquet", parquet_magic),
        ("cut.npy", npy[..npy.len() / 2].to_vec()),
        ("object.npy", object),
        ("cut.csv.gz", std::fs::read(shipped("digits.csv.gz")).unwrap()[..2000].to_vec()),
    ];
    for (name, bytes) in &files {
        folder.write(name, bytes);
    }
    std::fs::create_dir(folder.path("folder")).unwrap();
    let before = std::fs::read_dir(folder.0.path()).unwrap().count();
    let report = folder.path("report.html");
    let mut text = String::new();
    for request in [
        "no-such-file.csv",
        "empty.csv",
        "folder",
        "table.csv --x nope --y y",
        "table.csv --x x,y --y y",
        "table.csv --x label --y y --numeric label",
        "table.csv --x same --y y",
        "table.csv",
        "ragged.csv",
        "infinite.csv",
        "few.csv",
        "corrupt.parquet",
        "cut.npy",
        "object.npy",
        "cut.csv.gz --y label",
        "table.csv --x x --y y --folds 1",
        "table.csv --x x --y y --estimator kl-dmie",
        "table.csv --x x --y y --effort huge",
        "table.csv --x x --y y --permutations 3",
        "table.csv --x x --y y --missing ignore",
        "table.csv --x x --y y --blocks=200",
        "table.csv --x x --y y --blocks=2 --estimator cpc",
        "table.csv --x x --y y,label --chain 1",
        "table.csv --x x --y y,label --chain many",
        "table.csv --x x --y y,label --chain 99",
        "table.csv --x x --y y --chain 2",
        "table.csv --x x --y y,label --chain 2 --estimator ksg",
        "table.csv --x x --y label --estimator copula",
        "table.csv --x x --y y --pointwise FOLDER/table.csv",
    ] {
        let here = request.replace("FOLDER", &folder.0.path().display().to_string());
        let arguments =
            format!("estimate {} --report {}", folder.path(&here).display(), report.display());
        let error = refusal(&arguments).replace(&folder.0.path().display().to_string(), "FOLDER");
        let lines = error.lines().filter(|line| !line.starts_with("hint:"));
        assert_eq!(lines.count(), 1, "{request}: {error}");
        text += &format!("$ fdime estimate {request}\n{error}\n");
    }
    let empty_input = Command::new(env!("CARGO_BIN_EXE_fdime"))
        .args(["estimate", "-"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(empty_input.status.code(), Some(2));
    text += &format!(
        "$ fdime estimate - < /dev/null\n{}",
        String::from_utf8_lossy(&empty_input.stderr)
    );
    insta::assert_snapshot!(text);
    assert_eq!(std::fs::read_dir(folder.0.path()).unwrap().count(), before, "nothing is written");
    assert!(!table.is_empty());
}

#[test]
fn the_report_holds_every_figure_and_escapes_names() {
    let folder = Folder::new();
    let (table, report) = (folder.table(), folder.path("report.html"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_fdime"));
    command.args(["estimate", &table, "--x", "<script>", "--y", "label,x", "--effort", "quick"]);
    let output = command.arg("--report").arg(&report).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(&report).unwrap();
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script"), "names are escaped");
    for title in [
        "data coloured by pointwise information",
        "histogram of pointwise information",
        "null distribution",
        "learning curves",
    ] {
        assert!(page.contains(&format!("aria-label=\"{title}\"")), "{title}");
    }
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "the page stands alone: {outside}");
    }
    assert!(page.contains("prefers-color-scheme:dark") && !page.contains("NaN"));
    check_in_browser(&report);
}

/// Opens the report in headless Chromium and checks that it has figures and no console messages.
fn check_in_browser(report: &Path) {
    let Some(browser) =
        ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
            Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success())
        })
    else {
        println!("SKIPPED: no Chromium here, so the report was not opened in a browser");
        return;
    };
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", report.display()))
        .output()
        .unwrap();
    let (dom, log) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{log}");
    assert_eq!(dom.matches("<svg").count(), 4, "all figures are in the document");
    assert!(dom.matches("<circle").count() > 100, "the data are drawn");
    assert!(!log.contains("CONSOLE"), "the console is silent: {log}");
}

/// y is x in three of four rows and the other letter in one: I = ln 2 - h(1/4) = .1308 nats.
#[test]
fn categories_are_counted() {
    let folder = Folder::new();
    // In an order that has no pattern, which would be taken for serial dependence.
    let mut order: Vec<usize> = (0..400).collect();
    order.sort_by_key(|k| (k * 7919 + 17) * (k + 3) % 1009);
    let rows = order.iter().map(|k| {
        let x = k % 2;
        let y = if k % 8 < 2 { 1 - x } else { x };
        format!("{},{},{}\n", ["a", "b"][x], ["c", "d"][y], y)
    });
    let text = format!("x,y,coded\n{}", rows.collect::<String>());
    let table = folder.write("letters.csv", &text);
    let (report, out) = (folder.path("report.html"), folder.path("mi.csv"));
    let found = json(&format!("estimate {table} --x x --y y --json --report {}", report.display()));
    assert!((found["mi_nats"].as_f64().unwrap() - 0.1308).abs() < 0.002, "{found}");
    assert_eq!(
        (&found["p_value"], &found["verdict"]["reliability"]),
        (&0.001.into(), &"good".into())
    );
    assert!(found["folds"].as_array().unwrap().is_empty());
    let page = std::fs::read_to_string(&report).unwrap();
    assert!(page.contains("counts of discrete values") && !page.contains("NaN"));
    // A letter that is coded as a number has the same information.
    let coded = json(&format!("estimate {table} --x x --y coded --json"));
    assert_eq!(coded["mi_nats"], found["mi_nats"]);
    assert_eq!(coded["verdict"]["reasons"][0]["code"], "ties");
    // There is nothing to save; the estimate is printed all the same.
    let model = folder.path("model");
    let output = fdime(&format!("estimate {table} --x x --y y --save {}", model.display()));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("--estimator gan-dime") && !model.exists(), "{error}");
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), false));
    stdout(&format!("matrix {table} -o {}", out.display()));
    assert!(std::fs::read_to_string(&out).unwrap().lines().count() >= 3);
}

#[test]
fn saved_critics_score_new_rows() {
    let folder = Folder::new();
    let (table, model, out) = (folder.table(), folder.path("model"), folder.path("new.csv"));
    let model = model.display();
    let trained =
        json(&format!("estimate {table} --x x,label --y y --json {QUICK} --save {model}"));
    let applied = json(&format!("apply {model} {table} --json --pointwise {}", out.display()));
    let (mi, mean) = (&trained["mi_nats"], applied["mi_nats"].as_f64().unwrap());
    assert_eq!(&applied["trained_mi_nats"], mi);
    assert!((mean - mi.as_f64().unwrap()).abs() < 0.5, "{mean} {mi}");
    assert_eq!(std::fs::read_to_string(out).unwrap().lines().count(), 301);
    // Saving again replaces a model.
    stdout(&format!("estimate {table} --x x --y y {QUICK} --save {model}"));
    let other = folder.write("other.csv", "a,b\n1,2\n");
    let error = refusal(&format!("apply {model} {other}"));
    assert!(error.contains("there is no column 'x'"), "{error}");
    let error = refusal(&format!("apply {table} {table}"));
    assert!(error.contains("it is not a saved model, or damaged"), "{error}");
    let place = folder.path("model");
    let bytes = std::fs::read(&place).unwrap();
    std::fs::write(&place, &bytes[..bytes.len() / 2]).unwrap();
    assert!(refusal(&format!("apply {model} {table}")).contains("save the model again"));
    // Single bits, from the header to the last parameter.
    for k in 0..40 {
        let mut damaged = bytes.clone();
        damaged[k * (bytes.len() - 1) / 39] ^= 1 << (k % 8);
        std::fs::write(&place, damaged).unwrap();
        let error = refusal(&format!("apply {model} {table}"));
        assert!(error.contains("damaged"), "bit {k}: {error}");
    }
}

#[test]
fn unseen_categories_and_dropped_rows_are_told() {
    let folder = Folder::new();
    let (table, model) = (folder.table(), folder.path("model"));
    stdout(&format!("estimate {table} --x label --y y {QUICK} --save {}", model.display()));
    let rows = "label,y\nup,1\nnew,0.5\ndown,\nnew,2\n";
    let other = folder.write("other.csv", rows);
    let text = stdout(&format!("apply {} {other}", model.display()));
    assert!(text.contains("3 rows (1 with missing values was left out)"), "{text}");
    assert!(text.contains("column 'label': 2 rows have a category"), "{text}");
}

#[test]
fn a_matrix_of_all_pairs_with_adjusted_p_values() {
    let folder = Folder::new();
    let (table, out, svg) = (folder.table(), folder.path("mi.csv"), folder.path("mi.svg"));
    let request =
        format!("matrix {table} --columns x,y,label -o {} --svg {}", out.display(), svg.display());
    let text = stdout(&request);
    assert!(text.starts_with("3 pairs, "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let csv = std::fs::read_to_string(&out).unwrap();
    assert_eq!(csv.lines().count(), 4);
    assert!(csv.lines().nth(1).unwrap().starts_with("x,y,"));
    assert!(std::fs::read_to_string(&svg).unwrap().contains("label"));
    let groups = folder.path("groups.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fdime"));
    command.args(["matrix", &table, "--group", "left=1,label", "--group", "right=2", "-o"]);
    assert!(command.arg(&groups).args(["--effort", "quick"]).output().unwrap().status.success());
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&groups).unwrap()).unwrap();
    assert_eq!(report["results"].as_array().unwrap().len(), 1);
    assert_eq!(report["results"][0]["p_adjusted"], report["results"][0]["p_value"]);
    let named = format!("matrix {table} --columns x,same -o {}", folder.path("a.csv").display());
    assert!(refusal(&named).contains("column 'same' has the same value"));
}

#[test]
fn a_matrix_ranks_features_and_leaves_out_useless_columns() {
    let folder = Folder::new();
    let (table, out) = (folder.table(), folder.path("mi.csv"));
    let request = format!("matrix {table} --y y --estimator ksg -o {}", out.display());
    let output = fdime(&format!("{request} --bits"));
    let (text, notes) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(text.starts_with("3 pairs, ksg has no test of independence"), "{text}");
    assert!(text.contains("   bits") && text.contains("reliability"), "{text}");
    assert!(
        notes.contains("column 'same' has the same value in every row and was left out"),
        "{notes}"
    );
    assert!(notes.contains("3 pairs of 4 columns or groups, 300 rows"), "{notes}");
    std::fs::remove_file(&out).unwrap();
    let report = json(&format!("{request} --json --quiet"));
    assert_eq!(report["results"].as_array().unwrap().len(), 3);
    assert!(fdime(&format!("{request} --quiet")).stderr.is_empty());
    // Every pair fails for the same reason, which is the answer.
    let failed =
        fdime(&format!("matrix {table} --columns x,label --estimator copula -o {}", out.display()));
    assert_eq!((failed.status.code(), failed.stdout.is_empty()), (Some(1), true));
    let error = String::from_utf8(failed.stderr).unwrap();
    assert!(error.contains("none of 1 pair has an estimate: "), "{error}");
    assert!(
        refusal(&format!("matrix {table} --y nothing -o {}", out.display()))
            .contains("--y: unknown column")
    );
}

#[test]
fn a_matrix_compares_columns_with_rows() {
    let folder = Folder::new();
    let (out, svg) = (folder.path("mi.csv"), folder.path("mi.svg"));
    let value = |k: u32, step: u32| f64::from(k * step % 101) / 101.0;
    let line = |k: u32| {
        let a = value(k, 37);
        format!("{k},{a},{},{}\n", value(k, 53), a + 0.1 * value(k, 71))
    };
    let lines: String = (1..=100).map(line).collect();
    let table = folder.write("table.csv", format!("trial,a,b,c\n{lines}"));
    let request =
        format!("matrix {table} --estimator copula -o {} --svg {}", out.display(), svg.display());
    let pairs = |selection: &str| {
        let report = json(&format!("{request} {selection} --json"));
        let ends =
            report["results"].as_array().unwrap().iter().map(|pair| {
                format!("{}-{}", pair["x"].as_str().unwrap(), pair["y"].as_str().unwrap())
            });
        (ends.collect::<Vec<String>>(), report["rows"].clone())
    };
    assert_eq!(pairs("--columns b,c --rows a").0, ["b-a", "c-a"]);
    // Each pair once, and no column with itself.
    assert_eq!(pairs("--columns a,b --rows b,a").0, ["a-b"]);
    assert_eq!(pairs("--y a"), (vec!["b-a".into(), "c-a".into()], serde_json::json!(["a"])));
    // Row numbers are left out unless they are named.
    assert_eq!(pairs("").0, ["a-b", "a-c", "b-c"]);
    assert_eq!(pairs("--rows trial").0, ["a-trial", "b-trial", "c-trial"]);
    let figure = std::fs::read_to_string(&svg).unwrap();
    assert!(figure.contains("trial, a: ") && !figure.contains("a, trial: "), "{figure}");
    assert!(refusal(&format!("{request} --columns a --rows a")).contains("at least two"));
    assert!(refusal(&format!("{request} --rows a --y b")).contains("cannot be used with"));
}

/// A killed matrix is continued: finished pairs are not run again, and the result is that of an
/// uninterrupted run.
#[test]
fn an_unfinished_matrix_is_continued() {
    let folder = Folder::new();
    let (table, out) = (folder.table(), folder.path("mi.csv"));
    let request = format!("matrix {table} --columns x,y,label -o {}", out.display());
    stdout(&request);
    let whole = std::fs::read_to_string(&out).unwrap();
    let journal = folder.path("mi.csv.unfinished");
    assert!(!journal.exists(), "a finished run has no journal");
    // The process is killed as soon as the journal has its heading. The journal is then changed to
    // what a later kill would leave: one finished pair (marked, to recognise it) and half a line.
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
    assert!(refusal(&format!("{request} --resume")).contains("other settings"));
    let max = serde_json::to_value(plan(Effort::Max)).unwrap();
    let mut heading: serde_json::Value =
        serde_json::from_str(heading.lines().next().unwrap()).unwrap();
    assert_eq!(heading["plan"], max);
    heading["plan"] = serde_json::to_value(plan(Effort::Quick)).unwrap();
    let first = whole.lines().nth(1).unwrap();
    let mark = first.replace(",300,", ",301,");
    let field = |k: usize| first.split(',').nth(k).unwrap();
    let done = format!(
        "{{\"pair\":[0,1],\"found\":{{\"x\":\"x\",\"y\":\"y\",\"mi_nats\":{},\"ci_low\":{},\"ci_high\":{},\
         \"p_value\":{},\"n_rows\":301,\"reliability\":\"{}\",\"reasons\":\"{}\",\"problem\":null}}}}",
        field(2),
        field(3),
        field(4),
        field(5),
        field(8),
        field(9)
    );
    std::fs::write(&journal, format!("{heading}\n{done}\n{{\"pair\":[0,2],\"found\":{{\"x\":"))
        .unwrap();
    assert!(refusal(&request).contains("--resume"));
    stdout(&format!("{request} --resume"));
    let continued = std::fs::read_to_string(&out).unwrap();
    assert_eq!(continued, whole.replace(first, &mark), "the finished pair was not run again");
    assert!(!journal.exists());
    std::fs::write(&journal, "{}\n").unwrap();
    assert!(refusal(&format!("{request} --resume")).contains("other settings"));
}

/// Two processes at the same time, as on two GPUs, make the table of one process: whichever finishes
/// last writes it. A part is continued as a whole matrix is.
#[test]
fn parts_of_a_matrix_make_the_whole() {
    let folder = Folder::new();
    let (table, whole, out) = (folder.table(), folder.path("whole.csv"), folder.path("mi.csv"));
    let request = format!("matrix {table} --columns x,y,label --estimator copula -o");
    stdout(&format!("{request} {}", whole.display()));
    let part = |number: usize| format!("{request} {} --part {number}/2", out.display());
    let start = |number: usize| {
        let arguments = part(number);
        let command = &mut Command::new(env!("CARGO_BIN_EXE_fdime"));
        command.args(arguments.split_whitespace()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let messages: Vec<String> = [start(1), start(2)]
        .map(|child| child.wait_with_output().unwrap())
        .map(|output| String::from_utf8(output.stderr).unwrap())
        .into();
    let waiting = messages.iter().filter(|text| text.contains("finishes last writes")).count();
    assert!(waiting <= 1, "{messages:?}");
    assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(&whole).unwrap());
    assert_eq!(std::fs::read_dir(out.parent().unwrap()).unwrap().count(), 3, "no journal is left");

    // One after the other: the first alone writes nothing, and its pairs are not estimated again.
    std::fs::remove_file(&out).unwrap();
    stdout(&part(1));
    assert!(!out.exists());
    assert!(refusal(&part(1)).contains("--resume"));
    stdout(&format!("{} --resume", part(1)));
    assert!(!out.exists());
    let other_settings = format!("{} --folds 4", part(2));
    assert!(refusal(&other_settings).contains("other settings"));
    std::fs::remove_file(folder.path("mi.csv.part-2-of-2.unfinished")).unwrap();
    stdout(&part(2));
    assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(&whole).unwrap());
    for part in ["0/2", "3/2", "2", "a/b", "1/0"] {
        let text = refusal(&format!("{request} {} --part {part}", out.display()));
        assert!(text.contains("write 1/4 for the first of four parts"), "{text}");
    }
}

fn plan(effort: Effort) -> EstimatePlan {
    EstimatePlan::new(Method::Auto, effort)
}

#[test]
fn the_suite_reports_its_errors() {
    let report = json("suite bmi --tasks normal*-1x1 -n 500 --estimator copula --json");
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 6);
    for row in results {
        for key in ["true_mi", "mi_nats", "ci_low", "ci_high", "p_value", "seconds"] {
            assert!(row[key].is_number(), "{key}");
        }
        assert!(row["task"].is_string());
    }
    let summary = &report["summary"];
    let error: f64 = results
        .iter()
        .map(|r| (r["mi_nats"].as_f64().unwrap() - r["true_mi"].as_f64().unwrap()).abs())
        .sum::<f64>()
        / 6.0;
    assert!((summary["mean_absolute_error"].as_f64().unwrap() - error).abs() < 1e-12);
    assert_eq!(summary["tasks"], 6);
    let text = stdout("suite bmi --tasks normal-1x1 -n 500 --estimator copula");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    assert!(refusal("suite bmi --tasks nothing").contains("no task"));
    let report = json("suite bmi2 --tasks galaxy* -n 500 --estimator copula --json");
    let truth = report["results"][0]["true_mi"].as_f64().unwrap();
    assert!((truth - 0.4943).abs() < 1e-4, "{truth}");
    assert!(refusal("suite other").contains("SUITE other: the suites are bmi, bmi2"));
    assert!(refusal("suite bmi -n 10").contains("too many for 10 rows"));
}

#[test]
fn suites_of_triples_and_series_count_null_tasks() {
    let report = json("suite conditional --tasks smooth*1x1x1 -n 100 --effort quick --json");
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    assert!((results[0]["true_mi"].as_f64().unwrap() - 0.2231).abs() < 1e-4);
    let summary = &report["summary"];
    assert_eq!((&summary["tasks"], &summary["null_tasks"]), (&2.into(), &1.into()));
    assert!(summary["null_rejected"].is_number());
    let text = stdout("suite transfer --tasks one-way-null -n 100 --effort quick");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    assert!(text.contains(" of 1 task without dependence"), "{text}");
    assert!(refusal("suite transfer --tasks smooth*").contains("no task"));
}

/// Ctrl-C gives exit code 130 and no output file; a matrix keeps its finished pairs.
#[cfg(unix)]
#[test]
fn an_interrupt_leaves_no_half_written_file() {
    let folder = Folder::new();
    let table = folder.write("long.csv", {
        let row = |k: i32| format!("{},{}\n", f64::from(k).sin(), f64::from(k).cos());
        (0..20_000).map(row).collect::<String>()
    });
    let outputs = tempfile::tempdir().unwrap();
    let report = outputs.path().join("report.html");
    let mut child = Command::new(env!("CARGO_BIN_EXE_fdime"))
        .args(["estimate", &table, "--effort", "max", "--report"])
        .arg(&report)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(is_empty(outputs.path()));
    assert!(fdime("--version").status.success());
}

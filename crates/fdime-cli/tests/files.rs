//! Files that commands write: refused before any work, complete even if nobody reads the output.

mod common;

use common::fdime;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SMALL: &str = "staircase --device cpu --scenario gaussian --dim 1 --levels 1 --iterations 30 \
                     --hidden 4,4 --estimator gan-dime --last 10";

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a small staircase that must be refused. Returns the message.
fn refused(arguments: &str) -> String {
    let output = fdime(&format!("{SMALL} {arguments}"));
    assert_eq!(output.status.code(), Some(2), "{arguments}: {}", stderr(&output));
    stderr(&output)
}

/// Runs a command whose output nobody reads. Returns its exit code.
fn run_unread(folder: &Path, arguments: &[&str]) -> Option<i32> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fdime"));
    command.current_dir(folder).args(arguments).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    child.wait().unwrap().code()
}

#[test]
fn a_file_with_two_purposes_is_refused_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let plan = fdime(&format!("{SMALL} --json")).stdout;
    std::fs::write(at("plan.json"), &plan).unwrap();
    let (plan_file, new) = (at("plan.json"), at("new"));
    let message = refused(&format!("--plan {plan_file} --svg {plan_file}"));
    assert!(message.contains("--svg") && message.contains("--plan"), "{message}");
    let message = refused(&format!("--plan {plan_file} --log {plan_file}"));
    assert!(message.contains("--log") && message.contains("--plan"), "{message}");
    let message = refused(&format!("--svg {new} --log {new}"));
    assert!(message.contains("--log") && message.contains("--svg"), "{message}");
    assert_eq!(std::fs::read(&plan_file).unwrap(), plan);
    assert!(!Path::new(&new).exists());
}

#[cfg(target_os = "linux")]
#[test]
fn logs_are_regular_files() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [pipe.as_path(), Path::new("/dev/full")] {
        let message = refused(&format!("--log {}", path.display()));
        assert!(message.contains("not a regular file"), "{message}");
    }
    let message = refused(&format!("--log {}", folder.path().display()));
    assert!(message.contains("it is a folder"), "{message}");
}

#[test]
fn a_second_process_is_told_that_the_log_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("runs.jsonl");
    let first = std::fs::File::create(&log).unwrap();
    first.lock().unwrap();
    let message = refused(&format!("--log {}", log.display()));
    assert!(message.contains("another process is writing to it; wait"), "{message}");
}

#[test]
fn the_plot_is_written_even_if_nobody_reads_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments: Vec<&str> = SMALL.split_whitespace().collect();
    arguments.extend(["--svg", "plot.svg"]);
    assert_eq!(run_unread(folder.path(), &arguments), Some(0));
    assert!(folder.path().join("plot.svg").exists());
    arguments.push("--json");
    std::fs::remove_file(folder.path().join("plot.svg")).unwrap();
    assert_eq!(run_unread(folder.path(), &arguments), Some(0));
    assert!(folder.path().join("plot.svg").exists());
}

#[test]
fn damaged_lines_of_a_log_are_named_and_their_runs_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("runs.jsonl");
    let run = format!("{SMALL} --runs 3 --log {}", log.display());
    assert!(fdime(&run).status.success());
    let text = std::fs::read_to_string(&log).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[1] = &lines[1][..50];
    let damaged = lines.join("\n") + "\n";
    std::fs::write(&log, &damaged).unwrap();
    let again = fdime(&run);
    assert!(again.status.success());
    let message = stderr(&again);
    assert!(message.contains("line 2 is damaged; it is skipped and left in the file"), "{message}");
    assert!(message.contains("2 of 3 runs are already in the log"), "{message}");
    let repaired = std::fs::read_to_string(&log).unwrap();
    assert!(repaired.starts_with(&damaged) && repaired.lines().count() == 4);
}

/// The limit on the size of files stands for a full disk: writing fails in the middle of a line.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_whole_lines_and_a_later_run_continues() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("runs.jsonl");
    let run = format!("{SMALL} --runs 2 --log {}", log.display());
    let limited = format!("trap '' XFSZ; ulimit -f 1; exec {} {run}", env!("CARGO_BIN_EXE_fdime"));
    let full = Command::new("sh").args(["-c", &limited]).output().unwrap();
    assert_eq!(full.status.code(), Some(2), "{}", stderr(&full));
    assert!(stderr(&full).contains("is not in the log"), "{}", stderr(&full));
    assert!(!full.stdout.is_empty(), "the results are shown");
    assert_eq!(std::fs::read(&log).unwrap(), b"", "no part of a line is left");
    assert!(fdime(&run).status.success());
    assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 2);
}

#[test]
fn a_plot_that_cannot_be_written_is_a_failure() {
    assert!(refused("--svg none/plot.svg").contains("there is no folder none"));
}

/// Writes a table of two dependent columns. Returns its path.
fn table(folder: &Path) -> String {
    let rows = (0..80).map(|k| format!("{},{}\n", k * 37 % 80, (k * 37 % 80) / 2 + k % 7));
    let path = folder.join("table.csv");
    std::fs::write(&path, "x,y\n".to_string() + &rows.collect::<String>()).unwrap();
    path.display().to_string()
}

const COPULA: &str = "--estimator copula --permutations 19";

#[test]
fn an_estimate_writes_its_files_even_if_nobody_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path());
    let request = format!("estimate {table} {COPULA} --report r.html --pointwise p.csv --save m");
    assert_eq!(run_unread(folder.path(), &request.split(' ').collect::<Vec<_>>()), Some(0));
    for name in ["r.html", "p.csv", "m"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
    let request = format!("matrix {table} {COPULA} -o m.csv --svg m.svg");
    assert_eq!(run_unread(folder.path(), &request.split(' ').collect::<Vec<_>>()), Some(0));
    assert!(folder.path().join("m.csv").exists() && folder.path().join("m.svg").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_failed_output_does_not_lose_the_estimate() {
    let folder = tempfile::tempdir().unwrap();
    let (table, csv) = (table(folder.path()), folder.path().join("p.csv"));
    let request = format!("estimate {table} {COPULA} --report /dev/full --pointwise");
    let output = fdime(&format!("{request} {}", csv.display()));
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("I(x; y) = "));
    assert!(stderr(&output).contains("cannot write /dev/full: No space left"), "{output:?}");
    assert_eq!(std::fs::read_to_string(csv).unwrap().lines().count(), 81);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_or_closed_stderr_is_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path());
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let run = |request: String, stdout: Stdio, stderr: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fdime"));
        command.current_dir(folder.path()).args(request.split(' '));
        command.stdout(stdout).stderr(stderr).status().unwrap().code()
    };
    let estimate = format!("estimate {table} {COPULA} --report r.html");
    assert_eq!(run(estimate.clone(), Stdio::null(), full().into()), Some(0));
    assert_eq!(run("estimate nothing.csv".into(), Stdio::null(), full().into()), Some(2));
    assert_eq!(run(estimate, full().into(), Stdio::null()), Some(1));
    let mut closed = Command::new("sh");
    let script =
        format!("{} estimate {table} {COPULA} --report r.html 2>&-", env!("CARGO_BIN_EXE_fdime"));
    closed.current_dir(folder.path()).args(["-c", &script]);
    assert_eq!(closed.output().unwrap().status.code(), Some(0));
}

#[test]
fn the_files_of_an_estimate_have_one_purpose() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path());
    let before = std::fs::read(&table).unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let model = at("m");
    assert!(fdime(&format!("estimate {table} {COPULA} --save {model}")).status.success());
    let saved = std::fs::read(&model).unwrap();
    for request in [
        format!("estimate {table} --save {table}"),
        format!("estimate {table} --pointwise {table}"),
        format!("estimate {table} --pointwise {0} --save {0}", at("a.csv")),
        format!("apply {model} {table} --pointwise {table}"),
        format!("matrix {table} -o {table}"),
        format!("matrix {table} -o {} --svg {}", at("a.csv"), at("b.csv")),
    ] {
        let output = fdime(&request);
        assert_eq!(output.status.code(), Some(2), "{request}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{request}");
    }
    assert_eq!((std::fs::read(&table).unwrap(), std::fs::read(&model).unwrap()), (before, saved));
    assert!(!Path::new(&at("a.csv")).exists());
}

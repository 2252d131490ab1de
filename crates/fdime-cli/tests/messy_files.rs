//! Tables as people have them: what is recognised, what is left out, and what is said about it.

mod common;

use common::{Folder, fdime, json, refusal, stdout};
use serde_json::Value;
use std::io::Write;

/// Returns the two coordinates of a row: evenly spread, dependent, and the same on every machine.
fn point(row: usize) -> (f64, f64) {
    let u = (row as f64 * 0.618_033_988_75).fract();
    let v = (row as f64 * 0.754_877_666_25).fract();
    (u, u + 0.5 * v)
}

const ROWS: usize = 200;

/// Returns a table of lines that `line` makes from the row and its two coordinates.
fn table(header: &str, line: impl Fn(usize, f64, f64) -> String) -> String {
    let lines = (0..ROWS).map(|row| {
        let (x, y) = point(row);
        line(row, x, y)
    });
    std::iter::once(header.to_string()).chain(lines).collect::<Vec<_>>().join("\n") + "\n"
}

/// Estimates x against y and returns the record.
fn estimate(request: &str) -> Value {
    json(&format!("estimate {request} --estimator copula --permutations 19 --json"))
}

fn notes(record: &Value) -> String {
    let notes = record["notes"].as_array().unwrap().iter();
    notes.map(|note| note.as_str().unwrap()).collect::<Vec<_>>().join("; ")
}

/// The same table in many notations gives the same number.
#[test]
fn notations_of_the_same_table() {
    let folder = Folder::new();
    let plain = folder.write("plain.csv", table("x,y", |_, x, y| format!("{x:.3},{y:.3}")));
    let expected = &estimate(&plain)["mi_nats"];
    let comma = |number: f64| format!("{number:.3}").replace('.', ",");
    let utf16 = table("x;y", |_, x, y| format!("{};{}", comma(x), comma(y)));
    let utf16: Vec<u8> =
        "\u{feff}".encode_utf16().chain(utf16.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let quoted = table("x,y", |_, x, y| format!("\"{}\",\"{}\"", comma(x), comma(y)));
    let files = [
        ("german.csv", table("x;y", |_, x, y| format!("{};{}", comma(x), comma(y))), ""),
        ("quoted.csv", quoted, "--decimal ,"),
        ("spaces.txt", table("x   y", |_, x, y| format!(" {x:.3}\t  {y:.3} ")), ""),
        ("money.csv", table("x,y", |_, x, y| format!("${x:.3},{y:.3}")), ""),
        ("percent.csv", table("x,y", |_, x, y| format!("{:.1}%,{y:.3}", 100.0 * x)), ""),
        (
            "comments.csv",
            table("#made by hand\nx,y", |_, x, y| format!("{x:.3},{y:.3}")),
            "--comment #",
        ),
        ("excel.csv", table("sep=;\nx;y", |_, x, y| format!("{x:.3};{y:.3}")), ""),
        ("lines.jsonl", table("", |_, x, y| format!("{{\"x\": {x:.3}, \"y\": {y:.3}}}")), ""),
        ("tilde.txt", table("x~y", |_, x, y| format!("{x:.3}~{y:.3}")), "--delimiter ~"),
        (
            "bare.csv",
            table("", |_, x, y| format!("{x:.3},{y:.3}")).trim().to_string(),
            "--header no",
        ),
    ];
    for (name, text, flags) in files {
        let file = folder.write(name, text);
        assert_eq!(&estimate(&format!("{file} {flags}"))["mi_nats"], expected, "{name}");
    }
    let file = folder.write("utf16.csv", utf16);
    assert_eq!(&estimate(&file)["mi_nats"], expected);
}

#[test]
fn stray_words_among_numbers_are_told() {
    let folder = Folder::new();
    let stray = |word: &'static str| {
        table("x,y", move |row, x, y| match row {
            17 => format!("{word},{y}"),
            _ => format!("{x},{y}"),
        })
    };
    for word in ["unknown", "-"] {
        let record = estimate(&folder.write("stray.csv", stray(word)));
        assert_eq!(record["n_dropped"], 1);
        assert!(notes(&record).contains(&format!("'{word}' was read as a missing value")));
    }
    let file = folder.write("stray.csv", stray("off scale"));
    let error = refusal(&format!("estimate {file}"));
    let expected = "column 'x' has numbers in 199 of 200 rows, but 'off scale' from row 18 on";
    assert!(error.contains(expected) && error.contains("--na 'off scale'"), "{error}");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_fdime"))
        .args(["estimate", &file, "--na", "off scale", "--estimator", "copula", "--json"])
        .output()
        .unwrap();
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["n_dropped"], 1);
    let line = |row, x: f64, y: f64| match row {
        17 => format!("#N/A,{y}"),
        18 => format!("#DIV/0!,{y}"),
        _ => format!("{x},{y}"),
    };
    let file = folder.write("excel.csv", table("x,y", line));
    assert_eq!(estimate(&file)["n_dropped"], 2);
    let file = folder.write("ambiguous.csv", table("x;y", |row, _, y| format!("1,{row:03};{y}")));
    assert!(refusal(&format!("estimate {file}")).contains("--decimal"));
}

#[test]
fn useless_columns_are_left_out_and_listed() {
    let folder = Folder::new();
    let line = |row: usize, x: f64, y: f64| {
        format!("{row},name{row},2024-01-{:02},7,,{x},{y}", row % 28 + 1)
    };
    let text = table(",who,day,same,empty,x,y", line);
    let file = folder.write("useless.csv", text);
    let record = estimate(&format!("{file} --y y"));
    assert_eq!(record["x"].to_string(), r#"["day","x"]"#);
    let said = notes(&record);
    for expected in [
        "column 'empty' has no values and was left out",
        "column 'same' has the same value in every row and was left out",
        "column '1' identifies the rows and was left out",
        "column 'who' has too many different texts and was left out",
    ] {
        assert!(said.contains(expected), "{said}");
    }
    for (x, expected) in [
        ("who", "column 'who' has 200 different values in 200 rows"),
        ("same", "column 'same' has the same value in every row"),
        ("empty", "column 'empty' lacks 200 of its values and could be left out"),
    ] {
        let error = refusal(&format!("estimate {file} --x x,{x} --y y"));
        assert!(error.contains(expected), "{error}");
    }
    // A pattern does not take what y names.
    for x in ["!1,!day", "*,!1,!day", "x*"] {
        assert_eq!(estimate(&format!("{file} --x {x} --y y"))["x"].to_string(), r#"["x"]"#, "{x}");
    }
    let dropped = estimate(&format!("{file} --x x,same --y y --constant drop"));
    assert!(notes(&dropped).contains("column 'same'"), "{dropped}");
}

#[test]
fn two_files_samples_and_compression() {
    let folder = Folder::new();
    let x = folder.write("x.csv", table("x", |_, x, _| format!("{x}")));
    let y = folder.write("y.csv", table("y", |_, _, y| format!("{y}")));
    let both = folder.write("both.csv", table("x,y", |_, x, y| format!("{x},{y}")));
    let record = estimate(&format!("--x-file {x} --y-file {y}"));
    assert_eq!(record["mi_nats"], estimate(&both)["mi_nats"]);
    assert_eq!(record["file"], "x.csv and y.csv");
    let record = estimate(&format!("{both} --sample-rows 60"));
    assert_eq!((&record["n_rows"], &record["n_dropped"]), (&60.into(), &0.into()));
    assert!(refusal(&format!("estimate --x-file {x}")).contains("--y-file"));
    assert!(
        refusal(&format!("estimate {both} --blocks --sample-rows 60")).contains("--sample-rows")
    );
    assert!(refusal(&format!("estimate --blocks {both}")).contains("--blocks=50"));
    stdout(&format!("estimate {both} --blocks 5 --estimator copula --permutations 19"));
}

/// A column with the same name in both files says whether rows belong together.
#[test]
fn rows_of_two_files_are_compared_by_shared_columns() {
    let folder = Folder::new();
    let with = |name: &str, key: &dyn Fn(usize) -> String| {
        folder.write(name, table("key,v", |row, x, _| format!("{},{x}", key(row))))
    };
    let x = with("x.csv", &|row| format!("s{row}"));
    let both = |y: &str| format!("--x-file {x} --y-file {y} --x v --y v");
    let same = estimate(&both(&with("same.csv", &|row| format!("s{row}"))));
    assert!(!notes(&same).contains("key"), "{same}");
    let turned = with("turned.csv", &|row| format!("s{}", (row + 1) % ROWS));
    let error = refusal(&format!("estimate {}", both(&turned)));
    assert!(error.contains("column 'key' identifies the rows"), "{error}");
    let others = estimate(&both(&with("other.csv", &|row| format!("t{row}"))));
    assert!(notes(&others).contains("column 'key' has other values"), "{others}");
}

#[test]
fn limits_of_memory_are_told() {
    let folder = Folder::new();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let line = b"1,2\n".repeat(1000);
    (0..2500).for_each(|_| gzip.write_all(&line).unwrap());
    let bomb = folder.write("bomb.csv.gz", gzip.finish().unwrap());
    let error = refusal(&format!("estimate {bomb} --max-memory 10MB"));
    assert!(error.contains("it takes more than the 10 MB that are allowed"), "{error}");
    assert!(error.contains("--max-memory"), "{error}");
    let file = folder.write("long.csv", table("x,y", |_, x, y| format!("{x},{y}")));
    assert!(refusal(&format!("estimate {file} --max-memory 1e3")).contains("0 MB"));
    assert!(refusal(&format!("estimate {file} --max-memory much")).contains("such as 8GB"));
}

#[test]
fn outputs_with_the_wrong_name_are_refused() {
    let folder = Folder::new();
    let file = folder.write("t.csv", table("x,y", |_, x, y| format!("{x},{y}")));
    for (flag, expected) in [
        ("--report r.pdf", "--report r.pdf: the name must end in .html or .htm"),
        ("--pointwise p.parquet", "--pointwise p.parquet: the name must end in .csv"),
    ] {
        assert!(refusal(&format!("estimate {file} {flag}")).contains(expected), "{flag}");
    }
}

/// Names that would steer a terminal are printed as escapes.
#[test]
fn names_do_not_steer_the_terminal() {
    let folder = Folder::new();
    let line = |row: usize, x: f64, _| format!("{x},{}", ["\u{1b}[2Jred", "\u{202e}blue"][row % 2]);
    let file = folder.write("evil\u{1b}[31m.csv", table("x\u{7},y", line));
    let page = folder.path("r.html");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fdime"));
    let flags = ["--report", page.to_str().unwrap(), "--effort", "quick"];
    let output = command.args(["estimate", &file, "--json"]).args(flags).output().unwrap();
    let text =
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("\\\\u{202e}blue"), "{text}");
    let page = std::fs::read_to_string(page).unwrap();
    for text in [text, page] {
        let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(steers), "{text}");
    }
    let error = fdime("estimate no\u{1b}[31mfile.csv").stderr;
    assert!(String::from_utf8(error).unwrap().contains("\\u{1b}[31m"));
}
